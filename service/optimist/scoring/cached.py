"""A generator's log applied to its statistic, in order, with the estimates that are due. Runs in a thread."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimation.clustered import ClusterKind
from optimist.estimation.learner import Learner
from optimist.estimation.stored import is_due_answer, take
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import Bound
from optimist.records import LogEntry, RetractedLog
from optimist_client.models import Modes

FORMAT = 1
"""Version of snapshots; other versions are refused. It increases as the version of the data (`store/store.py`)."""
DIGEST_BYTES = hashlib.sha256().digest_size
"""Length of the SHA-256 at the start of a snapshot."""
SINGLE = " as float32"
NOTHING_RETRACTED = RetractedLog()
SMALLEST_TAIL = 2**16
"""Minimum bytes that the log may have beyond a snapshot, however small the statistic."""


class EstimatorSettings(TypedDict, total=False):
    """The arguments of `StreamingEstimator` that depend on the experiment."""

    paired: bool
    clusters: ClusterKind | None
    reads: Mapping[str, str] | None
    learner: Learner | None


@dataclass(frozen=True, slots=True)
class ScoredEstimate:
    """An estimate with its log position, the chained digest there, its time in seconds, and how it was made: from
    "rows" or "sums"."""

    seq: int
    chain: str
    estimate: Estimate
    seconds: float
    kind: str


@dataclass(frozen=True, slots=True)
class Step:
    """The result of applying entries of the log: an estimate if one was due, and the unreadable entries."""

    scored: ScoredEstimate | None = None
    unreadable: list[tuple[int, str]] = field(default_factory=list)


class CachedStatistic:
    """The statistic of one generator at log position `seq`; the log after its snapshot has `tail` bytes."""

    def __init__(
        self,
        bound: Bound,
        growth: float,
        retracted: RetractedLog = NOTHING_RETRACTED,
        *,
        ordinal: int = 0,
        **settings: Unpack[EstimatorSettings],
    ) -> None:
        """retracted: batches that are left out. Read before the log, because a later retraction is not `known`.

        ordinal: the generator's.
        """
        self._bound = bound
        self._learner = settings.get("learner")
        self._estimator = StreamingEstimator(bound, growth, ordinal=ordinal, **settings)
        self._retracted = retracted
        self.seq = max(0, retracted.restart - 1)
        self.tail = 0
        self.chain = ""
        """`LogEntry.chain` at `seq`; "" where that is not known."""
        self.room = SMALLEST_TAIL
        """Bytes that the log may have after the snapshot: the size of the statistic at its last measurement."""
        self.published = 0
        """Position of the newest published estimate; no other is made up to there."""

    @property
    def estimator(self) -> StreamingEstimator:
        """The statistic and its companions, to be read only."""
        return self._estimator

    @property
    def bytes(self) -> int:
        """Bytes of everything that a snapshot contains."""
        return self._estimator.bytes

    @property
    def memory(self) -> int:
        """`bytes`, and the cache that makes estimates cheap."""
        return self._estimator.bytes + self._estimator.cached_bytes

    @property
    def reaches(self) -> int:
        """Position of the newest retraction that is left out; before it nothing is published or stored.

        Only from there on it is certain that the log is the retracted one.
        """
        return self._retracted.newest

    def knows(self, entries: Sequence[LogEntry]) -> bool:
        """True if the next entries of the log have exactly the retractions that the statistic was made for."""
        return all(self._retracted.is_as_read(entry) for entry in entries)

    def has_outgrown(self) -> bool:
        """True if the log after the snapshot is as large as the statistic, and a snapshot may be stored."""
        if self.tail < self.room or self.seq < self.reaches:
            return False
        self.room = max(self.bytes, SMALLEST_TAIL)
        return self.tail >= self.room

    def apply(self, entries: Sequence[LogEntry], newest: int = 0) -> Step:
        """Apply the next entries of the log, and make the estimate at the last due position among them.

        Every process makes the same estimates from the same log, each at exactly its due position, however many entries
        it applies together. Earlier due positions are skipped, because a newer estimate replaces theirs; likewise all
        before `newest`, the newest due position known to the caller. An entry that cannot be read, or that differs from
        the accepted batch, is skipped. Retracted batches are left out, as if never told; at the retraction an estimate
        is due. `StreamingEstimator` itself makes the estimates that the history needs (`Paired`).
        """
        due = self._estimator.last_due_position([self._rows(entry) for entry in entries])
        heard = [at for at, entry in enumerate(entries) if entry.is_answer and is_due_answer(entry)]
        due = max([*heard[-1:], *([] if due is None else [due])], default=None)
        newest = max(newest, self.reaches)
        step = Step()
        for position, entry in enumerate(entries):
            begun = time.perf_counter()
            if entry.is_retraction:
                self._estimator.retract()
            elif entry not in self._retracted:
                taken = take(self._estimator, entry)
                if taken.unreadable:
                    step.unreadable.append((entry.seq, taken.unreadable))
            self.seq, self.chain = entry.seq, entry.chain
            self.tail += entry.size
            is_wanted = position == due and entry.seq > self.published and entry.seq >= newest
            if is_wanted and self._estimator.statistic.samples:
                step = Step(self.scored(begun), step.unreadable)
        return step

    def _rows(self, entry: LogEntry) -> int | None:
        """The rows of an entry as `StreamingEstimator.last_due_position` takes them."""
        if entry.is_retraction:
            return None
        return 0 if entry in self._retracted else entry.rows

    def scored(self, begun: float | None = None) -> ScoredEstimate:
        """The estimate at `seq`. begun: when the entry was taken, which makes the estimate if the history needs it;
        None: now."""
        begun = time.perf_counter() if begun is None else begun
        estimate = self._estimator.estimate()
        # While a statistic holds all its rows, their number is the size of the eigenproblem.
        kind = "rows" if self._estimator.statistic.holds_rows else "sums"
        return ScoredEstimate(self.seq, self.chain, estimate, time.perf_counter() - begun, kind)

    @property
    def is_empty(self) -> bool:
        """True if the statistic has no samples yet."""
        return self._estimator.statistic.samples == 0

    def modes(self, name: str, count: int = 20, samples: int = 32) -> Modes:
        """The modes at `seq`, and the score by type of prompt if there are prompts; a request may show fewer."""
        return Modes(
            generator=name,
            samples=self._estimator.statistic.samples,
            position=self.seq,
            modes=self._estimator.modes(count, samples),
            prompt_groups=self._estimator.prompt_groups(count, samples) if self._estimator.has_prompts else [],
        )

    def freeze(self) -> bytes:
        """The state at `seq`, which `thaw` restores bit for bit: a SHA-256, followed by the safetensors.

        The cache that makes estimates cheap is dropped, so that original and restored state make equal estimates.
        """
        self._estimator.forget()
        header = {"format": torch.tensor(FORMAT), "meaning": _meaning(self._bound, self._learner)}
        state = save(dict(_packed(name, tensor) for name, tensor in {**header, **self._estimator.state()}.items()))
        return hashlib.sha256(state).digest() + state

    def snapshot_taken(self, size: int) -> None:
        """Start counting the log's bytes again, after a snapshot of `size` bytes was stored."""
        self.room, self.tail = max(size, SMALLEST_TAIL), 0

    @classmethod
    def thaw(
        cls,
        body: bytes,
        seq: int,
        bound: Bound,
        growth: float,
        chain: str = "",
        retracted: RetractedLog = NOTHING_RETRACTED,
        *,
        ordinal: int = 0,
        **settings: Unpack[EstimatorSettings],
    ) -> CachedStatistic:
        """Restore the output of `freeze` at `seq`, under a bound of the same metric and kernels, and the same learner.

        chain: chained digest of the log at `seq`, "" if unknown. Raises ValueError for any other body.
        """
        digest, frozen = body[:DIGEST_BYTES], body[DIGEST_BYTES:]
        if hashlib.sha256(frozen).digest() != digest:
            raise ValueError("the snapshot is damaged: its digest differs")
        try:
            state = dict(_unpacked(name, tensor) for name, tensor in load(frozen).items())
            version = int(state.pop("format"))
            if version != FORMAT:
                raise ValueError(f"expected a snapshot of format {FORMAT}, found {version}")
            if not torch.equal(state.pop("meaning"), _meaning(bound, settings.get("learner"))):
                raise ValueError("the snapshot is of another metric, or of other kernels")
            cached = cls(bound, growth, retracted, ordinal=ordinal, **settings)
            cached._estimator.restore(state)
        except (SafetensorError, KeyError, RuntimeError) as error:
            raise ValueError(f"the snapshot cannot be read: {type(error).__name__}: {error}") from None
        cached.seq, cached.chain = seq, chain
        cached.snapshot_taken(len(body))
        return cached


