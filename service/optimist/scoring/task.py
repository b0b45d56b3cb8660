"""The state of one generator, or of what is made of all generators, by one metric, in a scorer."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from optimist.scoring.cached import CachedStatistic
from optimist.store import MIXTURE, ROUTES_UNIT, Place

if TYPE_CHECKING:
    from optimist.scoring.experiments import ScoredExperiment

Subject = tuple[str, str]
"""The full name of an experiment, and the label of one of its metrics."""
Key = tuple[str, int, str]
"""The full name of an experiment, the ordinal of a generator, and the label as of `Subject`."""
PUBLISH_EVERY = 2.0
"""Seconds between two models of contexts at least, however fast samples grow: every dispatcher reads each of them."""
TABLE_TIMES = 5.0
"""How many times as long as a model its table is expected to take, before the first one."""
LONGEST_TAIL = 8 * 2**20
"""Bytes that a log may have beyond the snapshot while the size of the statistic is not known."""
At = TypeVar("At", bound=Place)


@dataclass(slots=True, eq=False)
class ScoringTask(Generic[At]):
    """A unit of scoring with a claim: idle until something is to be done, then waiting for a thread, working, idle
    again.

    From its first quantum on the scorer may hold the claim, and what is derived under it, until `release`.
    Times are monotonic seconds.
    """

    name: str
    """The full name of the experiment."""
    ordinal: At
    label: str = ""
    """Of the metric."""
    decides: bool = field(default=False, kw_only=True)
    """Whether asks may wait for the result."""
    state: Literal["idle", "waiting", "working"] = field(default="idle", kw_only=True)
    queued: float = field(default=0.0, kw_only=True)
    """When it last began to wait."""
    worked: float = field(default=0.0, kw_only=True)
    """When its last quantum ended, or it was last locked."""
    again: bool = field(default=False, kw_only=True)
    """Whether it gets another quantum after this one, because something was announced or left meanwhile."""
    is_locked: bool = field(default=False, kw_only=True)
    """Whether a mixture reads it, or is about to: it gets no quantum of its own before that is over."""
    problem: Literal["", "broken off", "failed"] = field(default="", kw_only=True)
    """How its last quantum went wrong. "broken off" is retried at the next sweep, "failed" at the next announcement."""
    seconds: float | None = field(default=None, kw_only=True)
    """Processor time of the last result, or an expected one before the first; None: not known yet."""
    token: str = field(default="", kw_only=True)
    """Token of the claim under which results are published; "" while the scorer has no claim."""
    experiment: ScoredExperiment | None = field(default=None, kw_only=True)
    bytes: int = field(default=0, kw_only=True)
    """Memory of what `evict` drops."""
    is_wanted: bool = field(default=False, kw_only=True)
    """Whether somebody waits for what it makes beside estimates: the modes of a generator, a mixture, or a table."""

    @property
    def place(self) -> tuple[str, At]:
        """Experiment and ordinal."""
        return self.name, self.ordinal

    @property
    def subject(self) -> Subject:
        """Experiment and label, which determine the bound."""
        return self.name, self.label

    def __str__(self) -> str:
        return f"{self.name}/{self.ordinal} by {self.label}"

    @property
    def expected_seconds(self) -> float:
        """Seconds that the next quantum is expected to take; 0 while nothing is known."""
        return self.seconds or 0.0

    @property
    def is_held(self) -> bool:
        return bool(self.token)

    def evict(self) -> None:
        """Drop what is in memory. It is computed again from snapshots and logs, bit for bit, when it is needed."""
        self.bytes = 0

    def forget(self) -> None:
        """Forget everything derived under the claim."""
        self.evict()

    def start(self, experiment: ScoredExperiment) -> None:
        """Start again from snapshots, with this experiment; keep the claim."""
        self.forget()
        self.experiment = experiment

    def release(self) -> None:
        """Forget the claim, and everything derived under it."""
        self.forget()
        self.token, self.experiment = "", None


@dataclass(slots=True, eq=False)
class GeneratorTask(ScoringTask[int]):
    """One generator by one metric."""

    due: int = field(default=0, kw_only=True)
    """The newest known log position at which an estimate is due; 0: none."""
    samples: int = field(default=0, kw_only=True)
    """Number of samples at the last sweep."""
    modes_seconds: float = field(default=0.0, kw_only=True)
    """Processor time of its last modes; 0 before the first."""
    cached: CachedStatistic | None = field(default=None, kw_only=True)
    """The statistic at some position of the log; None before the first quantum and after `evict`."""
    published: int = field(default=0, kw_only=True)
    """Position of the newest estimate that was published under this claim."""
    has_changed: bool = field(default=False, kw_only=True)
    """Whether that one says that answers have changed."""
    room: int = field(default=LONGEST_TAIL, kw_only=True)
    """Bytes that the log may have beyond the snapshot before the next snapshot is taken."""

    @property
    def key(self) -> Key:
        """Experiment, ordinal and label."""
        return self.name, self.ordinal, self.label

    @property
    def expected_seconds(self) -> float:
        """Seconds of the estimate, and of the modes if they are wanted."""
        return (self.seconds or 0.0) + (self.modes_seconds if self.is_wanted else 0.0)

    def evict(self) -> None:
        self.cached, self.bytes = None, 0

    def forget(self) -> None:
        self.evict()
        self.published, self.room = 0, LONGEST_TAIL

    def release(self) -> None:
        ScoringTask.release(self)
        self.due = 0


@dataclass(slots=True, eq=False)
class CombinedTask(ScoringTask[At]):
    """Something that is made of the statistics of all generators together."""

    copies: dict[int, CachedStatistic] = field(default_factory=dict, kw_only=True)
    """Statistics of generators that this scorer does not hold, to be read only, by ordinal."""

    def evict(self) -> None:
        self.copies, self.bytes = {}, 0


@dataclass(slots=True, eq=False)
class MixtureTask(CombinedTask[Literal["mixture"]]):
    """The mixture of an experiment's generators by one metric."""

    ordinal: Literal["mixture"] = MIXTURE


@dataclass(slots=True, eq=False)
class RouteTask(CombinedTask[Literal["routes"]]):
    """The model by which an experiment routes prompts, and its table, which is what somebody waits for.

    Asks are answered by the last model, and wait for no other.
    """

    ordinal: Literal["routes"] = ROUTES_UNIT
    published: float = field(default=-math.inf, kw_only=True)
    """When the last model was published."""
    table_seconds: float = field(default=0.0, kw_only=True)
    """Processor time of its last table; 0 before the first."""
    left_out: frozenset[int] = field(default=frozenset(), kw_only=True)
    """Generators that are not in the last model, because they could not be read."""

    @property
    def expected_seconds(self) -> float:
        """Seconds of the model, and of the table if it is wanted."""
        seconds = self.seconds or 0.0
        return seconds + (self.table_seconds or TABLE_TIMES * seconds if self.is_wanted else 0.0)

    @property
    def may_publish(self) -> bool:
        """Whether the last model is old enough for another one."""
        return time.monotonic() >= self.published + PUBLISH_EVERY

    def forget(self) -> None:
        self.evict()
        self.left_out = frozenset()
