"""The accounts of an independent ledger: what was sent and acknowledged, by its bits, and what a log must then hold.

Nothing here uses the service's own code: bodies, archives and counts are read from their bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arm = tuple[str, str]
"""Experiment and generator."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that was sent: how many rows it has, and the index of the first one, if they have any."""

    arm: Arm
    rows: int
    start: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to a batch: its position, None where none of its rows counts, and how many rows do not."""

    position: int | None
    uncounted: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of a generator's log."""

    position: int
    body: bytes
    counted: tuple[int, ...] | None = None
    """The rows of the body that count; None: all."""
    indices: tuple[int, ...] = ()
    """The index of each row that counts; none where rows have no index."""

    @property
    def array(self) -> NDArray[np.floating]:
        """The rows (n, d) of the body."""
        return rows_in(self.body)

    @property
    def places(self) -> Sequence[int]:
        """Which rows count."""
        return range(len(self.array)) if self.counted is None else self.counted


Log = Mapping[str, Sequence[Logged]]
"""By generator."""


@dataclass
class Accounts:
    """Batches by the digest of their bits: all that were sent, and the answers to those that were acknowledged."""

    sent: dict[str, Sent] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    violations: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, arm: Arm, rows: NDArray[np.floating], start: int | None) -> str:
        """Note a batch before it is sent; return its digest."""
        digest = digest_of(rows)
        with self._lock:
            self.sent[digest] = Sent(arm, len(rows), start)
        return digest

    def acknowledge(self, digest: str, generator: str, position: int | None, uncounted: int) -> None:
        """Note the answer 200 to a batch."""
        with self._lock:
            self.answers[digest].append(Answer(position, uncounted))
            if generator != self.sent[digest].arm[1]:
                self.violations.append(f"generators mixed: {self.sent[digest]} was counted for {generator}")

    def complain(self, text: str) -> None:
        """Note that something was answered that may not be."""
        with self._lock:
            self.violations.append(text)

    def check(self, experiment: str, log: Log) -> list[str]:
        """What is wrong with the log of an experiment: batches lost, doubled, changed or never sent, and indices."""
        wrong: list[str] = []
        places: dict[str, list[tuple[str, Logged]]] = defaultdict(list)
        for generator, entries in log.items():
            arm = experiment, generator
            if [one.position for one in entries] != [*range(1, len(entries) + 1)]:
                wrong.append(f"{arm}: positions are not 1 to {len(entries)}")
            for one in entries:
                places[digest_of(one.array)].append((generator, one))
                sent = self.sent.get(digest_of(one.array))
                if sent is None or sent.arm != arm:
                    what = "a batch that was never sent" if sent is None else f"a batch of {sent.arm}"
                    wrong.append(f"{arm}: {what} stands at {one.position}")
                elif one.indices != expected_indices(sent, one.places):
                    wrong.append(
                        f"{arm}: the batch at {one.position} has the indices {one.indices[:8]} …, sent: {sent}"
                    )
            counts = Counter(index for one in entries for index in one.indices)
            wrong += [f"{arm}: index {index} counts {times} times" for index, times in counts.items() if times > 1]
        wrong += [
            f"{experiment}: a batch stands {len(found)} times, at {[(g, one.position) for g, one in found]}"
            for found in places.values()
            if len(found) > 1
        ]
        indices = {generator: {i for one in entries for i in one.indices} for generator, entries in log.items()}
        for digest, answers in self.answers.items():
            sent = self.sent[digest]
            if sent.arm[0] == experiment:
                found = [one for generator, one in places[digest] if generator == sent.arm[1]]
                wrong += self._wrong(sent, answers, found, indices.get(sent.arm[1], set()))
        return wrong

    def _wrong(
        self, sent: Sent, answers: Sequence[Answer], found: Sequence[Logged], indices: set[int]
    ) -> Iterator[str]:
        """What is wrong about one acknowledged batch, which was found at these places."""
        if len({one.position for one in answers}) > 1:
            yield f"{sent} was answered differently: {answers}"
        answer = answers[0]
        if answer.position is None:
            if found or answer.uncounted != sent.rows or not indices.issuperset(expected_indices(sent)):
                yield f"{sent} does not count, by {answer}, and stands at {found[:1]}, or its indices are missing"
        elif not found:
            yield f"lost: {sent} was acknowledged at {answer.position}"
        elif found[0].position != answer.position or len(found[0].places) != sent.rows - answer.uncounted:
            yield f"{sent} was acknowledged by {answer}, and stands at {found[0].position}"


def expected_indices(sent: Sent, rows: Iterable[int] | None = None) -> tuple[int, ...]:
    """The indices of these rows of a batch; None: of all rows."""
    rows = range(sent.rows) if rows is None else rows
    return () if sent.start is None else tuple(sent.start + row for row in rows)


def totals(log: Log) -> dict[str, tuple[int, int]]:
    """By generator: batches, and rows that count."""
    return {generator: (len(found), sum(len(one.places) for one in found)) for generator, found in log.items()}


def counted_rows(entries: Sequence[Logged]) -> NDArray[np.float64]:
    """All rows (n, d) that count, in the order of the log."""
    return np.concatenate([one.array[[*one.places]].astype(np.float64) for one in entries])


def digest_of(rows: NDArray[np.floating]) -> str:
    """The digest of the bits of an array, its type and shape."""
    return hashlib.sha256(f"{rows.dtype.str} {rows.shape} ".encode() + rows.tobytes()).hexdigest()


def rows_in(body: bytes) -> NDArray[np.floating]:
    """The one array of a body of safetensors."""
    (length,) = struct.unpack("<Q", body[:8])
    header = json.loads(body[8 : 8 + length])
    [tensor] = [value for name, value in header.items() if name != "__metadata__"]
    kind = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[tensor["dtype"]]
    first, last = tensor["data_offsets"]
    return np.frombuffer(body[8 + length + first : 8 + length + last], kind).reshape(tensor["shape"])


def read_log(archive: Path) -> dict[str, list[Logged]]:
    """The log of an exported experiment."""
    with zipfile.ZipFile(archive) as file:
        names = [name for name in file.namelist() if name.startswith("generators/")]
        generators = [json.loads(file.read(f"generators/{number}.json")) for number in range(len(names))]
        return {one["name"]: [entry for page in one["pages"] for entry in _page(file, page)] for one in generators}


def _page(file: zipfile.ZipFile, page: str) -> Iterator[Logged]:
    entries: list[dict[str, Any]] = json.loads(file.read(f"{page}.json"))
    ends = [0, *np.cumsum([one["bytes"] for one in entries]).tolist()]
    bodies = file.read(f"{page}.batches")
    for one, (start, end) in zip(entries, pairwise(ends), strict=True):
        entry = one["entry"]
        counted = _spread(entry["counted"]) if entry.get("counted") else None
        yield Logged(entry["seq"], bodies[start:end], counted, _spread(entry.get("indices", ())))


def _spread(runs: Sequence[int]) -> tuple[int, ...]:
    """The numbers of runs: the first and the length of each."""
    pairs = zip(runs[::2], runs[1::2], strict=True)
    return tuple(start + place for start, length in pairs for place in range(length))
