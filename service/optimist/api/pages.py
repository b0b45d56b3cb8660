"""Pages of what the store lists, and answers that are not sent again.

Cursors are places in the store's order, so that a page skips and repeats nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Query, Request, Response

from optimist.api.middleware.limits import BodyShare
from optimist.store.index import Indexed

STEP = 200
"""Maximum number of entries of a page, which are read together."""
_CURSOR = r"^[0-9]{1,12}(\.[0-9]{1,12})?:[A-Za-z0-9._-]{1,64}$"
Item = TypeVar("Item")
LimitQuery = Annotated[int, Query(ge=1, le=STEP, description="Most entries of the page")]
CursorQuery = Annotated[
    str | None, Query(pattern=_CURSOR, description="`next` of the page before; without it the page is the first one")
]


@dataclass(frozen=True, slots=True)
class TaggedBody:
    """An answer as it goes out, and its entity tag."""

    text: str
    etag: str

    @classmethod
    def from_text(cls, text: str) -> TaggedBody:
        """The answer with the tag of its contents."""
        return cls(text, f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"')


def respond(body: TaggedBody, if_none_match: str | None) -> Response:
    """The response with this body, or 304 where the client has it already."""
    headers = {"etag": body.etag, "cache-control": "private, no-cache"}
    cached = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    if body.etag in cached or "*" in cached:
        return Response(status_code=304, headers=headers)
    return Response(body.text, media_type="application/json", headers=headers)


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
    items: list[Item] = []
    for start in range(0, len(places), STEP):
        part = places[start : start + STEP]
        for place, item in zip(part, await read([place.name for place in part]), strict=True):
            if item is not None:
                items.append(item)
            if len(items) == limit:
                return items, None if place == places[-1] else f"{place.time!r}:{place.name}"
    return items, None


def count_answer(request: Request, text: str) -> None:
    """Count an answer, as text and as bytes, towards the memory for bodies. Raises HTTPException 413 or 503."""
    share: BodyShare = request.scope["memory"]
    share.hold_more(2 * len(text))
