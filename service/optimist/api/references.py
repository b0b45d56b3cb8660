"""What routes ask of stored references."""

from __future__ import annotations

from optimist.api.problems import ApiError, invalid
from optimist.records import Conflict
from optimist.store import Store
from optimist_client.metrics import Metric
from optimist_client.models import ReferenceInfo


async def standing_reference(store: Store, name: str) -> ReferenceInfo | None:
    """The reference called `name`; None if there is none."""
    meta = await store.references.meta(name)
    return None if meta is None else ReferenceInfo.model_validate_json(meta)


async def stored_reference(store: Store, name: str) -> ReferenceInfo:
    """The reference called `name`. Raises `ApiError` 404."""
    reference = await standing_reference(store, name)
    if reference is None:
        raise ApiError(404, "not-found", "Not found", f"no reference is called {name!r}: upload it first")
    return reference


def check_embeddings(reference: ReferenceInfo, embedding: str | None) -> None:
    """Raise `ApiError` 409 if the reference is known to have another embedding than the given one."""
    if embedding is not None and reference.embedding not in (None, embedding):
        raise ApiError(
            409,
            "conflict",
            "Features of two embeddings cannot be compared",
            f"reference {reference.name!r} is of embedding {reference.embedding!r}, not of {embedding!r}",
        )


def check_same(standing: ReferenceInfo, digest: str, embedding: str | None) -> None:
    """Raise Conflict, or `ApiError` 409, if a reference is another one than the one that is uploaded."""
    if standing.digest != digest:
        raise Conflict(f"a reference named {standing.name!r} exists with other contents: choose another name")
    check_embeddings(standing, embedding)


def check_rows_kept(reference: ReferenceInfo, metric: Metric) -> None:
    """Raise `ApiError` 422 if a metric compares with the rows of a reference that holds none."""
    if metric.reference_rows and reference.rows is None:
        raise invalid(
            f"reference: {metric.shown_label!r} compares with rows, and {reference.name!r} holds only moments: "
            "upload the features with their rows kept, under another name"
        )
