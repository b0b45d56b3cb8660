"""Who calls: found out before anything of a request's body is read, and turned away where that is not allowed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimist.api.door import permissions as doors
from optimist.api.door.keys import Caller, KeyRecord, caller_of, split_key
from optimist.api.door.rates import Rates
from optimist.api.problems import ApiError, problem_of, respond
from optimist.settings import is_loopback
from optimist.store import DEFAULT_NAMESPACE, StoreError
from optimist.store.access import AccessKeys

logger = logging.getLogger(__name__)

COOKIE = "optimist_key"
FRESH = 5.0
"""Seconds for which the keys are taken to be as they were read: a revoked one is good for no longer than that."""
SINGLE = (b"authorization", b"host", b"origin")
"""Headers that come once: of two, a proxy may have gone by the one and this service by the other."""
ANYBODY = Caller("", DEFAULT_NAMESPACE, "admin")
"""Who calls a service that is open."""


class KeyRing:
    """The keys as Redis has them, all read anew every few seconds; between, only one that is not among them asks Redis.

    So no request waits for Redis to be checked, and a new key is good at once.
    """

    def __init__(self, keys: AccessKeys) -> None:
        self._keys = keys
        self._records: dict[str, KeyRecord] = {}
        self._read_at = -FRESH
        self._reading = asyncio.Lock()

    async def caller(self, key: str) -> Caller | None:
        """Who holds this key; None for one that is none. Raises `Unavailable` where the keys cannot be read."""
        parts = split_key(key)
        if parts is None:
            return None
        id_, secret = parts
        if self._are_old:
            async with self._reading:
                if self._are_old:
                    begun = time.monotonic()
                    self._records = _parsed(await self._keys.all())
                    self._read_at = begun
        if id_ not in self._records and (text := await self._keys.get(id_)) is not None:
            self._records |= _parsed({id_: text})
        record = self._records.get(id_)
        return None if record is None else caller_of(id_, secret, record)

    @property
    def _are_old(self) -> bool:
        return time.monotonic() - self._read_at >= FRESH


def _parsed(texts: Mapping[str, str]) -> dict[str, KeyRecord]:
    records = {}
    for id_, text in texts.items():
        try:
            records[id_] = KeyRecord.model_validate_json(text)
        except ValidationError:
            logger.error("access key %s cannot be read, and is good for nothing", id_)
    return records


class Access:
    """ASGI middleware that leaves a request's `Caller` in its scope, or answers 400, 401, 403, 404 or 429 itself.

    keys: whether callers need one; without, those who show none are `ANYBODY`. local: whether only those of this
    machine can mean this service, so that requests for other hosts' names come from a page that plays a trick.
    rate: requests a second that each key has, None for any number.
    """

    def __init__(self, app: ASGIApp, *, keys: bool, local: bool, rate: float | None) -> None:
        self._app = app
        self._needs_key = keys
        self._local = local
        self._rates = None if rate is None else Rates(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed; the caller of a body that did not come at once is checked again at its end."""
        if scope["type"] == "http":
            try:
                _refuse_doubled(scope)
                if not doors.is_public(scope["path"]):
                    caller = scope["caller"] = await self._caller(scope)
                    if self._rates is not None:
                        self._rates.take(caller.key)
                    doors.check(caller, scope["method"], scope["path"])
            except ApiError as error:
                await respond(error.problem, error.headers)(scope, receive, send)
                return
            except StoreError as error:
                await respond(problem_of(error).problem)(scope, receive, send)
                return
            receive = self._checking_again(scope, receive)
        await self._app(scope, receive, send)

    def _checking_again(self, scope: Scope, receive: Receive) -> Receive:
        """`receive`, which raises HTTPException, as FastAPI passes it on, where the key was revoked meanwhile."""
        begun, is_first = time.monotonic(), True

        async def checked() -> Message:
            nonlocal is_first
            message = await receive()
            came_at_once = is_first and time.monotonic() - begun < FRESH
            is_first, is_last = False, message["type"] == "http.request" and not message.get("more_body", False)
            if is_last and not came_at_once and "caller" in scope:
                try:
                    if await self._caller(scope) != scope["caller"]:
                        raise _unknown("the access key was changed while the request was read")
                except (ApiError, StoreError) as error:
                    refused = error if isinstance(error, ApiError) else problem_of(error)
                    raise HTTPException(refused.problem.status, refused.problem.detail, refused.headers) from None
            return message

        return checked

    async def _caller(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        ring: KeyRing = scope["app"].state.key_ring
        shown = headers.get("authorization")
        if shown is not None:
            scheme, _, key = shown.partition(" ")
            return _known(await ring.caller(key.strip()) if scheme.lower() == "bearer" else None)
        _refuse_other_pages(headers, scope["method"])
        if (key := _cookie(headers)) is not None:
            caller = await ring.caller(key)
            if caller is not None or self._needs_key:
                return _known(caller)
        if self._needs_key:
            raise _unknown("expected an access key: Authorization: Bearer optimist_…")
        if self._local and not _is_loopback_host(headers.get("host", "")):
            raise ApiError(
                403,
                "forbidden",
                "Not allowed",
                f"without keys this service answers to names of this machine alone, not to {headers['host']!r}",
            )
        return ANYBODY


def _refuse_doubled(scope: Scope) -> None:
    """Raise `ApiError` 400 where a header of `SINGLE` came more than once."""
    found = [name for name, _ in scope["headers"] if name in SINGLE]
    if len(set(found)) < len(found):
        doubled = next(name for name in SINGLE if found.count(name) > 1)
        detail = f"expected one header {doubled.decode()}, got {found.count(doubled)}"
        raise ApiError(400, "bad-request", "Bad request", detail)


@lru_cache(64)
def _is_loopback_host(host: str) -> bool:
    """The same of a Host header, where there is one."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is None or is_loopback(name)


def _refuse_other_pages(headers: Headers, method: str) -> None:
    """A browser sends the cookie, or reaches an open service, for pages of others too; it says for which."""
    origin = headers.get("origin")
    if method in doors.SAFE or origin is None:
        return
    if origin.partition("://")[2] != headers.get("host"):
        raise ApiError(403, "forbidden", "Not allowed", f"expected a request of this service's own page, not {origin}")


def _cookie(headers: Headers) -> str | None:
    """The value of our cookie. Other services of the host set cookies of any form and name: the first key counts."""
    pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    values = [value.strip().strip('"') for name, _, value in pairs if name.strip() == COOKIE]
    return next((value for value in values if split_key(value)), values[0] if values else None)


def _known(caller: Caller | None) -> Caller:
    if caller is None:
        raise _unknown("the access key is not known here, or was revoked")
    return caller


def _unknown(detail: str) -> ApiError:
    return ApiError(401, "unauthorized", "Who calls is not known", detail, headers={"www-authenticate": "Bearer"})


def _caller(request: Request) -> Caller:
    return request.scope["caller"]


CallerDep = Annotated[Caller, Depends(_caller)]
