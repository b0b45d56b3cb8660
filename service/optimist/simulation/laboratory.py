"""Any policies on any samples, many times over: what each of them pays, and how soon it knows the best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from optimist.evaluation import Question, declared_of, first_rows
from optimist.evaluation.arrays import arrays_of, check_arrays
from optimist.evaluation.offline import read_reference
from optimist.numerics.batches import BatchError
from optimist.numerics.checks import check_whole
from optimist.simulation.contenders import contenders
from optimist.simulation.result import Result, Run
from optimist.simulation.sources import ArraySource, Bed, Draw, Source, experiment, files
from optimist.simulation.trial import Trial, one_thread
from optimist.simulation.truth import TrueScore, gaps, given_scores, true_score
from optimist_client.config import RULES
from optimist_client.metrics import Metric, find

Done = TypeVar("Done")
MOST_ROUNDS = 10_000_000
"""Of all trials of a policy together, which are kept in memory: some 500 MB."""
DEFAULTS: dict[str, Any] = {"delta": 0.05, "tolerance": 0.0, "rules": RULES}


class SimulationWarning(UserWarning):
    """Something about a simulation that its reader must know before it has run."""


def simulate(
    sources: Bed | Mapping[str, Any] | str | Path,
    *,
    metric: str | Metric | None = None,
    policies: str | Sequence[str] | Mapping[str, str] = "ucb",
    rounds: int = 1000,
    batch_size: int = 5,
    trials: int = 20,
    seed: int = 0,
    stop: bool = False,
    delta: float | None = None,
    tolerance: float | None = None,
    jobs: int | None = None,
    reference: Any = None,
    order: float | None = None,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    shuffle: bool = True,
    progress: bool = False,
    rules: int | None = None,
) -> Result:
    """Play each policy `trials` times for `rounds` batches of `batch_size` samples, and compare what it cost.

    `sources` are the generators by name, each an array (n, d) of what the metric scores, a mapping of such arrays by
    tensor, or a `Source`; or a `Bed`; or a path: a folder or file of features (see `sources.files`), or an exported
    experiment (.zip), which brings its metric with its settings, and its rules. `metric`, `reference`, `order`,
    `truncation`, `kernel`, `prompt_kernel`, `delta`, `tolerance` and `rules` are those of `Evaluation`, by default what
    the sources bring, or "fid"; `reference` may be a file. Open kernels (σ "median", landmarks) are fixed once, before
    all trials. `policies` are names or presets, perhaps with options of their own: "ucb:bound=theorem,delta=0.1"; a
    mapping gives them labels.

    In a trial samples are drawn without replacement, in a random order of (`seed`, trial, generator) alone, so that
    every policy sees the same streams whatever `jobs` is; without `shuffle`, as they stand. A trial ends early where
    the generator asked for has no whole batch left; with `stop`, at the decision. `truth` are the true scores, on the
    natural scale; without them they are made of all samples, or in closed form. joblib runs the trials in `jobs`
    processes (None: as `joblib.parallel_config` says, which may be on other machines, otherwise one).

    Raises ValueError, saying what was expected and found, before anything is run; warns (`SimulationWarning`) where a
    generator may run out.
    """
    of_metric = {
        "reference": reference,
        "order": order,
        "truncation": truncation,
        "kernel": kernel,
        "prompt_kernel": prompt_kernel,
    }
    given = {"delta": delta, "tolerance": tolerance, "rules": rules}
    for name, count in (("rounds", rounds), ("batch_size", batch_size), ("trials", trials)):
        check_whole(name, count, 1)
    if rounds * trials > MOST_ROUNDS:
        raise ValueError(f"rounds, trials: expected at most {MOST_ROUNDS:,} rounds in all, got {rounds:,} × {trials:,}")
    check_whole("seed", seed, 0)
    if jobs == 0:
        raise ValueError("jobs: expected a number of processes, or -1 for as many as there are cores; got 0")
    competing = contenders(policies)
    bed = _bed(sources, metric, reference)
    brought = {name: bed.settings[name] for name in ("metric", *of_metric) if name in bed.settings}
    brings = declared_of(**brought) if "metric" in brought else None
    asks_the_same = brings is not None and metric in (None, brings.name)
    settings = {**DEFAULTS, **(bed.settings if asks_the_same else {})}
    settings |= {name: value for name, value in given.items() if value is not None}
    declared = _declared(metric, brings if asks_the_same else None, of_metric)
    question = Question(declared, delta=settings["delta"], rules=settings["rules"])
    _check_sources(bed.sources, question)
    question = _fixed(question, bed.sources, seed)
    shared: dict[str, Any] = {name: settings[name] for name in DEFAULTS}
    shared |= {"metric": question.metric, "batch_size": batch_size}
    for contender in competing:
        try:
            Trial(bed.sources, contender, shared, 0, 1, seed, stop, shuffle).evaluation()
        except ValueError as error:
            raise ValueError(f"policy {contender.label!r}: {error}") from None
    _check_amounts(bed.sources, batch_size, rounds)

    known = None if truth is None else given_scores(truth, bed.sources, question.metric)
    with _Bench(jobs, progress) as bench:
        if known is None:
            scored = bench.run("true scores", [partial(_score, *each, question, seed) for each in bed.sources.items()])
            known = dict(zip(bed.sources, scored, strict=True))
        shared["metric"] = _portable(question.metric)
        plays = bench.run(
            "trials",
            [
                Trial(bed.sources, contender, shared, number, rounds, seed, stop, shuffle).play
                for number in range(trials)
                for contender in competing
            ],
        )
    behind, is_best = gaps(known, question.metric, settings["tolerance"])
    return Result(
        metric=question.metric.name,
        truth=known,
        gaps=behind,
        is_best=is_best,
        batch_size=batch_size,
        rounds=rounds,
        seed=seed,
        stop=stop,
        runs={
            contender.label: Run.of(plays[place :: len(competing)], rounds, batch_size, behind, is_best)
            for place, contender in enumerate(competing)
        },
    )


class _Bench:
    """Work done in parallel, shown on stderr as it gets done."""

    def __init__(self, jobs: int | None, progress: bool) -> None:
        self._jobs = jobs
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        times = TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()
        self._progress = Progress(*columns, *times, console=Console(stderr=True), disable=not progress)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def run(self, what: str, work: Sequence[Callable[[], Done]]) -> list[Done]:
        """What each piece of work returns, in order; done in any order."""
        shown = self._progress.add_task(what, total=len(work))
        done: dict[int, Done] = {}
        parallel: Any = Parallel(n_jobs=self._jobs, return_as="generator_unordered")
        for place, found in parallel(delayed(_numbered)(place, piece) for place, piece in enumerate(work)):
            done[place] = found
            self._progress.advance(shown)
        return [done[place] for place in range(len(work))]


def _numbered(place: int, piece: Callable[[], Done]) -> tuple[int, Done]:
    return place, piece()


def _score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    with one_thread():
        return true_score(name, source, question, seed)


def _bed(sources: Any, metric: str | Metric | None, reference: Any) -> Bed:
    """What callers hand over as sources, as a `Bed`."""
    if isinstance(sources, Bed):
        return sources
    kind = type(metric) if isinstance(metric, Metric) else find(metric or "fid")
    if isinstance(sources, str | Path):
        if Path(sources).suffix == ".zip":
            return experiment(sources)
        beside = Path(reference) if isinstance(reference, str | Path) else None
        return Bed(files(sources, kind.name, beside=beside))
    if not isinstance(sources, Mapping) or not sources:
        raise ValueError(f"sources: expected generators by name, or a path; got {type(sources).__name__}")
    return Bed({name: _source(name, made, kind) for name, made in sources.items()})


def _source(name: str, made: Any, metric: type[Metric]) -> Source:
    if hasattr(made, "stream"):
        return made
    try:
        return ArraySource(arrays_of(made, metric), f"generator {name!r}")
    except ValueError as error:
        raise ValueError(f"generator {name!r}: {error}") from None


def _declared(metric: str | Metric | None, brings: Metric | None, given: Mapping[str, Any]) -> Metric:
    """The metric asked for, or else the one that the sources bring, with the settings `given` in place of its own."""
    if isinstance(metric, Metric):
        metric, given = metric.name, {**_set(metric), **_not_none(given)}
    elif brings is not None:
        metric, given = brings.name, {**_set(brings), **_not_none(given)}
    name = metric or "fid"
    if "reference" in find(name).needs and given.get("reference") is None:
        raise ValueError(
            f"reference: the metric {name!r} needs real features, or their moments, to compare with; found none"
        )
    if isinstance(given.get("reference"), str | Path):
        given = {**given, "reference": read_reference(Path(given["reference"]))}
    return declared_of(name, **_not_none(given))


def _check_sources(sources: Mapping[str, Source], question: Question) -> None:
    """Raise ValueError, naming the source, unless all have the question's tensors, of one width, and sound numbers."""
    known = {
        tensor: (width, "the reference" if question.reference else "the kernel")
        for tensor, width in question.widths.items()
    }
    for source in sources.values():
        if set(source.widths) != set(question.arrays):
            found = f"expected {', '.join(question.arrays)}, found {', '.join(source.widths)}"
            raise ValueError(f"{source.origin}: {found}")
        if isinstance(source, ArraySource):
            try:
                check_arrays(source.rows, question, source.widths)
            except BatchError as error:
                raise ValueError(f"{source.origin}: {error}") from None
        for tensor, width in source.widths.items():
            wanted, whose = known.setdefault(tensor, (width, source.origin))
            if width != wanted:
                raise ValueError(f"{source.origin}: {tensor}: expected {wanted} columns, as {whose} has; found {width}")


