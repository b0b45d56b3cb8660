"""Answers with an entity tag, which are not sent again to one who has them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fastapi import Response


@dataclass(frozen=True, slots=True)
class Body:
    """An answer as it goes out, and its entity tag."""

    text: str
    etag: str

    @classmethod
    def of(cls, text: str) -> Body:
        """The answer with the tag of its contents."""
        return cls(text, f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"')


def respond(body: Body, if_none_match: str | None) -> Response:
    """The body, or 304 for one who knows it."""
    headers = {"etag": body.etag, "cache-control": "no-cache"}
    known = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    if body.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body.text, media_type="application/json", headers=headers)
