"""Subject of a simulation: its sources with the arrays of its metrics, and the questions that they answer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from optimist.anomalies.batches import as_matrices
from optimist.datasets.references import read_reference
from optimist.estimation.arrays import arrays_of, check_arrays
from optimist.estimation.question import Question, by_label, prepared, with_real_data
from optimist.estimation.streaming import first_rows
from optimist.simulation.judges.judge import Setup
from optimist.simulation.plan import Plan
from optimist.simulation.sources import ArraySource, Draw, Source, SourceSet, experiment, files
from optimist_client.errors import FixError
from optimist_client.metrics import Metric, find
from optimist_client.metrics.mean import check_unaudited
from optimist_client.metrics.texts import parsed


class SimulationWarning(UserWarning):
    """A warning about the simulation's input, for example that a generator has too few samples."""


@dataclass(frozen=True)
class SimulationInputs:
    """The sources of a simulation, checked, and the question that policies answer, its open kernels fitted."""

    sources: Mapping[str, Source]
    """The sources with the arrays of the metric that decides."""
    question: Question
    metric: Metric
    """The metric of the question with its real data as it was given: joblib shares arrays, but would copy tensors."""
    plan: Plan
    """With δ and tolerance of the sources where the caller gave none, and whether samples are paired."""
    watched: dict[str, tuple[Question, dict[str, Source]]]
    """Question and sources of each further metric, by label."""

    @classmethod
    def from_asked(cls, asked: Setup, plan: Plan) -> SimulationInputs:
        """The samples and the metrics of a simulation. Raises FixError as `simulate` does."""
        metric, further = asked.metric, list(map(with_real_data, asked.watch))
        source_set = _source_set(asked, further)
        same = _name(metric) in (None, _name(source_set.settings.get("metric", metric)))
        brought = source_set.settings if same else {}
        own = {name: brought[name] for name in {"delta", "tolerance"} & brought.keys() - plan.model_fields_set}
        declared = _declared(metric, brought, asked.settings)
        plan = plan.model_copy(update={**own, "paired": source_set.is_paired(plan.paired)})
        declared.check_tolerance(plan.tolerance)
        question = Question(prepared(declared), delta=plan.delta)
        everything = source_set.sources
        sources = parts_for(declared, everything) if further or declared.reads is not None else everything
        _check_sources(sources, question)
        watched: dict[str, tuple[Question, dict[str, Source]]] = {}
        for label, further_metric in list(by_label([declared, *further]).items())[1:]:
            other, parts = Question(prepared(further_metric)), parts_for(further_metric, everything)
            _check_sources(parts, other)
            watched[label] = _fitted(other, parts, plan.seed), parts
        question = _fitted(question, sources, plan.seed)
        return cls(sources, question, _portable(question.metric, declared), plan, watched)


def _source_set(asked: Setup, watch: Sequence[Metric]) -> SourceSet:
    """The `sources` argument of `simulate` as a `SourceSet`, with the arrays of all metrics."""
    sources, reference = asked.sources, asked.settings.get("reference")
    if isinstance(sources, SourceSet):
        return sources
    arrays = arrays_read(asked.metric or "fid", watch)
    if isinstance(sources, str | Path):
        if Path(sources).suffix == ".zip":
            return experiment(sources)
        beside = Path(reference) if isinstance(reference, str | Path) else None
        return SourceSet(files(sources, arrays, beside=beside))
    if not isinstance(sources, Mapping) or not sources:
        raise FixError(f"sources: expected generators by name, or a path; got {type(sources).__name__}")
    return SourceSet({name: source_of(name, made, arrays) for name, made in sources.items()})


def arrays_read(metric: str | Metric, watch: Iterable[Metric]) -> dict[str, int | None]:
    """The arrays that the metrics read, with their columns where the settings fix them."""
    if isinstance(metric, str):
        name, own = parsed(metric)
        metric = find(name)(reads=own.get("reads"))
    columns: dict[str, int | None] = {}
    for declared in (metric, *watch):
        for array, name in declared.array_names.items():
            columns[name] = columns.get(name) or declared.widths.get(array)
    return columns


