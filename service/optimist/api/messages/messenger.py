"""The process that looks for news of experiments, and sends the messages about them, each once.

One API process of all looks: the one that has the lease of `Store.lead`. What it notices is a function of what is
stored, and every message is claimed in Redis before it is sent, and noted afterwards. So whoever looks next, after the
process has died, sends what was not noted, under the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimist.api.messages.outgoing import TIMEOUT, Webhook, body_of, post
from optimist.api.middleware.access import KeyRing
from optimist.experiments.events import IDLE, Kind, event_of, looked_at_again
from optimist.experiments.state import PolicyState
from optimist.insight.metrics import MESSAGES
from optimist.records import NotFound, StoreError
from optimist.settings import Settings
from optimist.store import name_of, namespace_of
from optimist.store.keys import COPIES
from optimist.store.messages import NewestChange

if TYPE_CHECKING:
    from optimist.api.app_state import AppState

CLAIM = 2 * TIMEOUT
"""Seconds after which a message that was claimed may be claimed again: its sender has ended by then, or died."""
PAUSES = (10.0, 60.0, 300.0, 1800.0, 7200.0)
"""Seconds between the attempts to send a message, of which there is one more: three hours in all."""
TOLD = 86_400.0
"""Seconds after which nobody is told of an event any more: a new webhook is not told of all that ever was."""
OWN, OF_SERVICE = "own", "service"
"""Receivers of a message: the webhook of its experiment, and the webhook of the service."""
OWN_PLACES = [f"{OWN}:{kind}" for kind in ("decided", "provisional", "out of budget", "idle")]
_log = logging.getLogger(__name__)


@dataclass
class LastLook:
    """An experiment as it was last looked at. `again`: when it may have an event though it does not change."""

    change: NewestChange
    again: float


class Messenger:
    """The messages of all namespaces, as far as this process sends them."""

    def __init__(
        self,
        app: AppState,
        keys: KeyRing,
        settings: Settings,
        *,
        period: float = 2.0,
        rest: float = 10.0,
        lease: int = 10,
    ) -> None:
        """period: seconds between two looks. rest: how many times as long as a look took nobody looks, so that a tenth
        of one process's time at most goes into looking. lease: seconds for which a process that has died keeps others
        from looking."""
        self._period, self._rest, self._lease = period, rest, lease
        self._app = app
        self._store = app.store
        self._keys = keys
        self._networks = settings.webhook_networks
        self._of_service: Webhook | None = None
        if settings.webhook is not None:
            hidden = settings.webhook_secret
            secret = None if hidden is None else hidden.get_secret_value()
            self._of_service = Webhook(url=settings.webhook, format=settings.webhook_format, secret=secret)
        self._who = uuid.uuid4().hex
        self._seen: dict[str, LastLook] = {}
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._lanes: dict[str, asyncio.Lock] = {}
        self._is_stopping = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Look and send while the context is open; what is being sent then is sent to its end."""
        looking = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._is_stopping = True
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            if self._sending:
                await asyncio.wait(self._sending.values(), timeout=TIMEOUT)

    async def _run(self) -> None:
        # The flag, as in `RedisHealth`: a call to Redis may swallow a cancellation.
        while not self._is_stopping:
            begun = time.monotonic()
            with contextlib.suppress(StoreError):  # what waits for Redis is looked at again
                if await self._store.lead(self._who, self._lease):
                    await self._look()
            await asyncio.sleep(max(self._period, self._rest * (time.monotonic() - begun)))

    async def _look(self) -> None:
        """Look at all experiments that have a webhook, and have changed since, or whose time has come."""
        names = await (self._store.with_webhooks() if self._of_service is None else self._store.indexed())
        names = [full for full in names if not namespace_of(full).endswith(COPIES)]
        self._seen = {full: self._seen[full] for full in names if full in self._seen}
        for start in range(0, len(names), 256):
            some = names[start : start + 256]
            for full, change in zip(some, await self._store.changes(some), strict=True):
                if change is not None and self._is_due(full, change):
                    await self._look_at(full, change)
            if not await self._store.lead(self._who, self._lease):
                return

    def _is_due(self, full: str, change: NewestChange) -> bool:
        now, seen = time.time(), self._seen.get(full)
        if seen is None or seen.change != change:
            return not change.at or change.at > now - IDLE - TOLD
        return now >= seen.again

    async def _look_at(self, full: str, change: NewestChange) -> None:
        """Begin to send what there is to tell of an experiment."""
        seen = self._seen[full] = LastLook(change, math.inf)
        app, name, now = self._app.in_namespace(namespace_of(full)), name_of(full), time.time()
        try:
            state = await app.latched_state(await app.experiment(name))
            changed = _changed(state, change)
            seen.again = looked_at_again(state, changed, now)
            event = event_of(state, changed, now)
            kept = {} if event is None else await self._store.messages(full)
        except NotFound:
            return
        except StoreError:
            del self._seen[full]
            raise
        except Exception:  # an experiment that cannot be read keeps no other waiting
            _log.exception("whether there is a message about %s cannot be found out", full)
            return
        if event is not None and event.at > now - TOLD:
            for whom, lane in ((OWN, namespace_of(full)), (OF_SERVICE, "")):
                place = f"{whom}:{event.kind}"
                if not (place in kept and kept[place].ends(event.id)) and (full, place) not in self._sending:
                    task = asyncio.create_task(self._send_in_turn(full, change, whom, event.kind, lane))
                    self._sending[full, place] = task
                    task.add_done_callback(lambda _, key=(full, place): self._sending.pop(key))

    async def _send_in_turn(self, full: str, change: NewestChange, whom: str, kind: Kind, lane: str) -> None:
        """Send a message of an experiment; one at a time of each namespace, so that slow receivers keep no others."""
        again = math.inf
        try:
            async with self._lanes.setdefault(lane, asyncio.Lock()):
                if not self._is_stopping:
                    again = await self._send(full, change, whom, kind)
        except NotFound:
            pass
        except StoreError:
            again = 0.0
        except Exception:
            _log.exception("the message that %s is %s cannot be made", full, kind)
        if (seen := self._seen.get(full)) is not None:
            seen.again = min(seen.again, again)

    async def _send(self, full: str, change: NewestChange, whom: str, kind: Kind) -> float:
        """Make one attempt to send a message, if it is due. Returns when to look again, in Unix seconds.

        What it says is of now: it may have waited long for its turn.
        """
        webhook = await self._webhook(full) if whom == OWN else self._of_service
        if webhook is None:
            return math.inf
        namespace, name = namespace_of(full), name_of(full)
        made = await self._app.in_namespace(namespace).polls.now(name)
        event = event_of(made.state, _changed(made.state, change), time.time())
        if event is None or event.kind != kind:
            return math.inf
        body, place, token = body_of(webhook, event, namespace, made.report), f"{whom}:{kind}", uuid.uuid4().hex
        instance = made.state.stored.instance
        claim = await self._store.claim_message(
            full, instance, place, event.id, token, seconds=CLAIM, max_attempts=len(PAUSES) + 1
        )
        if claim.outcome != "claimed":
            return claim.until or math.inf
        is_sent, note = await post(webhook, event.id, body, self._networks)
        outcome = "sent" if is_sent else "waits" if claim.attempts <= len(PAUSES) else "failed"
        pause = PAUSES[claim.attempts - 1] if outcome == "waits" else 0.0
        await self._store.end_message(full, instance, place, token, outcome, note, pause)
        MESSAGES.labels(outcome).inc()
        if whom == OF_SERVICE and outcome != "sent":
            _log.warning("the message that %s is %s was not sent to %s: %s", full, kind, webhook.host, note)
        return time.time() + pause if outcome == "waits" else math.inf

    async def _webhook(self, full: str) -> Webhook | None:
        """The webhook of an experiment; None without one, or where the key that set it has ended."""
        text = await self._store.webhook(full)
        webhook = None if text is None else Webhook.model_validate_json(text)
        return webhook if webhook is not None and await self._keys.lasts(webhook.maker) else None


def _changed(state: PolicyState, change: NewestChange) -> float:
    """Time of the last change of an experiment, in Unix seconds."""
    return max(change.at, state.stored.changed_at or state.experiment.created)
