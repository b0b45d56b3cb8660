"""Routes of an experiment's webhook: where messages about it go."""

from __future__ import annotations

import base64
import secrets

from fastapi import APIRouter

from optimist.api.app_state import AppState, AppStateDep
from optimist.api.bodies.objects import ModelRoute
from optimist.api.messages.messenger import OWN, OWN_PLACES
from optimist.api.messages.outgoing import Webhook
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.permissions import ADMINISTER, permits
from optimist.records import NotFound
from optimist_client.models import Identifier, MessageInfo, WebhookInfo, WebhookRequest

router = APIRouter(prefix="/v1/experiments/{name}/webhook", tags=["access"], route_class=ModelRoute)


@router.put("")
@permits(ADMINISTER)
async def set_webhook(name: Identifier, app: AppStateDep, caller: CallerDep, request: WebhookRequest) -> WebhookInfo:
    """Send a message about this experiment to a URL when it is decided, provisional, out of budget, or idle for a day.

    It replaces the one before, and ends with the caller's own key. Another one is told of what came about within a day.
    At most 1,000 experiments of a namespace have one: 422 beyond.
    """
    experiment = await app.experiment(name)
    made = None
    if request.secret is None and request.format == "json":
        made = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    webhook = Webhook(url=request.url, format=request.format, secret=request.secret or made, maker=caller.key)
    record = webhook.model_dump_json()
    async with app.redis_health.room_for(len(record)):
        # Few, as the service looks at each of them every few seconds.
        await app.store.put_webhook(name, experiment.instance, record, OWN_PLACES, limit=1_000)
    return await _info(app, name, webhook, made)


@router.get("")
@permits(ADMINISTER)
async def get_webhook(name: Identifier, app: AppStateDep) -> WebhookInfo:
    """The receiver of messages about this experiment, and the outcome of the newest of each kind. 404 without one."""
    if (text := await app.store.webhook(name)) is None:
        raise NotFound(f"experiment {name!r} has no webhook")
    return await _info(app, name, Webhook.model_validate_json(text))


@router.delete("", status_code=204)
@permits(ADMINISTER)
async def remove_webhook(name: Identifier, app: AppStateDep) -> None:
    """Send no more messages about this experiment. Answers 404 if it has no webhook."""
    if not await app.store.remove_webhook(name, OWN_PLACES):
        raise NotFound(f"experiment {name!r} has no webhook")


async def _info(app: AppState, name: str, webhook: Webhook, made: str | None = None) -> WebhookInfo:
    kept = await app.store.messages(name)
    messages = [(place.partition(":"), one) for place, one in sorted(kept.items())]
    return WebhookInfo(
        host=webhook.host,
        format=webhook.format,
        secret=made,
        messages=[
            MessageInfo.model_validate({"event": event, **one._asdict()})
            for (whom, _, event), one in messages
            if whom == OWN
        ],
    )
