"""A generator's log applied to its statistic, in order, up to the latest estimate that is due. Runs in a thread."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from optimist.evaluation import Track
from optimist.numerics.bound import Bound
from optimist.numerics.estimate import Estimate
from optimist.store import LogEntry
from optimist_client import tensors
from optimist_client.models import ModeInfo, Modes, PromptGroupInfo

SHOWN_MODES = 20
SHOWN_SAMPLES = 32
"""Modes, and samples of each, that are made when somebody asks for modes; a reader takes as many as it wants."""
FORMAT = 2
"""Version of snapshots: another one is refused, but for the first, whose moments are whole matrices."""
DIGEST_BYTES = 32
"""Of the SHA-256 that a snapshot begins with."""
SMALLEST_TAIL = 2**16
"""Bytes that the log may have beyond a snapshot, however small the statistic."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An estimate, the log position and the chain that it was made at, the seconds it took, and by which route."""

    seq: int
    chain: str
    estimate: Estimate
    seconds: float
    route: str


@dataclass(frozen=True, slots=True)
class Step:
    """What came of some entries of the log: an estimate where one was due, and the entries that cannot be read."""

    scored: Scored | None = None
    unreadable: list[tuple[int, str]] = field(default_factory=list)


class WarmGenerator:
    """The statistic of one generator, warm at log position `seq`; `tail` bytes of the log came since its snapshot."""

    def __init__(self, bound: Bound, growth: float) -> None:
        self._bound = bound
        self._track = Track(bound, growth)
        self.seq = 0
        self.tail = 0
        self.chain = ""
        """`LogEntry.chain` at `seq`; "" where that is not known."""
        self.room = SMALLEST_TAIL
        """Bytes that the log may have beyond the snapshot: as many as the statistic had when it was last measured."""
        self.published = 0
        """Position of an estimate that stands already: none is made again up to there."""

    @property
    def bytes(self) -> int:
        """Of the statistic and all that is kept with it in a snapshot."""
        return self._track.bytes

    @property
    def memory(self) -> int:
        """The same in bytes, and what makes its estimates cheap."""
        return self._track.bytes + self._track.followed_bytes

    def has_outgrown(self) -> bool:
        """Whether the log beyond the snapshot is as large as the statistic is now."""
        if self.tail < self.room:
            return False
        self.room = max(self.bytes, SMALLEST_TAIL)
        return self.tail >= self.room

    def apply(self, entries: Sequence[LogEntry]) -> Step:
        """Take the next entries of the log; the estimate at the last position among them where one was due.

        Every process that takes the same log makes the same estimates: each at exactly its due position, however many
        entries came along. Earlier due ones are passed over, since a newer one replaces them. An entry that cannot be
        read, or is not what was accepted, is passed over, too.
        """
        due = self._track.last_due_position([entry.rows for entry in entries])
        step = Step()
        for position, entry in enumerate(entries):
            try:
                self._track.add(*batch(entry))
            except (ValueError, KeyError) as error:
                step.unreadable.append((entry.seq, f"{error}"))
                self._track.skip(entry.rows)
            self.seq, self.chain = entry.seq, entry.chain
            self.tail += len(entry.body)
            if position == due and entry.seq > self.published and self._track.statistic.samples:
                step = Step(self._scored(), step.unreadable)
        return step

    def _scored(self) -> Scored:
        begun = time.perf_counter()
        estimate = self._track.estimate()
        # While a statistic holds all its rows, the size of what is decomposed is their number.
        route = "rows" if self._track.statistic.holds_rows else "sums"
        return Scored(self.seq, self.chain, estimate, time.perf_counter() - begun, route)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was taken so far that anything could be said about."""
        return self._track.statistic.samples == 0

    def modes(self, name: str) -> Modes:
        """Modes of what was taken so far, and the score by type of prompt where there are prompts."""
        groups = self._track.prompt_groups(SHOWN_MODES, SHOWN_SAMPLES) if self._track.has_prompts else []
        return Modes(
            generator=name,
            samples=self._track.statistic.samples,
            position=self.seq,
            modes=[ModeInfo.model_validate(mode.to_dict()) for mode in self._track.modes(SHOWN_MODES, SHOWN_SAMPLES)],
            prompt_groups=[PromptGroupInfo.model_validate(group.to_dict()) for group in groups],
        )

    def freeze(self) -> bytes:
        """The state at `seq`, from which `thaw` makes it again bit for bit: a SHA-256, and the safetensors it is of.

        What was kept to make estimates cheap goes, so that from here on both make the same ones.
        """
        self._track.forget()
        marks = {"format": torch.tensor(FORMAT), "meaning": _meaning(self._bound)}
        state = save({name: tensor.cpu().contiguous() for name, tensor in {**marks, **self._track.state()}.items()})
        return hashlib.sha256(state).digest() + state

    def snapshot_taken(self, size: int) -> None:
        """Count the log anew from here: the state is stored, in `size` bytes."""
        self.room, self.tail = max(size, SMALLEST_TAIL), 0

    @classmethod
    def thaw(cls, body: bytes, seq: int, bound: Bound, growth: float, chain: str = "") -> WarmGenerator:
        """A generator warm at `seq` from what `freeze` made there under a bound of the same metric and kernels.

        chain: of the log at `seq`, "" where that is not known.
        Raises ValueError where it is something else.
        """
        digest, frozen = body[:DIGEST_BYTES], body[DIGEST_BYTES:]
        if hashlib.sha256(frozen).digest() != digest:
            raise ValueError("the snapshot is damaged: its digest differs")
        try:
            state = load(frozen)
            version = int(state.pop("format"))
            if version not in (1, FORMAT):
                raise ValueError(f"expected a snapshot of format {FORMAT}, found {version}")
            if not torch.equal(state.pop("meaning"), _meaning(bound)):
                raise ValueError("the snapshot is of another metric, or of other kernels")
            warm = cls(bound, growth)
            warm._track = Track.restore(state, bound, growth)
        except (SafetensorError, KeyError, RuntimeError) as error:
            raise ValueError(f"the snapshot cannot be read: {type(error).__name__}: {error}") from None
        warm.seq, warm.chain = seq, chain
        warm.snapshot_taken(len(body))
        return warm


def batch(entry: LogEntry) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors (n, …) of a log entry by name, float64, and the ids of its rows.

    A row without one is called "<pick>:<row>", or "@<seq>:<row>" by its log position where no pick asked for it.
    Raises ValueError where the entry cannot be read, or holds other numbers, or other rows, than were accepted.
    """
    arrays = tensors.decode(entry.body)
    if tensors.digest(arrays) != entry.digest:
        raise ValueError("the batch is not the one that was accepted: its digest differs")
    # The digest does not cover the count, by which estimates are due.
    if any(len(array) != entry.rows for array in arrays.values()):
        found = ", ".join(f"{len(array)} of {name}" for name, array in arrays.items())
        raise ValueError(f"the batch is not the one that was accepted: expected {entry.rows} rows, found {found}")
    ids = arrays.pop(tensors.IDS, None)
    names = [""] * entry.rows if ids is None else tensors.unpack_ids(ids)
    origin = f"{entry.pick}" if entry.pick else f"@{entry.seq}"
    return (
        # torch's own memory, not numpy's, is aligned the same in every process, as equal bits ask for.
        {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()},
        # A zero byte, which a reservoir does not take, is no reason to lose what was accepted.
        [name.replace("\0", " ") or f"{origin}:{row}" for row, name in enumerate(names)],
    )


def _meaning(bound: Bound) -> Tensor:
    """SHA-256 (32,) of all but the log that a statistic's numbers depend on: the metric, layout and feature maps."""
    metric = bound.metric
    sha = hashlib.sha256(f"{metric.name} {metric.widths}".encode())
    for name, tensor in bound.statistic().state().items():
        layout = tensor.tolist() if name.endswith("layout") else tuple(tensor.shape)
        sha.update(f"{name} {layout}".encode())
    for name, parts in metric.identity():
        sha.update(name.encode())
        for tensor in parts:
            sha.update(tensor.cpu().contiguous().numpy().data)
    return torch.tensor(list(sha.digest()), dtype=torch.uint8)
