"""Runs policies on given samples in many trials and compares their regret and how soon they find the best."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from optimist.evaluation import Question, first_rows, prepared, with_real_data
from optimist.evaluation.arrays import check_arrays
from optimist.evaluation.offline import read_reference
from optimist.evaluation.question import by_label
from optimist.numerics.batches import BatchError
from optimist.numerics.checks import check_whole
from optimist.simulation.contenders import contenders
from optimist.simulation.result import Result
from optimist.simulation.run import Run
from optimist.simulation.runner import Runner
from optimist.simulation.sources import ArraySource, Draw, Source, SourceSet, experiment, files
from optimist.simulation.trial import Trial, one_thread
from optimist.simulation.truth import TrueScore, gaps, given_scores, true_score
from optimist.simulation.watched import Watched, arrays_read, parts_for, source_of
from optimist_client.config import RULES
from optimist_client.metrics import Metric, find
from optimist_client.tolerance import checked as checked_tolerance

MOST_ROUNDS = 10_000_000
"""Maximum rounds in all trials of a policy together. They are kept in memory and take about 500 MB."""
DEFAULTS: dict[str, Any] = {"delta": 0.05, "tolerance": 0.0, "rules": RULES}


class SimulationWarning(UserWarning):
    """A warning about the simulation's input, for example that a generator has too few samples."""


