"""An experiment as one file: what it holds, how it is written, and how it is read. Free of torch.

A zip of uncompressed members (any unzip opens it; nothing is pickled):

    format                    "1", the version of all that follows
    logs/<n>.json, .batches   a page of a generator's log: its entries, and their bodies one after the other
    snapshots/<g>.safetensors the statistic of generator <g> at its `snapshot_position`
    history                   seven bytes a batch, as `Store.history`
    fitted.safetensors        what the first samples fixed of the kernels
    reference.json, .safetensors   the moments that are compared with
    experiment.json           `Contents`, the table of contents

The zip's comment is the SHA-256 (hex) of every byte before it. Members that `experiment.json` does not name count for
nothing. Counts are not stored: they follow from the history.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Annotated, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from optimist.numerics.estimate import is_due
from optimist.store.formats import HISTORY
from optimist.store.records import GeneratorState, LogEntry, Look, Returned, SetAside, Snapshot, Suspect
from optimist_client.models import Experiment
from optimist_client.models import GeneratorState as State
from optimist_client.wire import GeneratorName, Wire

FORMAT = 1
MEDIA_TYPE = "application/zip"
_DIGEST_BYTES = 64
_PIECE = 2**20
_BEGINNING = b"PK\x03\x04"
_UNREADABLE = (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, EOFError)

Count = Annotated[int, Field(ge=0)]
Position = Annotated[int, Field(ge=1)]
Stored = Annotated[str, Field(pattern=r"^[0-9]{0,15}\t[^\t]{0,500}$")]
"""`Suspect.stored`."""
_NUMBER = r"[0-9]{1,25}(\.[0-9]{1,25})?(e[+-][0-9]{1,3})?"
Sizes = Annotated[str, Field(pattern=rf"^[0-9]{{1,15}}( (-|{_NUMBER}))*$", max_length=500)]
NOT_EMPTY = Field(exclude_if=lambda value: not value)
"""Left out where it says nothing: a service that does not know it can read the archive then."""


class ArchiveError(ValueError):
    """The file is not one that can be imported; the message says why."""


class ArchivedGenerator(Wire):
    """A generator, and where its part of the log and its snapshot are."""

    name: GeneratorName
    state: State
    handed: Count
    returned: list[tuple[Position, Count, Position]]
    """Slices of prompts that were not told: pick, start and size."""
    estimate_position: Count
    estimate: str | None
    aside: dict[Position, str]
    aside_count: Count
    suspects: Annotated[dict[Position, Stored], Field(max_length=256), NOT_EMPTY] = Field(default_factory=dict)
    large: Annotated[Count, NOT_EMPTY] = 0
    copies: Annotated[Count, NOT_EMPTY] = 0
    twins: Annotated[dict[Count, Position], NOT_EMPTY] = Field(default_factory=dict)
    """What is odd about its batches, as `GeneratorState` has it."""
    snapshot_position: Count
    """0 where there is no snapshot."""
    pages: list[str]
    """Members that hold the log, in order: from the first batch on, or from the one after the snapshot or earlier."""


class Contents(Wire):
    """All that is not a body; strings are the store's, as it gives them."""

    experiment: Experiment
    rounds: Count
    controls: dict[str, str]
    decision: str | None
    generators: list[ArchivedGenerator]
    sizes: Annotated[dict[Annotated[str, Field(pattern=r"^(usual|[0-9]{1,3})$")], Sizes], NOT_EMPTY] = Field(
        default_factory=dict
    )
    """What batches are compared with, as `Store.usual_sizes` gives it."""


class _Entry(Wire):
    seq: Position
    pick: Count
    rows: Position
    digest: str
    bytes: Count
    record: str | None


_ENTRIES = TypeAdapter(list[_Entry])


