"""The references of an experiment in an archive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from pydantic import ValidationError

from optimist.archive.file import Archive
from optimist.experiments.admission import columns_of
from optimist.numerics.real_data import RealData, moments_of_features
from optimist.records import Conflict
from optimist.store import Store
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.models import Experiment, ExperimentConfig, ReferenceInfo


def references_of(config: ExperimentConfig) -> list[str]:
    """The names of the references of all metrics, that of the metric that decides first."""
    named = (metric.setting("reference") for metric in config.metrics.values())
    return list(dict.fromkeys(name for name in named if name is not None))


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
    found, lacking = list[ReferenceInfo](), list[ReferenceInfo]()
    for name in names:
        meta = await store.references.meta(name)
        if meta is None:
            lacking.append(await asyncio.to_thread(_checked, experiment, archive, name))
        found.append(lacking[-1] if meta is None else ReferenceInfo.model_validate_json(meta))
        if found[-1].digest != experiment.references[name]:
            raise Conflict(f"the stored reference {name!r} has other contents than that of the experiment")
    return found, lacking


def check_columns(experiment: Experiment, references: Sequence[ReferenceInfo]) -> None:
    """Raise FixError unless the columns of its arrays are those of its metrics and these references."""
    known = {info.name: info.dimension for info in references}
    named = {label: metric.setting("reference") for label, metric in experiment.config.metrics.items()}
    try:
        expected = columns_of(experiment.config, {label: known[name] for label, name in named.items() if name})
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
    """Whether these are the moments of the rows, which alone the digest covers."""
    found = moments_of_features("features", rows)
    size = float(np.abs(rows).max())
    return np.allclose(found[0], mean, rtol=0, atol=1e-9 * size) and np.allclose(
        found[1], covariance, rtol=0, atol=1e-9 * size**2
    )