def simulate(
    sources: SourceSet | Mapping[str, Any] | str | Path,
    *,
    metric: str | Metric | None = None,
    watch: Sequence[Metric] = (),
    policies: str | Sequence[str] | Mapping[str, str] = "ucb",
    rounds: int = 1000,
    batch_size: int = 5,
    trials: int = 20,
    seed: int = 0,
    stop: bool = False,
    delta: float | None = None,
    tolerance: float | str | None = None,
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
    paired: bool | None = None,
) -> Result:
    """Run each policy in `trials` trials of `rounds` batches with `batch_size` samples, and compare their costs.

    `sources` are the generators by name, each an array (n, d) that the metric scores, a mapping of such arrays by
    tensor, or a `Source`. They may also be a `SourceSet` or a path: a folder or file of features (see `sources.files`),
    or an exported experiment (.zip), which includes its metric with its settings, and its rules. `metric`, `reference`,
    `order`, `truncation`, `kernel`, `prompt_kernel`, `delta`, `tolerance` and `rules` are those of `Evaluation`. By
    default they are those of the sources, or else "fid" and its defaults; `reference` may be a file. Open kernels
    (σ "median", landmarks) are fitted once before all trials. `watch` are further metrics, as objects, that decide
    nothing: sources have the arrays of all metrics by name, and the result has regret and accuracy by each. `policies`
    are names or presets, optionally with options: "ucb:bound=theorem,delta=0.1"; the keys of a mapping are their
    labels.

    In a trial samples are drawn without replacement. Their random order depends only on (`seed`, trial, generator), so
    that all policies see the same streams, whatever `jobs` is. Without `shuffle` samples keep their given order.
    `paired` draws the same rows of every generator and compares their scores by row: True says that row i has the same
    seed or prompt in all, None takes the sources' word (`SourceSet.aligned`), False draws each generator by itself. A
    trial ends early if the chosen generator has no full batch left or, with `stop`, when the stopping rule decides.
    `truth` are the true scores on the natural scale; by default they are computed in closed form or from all samples.
    joblib runs the trials in `jobs` processes (None: as set by `joblib.parallel_config`, which may use other machines,
    otherwise one).

    Raises ValueError before anything is run if an argument is invalid, saying what was expected and what was found.
    Warns (`SimulationWarning`) if a generator may run out of samples.
    """
    of_metric = {
        "reference": reference,
        "order": order,
        "truncation": truncation,
        "kernel": kernel,
        "prompt_kernel": prompt_kernel,
    }
    given: dict[str, Any] = {"delta": delta, "tolerance": tolerance, "rules": rules}
    if tolerance is not None:
        given["tolerance"] = checked_tolerance(tolerance)
    for name, count in (("rounds", rounds), ("batch_size", batch_size), ("trials", trials)):
        check_whole(name, count, 1)
    if rounds * trials > MOST_ROUNDS:
        expected = f"rounds, trials: expected at most {MOST_ROUNDS:,} rounds in total"
        raise ValueError(f"{expected}, got {rounds:,} × {trials:,}")
    check_whole("seed", seed, 0)
    if jobs == 0:
        raise ValueError("jobs: expected a number of processes, or -1 for as many as there are cores; got 0")
    competing = contenders(policies)
    further = list(map(with_real_data, watch))
    source_set = _source_set(sources, metric, reference, further)
    brought = source_set.settings if _name(metric) in (None, _name(source_set.settings.get("metric", metric))) else {}
    settings = {**DEFAULTS, **brought} | _not_none(given)
    declared = _declared(metric, brought, of_metric)
    declared.check_tolerance(settings["tolerance"])
    question = Question(prepared(declared), delta=settings["delta"], rules=settings["rules"])
    everything = source_set.sources
    if further or declared.reads is not None:
        source_set = replace(source_set, sources=parts_for(declared, everything))
    _check_sources(source_set.sources, question)
    watched: dict[str, tuple[Question, dict[str, Source]]] = {}
    for label, one in list(by_label([declared, *further]).items())[1:]:
        asked, parts = Question(prepared(one), rules=settings["rules"]), parts_for(one, everything)
        _check_sources(parts, asked)
        watched[label] = _fitted(asked, parts, seed), parts
    is_paired = _is_paired(paired, source_set, question.rules)
    question = _fitted(question, source_set.sources, seed)
    shared: dict[str, Any] = {name: settings[name] for name in DEFAULTS}
    shared |= {"metric": question.metric, "batch_size": batch_size}
    for contender in competing:
        try:
            Trial(source_set.sources, contender, shared, 0, 1, seed, stop, shuffle, is_paired).evaluation()
        except ValueError as error:
            raise ValueError(f"policy {contender.label!r}: {error}") from None
    _check_amounts(source_set.sources, batch_size, rounds)

    known = None if truth is None else given_scores(truth, source_set.sources, question.metric)
    with Runner(jobs, progress) as runner:
        if known is None:
            scored = runner.run(
                "true scores", [partial(_score, *each, question, seed) for each in source_set.sources.items()]
            )
            known = dict(zip(source_set.sources, scored, strict=True))
        others = {
            label: runner.run(f"true scores by {label}", [partial(_score, *each, asked, seed) for each in part.items()])
            for label, (asked, part) in watched.items()
        }
        shared["metric"] = _portable(question.metric, declared)
        plays = runner.run(
            "trials",
            [
                Trial(source_set.sources, contender, shared, number, rounds, seed, stop, shuffle, is_paired).play
                for number in range(trials)
                for contender in competing
            ],
        )
    behind, is_best = gaps(known, question.metric, settings["tolerance"])
    runs = {
        contender.label: Run.of(plays[place :: len(competing)], rounds, batch_size, behind, is_best)
        for place, contender in enumerate(competing)
    }
    return Result(
        metric=question.metric.name,
        truth=known,
        gaps=behind,
        is_best=is_best,
        batch_size=batch_size,
        rounds=rounds,
        seed=seed,
        stop=stop,
        paired=is_paired,
        runs=runs,
        watched={
            label: Watched.of(asked.metric, dict(zip(everything, others[label], strict=True)), runs)
            for label, (asked, _) in watched.items()
        },
    )


def _score(name: str, source: Source, question: Question, seed: int) -> TrueScore:
    with one_thread():
        return true_score(name, source, question, seed)


def _source_set(sources: Any, metric: str | Metric | None, reference: Any, watch: Sequence[Metric]) -> SourceSet:
    """The `sources` argument of `simulate` as a `SourceSet`, with the arrays of all metrics."""
    if isinstance(sources, SourceSet):
        return sources
    arrays = arrays_read([metric if isinstance(metric, Metric) else find(metric or "fid")(), *watch])
    if isinstance(sources, str | Path):
        if Path(sources).suffix == ".zip":
            return experiment(sources)
        beside = Path(reference) if isinstance(reference, str | Path) else None
        return SourceSet(files(sources, arrays, beside=beside))
    if not isinstance(sources, Mapping) or not sources:
        raise ValueError(f"sources: expected generators by name, or a path; got {type(sources).__name__}")
    return SourceSet({name: source_of(name, made, arrays) for name, made in sources.items()})


