"""The result of `compare`: its answer, and the saved evaluation from which a later call goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from optimist.datasets.samples import Medium, SampleSource
from optimist.local.embedding import CachedEmbedder
from optimist.local.evaluation import Evaluation
from optimist.local.page import Example, ExampleKind, page_of
from optimist.local.saving import FORMAT
from optimist_client.display import as_text
from optimist_client.errors import FixError
from optimist_client.layout import Page
from optimist_client.metrics import Metric
from optimist_client.models import DecisionInfo, Report


@dataclass(frozen=True)
class CompareResult:
    """A report, and what it took. `print` shows both; `plot` draws the report."""

    report: Report
    total: Mapping[str, int]
    """The number of samples of each generator."""
    common: int
    """The number of samples that all generators have by name: these are compared one by one."""
    real: int
    """Real samples that were embedded, or whose embeddings were cached; 0 where a file brought their features."""
    made: int
    """Embeddings that this call made, of generated and real samples."""
    cached: int
    """Embeddings that it found in the cache."""
    resumed: int
    """Samples that an earlier call had told, from whose end this one went on."""
    kind: Medium = "images"
    examples: Mapping[str, Mapping[ExampleKind, Sequence[Example]]] = field(default_factory=dict)
    """The best, typical and worst samples of each generator, if they were asked for."""

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
        """A sentence: the samples that were embedded, those that never were, and those that were cached."""
        total = sum(self.total.values())
        said = f"{self.used:,} of {total:,} {self.kind} were embedded, {self.never_embedded:,} never"
        said += f"; the reference took {self.real:,} more" if self.real else ""
        past = [f"{self.cached:,} embeddings were cached"] if self.cached else []
        past += [f"{self.resumed:,} had been used before"] if self.resumed else []
        return f"{said} ({', '.join(past)})." if past else f"{said}."

    def plot(self, axes: Any = None, *, metric: str | None = None) -> Any:
        """Draw scores and intervals with matplotlib, as `Report.plot` does."""
        return self.report.plot(axes, metric=metric)

    def save_page(self, file: str | Path) -> None:
        """Write the answer and the `examples` as a page (HTML) that needs no other file."""
        Path(file).write_text(page_of(self), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        counts = {name: getattr(self, name) for name in ("common", "real", "made", "cached", "resumed", "used")}
        total = {"total": dict(self.total), "never_embedded": self.never_embedded}
        return {"report": self.report.to_dict(), **counts, **total}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.page}"

    @property
    def page(self) -> Page:
        """The report and the effort, as they are printed."""
        return Page([*as_text(self.report).parts, self.effort])


def saved_file(
    home: Path,
    evaluation: Evaluation,
    metrics: Sequence[Metric],
    embedding: CachedEmbedder,
    sources: Sequence[SampleSource],
    origin: str,
) -> Path | None:
    """The file of the saved evaluation of this very question; None if samples have no contents to tell them by."""
    # Of files, sizes and times of change stand for contents, so that none of them has to be read.
    digests = [source.digest() for source in sources]
    if not embedding.name or not all(digests):
        return None
    plain = [json.loads(metric.model_dump_json(exclude={"reference", "kernel", "prompt_kernel"})) for metric in metrics]
    kernels = [f"{metric.setting('kernel')!r}" for metric in metrics]
    names = [source.name for source in sources]
    asked = [FORMAT, evaluation.settings, plain, kernels, embedding.name, names, digests, origin]
    text = json.dumps(asked, sort_keys=True, default=str)
    return home / "compare" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def loaded(file: Path, evaluation: Evaluation) -> Evaluation | None:
    """The saved evaluation; None if there is none that can be read, or it is of other generators."""
    try:
        saved = Evaluation.load(file)
    except (FixError, OSError):
        return None  # what was embedded is cached, so that it is told again in no time
    return saved if saved.generators == evaluation.generators else None


def save(file: Path, evaluation: Evaluation, max_files: int = 20, max_bytes: int = 2 * 2**30) -> None:
    """Save it, and drop the oldest of more evaluations, or bytes, than are kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    evaluation.save(file)
    others = sorted(file.parent.glob("*.npz"), key=lambda other: other.stat().st_mtime, reverse=True)
    sizes = accumulate(other.stat().st_size for other in others)
    for number, (other, size) in enumerate(zip(others, sizes, strict=True)):
        if other != file and (number >= max_files or size > max_bytes):
            other.unlink(missing_ok=True)
