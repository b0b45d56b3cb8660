"""The result of a simulation: the truth, and the trials of all policies, as tables, files and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist.simulation import reporting
from optimist.simulation.judges.judge import GoalJudge
from optimist.simulation.plan import Plan
from optimist.simulation.run import Play, PolicyRun

if TYPE_CHECKING:
    from os import PathLike


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """The results of all policies on the same samples. `result["ucb"]` is the `PolicyRun` of one policy."""

    judge: Any
    """The `GoalJudge` of the goal, who knows the truth."""
    runs: dict[str, PolicyRun]
    watched: dict[str, SimulationResult]
    """The trials, as the further metrics score them, by label."""

    @classmethod
    def from_plays(cls, judge: GoalJudge, plays: Mapping[str, Sequence[Play]]) -> SimulationResult:
        """The result of the trials of each policy, by its label."""
        runs = {policy: judge.run(own) for policy, own in plays.items()}
        return cls(judge, runs, {label: cls.from_plays(other, plays) for label, other in judge.others.items()})

    def __getitem__(self, policy: str) -> PolicyRun:
        return self.runs[policy]

    @property
    def plan(self) -> Plan:
        """Number of trials, and the settings that all policies shared."""
        return self.judge.plan

    @property
    def truth(self) -> Any:
        """The true scores by generator with the goal "best", `TrueMixtures` with the goal "mixture"."""
        return self.judge.truth

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels of the policies, in the given order."""
        return tuple(self.runs)

    @property
    def generators(self) -> tuple[str, ...]:
        """The names of the generators. Picks are indices into them."""
        return self.judge.generators

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """The numbers of every policy, as `PolicyRun.summary` names them."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def table(self, width: int | None = None) -> str:
        """The numbers of every policy as text, mean ± standard error, with notes on the truth.

        width: of a terminal, for which wide tables are parted; None: each row is one line.
        """
        return reporting.shown(self).text(width)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A JSON list with one object per policy (its summary, and the truth); also written to `path` if given."""
        document = reporting.to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to the CSV file `path`: a row per policy and round at which it is known."""
        reporting.write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to the CSV file `path`: a row per policy, trial and round, with the generator then named."""
        reporting.write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Write every figure to `directory` as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.plots import draw  # matplotlib is slow to import, and only plots need it

        return draw(self, Path(directory))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{reporting.shown(self)}"

    def _repr_html_(self) -> str:
        return reporting.as_html(self)
