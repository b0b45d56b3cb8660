"""Routes of shares: viewer keys for one experiment that an admin makes, lists and revokes."""

from __future__ import annotations

from fastapi import APIRouter

from optimist.api.app_state import AppState, AppStateDep
from optimist.api.bodies.objects import ModelRoute
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.keys import ShareRecord, make_share
from optimist.api.middleware.permissions import ADMINISTER, permits
from optimist.records import NotFound
from optimist_client.models import Identifier, Share, ShareRequest, Shares

router = APIRouter(prefix="/v1/experiments/{name}/shares", tags=["access"], route_class=ModelRoute)


@router.post("")
@permits(ADMINISTER)
async def share(name: Identifier, app: AppStateDep, caller: CallerDep, request: ShareRequest) -> Share:
    """Make a key that lets others look at this experiment alone, until it expires or is revoked.

    It ends with the experiment, and with the caller's own key. An experiment has at most 100 shares: 422 beyond.
    """
    experiment = await app.experiment(name)
    await _live(app, name)
    id_, key, record = make_share(
        caller.namespace,
        name,
        request.note,
        lasts=request.seconds,
        previews=request.previews,
        maker=caller.key,
    )
    # Few, as every request by a share reads them.
    await app.store.put_share(name, experiment.instance, id_, record.model_dump_json(), request.seconds, 100)
    return _share(id_, record, key)


@router.get("")
@permits(ADMINISTER)
async def get_shares(name: Identifier, app: AppStateDep) -> Shares:
    """The shares of this experiment that have not expired, without their keys, the newest first."""
    await app.experiment(name)
    shares = [_share(id_, record) for id_, record in (await _live(app, name)).items()]
    return Shares(shares=sorted(shares, key=lambda share: -share.created))


@router.delete("/{id}", status_code=204)
@permits(ADMINISTER)
async def revoke_share(name: Identifier, id: str, app: AppStateDep) -> None:
    """Revoke a share: its key is refused from now on. Answers 404 for another id."""
    if not await app.store.remove_shares(name, [id]):
        raise NotFound(f"experiment {name!r} has no share {id!r}")


async def _live(app: AppState, name: str) -> dict[str, ShareRecord]:
    """The shares that have not expired, by id. Those that have are removed."""
    records = {id_: ShareRecord.model_validate_json(text) for id_, text in (await app.store.shares(name)).items()}
    if expired := [id_ for id_, record in records.items() if record.has_expired]:
        await app.store.remove_shares(name, expired)
    return {id_: record for id_, record in records.items() if id_ not in expired}


def _share(id_: str, record: ShareRecord, key: str | None = None) -> Share:
    assert record.expires is not None
    return Share(
        id=id_, key=key, created=record.created, expires=record.expires, previews=record.previews, note=record.note
    )