def _fixed(question: Question, sources: Mapping[str, Source], seed: int) -> Question:
    """The question with its open kernels fixed by a random draw of each source, apart from all trials."""
    if not question.open_kernels:
        return question
    needed = question.rows_to_fit(len(sources))
    logs: list[list[dict[str, torch.Tensor]]] = []
    for name, source in sources.items():
        count = needed if source.samples is None else min(needed, source.samples)
        rows = source.stream(Draw(seed, None, name)).take(count)
        assert rows is not None
        logs.append([{tensor: torch.from_numpy(part.astype(np.float64)) for tensor, part in rows.items()}])
    return question.fitted(first_rows(logs, needed))


def _check_amounts(sources: Mapping[str, Source], batch_size: int, rounds: int) -> None:
    """Raise ValueError where a source has not even one batch; warn where one has fewer than a policy may draw."""
    amounts = [(source.origin, source.samples) for source in sources.values() if source.samples is not None]
    for origin, samples in amounts:
        if samples < batch_size:
            raise ValueError(f"{origin}: expected at least one batch of {batch_size} samples, found {samples}")
    needed = rounds * batch_size
    short = [f"{samples:,} in {origin}" for origin, samples in amounts if samples < needed]
    if short:
        warnings.warn(
            f"expected {needed:,} samples of each generator, as many as {rounds:,} rounds may draw of one; found "
            f"{', '.join(short)}. Trials that use them up end there",
            SimulationWarning,
            stacklevel=3,
        )


def _portable(metric: Metric) -> Metric:
    """The metric as every trial is given it: its reference as arrays, which joblib shares between processes."""
    reference = metric.setting("reference")
    if reference is None:
        return metric
    return metric.model_copy(update={"reference": (reference.mean.numpy(), reference.covariance.numpy())})


def _set(metric: Metric) -> dict[str, Any]:
    return {name: metric.setting(name) for name in metric.model_fields_set}


def _not_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
