"""Uploads of references in pieces."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from optimist_client.metrics.base import Dimension
from optimist_client.wire import Answer, EmbeddingName, Wire, optional

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class UploadRequest(Wire):
    """The rows of a reference that are going to be sent in pieces."""

    rows: Annotated[int, Field(ge=2)]
    dimension: Dimension
    dtype: Literal["float16", "float32", "float64"]
    """The type in which the rows are stored."""
    digest: Digest
    """SHA-256 of the text `features(<rows>, <dimension>)` and the numbers as little-endian float64, row by row."""
    embedding: EmbeddingName | None = optional()
    """Name of the features' embedding."""


class UploadState(Answer):
    """An upload in pieces: how the rows are divided, and what is still to be sent."""

    piece_rows: int
    """Rows of each piece but the last, which has the rest."""
    pieces: int
    missing: list[int]
    """The pieces that are not there yet, numbered from 0."""
