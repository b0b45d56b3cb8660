"""Imports an experiment from an archive into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import pairwise

import numpy as np
from pydantic import TypeAdapter, ValidationError

from optimist.archive.contents import RESTARTS
from optimist.archive.exporting import references_of
from optimist.archive.file import Archive
from optimist.estimates.estimate import Estimate
from optimist.experiments.admission import check_fitted, check_maps, columns_of, too_wide
from optimist.experiments.outlines import labels_of
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import (
    COST,
    NAMED_COPIES,
    Conflict,
    ExperimentState,
    GeneratorState,
    LogEntry,
    codec,
    joined,
    returned_limit,
)
from optimist.references.real_data import RealData, moments_of_features
from optimist.settings import Settings
from optimist.store import Store
from optimist.store.experiments import CONTROLS, traits_of
from optimist.store.references import CHUNK_BYTES, giving_way
from optimist.store.retractions import MAX_RETRACTED
from optimist.store.scores import QUARANTINE_LIMIT
from optimist_client import tensors
from optimist_client.errors import FixError, reason
from optimist_client.models import Experiment, ExperimentChange, ReferenceInfo
from optimist_client.wire import Cost


async def checked_references(
    store: Store, experiment: Experiment, archive: Archive
) -> tuple[list[ReferenceInfo], list[ReferenceInfo]]:
    """All references of the experiment, and those among them that the store does not have.

    Only the latter are read from the archive, one at a time. Raises FixError if the archive holds others than the
    experiment was created with, Conflict if the store does.
    """
    names = references_of(experiment.config)
    if set(experiment.references) != set(names):
        raise FixError(f"expected the digests of the references {names}, found {list(experiment.references)[:20]}")
    references, lacking = list[ReferenceInfo](), list[ReferenceInfo]()
    for name in names:
        meta = await store.references.meta(name)
        if meta is None:
            lacking.append(await asyncio.to_thread(_checked, experiment, archive, name))
        references.append(lacking[-1] if meta is None else ReferenceInfo.model_validate_json(meta))
        if references[-1].digest != experiment.references[name]:
            raise Conflict(f"the stored reference {name!r} differs from the reference of the experiment")
    return references, lacking


async def check_staying(store: Store, experiment: Experiment) -> None:
    """Raise Conflict unless the store has the references of the experiment, unchanged, and nobody is deleting them.

    The experiment's name must be reserved: its references then stay as long as the reservation.
    """
    metas = await store.references.staying(list(experiment.references))
    for (name, digest), meta in zip(experiment.references.items(), metas, strict=True):
        if meta is None or ReferenceInfo.model_validate_json(meta).digest != digest:
            raise Conflict(f"reference {name!r} was deleted meanwhile")


def check_columns(experiment: Experiment, references: Sequence[ReferenceInfo]) -> None:
    """Raise FixError unless the experiment's columns are the columns of its metrics and these references."""
    dimensions = {info.name: info.dimension for info in references}
    named = {label: metric.setting("reference") for label, metric in experiment.config.metrics.items()}
    try:
        expected = columns_of(experiment.config, {label: dimensions[name] for label, name in named.items() if name})
    except ValueError as error:
        raise FixError(f"the archive is inconsistent: {error}") from None
    if experiment.columns != expected:
        raise FixError(f"the archive is inconsistent: expected columns {expected}, found {experiment.columns}")


def _checked(experiment: Experiment, archive: Archive, name: str) -> ReferenceInfo:
    text, body = archive.reference(name)
    with suppress(ValidationError, ValueError):
        info = ReferenceInfo.model_validate_json(text)
        d, arrays = info.dimension, tensors.decode(body)
        rows = arrays.pop("features", None)
        digest = tensors.digest(arrays if rows is None else {"features": rows})
        is_it = info.name == name and info.digest == digest == experiment.references.get(name)
        data = RealData.from_arrays(arrays)
        has_shape = (data.mean.shape, data.covariance.shape) == ((d,), (d, d))
        samples = data.samples if rows is None else len(rows)
        has_rows = rows is None or (len(arrays) == 2 and _are_moments(rows, data.mean, data.covariance))
        if is_it and has_shape and info.samples == samples and has_rows:
            return info
    raise FixError("the archive's reference is not the one that the experiment was created with")


