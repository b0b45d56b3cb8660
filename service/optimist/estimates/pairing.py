"""Data of an estimate for comparisons of generators with the same seeds or prompts (paired sampling).

Index i means the same prompt and the same seed for every generator. The influence values of the same indices therefore
show how much of the chance two estimates share.

The influences of earlier estimates are kept in a few bytes each. A correlation needs neither their scale nor a
constant, and few digits: they are float16 with the mean 0 and the largest size 1.
"""

from __future__ import annotations

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Annotated, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from optimist.records import codec
from optimist_client.errors import FixError

_DTYPE = np.dtype("<f2")


def packed(influence: NDArray[np.floating[Any]]) -> bytes:
    """The influences (m,) of the samples of indices 0 … m − 1; none may be NaN."""
    centred = influence.astype(np.float64)
    centred -= centred.mean()
    return (centred / (float(np.abs(centred).max()) or 1.0)).astype(_DTYPE).tobytes()


def unpacked(packed: Sequence[bytes], width: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The influences of k estimates (k, width), 0 beyond each one's count (k,), and these counts."""
    counts = np.array([len(influences) for influences in packed], np.int64) // _DTYPE.itemsize
    rows = np.zeros((len(packed), width))
    rows[np.arange(width) < counts[:, None]] = np.frombuffer(b"".join(packed), _DTYPE)
    return rows, counts


def joined(texts: Sequence[bytes]) -> bytes:
    """The texts, one after the other; nothing if one of them is empty."""
    return b"".join(texts) if all(texts) else b""


def parted(joint: bytes, counts: Sequence[int]) -> list[bytes]:
    """The inverse of `joined`, by the number of influences of each. Raises FixError unless there are as many."""
    ends = [0, *accumulate(_DTYPE.itemsize * count for count in counts)]
    if not joint:
        return [b""] * len(counts)
    if len(joint) != ends[-1]:
        raise FixError(f"expected {ends[-1]} bytes of influences of earlier estimates, got {len(joint)}")
    return [joint[start:end] for start, end in pairwise(ends)]


def are_finite(joint: bytes) -> bool:
    """True if all influences may be stored."""
    return bool(np.isfinite(np.frombuffer(joint, _DTYPE)).all())


LARGEST_INDEX = 2**53
"""Indices are smaller, so that JSON and float64 can hold them."""
COMMON = 256
"""Indices 0 … 255 are compared: all generators have them in common, whatever their counts."""
COMMON_NUMBERS = 1024
"""The number of indices that are compared where a row is one number, of 8 bytes."""
HISTORY = 64
"""Earlier estimates that are kept."""
HISTORY_GROWTH = 0.04
"""An estimate joins the history once the samples have grown by this fraction since the last one there. It is the
default growth of estimates: of generators in lockstep the leading one then has an earlier estimate at the other's
count. With half of these estimates (0.08), more exact ties were decided."""

LATER = 256
"""Number of newest samples whose influence is kept beyond the common indices: gaps are near the end of a log."""
INTERVALS = 64
"""Intervals of indices that are kept; W batches on their way leave about W + 1."""

JACKKNIFE_GROUPS = 10
"""Groups of the delete-a-group jackknife: the sample of index i is in group i mod 10."""
JACKKNIFE_HISTORY = 8
"""Newest estimates of the history whose jackknife is kept."""
JACKKNIFE_ROWS = 300
"""The most first samples that a jackknife takes."""


def common_count(columns: int) -> int:
    """The number of first indices whose rows, of so many numbers, are kept."""
    return COMMON_NUMBERS if columns == 1 else COMMON


@lru_cache(maxsize=4096)
def jackknife_rows(samples: int) -> int:
    """The number of samples that a jackknife takes: all up to 100, then in steps of a fifth, 300 at most.

    Two jackknives without missing indices can be compared where this is the same. In steps, one of them serves many
    estimates.
    """
    rows = JACKKNIFE_ROWS
    while rows > max(samples, 100):
        rows = int(rows / 1.2)
    return min(rows, samples)


class Earlier(NamedTuple):
    """An estimate of the same generator from fewer samples, which had all indices from 0 on."""

    samples: int
    value: float
    variance: float
    """Variance of the estimate by sampling, sd_select² without the systematic part."""
    first_order: float
    """`first_order` of `Pairing`."""
    jackknife: tuple[float, ...] = ()
    """`jackknife` of `Pairing`; only the newest `JACKKNIFE_HISTORY` are kept."""
    influence: bytes = b""
    """Influence of the samples of the common indices on this value, `packed`; empty where it is not known."""
    systematic: float = 0.0
    """The systematic part of sd_stop with its sign; 0 where that is not known."""


class StoredHistory(Sequence[Earlier]):
    """A stored history, unpacked on first access: most picks need none of it.

    It consists of three texts in base64: the numbers of its estimates (k, 5), the jackknives of its newest estimates
    (≤ 8, 10), zeros for none, and the influences, concatenated. Invalid texts raise FixError on access, by
    `Pairing.is_sound` at the latest.
    """

    def __init__(self, stored: Sequence[str]) -> None:
        self._stored = stored

    @staticmethod
    def stored(history: Sequence[Earlier]) -> list[str]:
        """A history as the constructor takes it."""
        jackknives = jackknife_array([past.jackknife for past in history[-JACKKNIFE_HISTORY:]])
        arrays = (
            as_text(array, "<f8")
            for array in (history_array(history), jackknives[: jackknives.any() * len(jackknives)])
        )
        return [*arrays, b2a_base64(joined([past.influence for past in history]), newline=False).decode()]

    @cached_property
    def _known(self) -> tuple[Earlier, ...]:
        numbers, jackknives, influences = self._stored
        rows = from_text(numbers, "<f8").reshape(-1, 5)
        deviations = from_text(jackknives, "<f8").reshape(-1, JACKKNIFE_GROUPS)
        return tuple(history_of(rows, deviations, a2b_base64(influences)))

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> Earlier: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Earlier, ...]: ...
    def __getitem__(self, index: int | slice) -> Earlier | tuple[Earlier, ...]:
        return self._known[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._known == tuple(other)


def as_text(array: NDArray[Any], dtype: str = "<f4") -> str:
    """Base64 of the numbers of an array in this format."""
    return b2a_base64(array.astype(dtype).tobytes(), newline=False).decode()


def from_text(text: str, dtype: str = "<f4") -> NDArray[Any]:
    """The inverse of `as_text`."""
    return np.frombuffer(a2b_base64(text), dtype)


StoredInfluences = Annotated[NDArray[np.float32], PlainValidator(from_text), PlainSerializer(as_text)]
"""Numbers stored in a record as base64 of little-endian float32."""
StoredInts = Annotated[
    NDArray[np.int32], PlainValidator(partial(from_text, dtype="<i4")), PlainSerializer(partial(as_text, dtype="<i4"))
]
"""Whole numbers that a record has as base64 of little-endian int32."""
History = Annotated[Sequence[Earlier], PlainValidator(StoredHistory), PlainSerializer(StoredHistory.stored)]


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The part of an estimate for comparisons by index.

    All of it belongs to the estimate's own position in the log, so that the same log gives the same numbers.
    """

    influence: StoredInfluences
    """Influence of the samples of the first indices on the value, linearised at this estimate, of as many as rows are
    kept (`common_count`); NaN where it has no sample of the index. An additive constant has no meaning."""
    first_order: float
    """Share of the sampling variance that is linear in the samples, V₁/(V₁ + V₂), in [0, 1]."""
    systematic_selection: float = 0.0
    """The part of sd_select that more samples in common do not reduce, a standard deviation."""
    systematic_stopping: float = 0.0
    """The part of sd_stop that more samples in common do not reduce, a standard deviation."""
    systematic_sign: int = 0
    """`Analysis.systematic_sign`."""
    told: tuple[int, ...] = ()
    """The indices of its samples, as the start and the end of each interval, ascending: (0, n) if none of n samples is
    missing or has no index. Of more than 64 intervals these are the first and the newest."""
    later: StoredInfluences = field(default_factory=lambda: np.zeros(0, np.float32))
    """Influence, up to the same constant, of samples among the newest 256 with indices beyond `influence`, by index."""
    later_told: tuple[int, ...] = ()
    """The indices of `later`, as the start and the end of each interval."""
    history: History = ()
    """Earlier estimates at counts that depend on nothing else, by samples."""
    jackknife: tuple[float, ...] = ()
    """Deviations of the estimates without each of 10 groups of indices, of the first `jackknife_rows`, from their mean,
    by group; empty for fewer than 10 samples, for a metric without a jackknife, and where all are 0."""
    skewness: float | None = None
    """`Analysis.skewness`; None: rare rows widen no difference."""
    missing: float = 1.0
    """`Analysis.missing`, at least 1: the factor of its sampling variance by rows that it may lack."""
    prompts: StoredInts | None = None
    """The prompt, a number from 0, of the sample of each first index, −1 where it has none, or it is not known; None
    where errors do not count prompts."""
    reference: StoredInfluences | None = None
    """`Analysis.reference` (k,): the reference's part of the variance of a difference; None: 0."""

    def __eq__(self, other: object) -> bool:
        return codec.encode(self) == codec.encode(other) if isinstance(other, Pairing) else NotImplemented

    def is_sound(self) -> bool:
        """True if every number may be stored; an influence may be NaN."""
        numbers = [self.first_order, self.systematic_selection, self.systematic_stopping, self.missing]
        numbers += history_array(self.history).ravel().tolist()
        numbers += [number for jackknife in self._jackknives for number in jackknife]
        numbers += [] if self.skewness is None else [self.skewness]
        infinite = bool(np.isinf(self.influence).any()) or not bool(np.isfinite(self.later).all())
        infinite |= not are_finite(joined([past.influence for past in self.history]))
        return all(map(math.isfinite, numbers)) and not infinite and bool(np.isfinite(self.reference_values).all())

    def could_be_of(self, samples: int) -> bool:
        """True if an estimate of so many samples can have carried it: within the kept sizes, by indices in order."""
        later, told = _length(self.later_told, LATER), _length(self.told, INTERVALS)
        return (
            len(self.influence) in (COMMON, COMMON_NUMBERS)
            and len(self.later) == later
            and len(self.history) <= HISTORY
            and told is not None
            and len(self.later) <= told <= samples
            and (self.prompts is None or len(self.prompts) == len(self.influence))
            and min(self.later_told, default=len(self.influence)) >= len(self.influence)
        )

    @property
    def end(self) -> int:
        """1 + the largest index of a sample; 0 where none is known."""
        return self.told[-1] if self.told else 0

    @property
    def _jackknives(self) -> list[tuple[float, ...]]:
        """Deviations of the estimate, then of the newest estimates in the history; empty, or of all groups."""
        return [self.jackknife, *(past.jackknife for past in self.history[-JACKKNIFE_HISTORY:])]

    @property
    def reference_values(self) -> NDArray[np.float32]:
        """`reference`, or no values."""
        return np.zeros(0, np.float32) if self.reference is None else self.reference


def intervals_of(indices: Sequence[int]) -> tuple[int, ...]:
    """Different indices, ascending, as the start and the end of each interval."""
    breaks = [i for i in range(1, len(indices)) if indices[i] > indices[i - 1] + 1]
    bounds = [0, *breaks, len(indices)] if indices else []
    return tuple(end for a, b in pairwise(bounds) for end in (indices[a], indices[b - 1] + 1))


def _length(told: Sequence[int], max_intervals: int) -> int | None:
    """The number of indices of these intervals; None unless they are `max_intervals` at most, in order."""
    are_numbers = len(told) % 2 == 0 and len(told) <= 2 * max_intervals and all(type(end) is int for end in told)
    if not are_numbers or any(end <= before for before, end in pairwise([-1, *told, LARGEST_INDEX + 1])):
        return None
    return sum(told[1::2]) - sum(told[::2])


def history_array(history: Sequence[Earlier]) -> NDArray[np.float64]:
    """The numbers of a history (k, 5), without jackknives and influences."""
    rows = [(past.samples, past.value, past.variance, past.first_order, past.systematic) for past in history]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def history_of(numbers: NDArray[np.float64], jackknives: NDArray[np.float64], influences: bytes) -> list[Earlier]:
    """A history from its numbers (k, 5), the jackknives of its newest estimates (≤ k, 10), and its `joined` influences.

    Raises FixError if there are more jackknives, or more or fewer influences.
    """
    of = jackknife_tuples(jackknives)
    if len(of) > len(numbers):
        raise FixError(f"expected at most {len(numbers)} jackknives of earlier estimates, got {len(of)}")
    samples = numbers[:, 0].astype(int)
    parts = parted(influences, np.minimum(samples, COMMON).tolist())
    of = [()] * (len(numbers) - len(of)) + of
    values, variances, first_orders, systematic = numbers[:, 1:].T.tolist()
    rows = zip(samples.tolist(), values, variances, first_orders, of, parts, systematic, strict=True)
    return [*map(Earlier._make, rows)]


def jackknife_array(jackknives: Sequence[tuple[float, ...]]) -> NDArray[np.float64]:
    """Jackknives as rows (k, 10), zeros for an empty one."""
    missing = (0.0,) * JACKKNIFE_GROUPS
    return np.array([jackknife or missing for jackknife in jackknives], dtype=np.float64).reshape(-1, JACKKNIFE_GROUPS)


def jackknife_tuples(rows: NDArray[np.float64]) -> list[tuple[float, ...]]:
    """The inverse of `jackknife_array`."""
    return [tuple(row.tolist()) if row.any() else () for row in rows]
