"""The result of a simulation with the goal "mixture", as tables, files and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from optimist.numerics.programme import Floats
from optimist.simulation import reporting as shared
from optimist.simulation.mixtures import reporting
from optimist.simulation.mixtures.run import MixtureRun, MixtureSummary

if TYPE_CHECKING:
    from os import PathLike

    from rich.console import Group


@dataclass(frozen=True, eq=False)
class MixtureResult:
    """The results of all policies on the same samples. `result["ogd"]` is the `MixtureRun` of one policy."""

    metric: str
    generators: tuple[str, ...]
    """Their names. Picks are indices into them."""
    origin: str
    """How the true losses were obtained."""
    weights: Floats
    """The best weights (G,)."""
    least: float
    """Their loss on the metric's scale."""
    singles: Floats
    """The loss of each generator alone (G,)."""
    single_share: float
    """The excess of the best single generator, as a share of the least loss; NaN where that is not above 0."""
    batch_size: int
    rounds: int
    seed: int
    stop: bool
    paired: bool
    """Whether row i of every generator was drawn alike."""
    runs: dict[str, MixtureRun]

    def __getitem__(self, policy: str) -> MixtureRun:
        return self.runs[policy]

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels of the policies, in the given order."""
        return tuple(self.runs)

    @property
    def best_single(self) -> str:
        """The best generator alone."""
        return self.generators[int(self.singles.argmin())]

    @property
    def single_excess(self) -> float:
        """Its loss above that of the best blend."""
        return float(self.singles.min()) - self.least

    @property
    def trials(self) -> int:
        """Number of trials per policy."""
        return len(next(iter(self.runs.values())).picks)

    @cached_property
    def summaries(self) -> list[MixtureSummary]:
        """The numbers of every policy."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def rendered(self) -> Group:
        """The tables and notes for a terminal."""
        return reporting.rendered(self)

    def table(self) -> str:
        """The numbers of every policy as text, mean ± standard error, with notes on the truth."""
        return shared.plain(reporting.rendered(self))

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A JSON list with one object per policy (`MixtureSummary` and the truth); also written to `path` if given."""
        document = reporting.to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to the CSV file `path`: a row per policy and round at which losses are known."""
        reporting.write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to the CSV file `path`: one row per policy, trial and round."""
        reporting.write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Write every figure to `directory` as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.mixtures.plots import draw  # matplotlib is slow to import, and only plots need it

        return draw(self, Path(directory))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return shared.as_html(reporting.title(self), reporting.tables(self), reporting.notes(self))