def _declared(metric: str | Metric | None, brought: Mapping[str, Any], given: Mapping[str, Any]) -> Metric:
    """The metric asked for, by default that of the sources. Settings that are not `given` are taken from there, too."""
    chosen = brought.get("metric", "fid") if metric is None else metric
    name = chosen if isinstance(chosen, str) else chosen.name
    settings = {setting: brought[setting] for setting in find(name).settings() & brought.keys()}
    settings |= {} if isinstance(chosen, str) else _set(chosen)
    settings |= _not_none(given)
    if "reference" in find(name).needs and settings.get("reference") is None:
        raise ValueError(
            f"reference: expected real features or their moments, which the metric {name!r} compares with; found none"
        )
    if isinstance(settings.get("reference"), str | Path):
        settings["reference"] = read_reference(Path(settings["reference"]))
    return with_real_data(name, **_not_none(settings))


def _name(metric: str | Metric | None) -> str | None:
    return metric.name if isinstance(metric, Metric) else metric


def _check_sources(sources: Mapping[str, Source], question: Question) -> None:
    """Raise ValueError unless all sources have the metric's tensors with equal widths and valid numbers."""
    known = {
        question.reads[own]: (width, "the reference" if question.reference else "the kernel")
        for own, width in question.widths.items()
    }
    names = list(question.reads.values())
    for source in sources.values():
        if set(source.widths) != set(names):
            found = f"expected {', '.join(names)}, found {', '.join(source.widths)}"
            raise ValueError(f"{source.origin}: {found}")
        if isinstance(source, ArraySource):
            try:
                check_arrays(source.rows, [question], source.widths)
            except BatchError as error:
                raise ValueError(f"{source.origin}: {error}") from None
        for tensor, width in source.widths.items():
            wanted, whose = known.setdefault(tensor, (width, source.origin))
            if width != wanted:
                raise ValueError(f"{source.origin}: {tensor}: expected {wanted} columns, as {whose} has; found {width}")


def _is_paired(asked: bool | None, made: SourceSet, rules: int) -> bool:
    """Whether trials are paired. Raises ValueError if that is asked for and not possible."""
    if rules < 4 and asked:
        raise ValueError(f"paired: expected rules 4 or later, got {rules}")
    return rules >= 4 and made.is_paired(asked)


def _fitted(question: Question, sources: Mapping[str, Source], seed: int) -> Question:
    """The question with its open kernels fitted to a random draw from each source, separate from all trials."""
    if not question.open_kernels:
        return question
    needed = question.rows_to_fit(len(sources))
    logs: list[list[dict[str, torch.Tensor]]] = []
    for name, source in sources.items():
        count = needed if source.samples is None else min(needed, source.samples)
        rows = source.stream(Draw(seed, None, name)).take(count)
        assert rows is not None
        tensors = {tensor: torch.from_numpy(part.astype(np.float64)) for tensor, part in rows.items()}
        logs.append([question.own(tensors)])
    return question.fitted(first_rows(logs, needed))


def _check_amounts(sources: Mapping[str, Source], batch_size: int, rounds: int) -> None:
    """Raise ValueError if a source has less than one batch; warn if one has fewer samples than a policy may draw."""
    amounts = [(source.origin, source.samples) for source in sources.values() if source.samples is not None]
    for origin, samples in amounts:
        if samples < batch_size:
            raise ValueError(f"{origin}: expected at least one batch of {batch_size} samples, found {samples}")
    needed = rounds * batch_size
    short = [f"{samples:,} in {origin}" for origin, samples in amounts if samples < needed]
    if short:
        warnings.warn(
            f"expected {needed:,} samples of each generator, as many as {rounds:,} rounds may draw; found "
            f"{', '.join(short)}. A trial ends early when the samples of a generator are used up",
            SimulationWarning,
            stacklevel=3,
        )


def _portable(metric: Metric, declared: Metric) -> Metric:
    """The metric for all trials, with the real data as `declared`: joblib shares arrays, but would copy tensors."""
    data = declared.setting("reference")
    return metric if data is None else metric.model_copy(update={"reference": data})


def _set(metric: Metric) -> dict[str, Any]:
    return {name: metric.setting(name) for name in metric.model_fields_set}


def _not_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