def parts_for(metric: Metric, sources: Mapping[str, Source]) -> dict[str, Source]:
    """The sources with the arrays of one metric alone, as far as they have them."""
    names = set(metric.array_names.values())

    def part(source: Source) -> Source:
        if not isinstance(source, ArraySource) or not names < set(source.rows):
            return source
        return replace(source, rows={name: rows for name, rows in source.rows.items() if name in names})

    return {name: part(source) for name, source in sources.items()}


def source_of(name: str, made: Any, arrays: Mapping[str, int | None]) -> Source:
    """The source of a generator in memory. Raises FixError, naming it, for anything but arrays."""
    if hasattr(made, "stream"):
        return made
    try:
        columns = {array: width for array, width in arrays.items() if width is not None}
        return ArraySource(as_matrices(arrays_of(made, arrays), columns), f"generator {name!r}")
    except ValueError as error:
        raise FixError(f"generator {name!r}: {error}") from None


def _declared(metric: str | Metric | None, brought: Mapping[str, Any], asked: Mapping[str, Any]) -> Metric:
    """The metric asked for, by default the sources' metric. Settings missing in `asked` are also the sources'."""
    of_sources = brought.get("metric", "fid")
    chosen = of_sources if metric is None else metric
    name, own = parsed(chosen) if isinstance(chosen, str) else (chosen.name, _set(chosen))
    settings = _set(of_sources) if isinstance(of_sources, Metric) and of_sources.name == name else {}
    settings |= {setting: brought[setting] for setting in find(name).settings() & brought.keys()}
    settings |= own | _not_none(asked)
    if "reference" in find(name).needs and settings.get("reference") is None:
        raise FixError(
            f"reference: expected real features or their moments, which the metric {name!r} compares with; found none"
        )
    samples = settings.pop("reference_samples", None)
    if isinstance(settings.get("reference"), str | Path):
        settings["reference"] = read_reference(Path(settings["reference"]), samples)
    made = with_real_data(name, **_not_none(settings))
    check_unaudited([made], "a simulation")
    return made


def _name(metric: str | Metric | None) -> str | None:
    return parsed(metric)[0] if isinstance(metric, str) else metric and metric.name


def _check_sources(sources: Mapping[str, Source], question: Question) -> None:
    """Raise FixError unless all sources have the metric's tensors with equal widths and valid numbers."""
    widths = {
        question.reads[own]: (width, "the reference" if question.reference else "the kernel")
        for own, width in question.widths.items()
    }
    names = list(question.reads.values())
    for source in sources.values():
        if set(source.widths) != set(names):
            text = f"expected {', '.join(names)}, found {', '.join(source.widths)}"
            raise FixError(f"{source.origin}: {text}")
        if isinstance(source, ArraySource):
            try:
                check_arrays(source.rows, [question], source.widths)
            except FixError as error:
                raise FixError(f"{source.origin}: {error}") from None
        for tensor, width in source.widths.items():
            wanted, whose = widths.setdefault(tensor, (width, source.origin))
            if width != wanted:
                raise FixError(f"{source.origin}: {tensor}: expected {wanted} columns, as {whose} has; found {width}")


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


def check_amounts(sources: Mapping[str, Source], plan: Plan) -> None:
    """Raise FixError if a source has less than one batch; warn if one has fewer samples than a policy may draw."""
    amounts = [(source.origin, source.samples) for source in sources.values() if source.samples is not None]
    for origin, samples in amounts:
        if samples < plan.batch_size:
            raise FixError(f"{origin}: expected at least one batch of {plan.batch_size} samples, found {samples}")
    needed = plan.rounds * plan.batch_size
    short = [f"{samples:,} in {origin}" for origin, samples in amounts if samples < needed]
    if short:
        warnings.warn(
            f"expected {needed:,} samples of each generator, as many as {plan.rounds:,} rounds may draw; found "
            f"{', '.join(short)}. A trial ends early when the samples of a generator are used up",
            SimulationWarning,
            stacklevel=5,
        )


def _portable(metric: Metric, declared: Metric) -> Metric:
    """The metric for all trials, with the real data as `declared`: joblib shares arrays, but would copy tensors."""
    data = declared.setting("reference")
    return metric if data is None else metric.model_copy(update={"reference": data})


def _set(metric: Metric) -> dict[str, Any]:
    return {name: metric.setting(name) for name in metric.model_fields_set}


def _not_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
