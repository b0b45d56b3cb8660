"""Reads and writes archives: one experiment as one file. It does not import torch.

An archive is a zip file with uncompressed members and no pickles:

    format                    "1", the version of the format
    logs/<n>.json, .batches   a page of a generator's log: its entries, and their concatenated bodies
    logs/<n>.contexts         the concatenated contexts of these entries, if any has one
    snapshots/<g>/<label>.safetensors   the statistic of generator <g> by a metric, at its `snapshot_position`
    said/<n>.json             what people said of samples, as `Store.said` shows it, if anybody was asked
    history                   seven bytes per batch, as in `Store.history`
    fitted/<label>.safetensors    the parts of the kernels of a metric that were fitted to the first samples
    references/<name>.json, .safetensors   the references of the metrics
    generators/<g>.json       `contents.ArchivedGenerator`
    experiment.json           `contents.Manifest` without its generators, the table of contents

The zip's comment is the SHA-256 (hex) of all bytes before it. Members that `experiment.json` does not name are ignored.
Counts are not stored: they are computed from the history.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from itertools import accumulate
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from optimist.archive.contents import (
    GENERATORS,
    PAGE,
    SAID,
    SAID_ENTRIES,
    ArchivedGenerator,
    Manifest,
    PageEntry,
    generator_state,
)
from optimist.json_sizes import check_size
from optimist.records import HISTORY, MAX_SAID, ExperimentState, LogEntry, RetractedLog, Said, Snapshot
from optimist_client.errors import FixError
from optimist_client.validation import each_in_words

Member = TypeVar("Member")

FORMAT = 1
"""The version of the format that is written, and the only one that is read."""
MEDIA_TYPE = "application/zip"
_DIGEST_BYTES = 64
"""Bytes of the digest at the end."""
_BEGINNING = b"PK\x03\x04"
_DIRECTORY = 4 * 2**20
"""Largest directory of the zip, in bytes: about 50,000 members."""
_DIRECTORY_WEIGHT = 20
"""Bytes of memory per byte of it."""
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q4sLQL")
_UNREADABLE = (struct.error, zipfile.BadZipFile, KeyError, ValueError, RuntimeError, EOFError)


class ArchiveWriter:
    """Writes one archive to an empty binary file, one member at a time. `finish` completes it. A context manager."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w")
        self._pages = 0
        with ExitStack() as failing:
            failing.callback(self._zip.close)  # as `__exit__` does
            self._add("format", str(FORMAT).encode())
            failing.pop_all()

    def add_page(self, entries: Sequence[LogEntry]) -> str:
        """Write a page of log entries, and return its name for `ArchivedGenerator.pages`."""
        self._pages += 1
        name = f"logs/{self._pages}"
        rows = [PageEntry(entry=entry, bytes=len(entry.body), context_bytes=len(entry.context)) for entry in entries]
        self._add(f"{name}.json", PAGE.dump_json(rows))
        self._add(f"{name}.batches", b"".join(entry.body for entry in entries))
        if contexts := b"".join(entry.context for entry in entries):
            self._add(f"{name}.contexts", contexts)
        return name

    def add_snapshot(self, generator: int, body: bytes, label: str) -> None:
        """Write a generator's statistic by one metric."""
        self._add(f"snapshots/{generator}/{label}.safetensors", body)

    def add_fitted(self, body: bytes, label: str) -> None:
        """Write the fitted parts of the kernels of one metric."""
        self._add(f"fitted/{label}.safetensors", body)

    def add_reference(self, name: str, info: str, body: bytes) -> None:
        """Write a reference of an experiment: its description, and its moments and rows."""
        self._add(f"references/{name}.json", info.encode())
        self._add(f"references/{name}.safetensors", body)

    def finish(self, contents: Manifest, history: bytes, said: Sequence[Said] = ()) -> None:
        """Write the history, what people said, the table of contents and the digest."""
        self._add("history", history)
        for number, start in enumerate(range(0, len(said), SAID_ENTRIES), start=1):
            self._add(f"said/{number}.json", SAID.dump_json([*said[start : start + SAID_ENTRIES]]))
        for ordinal, generator in enumerate(contents.generators):
            self._add(f"generators/{ordinal}.json", generator.model_dump_json().encode())
        self._add("experiment.json", contents.model_dump_json(exclude={"generators"}).encode())
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
    """Reads an archive from a binary file. Its digest is verified at once; members are read when requested.

    The constructor and all attributes raise FixError if the file is not an archive, is damaged or truncated, has an
    unknown version, or is inconsistent.
    """

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(len(_BEGINNING)) != _BEGINNING:
            raise FixError("expected an archive of an experiment, as written by export")
        whole = max(0, size - _DIGEST_BYTES)
        if _digest(file, whole) != file.read():
            raise FixError("the archive is damaged or truncated: its contents do not match its digest")
        try:
            self._directory = _directory_bytes(file, whole)
            if self._directory > _DIRECTORY:
                raise FixError(f"expected a directory of at most {_DIRECTORY} bytes, found {self._directory}")
            self._zip = zipfile.ZipFile(file)
        except FixError:
            raise
        except _UNREADABLE as error:
            raise FixError(f"the archive cannot be read: {error}") from None
        members = self._zip.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise FixError("expected an archive without compression, found compressed members")
        self._sizes = {member.filename: member.file_size for member in members}
        if len(self._sizes) < len(members) or sum(self._sizes.values()) > size:
            raise FixError("expected members that do not overlap, each of a name of its own")
        # It is read before memory is reserved, and repeated if it is wrong.
        version = self._read("format", 16).decode(errors="replace")
        if version != str(FORMAT):
            raise FixError(f"expected an archive of format {FORMAT}, found {version!r}")

    @property
    def memory(self) -> int:
        """The most bytes of memory that an import takes at once, by the sizes of the members.

        Measured, as multiples of their bytes: 24 for the history, up to 128 for JSON while it is parsed, though hardly
        more than 64 MiB with the values that are allowed, 3 for what is kept of it, and 4 for a body on its way to
        Redis and for a reference that is checked.
        """
        json = {name: size for name, size in self._sizes.items() if name.endswith(".json")}
        kept = sum(size for name, size in json.items() if name.startswith(("generators/", "experiment")))
        parsed = 128 * min(2**19, max(json.values(), default=0)) + 3 * kept
        bodies = 4 * max((size for name, size in self._sizes.items() if name != "history"), default=0)
        return _DIRECTORY_WEIGHT * self._directory + 24 * self._sizes.get("history", 0) + parsed + bodies

    @cached_property
    def contents(self) -> Manifest:
        """The table of contents, with its generators."""
        contents = self._parsed("experiment.json", TypeAdapter(Manifest))
        if contents.generators:
            raise FixError("experiment.json: expected each generator in a member of its own")
        count = sum(f"generators/{ordinal}.json" in self._sizes for ordinal in range(GENERATORS))
        adapter = TypeAdapter(ArchivedGenerator)
        return contents.model_copy(
            update={"generators": [self._parsed(f"generators/{ordinal}.json", adapter) for ordinal in range(count)]}
        )

    @cached_property
    def history(self) -> bytes:
        """Seven bytes per batch, as in `Store.history`."""
        return self._read("history")

    @cached_property
    def said(self) -> list[Said]:
        """Scores of samples by people, as from `Store.said`."""
        names = [f"said/{number}.json" for number in range(1, 2 + 2 * MAX_SAID // SAID_ENTRIES)]
        return [record for name in names if name in self._sizes for record in self._parsed(name, SAID)]

    @cached_property
    def _answers(self) -> list[dict[int, Said]]:
        """The entries of each log that are answers, by their positions."""
        answers: list[dict[int, Said]] = [{} for _ in self.contents.generators]
        for record in self.said:
            if record.generator >= len(answers) or (record.is_entry and record.seq in answers[record.generator]):
                raise FixError("what people said names a generator that does not exist, or an entry twice")
            if record.is_entry:
                answers[record.generator][record.seq] = record
        return answers

    def fitted(self, label: str) -> bytes | None:
        """The fitted parts of the kernels of one metric; None without any."""
        name = f"fitted/{label}.safetensors"
        return self._read(name) if name in self._sizes else None

    def reference(self, name: str) -> tuple[str, bytes]:
        """The description of a reference that the experiment names, and its moments and rows."""
        member = f"references/{name}"
        return self._read(f"{member}.json").decode(errors="replace"), self._read(f"{member}.safetensors")

    def snapshot(self, generator: int, label: str) -> Snapshot | None:
        """A generator's snapshot by one metric; None without one."""
        position = self.contents.generators[generator].units[label].snapshot_position
        return Snapshot(position, self._read(f"snapshots/{generator}/{label}.safetensors")) if position else None

    def log(self, generator: int) -> Iterator[list[LogEntry]]:
        """A generator's log entries in order, one page at a time."""
        archived, keeps_log = self.contents.generators[generator], self.contents.experiment.config.keep_log
        rows, position = self._rows[generator], None
        retracted = RetractedLog(archived.retractions)
        for page in archived.pages:
            entries = self._page(page)
            for entry in entries:
                expected = entry.seq if position is None else position + 1
                if entry.seq != expected or entry.seq > len(rows) or entry.rows != rows[entry.seq - 1]:
                    raise FixError(f"batch {entry.seq} of {archived.name!r} does not match the history")
                if entry.is_answer is not (entry.seq in self._answers[generator]):
                    raise FixError(f"entry {entry.seq} of {archived.name!r} does not match what people said")
                if not retracted.is_as_read(entry):
                    raise FixError(f"entry {entry.seq} of {archived.name!r} does not match the retractions")
                if entry.pick > self.contents.rounds:
                    raise FixError(f"batch {entry.seq} of {archived.name!r} belongs to a pick that does not exist")
                if not keeps_log and entry.record is not None:
                    raise FixError(f"batch {entry.seq} of {archived.name!r} has a record, and its log is not kept")
                if position is None and entry.seq > self._latest_beginning(generator):
                    raise FixError(f"the log of {archived.name!r} lacks its first batches")
                position = entry.seq
            yield entries
        if (archived.oldest_snapshot if position is None else position) != len(rows):
            raise FixError(f"the log of {archived.name!r} lacks the last batches of its history")

    def state(self, instance: str) -> ExperimentState:
        """The state of the experiment as `Store.state` will return it, with counts from the history."""
        config = self.contents.experiment.config
        return ExperimentState(
            rounds=self.contents.rounds,
            told=len(self.history) // HISTORY.itemsize,
            generators=[
                generator_state(ordinal, archived, rows, config.rescore_growth, answers)
                for ordinal, (archived, rows, answers) in enumerate(
                    zip(self.contents.generators, self._rows, self._answers, strict=True)
                )
            ],
            decision=self.contents.decision,
            controls=self.contents.controls,
            of_workers=self.contents.of_workers,
            instance=instance,
            keep_log=config.keep_log,
            labels=self.labels,
            limited=tuple(self.contents.experiment.config.also_deciding),
            mixture_growth=self.contents.experiment.mixture_growth,
            model_growth=self.contents.experiment.model_growth,
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all metrics, the deciding metric's first."""
        return tuple(self.contents.experiment.config.metrics)

    def _latest_beginning(self, generator: int) -> int:
        if self.contents.experiment.config.keep_log:
            return 1
        archived = self.contents.generators[generator]
        return max(archived.oldest_snapshot + 1, archived.restart, 1)

    @cached_property
    def _rows(self) -> list[NDArray[np.int64]]:
        """The rows of each entry of the log of each generator."""
        if len(self.history) % HISTORY.itemsize:
            raise FixError("the history is truncated")
        history = np.frombuffer(self.history, HISTORY)
        if len(history) and int(history["generator"].max()) >= len(self.contents.generators):
            raise FixError("the history names a generator that does not exist")
        return [
            _by_position(history["rows"][history["generator"] == g], archived, [*self._answers[g]])
            for g, archived in enumerate(self.contents.generators)
        ]

    def _page(self, name: str) -> list[LogEntry]:
        entries = self._parsed(f"{name}.json", PAGE)
        bodies = self._pieces(f"{name}.batches", [entry.bytes for entry in entries])
        sizes = [entry.context_bytes for entry in entries]
        contexts = self._pieces(f"{name}.contexts", sizes) if any(sizes) else [b""] * len(sizes)
        pieces = zip(entries, bodies, contexts, strict=True)
        return [replace(row.entry, body=body, context=context) for row, body, context in pieces]

    def _pieces(self, name: str, sizes: Sequence[int]) -> list[bytes]:
        """The pieces of a member, which has as many as there are sizes."""
        joined = self._read(name)
        if sum(sizes) != len(joined):
            raise FixError(f"{name} does not have the size of its entries")
        return [joined[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def _parsed(self, name: str, kind: TypeAdapter[Member]) -> Member:
        """A member of JSON, parsed. Its size is bounded before: pydantic takes some 0.7 kB, and 4 µs in which no other
        thread runs, for each unexpected value or field."""
        text = self._read(name, 16 * 2**20)
        try:
            check_size(text, 2**17, 2**17)
        except FixError as error:
            raise FixError(f"{name}: {error}") from None
        try:
            return kind.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[:1]
            raise FixError(f"{name}: {each_in_words(first)[:1000]}") from None

    def _read(self, name: str, max_bytes: float = math.inf) -> bytes:
        if (size := self._sizes.get(name, 0)) > max_bytes:
            raise FixError(f"{name}: expected at most {max_bytes} bytes, found {size}")
        try:
            # A piece at a time: a copy of all of it would hold the interpreter.
            body = BytesIO()
            with self._zip.open(name) as member:
                while piece := member.read(2**20):
                    body.write(piece)
            return body.getvalue()
        except _UNREADABLE as error:
            raise FixError(f"the archive cannot be read: {error}") from None


def _directory_bytes(file: BinaryIO, end: int) -> int:
    """The size of the directory of a zip file whose comment begins at `end`. Raises FixError without one.

    It is looked up before `zipfile` reads the directory, however large it is.
    """
    start = max(0, end - _END.size - _END_64.size)
    file.seek(start)
    tail = file.read(end - start)
    if tail[-_END.size :].rfind(b"PK\x05\x06") != 0:  # `zipfile` takes the last one that it finds
        raise FixError("the archive cannot be read: its directory does not end where its digest begins")
    size = _END.unpack(tail[-_END.size :])[5]
    if len(tail) == _END.size + _END_64.size:
        larger = _END_64.unpack(tail[: _END_64.size])
        if larger[10] == b"PK\x06\x07":  # `zipfile` looks for it here and nowhere else
            return max(size, larger[8])
    return size


def _by_position(
    batches: NDArray[np.integer], archived: ArchivedGenerator, answers: Sequence[int]
) -> NDArray[np.int64]:
    """The rows of each entry of a generator's log, from its batches' rows; retractions and answers have none.

    answers: their positions.
    """
    others = np.array(sorted({*archived.retracted, *answers}), dtype=np.int64)
    length = len(batches) + len(others)
    is_whole = len(others) == len(archived.retractions) + len(answers)
    if not is_whole or (len(others) and not 1 <= others[0] <= others[-1] <= length):
        raise FixError(f"the retractions and answers of {archived.name!r} do not match the history")
    rows, is_batch = np.zeros(length, np.int64), np.ones(length, dtype=bool)
    is_batch[others - 1] = False
    rows[is_batch] = batches
    return rows


def memory_to_open(size: int) -> int:
    """The most bytes of memory that it takes to open an archive of so many bytes."""
    return _DIRECTORY_WEIGHT * min(size, _DIRECTORY)


def cut_history(history: bytes, counts: Sequence[int]) -> bytes:
    """The history without the batches of each generator after as many as it has in `counts`."""
    batches: NDArray[np.void] = np.frombuffer(history, HISTORY)
    keep = np.zeros(len(batches), dtype=bool)
    for generator, count in enumerate(counts):
        keep[np.flatnonzero(batches["generator"] == generator)[:count]] = True
    return batches[keep].tobytes()


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 in hex of the first `size` bytes. Leaves the file position after them."""
    file.seek(0)
    sha = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, 2**20))):
        sha.update(piece)
        size -= len(piece)
    return sha.hexdigest().encode()
