"""An experiment taken from an archive into the store."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress

from pydantic import ValidationError

from optimist.archive.file import Archive, ArchiveError
from optimist.dispatch.admission import check_fitted, check_maps, too_wide
from optimist.dispatch.views import View
from optimist.numerics.estimate import Estimate
from optimist.policies import check_policy
from optimist.settings import Settings
from optimist.store import Conflict, Look, Store
from optimist_client import tensors
from optimist_client.config import RULES
from optimist_client.models import Experiment, ReferenceInfo


async def import_archive(store: Store, settings: Settings, archive: Archive, name: str | None, instance: str) -> str:
    """Make an archive an experiment, called `name` if given; returns its name. Again with `instance` changes nothing.

    Raises ArchiveError where the archive contradicts itself, Conflict where a name is taken; nothing stays then.
    """
    old = archive.contents.experiment
    config = old.config if name is None else old.config.model_copy(update={"name": name})
    experiment = old.model_copy(update={"config": config, "instance": instance})
    look = await asyncio.to_thread(archive.look, instance)
    _check(experiment, look)
    if refusal := too_wide(experiment, settings.max_dimension):
        raise ArchiveError(refusal)
    reference = (
        None
        if config.setting("reference") is None
        else await asyncio.to_thread(_checked_reference, experiment, archive)
    )
    standing = await store.config(config.name)
    if standing is not None:
        found = Experiment.model_validate_json(standing)
        if found.instance == instance:
            return config.name
        raise Conflict(f"an experiment is called {config.name!r}: choose another name")
    await asyncio.to_thread(_check_maps, experiment, archive, settings.max_map)
    most = settings.max_experiments
    await store.reserve(config.name, most)
    if reference is not None:
        await _check_standing(store, reference[0])
    async with store.restoring(config.name) as restoration:
        for ordinal in range(len(look.generators)):
            snapshot = await asyncio.to_thread(archive.snapshot, ordinal)
            if snapshot is not None:
                await restoration.add_snapshot(ordinal, snapshot)
            pages = archive.log(ordinal)
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                await restoration.add_entries(ordinal, page, keep_log=look.keep_log)
        if reference is not None:
            info, body = reference
            await store.references.reserve(info.name, most)
            await store.references.put(info.name, info.model_dump_json(), body)
        await store.reserve(config.name, most)  # once more, as it may have taken long
        await restoration.commit(
            *(experiment.model_dump_json(), config.rescore_growth, look, archive.history, archive.fitted),
            sizes=archive.contents.sizes,
        )
    return config.name


def _check(experiment: Experiment, look: Look) -> None:
    """Raise ArchiveError unless all that is read of an experiment can be."""
    config, names = experiment.config, [generator.name for generator in look.generators]
    if names[: len(config.generators)] != config.generators or len(set(names)) < len(names):
        raise ArchiveError("the generators are not those of the config")
    if experiment.rules > RULES:
        raise ArchiveError(
            f"expected an experiment of rules up to {RULES}, found {experiment.rules}: a later service's"
        )
    try:
        check_policy(config.policy, config.bound)
        for generator in look.generators:
            sound = generator.estimate is None or Estimate.from_dict(json.loads(generator.estimate)).is_sound()
            if not sound or not generator.estimate_seq <= generator.due_seq:
                raise ValueError(f"the estimate of {generator.name!r} is none")
        view = View(experiment, look)
        view.report()
        float(view.max_wait)
        if not all(0 <= cost < math.inf for cost in [*view.costs.values(), view.max_cost or 0.0]):
            raise ValueError("a cost is none")
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise ArchiveError(f"the archive contradicts itself: {type(error).__name__}: {error}") from None


def _check_maps(experiment: Experiment, archive: Archive, most: int) -> None:
    """Raise ArchiveError where the kernels are larger than is allowed, or fixed by something else than samples."""
    fitted = archive.fitted
    try:
        check_maps(experiment.config, most)
        if fitted is not None:
            check_fitted(experiment, fitted)
    except ValueError as error:
        raise ArchiveError(str(error)) from None


def _checked_reference(experiment: Experiment, archive: Archive) -> tuple[ReferenceInfo, bytes]:
    """The reference that the experiment pinned. Raises ArchiveError where the archive's is another one."""
    text, body = archive.reference()
    with suppress(ValidationError, ValueError):
        info = ReferenceInfo.model_validate_json(text)
        arrays = tensors.decode(body)
        expected = (experiment.config.setting("reference"), experiment.reference_digest, experiment.reference_digest)
        d = experiment.dimension
        shapes = {name: array.shape for name, array in arrays.items()}
        is_it = (info.name, info.digest, tensors.digest(arrays)) == expected
        if is_it and info.dimension == d and shapes == {"mean": (d,), "covariance": (d, d)}:
            return info, body
    raise ArchiveError("the reference is not the one of the experiment")


async def _check_standing(store: Store, reference: ReferenceInfo) -> None:
    """Raise Conflict where the reference's name stands for other moments."""
    meta = await store.references.meta(reference.name)
    if meta is not None and ReferenceInfo.model_validate_json(meta).digest != reference.digest:
        raise Conflict(f"the reference {reference.name!r} has other moments here than the experiment was made with")
