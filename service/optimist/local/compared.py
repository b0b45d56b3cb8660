"""The answer of `compare`: the report, and how many samples were needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimist.local.sources import Kind
from optimist_client.models import DecisionInfo, Report


@dataclass(frozen=True)
class Compared:
    """A report, and what it took. `print` shows both; `plot` draws the report."""

    report: Report
    total: Mapping[str, int]
    """How many samples there are of each generator."""
    common: int
    """How many of them all generators have by name: these are compared one by one."""
    real: int
    """Real samples that were embedded, or whose embeddings were cached; 0 where a file brought their features."""
    made: int
    """Embeddings that this call made, of generated and real samples."""
    cached: int
    """Embeddings that it found in the cache."""
    resumed: int
    """Samples that an earlier call had told, from whose end this one went on."""
    kind: Kind = "images"

    @property
    def decision(self) -> DecisionInfo:
        """The decision of the report."""
        return self.report.decision

    @property
    def best(self) -> str | None:
        """The best generator so far."""
        return self.report.decision.best

    @property
    def used(self) -> int:
        """Samples that the answer rests on."""
        return self.report.samples

    @property
    def never_embedded(self) -> int:
        """Samples of the generators that were never needed."""
        return sum(self.total.values()) - self.used

    @property
    def effort(self) -> str:
        """How many samples were used, and how many never embedded, in one line."""
        total = sum(self.total.values())
        said = f"{self.used:,} of {total:,} {self.kind} were embedded, {self.never_embedded:,} never"
        said += f"; the reference took {self.real:,} more" if self.real else ""
        past = [f"{self.cached:,} embeddings were cached"] if self.cached else []
        past += [f"{self.resumed:,} had been used before"] if self.resumed else []
        return f"{said} ({', '.join(past)})." if past else f"{said}."

    def plot(self, axes: Any = None, *, metric: str | None = None) -> Any:
        """Draw scores and intervals with matplotlib, as `Report.plot` does."""
        return self.report.plot(axes, metric=metric)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        counts = {name: getattr(self, name) for name in ("common", "real", "made", "cached", "resumed", "used")}
        total = {"total": dict(self.total), "never_embedded": self.never_embedded}
        return {"report": self.report.to_dict(), **counts, **total}

    def __str__(self) -> str:
        return f"{self.report}\n{self.effort}"
