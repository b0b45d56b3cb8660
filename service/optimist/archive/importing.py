"""Imports an experiment from an archive into the store."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from itertools import pairwise

from optimist.archive.file import Archive, ArchiveError
from optimist.archive.references import check_columns, checked_references, lacking
from optimist.dispatch.admission import check_fitted, check_maps, too_wide
from optimist.dispatch.report import report_of
from optimist.dispatch.state import PolicyState
from optimist.dispatch.watched import WatchedEstimates
from optimist.numerics.estimate import Estimate
from optimist.policies import check_policy
from optimist.settings import Settings
from optimist.store import Conflict, ExperimentState, KeptLevel, Store, Unit, WatchedState
from optimist_client.models import Experiment


async def import_archive(store: Store, settings: Settings, archive: Archive, name: str | None, instance: str) -> str:
    """Create an experiment from an archive, called `name` if given, and return its name.

    A repeated call with the same `instance` changes nothing.
    Raises ArchiveError if the archive is inconsistent, Conflict if a name is taken; nothing is stored then.
    """
    old = archive.contents.experiment
    config = old.config if name is None else old.config.model_copy(update={"name": name})
    experiment = old.model_copy(update={"config": config, "instance": instance})
    try:
        stored = await asyncio.to_thread(archive.state, instance)
    except (ValueError, KeyError) as error:
        raise ArchiveError(f"the archive is inconsistent: {error}") from None
    watched = archive.watched()
    _check(experiment, stored, watched)
    if refusal := too_wide(experiment, settings.max_dimension):
        raise ArchiveError(refusal)
    references = await asyncio.to_thread(checked_references, experiment, archive)
    check_columns(experiment, references)
    standing = await store.config(config.name)
    if standing is not None:
        found = Experiment.model_validate_json(standing)
        if found.instance == instance:
            return config.name
        raise Conflict(f"an experiment named {config.name!r} already exists: choose another name")
    await asyncio.to_thread(_check_maps, experiment, archive, settings.max_map)
    most = settings.max_experiments
    await store.reserve(config.name, most)
    references = await lacking(store, references)
    async with store.restoring(config.name) as restoration:
        for ordinal in range(len(stored.generators)):
            for label in ("", *archive.labels):
                snapshot = await asyncio.to_thread(archive.snapshot, ordinal, label)
                if snapshot is not None:
                    await restoration.add_snapshot(ordinal, snapshot, label)
            pages = archive.log(ordinal)
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                await restoration.add_entries(ordinal, page, keep_log=stored.keep_log)
        for info, body in references:
            await store.references.reserve(info.name, most)
            await store.references.put(info.name, info.model_dump_json(), body)
        await store.reserve(config.name, most)  # again, because the import may have taken long
        await restoration.commit(
            *(experiment.model_dump_json(), config.rescore_growth, stored, archive.history, _fitted(archive)),
            sizes=archive.contents.sizes,
            levels=[[KeptLevel.of(*level) for level in one.levels] for one in archive.contents.generators],
            batch_size=config.batch_size if experiment.is_indexed else None,
            watched=watched,
        )
    return config.name


def _fitted(archive: Archive) -> dict[str, bytes]:
    """The fitted parts of the kernels of all metrics that have some, by label."""
    found = {label: archive.fitted(label) for label in ("", *archive.labels)}
    return {label: fitted for label, fitted in found.items() if fitted is not None}


def _check(experiment: Experiment, stored: ExperimentState, watched: Mapping[Unit, WatchedState]) -> None:
    """Raise ArchiveError unless every part of the experiment is valid."""
    config, names = experiment.config, [generator.name for generator in stored.generators]
    if names[: len(config.generators)] != config.generators or len(set(names)) < len(names):
        raise ArchiveError("the generators do not match the config")
    try:
        experiment.check_rules()
    except ValueError as error:
        raise ArchiveError(f"{error}") from None
    try:
        if config.goal == "best":  # the policies of mixtures are checked with the config
            check_policy(config.policy, config.bound, type(config.metric))
        if set(watched) != {(generator.ordinal, label) for generator in stored.generators for label in stored.labels}:
            raise ValueError("the watched metrics do not match the config")
        for generator in stored.generators:
            ends = [end for interval in generator.told for end in interval]
            if any(end <= before for before, end in pairwise(ends)):
                raise ValueError(f"the told indices of {generator.name!r} are not disjoint intervals in order")
            for known in (generator, *(watched[generator.ordinal, label] for label in stored.labels)):
                sound = known.estimate is None or Estimate.from_dict(json.loads(known.estimate)).is_sound()
                if not sound or not known.estimate_seq <= generator.due_seq:
                    raise ValueError(f"an estimate of {generator.name!r} is not valid")
        state = PolicyState(experiment, stored)
        report_of(state, watched=WatchedEstimates(watched))
        if not all(0 <= cost < math.inf for cost in [*state.costs.values(), state.max_cost or 0.0]):
            raise ValueError("a cost is negative or not finite")
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise ArchiveError(f"the archive is inconsistent: {type(error).__name__}: {error}") from None


def _check_maps(experiment: Experiment, archive: Archive, most: int) -> None:
    """Raise ArchiveError if the feature maps are too large, or the fitted parts do not match the config."""
    metrics = ("", *archive.labels), experiment.config.metrics.values()
    try:
        check_maps(experiment, most)
        for label, metric in zip(*metrics, strict=True):
            fitted = archive.fitted(label)
            if fitted is not None:
                check_fitted(experiment, metric, fitted)
    except ValueError as error:
        raise ArchiveError(str(error)) from None
