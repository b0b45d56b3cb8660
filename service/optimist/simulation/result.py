"""The results of a simulation: the trials of all policies on the same samples, as tables, files and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from optimist.simulation import reporting
from optimist.simulation.run import Bools, Floats, Run, Summary
from optimist.simulation.truth import TrueScore
from optimist.simulation.watched import Watched

if TYPE_CHECKING:
    from os import PathLike

    from rich.console import Group


@dataclass(frozen=True, eq=False)
class Result:
    """The results of all policies on the same samples. `result["ucb"]` is the `Run` of one policy."""

    metric: str
    truth: dict[str, TrueScore]
    """The true score of each generator, on the natural scale."""
    gaps: Floats
    is_best: Bools
    batch_size: int
    rounds: int
    seed: int
    stop: bool
    paired: bool
    """Whether row i of every generator was drawn alike, and scores were compared by row."""
    runs: dict[str, Run]
    watched: dict[str, Watched] = field(default_factory=dict)
    """The same runs by the further metrics, by label."""

    def __getitem__(self, policy: str) -> Run:
        return self.runs[policy]

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels of the policies, in the given order."""
        return tuple(self.runs)

    @property
    def generators(self) -> tuple[str, ...]:
        """The names of the generators. Picks are indices into them."""
        return tuple(self.truth)

    @property
    def best(self) -> tuple[str, ...]:
        """The generators that count as best."""
        return tuple(name for name, best in zip(self.truth, self.is_best, strict=True) if best)

    @property
    def trials(self) -> int:
        """Number of trials per policy."""
        return len(next(iter(self.runs.values())).picks)

    @cached_property
    def summaries(self) -> list[Summary]:
        """The numbers of every policy."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def rendered(self) -> Group:
        """The tables and notes for a terminal."""
        return reporting.rendered(self)

    def table(self) -> str:
        """The numbers of every policy as text, mean ± standard error, with notes on the true scores."""
        return reporting.text(self)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A JSON list with one object per policy (`Summary` and the true scores); also written to `path` if given."""
        document = reporting.to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to the CSV file `path`: one row per policy and round. Unknown values are empty."""
        reporting.write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to the CSV file `path`: one row per policy, trial and round."""
        reporting.write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Write every figure to `directory` as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.plots import draw  # matplotlib is slow to import, and only plots need it

        return draw(self, Path(directory))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return reporting.html(self)
