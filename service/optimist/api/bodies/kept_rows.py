"""The rows of a reference as they are stored: how they are divided into pieces, and what is computed of all of them.

The body of a reference with rows is safetensors of `features` as they were sent, then `covariance` and `mean`, float64.
Chunk 0 is the header, each piece is a chunk, the rest follows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.plausibility import reference_scale
from optimist.numerics.real_data import RunningMoments, check_moments
from optimist.store.references import CHUNK_BYTES
from optimist_client import tensors
from optimist_client.models import UploadRequest

BLOCK = 8
"""Pieces whose moments are computed together: each time takes a matrix (d, d) besides."""
_KINDS = {"float16": "F16", "float32": "F32", "float64": "F64"}
FEATURES = "features"


@dataclass(frozen=True)
class Layout:
    """How the rows of an upload are divided into pieces."""

    rows: int
    dimension: int
    dtype: str
    piece_rows: int

    @classmethod
    def of(cls, wanted: UploadRequest, max_body: int) -> Layout:
        """Pieces of whole rows and of at most `CHUNK_BYTES`, which fit into requests of `max_body` bytes."""
        row = wanted.dimension * np.dtype(wanted.dtype).itemsize
        most = min(CHUNK_BYTES, max_body - tensors.LONGEST_HEADER // 64)
        return cls(wanted.rows, wanted.dimension, wanted.dtype, max(1, most // row))

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return -(-self.rows // self.piece_rows)

    @property
    def head(self) -> bytes:
        """The header of the body."""
        d = self.dimension
        kinds = {FEATURES: (_KINDS[self.dtype], (self.rows, d)), "covariance": ("F64", (d, d)), "mean": ("F64", (d,))}
        return tensors.head_of(kinds)

    @property
    def bytes(self) -> int:
        """The size of the body."""
        d = self.dimension
        return len(self.head) + self.rows * d * np.dtype(self.dtype).itemsize + 8 * (d * d + d)

    @property
    def memory(self) -> int:
        """The most bytes that `Gathered` takes."""
        return 2 * BLOCK * 8 * self.piece_rows * self.dimension + 5 * 8 * self.dimension**2

    def rows_of(self, piece: int) -> int:
        """The rows of a piece, numbered from 0."""
        return min(self.piece_rows, self.rows - piece * self.piece_rows)

    def packed(self, rows: NDArray[np.floating]) -> bytes:
        """Rows as they are stored."""
        return np.ascontiguousarray(rows, dtype=np.dtype(self.dtype).newbyteorder("<")).tobytes()


class Gathered:
    """Digests and moments of the pieces of an upload, which are added in order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._content = tensors.RowsDigest(FEATURES, (layout.rows, layout.dimension))
        self._body = hashlib.sha256(layout.head)
        self._moments = RunningMoments(layout.dimension)
        self._block: list[NDArray[np.floating]] = []

    def add(self, piece: bytes) -> None:
        """Add the next piece as it is stored."""
        self._body.update(piece)
        rows = np.frombuffer(piece, np.dtype(self._layout.dtype).newbyteorder("<")).reshape(-1, self._layout.dimension)
        self._content.add(rows)
        self._block.append(rows)
        if len(self._block) == BLOCK:
            self._flush()

    def finish(self) -> tuple[str, float, bytes]:
        """The digest of the rows, their scale, and what follows them in the body: their moments."""
        if self._block:
            self._flush()
        mean, covariance = self._moments.mean, self._moments.covariance
        check_moments(mean, covariance)
        rest = covariance.astype("<f8").tobytes() + mean.astype("<f8").tobytes()
        return self._content.hexdigest(), reference_scale(mean, covariance), rest

    def body_digest(self, rest: bytes) -> str:
        """The SHA-256 of the body, which ends with `rest`."""
        sha = self._body.copy()
        sha.update(rest)
        return sha.hexdigest()

    def _flush(self) -> None:
        self._moments.add(np.concatenate(self._block))
        self._block.clear()
