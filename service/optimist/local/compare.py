"""`optimist.compare`: which of several sets of samples is best, embedding no more of them than the answer needs."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from optimist.datasets.names import together
from optimist.datasets.references import read_reference
from optimist.datasets.samples import Medium, SampleSource, generators_of, source_of
from optimist.estimation.arrays import real_data_of
from optimist.local.answer import CompareResult, loaded, save, saved_file
from optimist.local.config import experiment_of
from optimist.local.embedding import BYTES, CachedEmbedder, EmbeddingCache, embedder_of, kind_of
from optimist.local.evaluation import Evaluation
from optimist.local.page import Example, ExampleKind, examples_of
from optimist.local.question import declared, of_samples, real_data
from optimist.local.question import kind_of as metric_kind
from optimist.places import cache_directory
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.references.real_data import RealData
from optimist_client.callbacks import Callback
from optimist_client.embedders import Embedder
from optimist_client.errors import FixError
from optimist_client.files import OF_NUMBERS
from optimist_client.metrics import Metric
from optimist_client.metrics.mean import check_unaudited
from optimist_client.metrics.texts import split
from optimist_client.models import Basis, Report
from optimist_client.models.reports import UsedUp
from optimist_client.progress import ProgressDisplay, shown
from optimist_client.rows import NO_FIELDS, Fields
from optimist_client.run import Reporting
from optimist_client.tensors import IDS, LONGEST_ID, digest
from optimist_client.validation import in_words
from optimist_client.wire import GeneratorName


class Display(Protocol):
    """Shows how far a comparison is."""

    def real(self, done: int, total: int) -> None:
        """Show how many real samples have been embedded."""
        ...

    def report(self, report: Report, effort: str) -> None:
        """The standings now, and what they took."""
        ...

    def note(self, text: str) -> None:
        """Show what is to be known before anything is embedded."""
        ...


class Bar:
    """The display of scripts and notebooks: the progress bar of `run`."""

    def __init__(self, wanted: bool | None, total: int) -> None:
        self._stack, self._how = ExitStack(), (wanted, "compare", total)
        self._progress: ProgressDisplay | None = None
        self._shown = 0.0

    def real(self, done: int, total: int) -> None:
        """Show nothing: only generated samples move the bar."""

    def report(self, report: Report, effort: str) -> None:
        """Update the bar, or the view of a notebook."""
        if self._progress is None:
            return
        self._progress.update(report.samples, report.decision)
        if self._progress.shows_reports and (report.ended or time.monotonic() - self._shown > Reporting.EVERY):
            self._progress.show(report)
            self._shown = time.monotonic()

    def note(self, text: str) -> None:
        """Warn."""
        warnings.warn(text, stacklevel=4)

    def __enter__(self) -> Self:
        self._progress = self._stack.enter_context(shown(*self._how))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()


@dataclass(frozen=True)
class SampleOrder:
    """The samples of every source, in a random order that depends on their names and the seed alone."""

    names: Mapping[str, Sequence[str]]
    """The names of the samples by source: first those that all paired sources have, in the same order, then others."""
    common: int
    """The number of samples that all paired sources have by name. They are compared by index."""
    paired: frozenset[str]
    """The sources that have names in common."""
    notes: Sequence[str]
    """Warnings where names are not the same in all sources."""

    @property
    def total(self) -> int:
        return sum(map(len, self.names.values()))


def order_of(names: Mapping[str, Sequence[str]], seed: int) -> SampleOrder:
    """The order of these names by source.

    It is random because files are often sorted by class or prompt, and estimates assume a random sample. Samples of one
    name stand in the same place in every source, so that generators are compared on the same seed or prompt.
    """
    matched = together(names)

    def place(source: str, name: str) -> tuple[bool, bytes]:
        key = matched.keys[source][name]
        is_alone = source not in matched.paired or key not in matched.shared
        return is_alone, hashlib.sha256(f"{seed}/{key}".encode()).digest()

    ordered = {
        source: sorted(own, key=lambda name, source=source: place(source, name)) for source, own in names.items()
    }
    return SampleOrder(ordered, len(matched.shared), matched.paired, matched.notes())


_NAME: TypeAdapter[str] = TypeAdapter(GeneratorName)


def compare(
    generators: Mapping[str, Any] | Sequence[str | Path],
    *,
    embed: str | Embedder | Callable[[Any], Any] = "inception",
    reference: Any = None,
    metric: str | Metric = "fid",
    watch: str | Sequence[str | Metric] = (),
    weights: str | Path | None = None,
    device: str | None = None,
    batch_size: int = 10,
    budget: int | None = None,
    seed: int = 0,
    stop: bool = True,
    cache: str | Path | None = None,
    cache_bytes: int = BYTES,
    resume: bool = True,
    timeout: float | None = None,
    fields: Fields = NO_FIELDS,
    examples: int = 0,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    display: Display | None = None,
    **settings: Any,
) -> CompareResult:
    """Find the best of several sets of samples, embedding them in pieces until it is sure. Returns the answer.

    generators: folders or `.zip` files of images, `.parquet`, `.jsonl` or `.csv` files, or with a text embedder files
        of texts by line; as a sequence of paths, whose names they get, or by name. A sequence of images or texts in
        memory serves, too.
    embed: the name of an embedder ("inception", "dinov2", "clip", "swav", "efficientnet", "text"), with its `weights`
        from a file or folder, on the `device` (None: a GPU if there is one); or an embedder, or a function from a list
        of samples to rows (n, d).
    reference: real samples, in the same forms, all of which are embedded; or features (n, d), a (mean, covariance)
        pair, or a file of either (`.npz`, `.npy`, `.safetensors`).
    metric, watch: the metric that decides, and further ones, by name or as objects; `watch` may be "kid,rke". Kernels
        that are not given are gaussian with the median distance of the real rows as bandwidth.
    budget: samples after which it ends undecided; None: all there are. stop: whether it ends once it is sure.
    cache: the directory of embeddings and saved evaluations; None: `OPTIMIST_CACHE`, or `optimist` in the user's cache.
        Embeddings are found again by the SHA-256 of a sample's content. The oldest are dropped beyond `cache_bytes`.
    resume: whether to go on from the evaluation that an earlier call with the same arguments and files has saved. A
        call that was killed loses nothing: what was embedded is cached.
    fields: which fields of the rows of `.jsonl` and `.csv` files are the texts (or the paths of images), ids by which
        rows of several files belong together, prompts and costs; and clusters, which errors count instead of rows.
    examples: how many of the best, of typical and of the worst samples of each generator the answer has, for
        `save_page`; of the first 512 that were used, by what each does to the score.
    timeout: seconds after which no more samples are embedded; a later call goes on.
    callbacks: functions that are called with a new report about once a second, and with the last one, as the callbacks
        of `optimist_client.callbacks`.
    progress: whether to show progress; None: in notebooks and terminals. display: shows it in another way.
    settings: of the metric (`kernel`, `order`, …), and of `Evaluation` (`policy`, `delta`, `tolerance`, …). With
        `good_enough` or `limits` the goal is "cheapest", and `costs` come from the tables, or are given.

    Samples are used in a random order. Samples of one name (or line) in all sets are compared with each other. Raises
    FixError for files that cannot be read, and for other wrong arguments.
    """
    if settings.get("good_enough") is not None or settings.get("limits"):
        settings = {"goal": "cheapest", **settings}
    kind = kind_of(embed)
    sources = _sources(generators, kind, fields)
    if costs := {source.name: source.cost for source in sources if source.cost is not None}:
        settings = {"costs": costs, "weigh_costs": False, **settings}  # they are spent, whichever are looked at
    watched = split(watch) if isinstance(watch, str) and watch else list(watch)
    kinds = [metric_kind(given) for given in (metric, *watched)]
    own = {name: settings.pop(name) for name in ("order", "truncation", "kernel") if name in settings}
    settings |= {"batch_size": batch_size, "seed": seed}
    if clusters := list(dict.fromkeys(cluster for source in sources for cluster in source.clusters.values())):
        settings["prompts"] = clusters
    # What is wrong is said before anything is embedded.
    metrics = [declared(metric, own), *(declared(given, {}) for given in watched)]
    experiment_of("compare", [source.name for source in sources], metrics, settings)
    embedder = embedder_of(embed, weights, device)
    home = cache_directory() if cache is None else Path(cache)
    order = order_of({source.name: source.names for source in sources}, seed)
    with ExitStack() as stack:
        wants = any("probabilities" in kind.arrays for kind in kinds)
        embedding = CachedEmbedder(embedder, None, wants, weights)
        if embedding.name:
            embedding.cache = stack.enter_context(EmbeddingCache(home / "embeddings.sqlite", cache_bytes))
        ends = math.inf if timeout is None else time.monotonic() + timeout
        shows = display or stack.enter_context(Bar(progress, order.total if budget is None else budget))
        wants_pairs = settings.get("paired", True)
        notes = order.notes if wants_pairs else ()
        for text in (*_notes_on_sizes(order, kind, getattr(embedder, "dimension", 0)), *notes):
            shows.note(text)
        real, count, origin = _real(reference, kind, fields, embedding, metrics, shows)
        metrics = [of_samples(each, real) for each in metrics]
        settings["paired"] = order.common > 0 and wants_pairs
        check_unaudited(metrics, "a comparison of folders")
        how: dict[str, Any] = {"metric": metrics[0], "watch": metrics[1:], **settings}
        evaluation = Evaluation([source.name for source in sources], **how)
        file = saved_file(home, evaluation, metrics, embedding, sources, origin)
        resumed = loaded(file, evaluation) if resume and file is not None else None
        run = _Run(resumed or evaluation, embedding, {source.name: source for source in sources}, order, budget, stop)
        run.before, run.real, run.kind = 0 if resumed is None else resumed.samples, count, kind
        run.ends, run.callbacks = ends, callbacks
        run.play(file, shows)
        return replace(run.answer(), examples=run.examples(examples))


@dataclass
class _Run:
    evaluation: Evaluation
    embedding: CachedEmbedder
    sources: Mapping[str, SampleSource]
    order: SampleOrder
    budget: int | None
    stop: bool
    before: int = 0
    real: int = 0
    kind: Medium = "images"
    ends: float = math.inf
    callbacks: Sequence[Callback] = ()

    @property
    def max_samples(self) -> int:
        """Samples after which nothing is left to use."""
        return self.order.total if self.budget is None else min(self.budget, self.order.total)

    def answer(self) -> CompareResult:
        total = {name: len(names) for name, names in self.order.names.items()}
        report = self.evaluation.report("compare", budget=self.max_samples)
        if report.samples == self.order.total and not report.decision.decided:
            report = report.model_copy(update={"used_up": UsedUp(what=self.kind, generators=_short(report))})
        report = report.model_copy(update={"basis": self._basis(report.basis)})
        counts = (self.real, self.embedding.made, self.embedding.cached, self.before)
        return CompareResult(report, total, self.order.common, *counts, self.kind)

    def _basis(self, told: Basis | None) -> Basis:
        """The basis of the answer, with what was left out of the sources and done to their samples."""
        basis = told or Basis(rows={})
        is_paired = self.evaluation.state.experiment.is_paired and bool(self.order.common)
        left_out = [f"{ending} ({source.name})" for source in self.sources.values() for ending in source.left_out]
        done = [
            f"{count:,} {self.kind} of {source.name} {what}"
            for source in self.sources.values()
            for what, count in source.notes.items()
        ]
        changed = {"paired_by": "name", "common": self.order.common} if is_paired else {}
        return basis.model_copy(update={**changed, "left_out": (*left_out,), "notes": (*basis.notes, *done)})

    def examples(self, count: int) -> dict[str, Mapping[ExampleKind, Sequence[Example]]]:
        """`CompareResult.examples`, so many of each kind; none by a metric without a score yet."""
        evaluation = self.evaluation
        if not count or None in evaluation.estimates().values():
            return {}
        used = {name: names[: evaluation.counts(name)[0]] for name, names in self.order.names.items()}
        return {
            name: examples_of(evaluation, self.embedding, source, used[name], count)
            for name, source in self.sources.items()
        }

    def play(self, file: Path | None, shows: Display) -> None:
        """Use samples until the answer is sure or none are left. What was recorded is saved even if this raises."""
        saved, cost, seen, called = time.monotonic(), 0.0, 0.0, 0.0
        told = self.evaluation.samples
        try:
            while self._next():
                now = time.monotonic()
                if now - seen > 0.25:  # seconds, which reports take a part of
                    answer = self.answer()
                    shows.report(answer.report, answer.effort)
                    if now - called > Reporting.EVERY:
                        self._call(answer.report)
                        called = time.monotonic()
                    seen = time.monotonic()
                # Every 5 seconds, and at most for a twentieth of the time.
                if file is not None and now - saved > max(5.0, 20.0 * cost):
                    save(file, self.evaluation)
                    saved, told = time.monotonic(), self.evaluation.samples
                    cost = saved - now
        finally:
            if file is not None and self.evaluation.samples > told:
                save(file, self.evaluation)
        answer = self.answer()
        shows.report(answer.report, answer.effort)
        self._call(answer.report)

    def _call(self, report: Report) -> None:
        for function in self.callbacks:
            function(report)

    def _next(self) -> bool:
        """Use the next samples; False if there is no need, or none are left."""
        evaluation, names = self.evaluation, self.order.names
        left = self.max_samples - evaluation.samples
        among = [name for name in names if evaluation.counts(name)[0] < len(names[name])]
        if left <= 0 or not among or time.monotonic() >= self.ends:
            return False
        if self.stop and evaluation.decision(explain=False).decided:
            return False
        name = evaluation.ask(among=among)
        first = evaluation.counts(name)[0]
        end = min(first + min(evaluation.batch_size, left), len(names[name]))
        # A batch has indices for all of its rows or for none, so that it ends where the common samples do.
        common = self.order.common if name in self.order.paired else 0
        end = common if first < common < end else end
        part = names[name][first:end]
        arrays = self.embedding.arrays(self.sources[name], part)
        batch = {array: arrays[array] for array in evaluation.arrays}
        start = first if first < common or not self.order.common else None
        ids = [sample.encode()[-LONGEST_ID:].decode(errors="ignore") for sample in part]
        evaluation.tell(name, {**batch, IDS: ids}, start=start, prompt_indices=self._clusters(name, part))
        return True

    def _clusters(self, name: str, part: Sequence[str]) -> list[int] | None:
        """The number of each sample's cluster among the `prompts`; None where samples are independent."""
        clusters = self.sources[name].clusters
        return [self.numbers[clusters[sample]] for sample in part] if clusters else None

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each cluster, from 0."""
        return {cluster: number for number, cluster in enumerate(self.evaluation.state.config.prompts or ())}


def _notes_on_sizes(order: SampleOrder, kind: Medium, width: int) -> list[str]:
    """Warnings of few samples before they are embedded. width: the numbers of an embedding, if known."""
    sizes = {name: len(names) for name, names in order.names.items()}
    notes = [
        f"{name} has {_counted(size, kind)}: nothing is decided before each generator has {FEWEST_SAMPLES}"
        for name, size in sizes.items()
        if size < FEWEST_SAMPLES
    ]
    if (fewest := min(sizes.values())) < width:
        name = min(sizes, key=lambda name: sizes[name])
        notes.append(f"{name} has few {kind} ({fewest:,} for {width:,} features): intervals will be wide")
    return notes


def _counted(size: int, kind: Medium) -> str:
    return f"{size:,} {kind if size != 1 else kind[:-1]}"


def _short(report: Report) -> list[str]:
    """The generators to which samples are to be added: those without a score, or of the best one and its hardest rival
    those that have the fewest."""
    rows, hardest = report.standings, report.decision.hardest
    matter = [row for row in rows if row.score is None]
    if hardest is not None and not matter:
        matter = [row for row in rows if row.generator in (report.decision.best, hardest.generator)]
    fewest = min(row.samples for row in matter or rows)
    return [row.generator for row in matter or rows if row.samples == fewest or row.score is None]


def _sources(generators: Any, kind: Medium, fields: Fields) -> list[SampleSource]:
    if isinstance(generators, Mapping):
        if called := [name for name, samples in generators.items() if callable(samples)]:
            raise FixError(f"generators: {called[0]!r} is a function: `optimist.run` compares functions")
        named = dict(generators)
    else:
        paths = [Path(path) for path in generators]
        parts = [part for path in paths for part in generators_of(path, fields).items()]
        named = dict(parts)
        if len(named) < len(parts):
            raise FixError(f"generators: expected paths with names of their own, got {', '.join(map(str, paths))}")
    if len(named) < 2:
        scores = ": `optimist score` scores one, as features (.npy, .npz)" if len(named) == 1 else ""
        raise FixError(f"generators: expected two or more to compare, got {len(named)}{scores}")
    for name in named:
        try:
            _NAME.validate_python(name)
        except ValidationError as error:
            raise FixError(f"generators: {name!r}: {in_words(error)}") from None
    return [source_of(name, given, kind, fields) for name, given in named.items()]


def _real(
    reference: Any,
    kind: Medium,
    fields: Fields,
    embedding: CachedEmbedder,
    metrics: Sequence[str | Metric],
    shows: Display,
    piece: int = 64,
) -> tuple[RealData | None, int, str]:
    """Real data, how many samples were embedded for it, and what tells it from others. piece: samples at a time."""
    if reference is None:
        return None, 0, ""
    if isinstance(reference, str | Path) and Path(reference).suffix in OF_NUMBERS:
        data = read_reference(Path(reference))
    elif isinstance(reference, RealData | tuple | np.ndarray) or hasattr(reference, "detach"):
        data = real_data_of(reference)
    else:
        source = source_of("reference", reference, kind, fields)
        names, parts = source.names, []
        for start in range(0, len(names), piece):
            shows.real(start, len(names))
            parts.append(embedding.arrays(source, names[start : start + piece])["features"])
        shows.real(len(names), len(names))
        if len(names) < 2:
            raise FixError(f"{source.origin}: expected at least 2 real samples, found {len(names)}")
        return real_data(np.concatenate(parts), metrics), len(names), source.digest()
    return data, 0, digest(data.arrays)
