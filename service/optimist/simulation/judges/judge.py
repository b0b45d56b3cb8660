"""Interface of a goal to the laboratory, and the arguments of a simulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from optimist.simulation.plan import Plan
from optimist.simulation.run import Play, PolicyRun
from optimist.simulation.runner import Runner
from optimist.simulation.trial import Contender
from optimist_client.metrics import Metric


@dataclass(frozen=True)
class Setup:
    """Arguments of `simulate` that each goal reads in its own way."""

    sources: Any
    metric: str | Metric | None = None
    watch: Sequence[Metric] = ()
    truth: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a metric that is given by name."""


@dataclass(frozen=True)
class ReportColumn:
    """A column of the report: a number of the summary with its standard error."""

    header: str
    number: str
    is_percent: bool = False


@dataclass(frozen=True)
class CurveFigure:
    """A figure of one curve of each policy."""

    curve: str
    label: str
    is_share: bool = False
    has_band: bool = True
    is_log: bool = False
    """True if rounds are on a log scale."""


@dataclass(frozen=True, eq=False)
class GoalJudge(ABC):
    """Judge of a goal: knows the truth, makes trials, and computes their costs and display."""

    goal: ClassVar[str]
    policies: ClassVar[tuple[str, ...]]
    """The names of its policies."""
    default: ClassVar[tuple[str, ...]]
    """The policies that the command plays if none is named; Python plays the first one of them."""
    takes: ClassVar[frozenset[str]]
    """The arguments of `simulate` and the settings of its `Plan` that only some goals take."""
    columns: ClassVar[tuple[ReportColumn, ...]]
    figures: ClassVar[Mapping[str, CurveFigure]]
    """The figures of curves by file name without suffix."""
    shows_shares: ClassVar[bool] = False
    """True if the report has a table of the generators' shares in the samples."""

    generators: tuple[str, ...]
    """Names of the generators. Picks are indices into them."""
    plan: Plan
    """The arguments completed by the samples' own settings."""
    others: Mapping[str, GoalJudge] = field(default_factory=dict, kw_only=True)
    """Judges by further metrics, by label."""

    @classmethod
    @abstractmethod
    def from_asked(cls, asked: Setup, plan: Plan, policies: Sequence[Contender], runner: Runner) -> Self:
        """The judge of these samples. Raises FixError for samples that cannot be played."""

    @abstractmethod
    def trials(self, policies: Sequence[Contender]) -> list[Callable[[], Play]]:
        """Every trial of every policy: the policies of one trial stand together."""

    @abstractmethod
    def judged(self, run: PolicyRun, seen: Sequence[Any]) -> PolicyRun:
        """A run with its curves and numbers. seen: the goal's record of each trial."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """Subject of the comparison, such as "FID of 3 generators"."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """Unit of losses."""

    @abstractmethod
    def notes(self) -> Iterator[str]:
        """Sentences about the truth."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The truth for JSON."""

    @property
    def best_shares(self) -> Mapping[str, float]:
        """The best share of each generator in the samples, where there is such."""
        return {}

    @property
    def order(self) -> Sequence[int]:
        """The places of the generators in the order in which figures show them."""
        return range(len(self.generators))

    @property
    def level(self) -> tuple[float, str] | None:
        """A value of the curves to be compared with, and its name."""
        return None

    def run(self, plays: Sequence[Play]) -> PolicyRun:
        """The run of a policy from its trials."""
        size = self.plan.batch_size
        unjudged = PolicyRun.from_plays(plays, self.plan.rounds, size, len(self.generators))
        return self.judged(unjudged, [play.seen for play in plays])