class ArchiveWriter:
    """Writes one archive to an empty binary file, a member at a time; `finish` makes it whole. A context manager."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w")
        self._pages = 0
        self._add("format", str(FORMAT).encode())

    def add_page(self, entries: Sequence[LogEntry]) -> str:
        """Write some entries of a log, and return the name for `ArchivedGenerator.pages`."""
        self._pages += 1
        name = f"logs/{self._pages}"
        rows = [_entry(entry) for entry in entries]
        self._add(f"{name}.json", _ENTRIES.dump_json(rows))
        self._add(f"{name}.batches", b"".join(entry.body for entry in entries))
        return name

    def add_snapshot(self, generator: int, body: bytes) -> None:
        """Write a generator's statistic."""
        self._add(f"snapshots/{generator}.safetensors", body)

    def add_fitted(self, body: bytes) -> None:
        """Write what the first samples fixed."""
        self._add("fitted.safetensors", body)

    def add_reference(self, info: str, body: bytes) -> None:
        """Write the reference's description and moments."""
        self._add("reference.json", info.encode())
        self._add("reference.safetensors", body)

    def finish(self, contents: Contents, history: bytes) -> None:
        """Write the rest, and the digest of everything."""
        self._add("history", history)
        self._add("experiment.json", contents.model_dump_json().encode())
        self._zip.comment = bytes(_DIGEST_BYTES)
        self._zip.close()
        digest = _digest(self._file, self._file.seek(-_DIGEST_BYTES, 2))
        self._file.write(digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()  # else it would be once the file no longer is open

    def _add(self, name: str, body: bytes) -> None:
        # With no date the same experiment makes the same file.
        self._zip.writestr(zipfile.ZipInfo(name), body)


class Archive:
    """A binary file that holds an archive, its digest verified; bodies are read as they are asked for.

    Raises ArchiveError, here and in every method, where the file is not an archive, is damaged or cut short, is of
    another version, or contradicts itself.
    """

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(len(_BEGINNING)) != _BEGINNING:
            raise ArchiveError("expected an archive of an experiment, as export writes it")
        whole = max(0, size - _DIGEST_BYTES)
        if _digest(file, whole) != file.read():
            raise ArchiveError("the archive is damaged or cut short: its contents do not match its digest")
        try:
            self._zip = zipfile.ZipFile(file)
        except _UNREADABLE as error:
            raise ArchiveError(f"the archive cannot be read: {error}") from None
        if any(member.compress_type != zipfile.ZIP_STORED for member in self._zip.infolist()):
            raise ArchiveError("expected an archive without compression")
        version = self._read("format").decode(errors="replace")
        if version != str(FORMAT):
            raise ArchiveError(f"expected an archive of format {FORMAT}, found {version!r}")
        try:
            self.contents = Contents.model_validate_json(self._read("experiment.json"))
        except ValidationError as error:
            raise ArchiveError(f"experiment.json: {error}") from None
        self.history = self._read("history")
        self._rows = self._rows_by_generator()

    @property
    def fitted(self) -> bytes | None:
        """What the first samples fixed, if anything."""
        return self._read("fitted.safetensors") if "fitted.safetensors" in self._zip.namelist() else None

    def reference(self) -> tuple[str, bytes]:
        """Description and moments of the reference, where the experiment has one."""
        return self._read("reference.json").decode(errors="replace"), self._read("reference.safetensors")

    def snapshot(self, generator: int) -> Snapshot | None:
        """A generator's statistic, if it has one."""
        position = self.contents.generators[generator].snapshot_position
        return Snapshot(position, self._read(f"snapshots/{generator}.safetensors")) if position else None

    def log(self, generator: int) -> Iterator[list[LogEntry]]:
        """A generator's entries in order, a page at a time."""
        known = self.contents.generators[generator]
        rows, position = self._rows[generator], None
        for page in known.pages:
            entries = self._page(page)
            for entry in entries:
                expected = entry.seq if position is None else position + 1
                if entry.seq != expected or entry.seq > len(rows) or entry.rows != rows[entry.seq - 1]:
                    raise ArchiveError(f"batch {entry.seq} of {known.name!r} is not the one of the history")
                if entry.pick > self.contents.rounds:
                    raise ArchiveError(f"batch {entry.seq} of {known.name!r} is of a pick that was never made")
                if position is None and entry.seq > self._latest_beginning(generator):
                    raise ArchiveError(f"the log of {known.name!r} begins too late")
                position = entry.seq
            yield entries
        if (known.snapshot_position if position is None else position) != len(rows):
            raise ArchiveError(f"the log of {known.name!r} ends before its history does")

    def look(self, instance: str) -> Look:
        """The experiment as `Store.look` will show it, with counts from the history."""
        config = self.contents.experiment.config
        return Look(
            rounds=self.contents.rounds,
            told=sum(map(len, self._rows)),
            generators=[
                _state(ordinal, known, rows, config.rescore_growth)
                for ordinal, (known, rows) in enumerate(zip(self.contents.generators, self._rows, strict=True))
            ],
            decision=self.contents.decision,
            controls=self.contents.controls,
            instance=instance,
            keep_log=config.keep_log,
        )

    def _latest_beginning(self, generator: int) -> int:
        if self.contents.experiment.config.keep_log:
            return 1
        return self.contents.generators[generator].snapshot_position + 1

    def _rows_by_generator(self) -> list[list[int]]:
        if len(self.history) % HISTORY.itemsize:
            raise ArchiveError("the history is cut short")
        history = np.frombuffer(self.history, HISTORY)
        generators = len(self.contents.generators)
        if len(history) and int(history["generator"].max()) >= generators:
            raise ArchiveError("the history has a generator that does not exist")
        return [history["rows"][history["generator"] == g].tolist() for g in range(generators)]

    def _page(self, name: str) -> list[LogEntry]:
        try:
            entries = _ENTRIES.validate_json(self._read(f"{name}.json"))
        except ValidationError as error:
            raise ArchiveError(f"{name}.json: {error}") from None
        bodies = self._read(f"{name}.batches")
        if sum(entry.bytes for entry in entries) != len(bodies):
            raise ArchiveError(f"{name}.batches has another size than its entries")
        ends = np.cumsum([entry.bytes for entry in entries]).tolist()
        return [
            LogEntry(entry.seq, entry.pick, entry.rows, entry.digest, bodies[end - entry.bytes : end], entry.record)
            for entry, end in zip(entries, ends, strict=True)
        ]

    def _read(self, name: str) -> bytes:
        try:
            return self._zip.read(name)
        except _UNREADABLE as error:
            raise ArchiveError(f"the archive cannot be read: {error}") from None


def cut_history(history: bytes, positions: Sequence[int]) -> bytes:
    """The history without what each generator was told after its log position in `positions`."""
    batches: NDArray[np.void] = np.frombuffer(history, HISTORY)
    keep = np.zeros(len(batches), dtype=bool)
    for generator, position in enumerate(positions):
        keep[np.flatnonzero(batches["generator"] == generator)[:position]] = True
    return batches[keep].tobytes()


def _state(ordinal: int, known: ArchivedGenerator, rows: Sequence[int], growth: float) -> GeneratorState:
    samples = due_samples = due_seq = 0
    for seq, count in enumerate(rows, start=1):
        samples += count
        if is_due(samples, due_samples, growth):
            due_samples, due_seq = samples, seq
    return GeneratorState(
        ordinal=ordinal,
        name=known.name,
        samples=samples,
        batches=len(rows),
        seq=len(rows),
        due_samples=due_samples,
        due_seq=due_seq,
        estimate_seq=known.estimate_position,
        estimate=known.estimate,
        handed=known.handed,
        returned=[Returned(*slice_) for slice_ in known.returned],
        state=known.state,
        snapshot_seq=known.snapshot_position,
        aside=[SetAside(seq, reason) for seq, reason in sorted(known.aside.items())],
        aside_count=known.aside_count,
        suspects=[Suspect.of(seq, stored) for seq, stored in sorted(known.suspects.items())],
        large=known.large,
        copies=known.copies,
        twins=known.twins,
    )


def _entry(entry: LogEntry) -> _Entry:
    return _Entry(
        seq=entry.seq,
        pick=entry.pick,
        rows=entry.rows,
        digest=entry.digest,
        bytes=len(entry.body),
        record=entry.record,
    )


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 in hex of the first `size` bytes, after which the file stands then."""
    file.seek(0)
    sha = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        sha.update(piece)
        size -= len(piece)
    return sha.hexdigest().encode()
