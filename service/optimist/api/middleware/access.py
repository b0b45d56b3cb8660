"""Authenticates and authorizes callers before any of a request's body is read.

Requests per second are limited by one token bucket per key in this process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import Scope

from optimist.api.middleware.keys import SAFE, KeyRecord, ShareRecord, split_key
from optimist.api.middleware.permissions import PUBLIC, Caller, match
from optimist.api.problems import ApiError, problem_of
from optimist.records import StoreError
from optimist.settings import is_loopback
from optimist.store import DEFAULT_NAMESPACE, Store

logger = logging.getLogger(__name__)
_Record = TypeVar("_Record", KeyRecord, ShareRecord)
COOKIE = "optimist_key"
FRESH = 5.0
"""Seconds for which the keys read from Redis are cached. A revoked key works for no longer than that."""
SINGLE = (b"authorization", b"host", b"origin")
"""Headers that may occur only once: if one is repeated, a proxy and this service might each use a different value."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that no name of a path has. Two parsers may disagree about them: `$` also matches before a newline."""
ANYBODY = Caller("", DEFAULT_NAMESPACE, "admin")
"""The caller of a service that needs no access keys."""


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name (in lower case); None without one."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


class Rates:
    """Token buckets by key. Only valid keys get one, so there are no more buckets than keys."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic, burst_seconds: float = 2.0) -> None:
        """burst_seconds: size of the largest burst, in seconds of the permitted rate."""
        self._rate = rate
        self._max_tokens = max(1.0, burst_seconds * rate)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """Count a request. Raises `ApiError` 429 with the time to wait (Retry-After) if it exceeds the rate."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._max_tokens, now))
        tokens = min(self._max_tokens, tokens + (now - since) * self._rate)
        if tokens < 1.0:
            wait = math.ceil((1.0 - tokens) / self._rate)
            raise ApiError(
                429,
                "too-many-requests",
                "Too many requests",
                f"expected at most {self._rate:g} requests per second with one key",
                action="retry",
                headers={"retry-after": str(wait)},
            )
        self._buckets[key] = (tokens - 1.0, now)


