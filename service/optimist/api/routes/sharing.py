"""Routes of shares: viewer keys for one experiment that an admin makes, lists and revokes."""

from __future__ import annotations

from fastapi import APIRouter

from optimist.api.bodies.objects import ModelRoute
from optimist.api.context import ContextDep
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.keys import Caller, KeyRecord, make_key
from optimist.records import NotFound
from optimist_client.models import Identifier, Share, ShareRequest, Shares

router = APIRouter(prefix="/v1/experiments/{name}/shares", tags=["access"], route_class=ModelRoute)


@router.post("")
async def share(name: Identifier, context: ContextDep, caller: CallerDep, request: ShareRequest) -> Share:
    """Make a key that lets others look at this experiment alone, until it expires or is revoked.

    It is good for no longer than the caller's own key: where that is revoked or expires, the share ends, too.
    """
    await context.experiment(name)
    id_, key, record = make_key(
        "viewer",
        caller.namespace,
        (name,),
        request.note,
        lasts=request.seconds,
        previews=request.previews,
        maker=caller.key,
    )
    await context.store.access_keys.put(id_, record.model_dump_json())
    return _share(id_, record, key)


@router.get("")
async def get_shares(name: Identifier, context: ContextDep, caller: CallerDep) -> Shares:
    """The shares of this experiment that have not expired, without their keys, the newest first."""
    await context.experiment(name)
    found = [_share(id_, record) for id_, record in (await _shared(context, caller, name)).items()]
    return Shares(shares=sorted(found, key=lambda one: -one.created))


@router.delete("/{id}", status_code=204)
async def revoke_share(name: Identifier, id: str, context: ContextDep, caller: CallerDep) -> None:
    """Revoke a share: its key is refused within five seconds. Answers 404 for another id."""
    if id not in await _shared(context, caller, name):
        raise NotFound(f"experiment {name!r} has no share {id!r}")
    await context.store.access_keys.remove(id)


async def _shared(context: ContextDep, caller: Caller, name: str) -> dict[str, KeyRecord]:
    known = {id_: KeyRecord.model_validate_json(text) for id_, text in (await context.store.access_keys.all()).items()}
    return {
        id_: record
        for id_, record in known.items()
        if record.maker is not None
        and (record.namespace, record.experiments) == (caller.namespace, (name,))
        and not record.has_expired
    }


def _share(id_: str, record: KeyRecord, key: str | None = None) -> Share:
    assert record.expires is not None
    return Share(
        id=id_, key=key, created=record.created, expires=record.expires, previews=record.previews, note=record.note
    )
