"""Pages of what the store lists, and answers that are not made or sent again.

Cursors are places in the store's order, so that a page skips and repeats nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fastapi import Query, Request, Response

from optimist.api.middleware.limits import Share
from optimist.store.index import Indexed

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
STEP = 200
"""How many are looked at together; the most that a page has."""
_CURSOR = r"^[0-9]{1,12}(\.[0-9]{1,12})?:[A-Za-z0-9._-]{1,64}$"
Item = TypeVar("Item")
LimitQuery = Annotated[int, Query(ge=1, le=STEP, description="Most entries of the page")]
CursorQuery = Annotated[
    str | None, Query(pattern=_CURSOR, description="`next` of the page before; without it the page is the first one")
]


@dataclass(frozen=True, slots=True)
class Body:
    """An answer as it goes out, and its entity tag."""

    text: str
    etag: str

    @classmethod
    def from_text(cls, text: str) -> Body:
        """The answer with the tag of its contents."""
        return cls(text, f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"')


def respond(body: Body, if_none_match: str | None) -> Response:
    """The response with this body, or 304 where the client has it already."""
    headers = {"etag": body.etag, "cache-control": "no-cache"}
    known = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    if body.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body.text, media_type="application/json", headers=headers)


def _one(value: object) -> int:
    return 1


class Cache(Generic[Key, Value]):
    """A mapping that keeps the entries that were put last: as many as weigh at most `most` together, and at least
    one."""

    def __init__(self, most: int, weigh: Callable[[Value], int] = _one) -> None:
        """weigh: the weight of a value, which does not change; by default 1."""
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._entries: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """The value of a key, None if there is none."""
        return self._entries.get(key)

    def pop(self, key: Key) -> Value | None:
        """Remove a key, and return its value; None if there is none."""
        value = self._entries.pop(key, None)
        self._weight -= 0 if value is None else self._weigh(value)
        return value

    def put(self, key: Key, value: Value) -> Value:
        """Set the value of a key, and forget the oldest ones."""
        self.pop(key)
        self._entries[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most and len(self._entries) > 1:
            self.pop(next(iter(self._entries)))
        return value


def place_of(cursor: str | None) -> Indexed | None:
    """The place that a valid cursor names."""
    if cursor is None:
        return None
    time, _, name = cursor.partition(":")
    return Indexed(float(time), name)


async def page_of(
    places: Sequence[Indexed], limit: int, read: Callable[[Sequence[str]], Awaitable[Sequence[Item | None]]]
) -> tuple[list[Item], str | None]:
    """The first `limit` items of these places, and the cursor of those after them; None where no place is left.

    read: the item of each name, None for one that is gone or not wanted.
    """
    found: list[Item] = []
    for start in range(0, len(places), STEP):
        part = places[start : start + STEP]
        for place, item in zip(part, await read([place.name for place in part]), strict=True):
            if item is not None:
                found.append(item)
            if len(found) == limit:
                return found, None if place == places[-1] else f"{place.time!r}:{place.name}"
    return found, None


def count_answer(request: Request, text: str) -> None:
    """Count an answer, as text and as bytes, towards the memory for bodies. Raises HTTPException 413 or 503."""
    share: Share = request.scope["memory"]
    share.hold_more(2 * len(text))