class KeyRing:
    """A cache of the access keys in Redis. It reads all keys again every few seconds, and unknown keys immediately.

    Most requests are thus checked without a call to Redis, and a new key works immediately. Shares are not kept: one
    must not open another experiment that has taken the name of its own.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: dict[str, str] = {}
        """The texts of the records by id, each of which is parsed when it is used."""
        self._read_at = -FRESH
        self._reading = asyncio.Lock()

    async def caller(self, key: str) -> Caller | None:
        """The caller that this key belongs to; None if it is invalid. Raises `Unavailable` if Redis cannot be read."""
        parts = split_key(key)
        if parts is None:
            return None
        await self._refresh()
        if parts.experiment is None:
            record = await self._record(parts.id)
            return None if record is None else record.caller(parts)
        text = await self._store.in_namespace(parts.namespace).share(parts.experiment, parts.id)
        if text is None:
            return None
        share = _parsed(ShareRecord, parts.id, text)
        return None if share is None or not await self.lasts(share.maker) else share.caller(parts)

    async def lasts(self, maker: str) -> bool:
        """True if the key of this id is valid, or none was needed (""); what was made with it ends with it."""
        await self._refresh()
        return not maker or ((record := await self._record(maker)) is not None and not record.has_expired)

    async def _refresh(self) -> None:
        if self._are_old:
            async with self._reading:
                if self._are_old:
                    begun = time.monotonic()
                    self._records = await self._store.access_keys.all()
                    self._read_at = begun

    async def _record(self, id_: str) -> KeyRecord | None:
        """The record of a key, perhaps of one that was made since all were read."""
        if id_ not in self._records and (text := await self._store.access_keys.get(id_)) is not None:
            self._records[id_] = text
        text = self._records.get(id_)
        return None if text is None else _parsed(KeyRecord, id_, text)

    @property
    def _are_old(self) -> bool:
        return time.monotonic() - self._read_at >= FRESH


@lru_cache(1024)
def _parsed(kind: type[_Record], id_: str, text: str) -> _Record | None:
    """The stored record of this kind; None, and a line in the log, for one that is invalid."""
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        logger.error("the stored record of access key %s is invalid; the key is refused", id_)
        return None


class Access:
    """Finds a request's `Caller`, and refuses requests that the caller may not make.

    keys: whether callers need an access key; if not, callers without one are `ANYBODY`. local: whether the service is
    open only on a loopback address; requests without a key for other host names are then refused, as they come from a
    web page (DNS rebinding). rate: maximum requests per second for each key; None: no limit.
    """

    def __init__(self, *, keys: bool, local: bool, rate: float | None) -> None:
        self._needs_key = keys
        self._local = local
        self._rates = None if rate is None else Rates(rate)

    async def admit(self, scope: Scope, routes: Iterable[BaseRoute]) -> None:
        """Put the route into the request's scope, and the caller, unless the route is public.

        Raises `ApiError` 400, 401, 403, 404 or 429, and `StoreError` if the keys cannot be read.
        """
        _refuse_doubled(scope)
        if CONTROL.search(scope["path"]):
            raise ApiError(400, "bad-request", "Bad request", "expected a path without control characters")
        permission, experiment = match(routes, scope)
        if permission is not PUBLIC:
            caller = scope["caller"] = await self._caller(scope)
            if self._rates is not None:
                self._rates.take(caller.key)
            permission.check(caller, experiment)

    async def admit_again(self, scope: Scope) -> None:
        """Raise HTTPException if the caller's key was revoked while the body of the request came."""
        if "caller" not in scope:
            return
        try:
            if await self._caller(scope) != scope["caller"]:
                raise _unknown("the access key was changed or revoked while the request was being read")
        except (ApiError, StoreError) as error:
            refused = error if isinstance(error, ApiError) else problem_of(error)
            raise HTTPException(refused.problem.status, refused.problem.detail, refused.headers) from None

    async def _caller(self, scope: Scope) -> Caller:
        ring: KeyRing = scope["app"].state.key_ring
        shown = header(scope, b"authorization")
        if shown is not None:
            scheme, _, key = shown.partition(" ")
            if scheme.lower() != "bearer":
                raise _unknown("expected the header Authorization: Bearer optimist_…, got another scheme")
            return _known(await ring.caller(key.strip()))
        _refuse_other_pages(scope)
        if header(scope, b"cookie") is not None and (key := _cookie(scope)) is not None:
            caller = await ring.caller(key)
            if caller is not None or self._needs_key:
                return _known(caller)
        if self._needs_key:
            raise _unknown("expected an access key in the header Authorization: Bearer optimist_…")
        if self._local and not _is_loopback_host(host := header(scope, b"host") or ""):
            raise ApiError(
                403,
                "forbidden",
                "Not permitted",
                f"without an access key, requests must use a loopback host name such as localhost, not {host!r}",
            )
        return ANYBODY


def _refuse_doubled(scope: Scope) -> None:
    """Raise `ApiError` 400 if a header of `SINGLE` occurs more than once."""
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name in seen:
            raise ApiError(400, "bad-request", "Bad request", f"expected at most one {name.decode()} header")
        if name in SINGLE:
            seen.add(name)


@lru_cache(64)
def _is_loopback_host(host: str) -> bool:
    """True if a Host header names this machine itself, or is empty."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is None or is_loopback(name)


def _refuse_other_pages(scope: Scope) -> None:
    """Raise `ApiError` 403 if a browser sends the request for another site's page (cross-site request forgery)."""
    origin = header(scope, b"origin")
    if scope["method"] in SAFE or origin is None:
        return
    if origin.partition("://")[2] != header(scope, b"host"):
        raise ApiError(
            403, "forbidden", "Not permitted", f"expected a request from this service's own page, not {origin}"
        )


def _cookie(scope: Scope) -> str | None:
    """The value of our cookie. Other services on the host may use its name: the first that looks like a key counts."""
    headers = Headers(scope=scope)
    pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    values = [value.strip().strip('"') for name, _, value in pairs if name.strip() == COOKIE]
    return next((value for value in values if split_key(value)), values[0] if values else None)


def _known(caller: Caller | None) -> Caller:
    if caller is None:
        raise _unknown("the access key is unknown or was revoked: send a valid access key")
    return caller


def _unknown(detail: str) -> ApiError:
    return ApiError(401, "unauthorized", "Valid access key required", detail, headers={"www-authenticate": "Bearer"})


def _caller(request: Request) -> Caller:
    return request.scope["caller"]


CallerDep = Annotated[Caller, Depends(_caller)]
