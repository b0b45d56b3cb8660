"""Reads and writes archives: one experiment as one file. It does not import torch.

An archive is a zip file with uncompressed members and no pickles:

    format                    "1", the version of the format
    logs/<n>.json, .batches   a page of a generator's log: its entries, and their concatenated bodies
    logs/<n>.contexts         the concatenated contexts of these entries, if any has one
    snapshots/<g>.safetensors the statistic of generator <g> at its `snapshot_position`
    snapshots/<g>/<label>.safetensors   the same by a watched metric
    history                   seven bytes per batch, as in `Store.history`
    fitted.safetensors        the parts of the kernels that were fitted to the first samples
    fitted/<label>.safetensors    the same of a watched metric
    references/<name>.json, .safetensors   the references of the metrics
    experiment.json           `contents.Contents`, the table of contents

The zip's comment is the SHA-256 (hex) of all bytes before it. Members that `experiment.json` does not name are ignored.
Counts are not stored: they are computed from the history.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from itertools import accumulate
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from optimist.archive.contents import PAGE, ArchivedGenerator, Contents, PageEntry, generator_state
from optimist.store.formats import HISTORY
from optimist.store.records import LogEntry, Snapshot
from optimist.store.state import ExperimentState, Unit, WatchedState

FORMAT = 1
MEDIA_TYPE = "application/zip"
_DIGEST_BYTES = 64
_PIECE = 2**20
_BEGINNING = b"PK\x03\x04"
_UNREADABLE = (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, EOFError)


class ArchiveError(ValueError):
    """The file cannot be imported; the message says why."""


class ArchiveWriter:
    """Writes one archive to an empty binary file, one member at a time. `finish` completes it. A context manager."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w")
        self._pages = 0
        self._add("format", str(FORMAT).encode())

    def add_page(self, entries: Sequence[LogEntry]) -> str:
        """Write a page of log entries, and return its name for `ArchivedGenerator.pages`."""
        self._pages += 1
        name = f"logs/{self._pages}"
        rows = [PageEntry.of(entry) for entry in entries]
        self._add(f"{name}.json", PAGE.dump_json(rows))
        self._add(f"{name}.batches", b"".join(entry.body for entry in entries))
        if contexts := b"".join(entry.context for entry in entries):
            self._add(f"{name}.contexts", contexts)
        return name

    def add_snapshot(self, generator: int, body: bytes, label: str = "") -> None:
        """Write a generator's statistic by one metric."""
        self._add(_by_label(f"snapshots/{generator}", label), body)

    def add_fitted(self, body: bytes, label: str = "") -> None:
        """Write the fitted parts of the kernels of one metric."""
        self._add(_by_label("fitted", label), body)

    def add_reference(self, name: str, info: str, body: bytes) -> None:
        """Write a reference of an experiment: its description, and its moments and rows."""
        self._add(f"references/{name}.json", info.encode())
        self._add(f"references/{name}.safetensors", body)

    def finish(self, contents: Contents, history: bytes) -> None:
        """Write the history, the table of contents and the digest."""
        self._add("history", history)
        self._add("experiment.json", contents.model_dump_json().encode())
        self._zip.comment = bytes(_DIGEST_BYTES)
        self._zip.close()
        digest = _digest(self._file, self._file.seek(-_DIGEST_BYTES, 2))
        self._file.write(digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()  # otherwise it would be closed later, when the file is already closed

    def _add(self, name: str, body: bytes) -> None:
        # Members have no date, so that the same experiment always gives the same file.
        self._zip.writestr(zipfile.ZipInfo(name), body)


class Archive:
    """Reads an archive from a binary file. Its digest is verified at once; bodies are read when requested.

    The constructor and all methods raise ArchiveError if the file is not an archive, is damaged or truncated, has an
    unknown version, or is inconsistent.
    """

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(len(_BEGINNING)) != _BEGINNING:
            raise ArchiveError("expected an archive of an experiment, as written by export")
        whole = max(0, size - _DIGEST_BYTES)
        if _digest(file, whole) != file.read():
            raise ArchiveError("the archive is damaged or truncated: its contents do not match its digest")
        try:
            self._zip = zipfile.ZipFile(file)
        except _UNREADABLE as error:
            raise ArchiveError(f"the archive cannot be read: {error}") from None
        if any(member.compress_type != zipfile.ZIP_STORED for member in self._zip.infolist()):
            raise ArchiveError("expected an archive without compression, found compressed members")
        version = self._read("format").decode(errors="replace")
        if version != str(FORMAT):
            raise ArchiveError(f"expected an archive of format {FORMAT}, found {version!r}")
        try:
            self.contents = Contents.model_validate_json(self._read("experiment.json"))
        except ValidationError as error:
            raise ArchiveError(f"experiment.json: {error}") from None
        self.history = self._read("history")
        try:
            self._rows = self._rows_by_generator()
        except ValidationError as error:
            raise ArchiveError(f"experiment.json: {error}") from None

    def fitted(self, label: str = "") -> bytes | None:
        """The fitted parts of the kernels of one metric; None without any."""
        name = _by_label("fitted", label)
        return self._read(name) if name in self._zip.namelist() else None

    def reference(self, name: str) -> tuple[str, bytes]:
        """The description of a reference that the experiment names, and its moments and rows."""
        member = f"references/{name}"
        return self._read(f"{member}.json").decode(errors="replace"), self._read(f"{member}.safetensors")

    def snapshot(self, generator: int, label: str = "") -> Snapshot | None:
        """A generator's snapshot by one metric; None without one."""
        known = self.contents.generators[generator]
        position = known.watched[label].snapshot_position if label else known.snapshot_position
        return Snapshot(position, self._read(_by_label(f"snapshots/{generator}", label))) if position else None

    def log(self, generator: int) -> Iterator[list[LogEntry]]:
        """A generator's log entries in order, one page at a time."""
        known = self.contents.generators[generator]
        rows, position = self._rows[generator], None
        records = dict(zip(known.retracted, known.retractions, strict=True))
        for page in known.pages:
            entries = self._page(page)
            for entry in entries:
                expected = entry.seq if position is None else position + 1
                if entry.seq != expected or entry.seq > len(rows) or entry.rows != rows[entry.seq - 1]:
                    raise ArchiveError(f"batch {entry.seq} of {known.name!r} does not match the history")
                if entry.retracts != records.get(entry.seq):
                    raise ArchiveError(f"entry {entry.seq} of {known.name!r} does not match the retractions")
                if entry.pick > self.contents.rounds:
                    raise ArchiveError(f"batch {entry.seq} of {known.name!r} belongs to a pick that does not exist")
                if position is None and entry.seq > self._latest_beginning(generator):
                    raise ArchiveError(f"the log of {known.name!r} lacks its first batches")
                position = entry.seq
            yield entries
        if (known.oldest_snapshot if position is None else position) != len(rows):
            raise ArchiveError(f"the log of {known.name!r} lacks the last batches of its history")

    def state(self, instance: str) -> ExperimentState:
        """The state of the experiment as `Store.state` will return it, with counts from the history."""
        config = self.contents.experiment.config
        return ExperimentState(
            rounds=self.contents.rounds,
            told=len(self.history) // HISTORY.itemsize,
            generators=[
                generator_state(ordinal, known, rows, config.rescore_growth)
                for ordinal, (known, rows) in enumerate(zip(self.contents.generators, self._rows, strict=True))
            ],
            decision=self.contents.decision,
            controls=self.contents.controls,
            instance=instance,
            keep_log=config.keep_log,
            labels=self.labels,
            mixture_growth=self.contents.experiment.mixture_growth,
            route_growth=self.contents.experiment.route_growth,
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the watched metrics."""
        return tuple(metric.shown_label for metric in self.contents.experiment.config.watch)

    def watched(self) -> dict[Unit, WatchedState]:
        """What is known by the watched metrics, as `Store.watched` will return it but for `log_bytes`."""
        return {
            (ordinal, label): WatchedState(one.estimate_position, one.estimate, snapshot_seq=one.snapshot_position)
            for ordinal, known in enumerate(self.contents.generators)
            for label, one in known.watched.items()
        }

    def _latest_beginning(self, generator: int) -> int:
        if self.contents.experiment.config.keep_log:
            return 1
        known = self.contents.generators[generator]
        return max(known.oldest_snapshot + 1, known.restart, 1)

    def _rows_by_generator(self) -> list[list[int]]:
        if len(self.history) % HISTORY.itemsize:
            raise ArchiveError("the history is truncated")
        history = np.frombuffer(self.history, HISTORY)
        if len(history) and int(history["generator"].max()) >= len(self.contents.generators):
            raise ArchiveError("the history names a generator that does not exist")
        return [
            _by_position(history["rows"][history["generator"] == g].tolist(), known)
            for g, known in enumerate(self.contents.generators)
        ]

    def _page(self, name: str) -> list[LogEntry]:
        try:
            entries = PAGE.validate_json(self._read(f"{name}.json"))
        except ValidationError as error:
            raise ArchiveError(f"{name}.json: {error}") from None
        bodies = self._pieces(f"{name}.batches", [entry.bytes for entry in entries])
        sizes = [entry.context_bytes for entry in entries]
        contexts = self._pieces(f"{name}.contexts", sizes) if any(sizes) else [b""] * len(sizes)
        return [
            LogEntry(
                entry.seq,
                entry.pick,
                entry.rows,
                entry.digest,
                body,
                entry.record,
                retracts=entry.retracts,
                prompts=entry.prompts,
                indices=entry.indices,
                counted=entry.counted,
                context=context,
            )
            for entry, body, context in zip(entries, bodies, contexts, strict=True)
        ]

    def _pieces(self, name: str, sizes: Sequence[int]) -> list[bytes]:
        """A member that is as many pieces of these sizes."""
        joined = self._read(name)
        if sum(sizes) != len(joined):
            raise ArchiveError(f"{name} does not have the size of its entries")
        return [joined[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def _read(self, name: str) -> bytes:
        try:
            return self._zip.read(name)
        except _UNREADABLE as error:
            raise ArchiveError(f"the archive cannot be read: {error}") from None


def _by_position(batches: list[int], known: ArchivedGenerator) -> list[int]:
    """The rows of each entry of a generator's log, from those of its batches: a retraction has none."""
    rows = iter(batches)
    length = len(batches) + len(known.retracted)
    if len(known.retracted) < len(known.retractions) or max(known.retracted, default=0) > length:
        raise ArchiveError(f"the retractions of {known.name!r} do not match the history")
    return [0 if seq in known.retracted else next(rows) for seq in range(1, length + 1)]


def cut_history(history: bytes, counts: Sequence[int]) -> bytes:
    """The history without the batches of each generator after as many as it has in `counts`."""
    batches: NDArray[np.void] = np.frombuffer(history, HISTORY)
    keep = np.zeros(len(batches), dtype=bool)
    for generator, count in enumerate(counts):
        keep[np.flatnonzero(batches["generator"] == generator)[:count]] = True
    return batches[keep].tobytes()


def _by_label(name: str, label: str) -> str:
    """The name of a member that each metric has; label: "" for the primary one."""
    return f"{name}/{label}.safetensors" if label else f"{name}.safetensors"


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 in hex of the first `size` bytes. Leaves the file position after them."""
    file.seek(0)
    sha = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        sha.update(piece)
        size -= len(piece)
    return sha.hexdigest().encode()
