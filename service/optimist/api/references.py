"""Routes of references: real-data moments, uploaded once and shared by experiments."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray

from optimist.api.bodies import ARRAYS_IN_OPENAPI, Arrays, read_arrays
from optimist.api.context import ContextDep, SettingsDep, StoreDep
from optimist.api.problems import ApiError, invalid
from optimist.batches import LARGEST, BatchError, moments
from optimist.plausibility import reference_scale
from optimist_client import tensors
from optimist_client.models import Identifier, ReferenceInfo
from optimist_client.wire import EmbeddingName

router = APIRouter(prefix="/v1/references", tags=["references"])


@router.post("", openapi_extra=ARRAYS_IN_OPENAPI)
async def create_reference(
    request: Request,
    context: ContextDep,
    store: StoreDep,
    settings: SettingsDep,
    name: Annotated[Identifier, Query(description="What experiments will call it")],
    samples: Annotated[int | None, Query(ge=1, description="How many real samples the moments come from")] = None,
    embedding: Annotated[EmbeddingName | None, Query(description="What made the features")] = None,
) -> ReferenceInfo:
    """Store moments (`mean` (d,) and `covariance` (d, d), or pytorch-fid's `mu` and `sigma`) or real `features` (n, d).

    The same moments again under the same name are accepted; others are refused with 409.
    """
    arrays = await read_arrays(request, settings)
    # Checking a 2048 × 2048 covariance takes a second: not on the event loop.
    dimension, digest, scale, body = await asyncio.to_thread(_stored, arrays, settings.max_dimension)
    await store.references.reserve(name, settings.max_experiments)
    info = ReferenceInfo(
        name=name,
        dimension=dimension,
        samples=len(arrays["features"]) if "features" in arrays else samples,
        embedding=embedding,
        digest=digest,
        scale=scale,
        created=time.time(),
    )
    async with context.vitals.room_for(len(body), lambda: store.references.is_there(name)):
        is_kept = await store.references.put(name, info.model_dump_json(), body)
    if not is_kept:
        standing = await stored_reference(store, name)
        check_embeddings(standing, embedding)
        return standing
    return info


@router.get("")
async def list_references(store: StoreDep) -> list[ReferenceInfo]:
    """All references, oldest first."""
    return [ReferenceInfo.model_validate_json(meta) for meta in (await store.references.all()).values()]


@router.get("/{name}")
async def get_reference(name: Identifier, store: StoreDep) -> ReferenceInfo:
    """One reference's dimension, origin and digest."""
    return await stored_reference(store, name)


async def stored_reference(store: StoreDep, name: str) -> ReferenceInfo:
    """The reference called `name`. Raises `ApiError` 404."""
    meta = await store.references.meta(name)
    if meta is None:
        raise ApiError(404, "not-found", "Not found", f"no reference is called {name!r}: upload it first")
    return ReferenceInfo.model_validate_json(meta)


def check_embeddings(reference: ReferenceInfo, embedding: str | None) -> None:
    """Raise `ApiError` 409 where a reference is known to be of another embedding than the one named."""
    if embedding is not None and reference.embedding not in (None, embedding):
        raise ApiError(
            409,
            "conflict",
            "Features of two embeddings cannot be compared",
            f"reference {reference.name!r} is of embedding {reference.embedding!r}, not of {embedding!r}",
        )


def _stored(arrays: Arrays, max_dimension: int) -> tuple[int, str, float, bytes]:
    """Dimension, digest, scale and stored form of the moments in these arrays. Raises `ApiError` 422."""
    mean, covariance = _moments(arrays, max_dimension)
    stored: Arrays = {"mean": mean, "covariance": covariance}
    return len(mean), tensors.digest(stored), reference_scale(mean, covariance), tensors.encode(stored)


def _moments(arrays: Arrays, max_dimension: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    names = set(arrays)
    if names == {"features"}:
        try:
            mean, covariance = moments("features", arrays["features"])
        except BatchError as error:
            raise invalid(str(error)) from None
    elif names == {"mean", "covariance"}:
        mean, covariance = arrays["mean"].astype(np.float64), arrays["covariance"].astype(np.float64)
    elif names == {"mu", "sigma"}:
        mean, covariance = arrays["mu"].astype(np.float64), arrays["sigma"].astype(np.float64)
    else:
        found = ", ".join(sorted(names)) or "nothing"
        raise invalid(f"expected mean and covariance, mu and sigma, or features; found {found}")
    _check(mean, covariance, max_dimension)
    return mean, (covariance + covariance.T) / 2.0


def _check(mean: NDArray[np.float64], covariance: NDArray[np.float64], max_dimension: int) -> None:
    if mean.ndim != 1 or not 1 <= len(mean) <= max_dimension:
        raise invalid(f"mean: expected shape (d,) with d from 1 to {max_dimension}, got {mean.shape}")
    d = len(mean)
    if covariance.shape != (d, d):
        raise invalid(f"covariance: expected shape ({d}, {d}) to go with the mean, got {covariance.shape}")
    with np.errstate(invalid="ignore"):
        if not ((np.abs(mean) <= LARGEST).all() and (np.abs(covariance) <= LARGEST**2).all()):
            raise invalid(f"expected finite moments, the mean at most {LARGEST:g} in size; found NaN, infinity or more")
    scale = float(np.abs(covariance).max())
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=1e-6 * scale):
        raise invalid("covariance: expected a symmetric matrix")
    least = float(np.linalg.eigvalsh(covariance)[0])
    if least < -1e-5 * scale:
        raise invalid(f"covariance: expected no negative eigenvalue, found {least:g}")
