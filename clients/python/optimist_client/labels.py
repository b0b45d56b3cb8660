"""Tags and the note of an experiment: what people call it, which picks and scores do not depend on."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from optimist_client.errors import FixError
from optimist_client.validation import NOTE, TAG


def _plain(tag: str) -> str:
    """Refuse white space around a tag, which cannot be seen."""
    if tag != tag.strip():
        raise FixError(f"expected a tag without white space around it, got {tag!r}")
    return tag


def _distinct(tags: list[str]) -> list[str]:
    """The tags without repetitions, in order."""
    return list(dict.fromkeys(tags))


Tag = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=TAG), AfterValidator(_plain)]
"""A tag: at most 64 characters, as in names (`validation.NAME`), without commas."""
Tags = Annotated[list[Tag], Field(max_length=32), AfterValidator(_distinct)]
"""Distinct tags, in the order in which they are shown."""
Note = Annotated[str, StringConstraints(max_length=10_000, pattern=NOTE)]
"""A text of several lines, of at most 10,000 characters."""