def _packed(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    """A tensor as a snapshot holds it: float32 under a name of its own, where that loses nothing, as with most rows."""
    tensor = tensor.cpu().contiguous()
    # Of sums the first numbers already differ, so that 1024 of them are looked at before all are.
    for part in (tensor.flatten()[:1024], tensor):
        if tensor.dtype != torch.float64 or not torch.equal(part.float().double(), part):
            return name, tensor
    return name + SINGLE, tensor.float()


def _unpacked(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    """The inverse of `_packed`."""
    return (name.removesuffix(SINGLE), tensor.double()) if name.endswith(SINGLE) else (name, tensor)


def _meaning(bound: Bound, learner: Learner | None = None) -> Tensor:
    """SHA-256 (32,) of everything but the log that determines a statistic's numbers: metric, layout, feature maps."""
    metric = bound.metric
    sha = hashlib.sha256(f"{metric.name} {metric.widths}".encode())
    for name, tensor in bound.statistic().state().items():
        layout = tensor.tolist() if name.endswith("layout") else tuple(tensor.shape)
        sha.update(f"{name} {layout}".encode())
    for name, parts in metric.identity():
        sha.update(name.encode())
        for tensor in parts:
            sha.update(tensor.cpu().contiguous().numpy().data)
    for array in () if learner is None else learner.arrays:
        sha.update(f"contexts {array.shape}".encode())
        sha.update(array.tobytes())
    return torch.tensor(list(sha.digest()), dtype=torch.uint8)