def _are_moments(rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> bool:
    """True if the rows, which the digest covers, have these moments."""
    moments = moments_of_features("features", rows)
    size = float(np.abs(rows).max())
    return np.allclose(moments[0], mean, rtol=0, atol=1e-9 * size) and np.allclose(
        moments[1], covariance, rtol=0, atol=1e-9 * size**2
    )


async def import_archive(
    store: Store,
    settings: Settings,
    archive: Archive,
    name: str | None,
    instance: str,
    room_for: Callable[[int], AbstractAsyncContextManager[None]],
) -> str:
    """Create an experiment from an archive, called `name` if given, and return its name.

    room_for: a context for storing so many bytes; it raises where there is too little room, and nothing is stored then.
    A repeated call with the same `instance` changes nothing.
    Raises FixError if the archive is inconsistent, Conflict if a name is taken; nothing is stored then.
    """
    contents = await asyncio.to_thread(lambda: archive.contents)
    if len(contents.generators) > settings.max_generators:
        raise FixError(f"expected at most {settings.max_generators} generators, found {len(contents.generators)}")
    old = contents.experiment
    config = old.config if name is None else old.config.model_copy(update={"name": name})
    experiment = old.model_copy(update={"config": config, "instance": instance})
    try:
        stored = await asyncio.to_thread(archive.state, instance)
    except (ValueError, KeyError) as error:
        raise FixError(f"the archive is inconsistent: {error}") from None
    await asyncio.to_thread(_check, experiment, stored)
    if refusal := too_wide(experiment, settings.max_dimension):
        raise FixError(refusal)
    references, lacking = await checked_references(store, experiment, archive)
    check_columns(experiment, references)
    standing = await store.config(config.name)
    if standing is not None:
        existing = Experiment.model_validate_json(standing)
        if existing.instance == instance:
            return config.name
        raise Conflict(f"an experiment named {config.name!r} already exists: choose another name")
    await asyncio.to_thread(_check_maps, experiment, archive, settings.max_map)
    limit = settings.max_experiments
    async with store.restoring(config.name) as restoration:
        for ordinal in range(len(stored.generators)):
            for label in archive.labels:
                snapshot = await asyncio.to_thread(archive.snapshot, ordinal, label)
                if snapshot is not None:
                    async with room_for(len(snapshot.body)):
                        await restoration.add_snapshot(ordinal, snapshot, label)
            pages = archive.log(ordinal)
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                for part in _parted(page):
                    async with giving_way(), room_for(sum(entry.size for entry in part)):
                        await restoration.add_entries(
                            ordinal, part, keep_log=stored.keep_log, restart=stored.generators[ordinal].restart
                        )
        await store.reserve(config.name, limit)  # only now, as a place that is not taken stays reserved for a minute
        for info in lacking:
            _, body = await asyncio.to_thread(archive.reference, info.name)
            await store.references.reserve(info.name, limit)
            async with room_for(len(body)):
                await store.references.put(info.name, info.model_dump_json(), body)
        await store.reserve(config.name, limit)  # anew, as large references may have taken longer than the minute
        await check_staying(store, experiment)
        text = experiment.model_dump_json()
        said = await asyncio.to_thread(lambda: archive.said)
        async with room_for(len(text) + len(archive.history)):
            await restoration.add_checks(contents.sizes, [generator.levels for generator in contents.generators])
            await restoration.commit(
                *(text, config.rescore_growth, stored, archive.history, _fitted(archive), said),
                **traits_of(experiment),
            )
    return config.name


def _parted(page: Sequence[LogEntry]) -> Iterator[list[LogEntry]]:
    """The entries of a page in parts of about `CHUNK_BYTES`: Redis serves no other client while it receives one."""
    part: list[LogEntry] = []
    size = 0
    for entry in page:
        part.append(entry)
        size += entry.size
        if size >= CHUNK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _fitted(archive: Archive) -> dict[str, bytes]:
    """The fitted parts of the kernels of all metrics that have some, by label."""
    parts = {label: archive.fitted(label) for label in archive.labels}
    return {label: fitted for label, fitted in parts.items() if fitted is not None}


def _check(experiment: Experiment, stored: ExperimentState) -> None:
    """Raise FixError unless every part of the experiment is valid."""
    config, names = experiment.config, [generator.name for generator in stored.generators]
    if names[: len(config.generators)] != config.generators or len(set(names)) < len(names):
        raise FixError("the generators do not match the config")
    experiment.check_rules()
    try:
        for generator in stored.generators:
            ends = [end for interval in generator.told for end in interval]
            if any(end <= before for before, end in pairwise(ends)):
                raise FixError(f"the told indices of {generator.name!r} are not disjoint intervals in order")
            if tuple(generator.units) != stored.labels:
                raise FixError("the metrics do not match the config")
            for unit in generator.units.values():
                sound = unit.estimate is None or _is_sound(unit.estimate, generator)
                if not sound or not unit.estimate_seq <= generator.due_seq:
                    raise FixError(f"an estimate of {generator.name!r} is not valid")
        _check_counts(experiment, stored)
        state = PolicyState(experiment, stored)
        report_of(state)
        _check_controls(state, names)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FixError(f"the archive is inconsistent: {reason(error)[:1000]}") from None


def _is_sound(text: str, generator: GeneratorState) -> bool:
    """True if a scorer could have made the estimate of a generator's samples."""
    estimate = codec.decode(Estimate, text)
    pairing = estimate.pairing
    return (
        estimate.is_sound()
        and type(estimate.samples) is int
        and 2 <= estimate.samples <= generator.samples + generator.retracted
        and len(estimate.warnings) <= 64  # far more than there are
        and (pairing is None or pairing.could_be_of(estimate.samples))
    )


def _check_counts(experiment: Experiment, stored: ExperimentState) -> None:
    """Raise FixError where the archive exceeds a limit of the service, or names something that does not exist."""
    generators, count = stored.generators, len(stored.generators)
    kept = {
        "batches that cannot be read": (sum(len(generator.quarantined) for generator in generators), QUARANTINE_LIMIT),
        "copied batches": (sum(len(generator.named_copies) for generator in generators), NAMED_COPIES),
        "retractions of single batches": (
            sum(r.position > 0 for g in generators for r in g.retractions),
            MAX_RETRACTED,
        ),
        "retractions of whole generators": (sum(not r.position for g in generators for r in g.retractions), RESTARTS),
    }
    for what, (size, limit) in kept.items():
        if size > limit:
            raise FixError(f"{what}: expected at most {limit}, found {size}")
    for generator in generators:
        if generator.returned != joined(generator.returned):
            raise FixError(
                f"indices of {generator.name!r} that were returned: expected runs that do not touch, ascending"
            )
        if len(generator.returned) > (limit := returned_limit(count)):
            raise FixError(f"indices of {generator.name!r} that were returned: expected at most {limit} runs")
        for duplicate, agree in generator.duplicates.items():
            if not generator.ordinal < duplicate < count or agree > stored.told:
                raise FixError(f"duplicates of {generator.name!r}: expected later generators, and at most all batches")
    for g in generators:
        unreadable, copies = ([entry.seq for entry in entries] for entries in (g.quarantined, g.named_copies))
        named = {*unreadable, *copies}
        if unreadable != sorted(set(unreadable)) or copies != sorted(set(copies)):
            raise FixError(f"expected the batches of {g.name!r} that cannot be read, and the copies, in order")
        if max(named, default=0) > g.seq or max(g.quarantined_count, g.copies) > g.seq:
            raise FixError(f"expected no more than the {g.seq} entries of the log of {g.name!r}")
    if experiment.bandwidths or not set(experiment.scales) <= set(experiment.columns):
        raise FixError("the scales do not match the arrays of the metrics")


def _check_controls(state: PolicyState, names: Sequence[str]) -> None:
    """Raise FixError unless every control could have been set."""
    controls = state.stored.controls
    allowed = CONTROLS | {f"{COST}{name}" for name in names}
    if unknown := sorted(set(controls) - allowed):
        raise FixError(f"controls: expected the controls of the experiment, found {unknown[0][:100]!r}")
    labels_of(state.config, controls)
    costs = TypeAdapter(list[Cost]).validate_python(list(state.costs.values()))
    if len(costs) > len(names):
        raise FixError("costs: expected a cost for each of the generators")
    ExperimentChange(
        budget=state.budget if "budget" in controls else None,
        max_cost=state.max_cost if "max_cost" in controls else None,
        max_wait=state.max_wait,
    )


def _check_maps(experiment: Experiment, archive: Archive, max_map: int) -> None:
    """Raise FixError if the feature maps are too large, or the fitted parts do not match the config."""
    check_maps(experiment, max_map)
    for label, metric in experiment.config.metrics.items():
        fitted = archive.fitted(label)
        if fitted is not None:
            check_fitted(experiment, metric, fitted)
