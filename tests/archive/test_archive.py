"""The file that an experiment is exported to: whole, or refused."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from io import BytesIO
from typing import Any

import pytest

from optimist.archive.contents import ArchivedGenerator, ArchivedUnit, Manifest
from optimist.archive.file import Archive, ArchiveWriter, cut_history
from optimist.records import LogEntry, Quarantined, Returned, Snapshot
from optimist_client import FixError
from tests.support.configs import config_of, experiment_of

ENTRIES = [LogEntry(seq, 10 + seq, seq, f"digest {seq}", bytes([seq]) * seq) for seq in range(1, 6)]
CONFIG = config_of(name="x", generators=["a", "b"], metric="is", dimension=3, rescore_growth=0.5)


def event(generator: int, rows: int) -> bytes:
    return generator.to_bytes(2, "little") + b"\0" + rows.to_bytes(4, "little")


HISTORY = b"".join(event(0, entry.rows) for entry in ENTRIES)


def written(pages: tuple[list[LogEntry], ...] = (ENTRIES[3:4], ENTRIES[4:]), **changes: Any) -> BytesIO:
    """An archive of two generators, the first with a snapshot at 3 and two batches after it."""
    file = BytesIO()
    with ArchiveWriter(file) as writer:
        write(writer, pages, **changes)
    return file


def write(writer: ArchiveWriter, pages: tuple[list[LogEntry], ...], **changes: Any) -> None:
    writer.add_snapshot(0, b"statistic", "is")
    generator = ArchivedGenerator(
        name="a",
        state="active",
        handed=0,
        returned=[Returned(0, 5)],
        units={
            "is": ArchivedUnit(
                estimate_position=3, estimate="{}", snapshot_position=changes.pop("snapshot_position", 3)
            )
        },
        quarantined=[Quarantined(2, "torn")],
        quarantined_count=1,
        pages=[writer.add_page(page) for page in pages],
    )
    blank = {"returned": [], "units": {"is": ArchivedUnit()}, "quarantined": [], "quarantined_count": 0}
    other = generator.model_copy(update={"name": "b", "pages": [], **blank})
    contents = {
        "experiment": experiment_of(changes.pop("config", CONFIG), created=1.0, instance="i"),
        "rounds": 15,
        "controls": {},
        "decision": None,
        "generators": [generator, other],
    }
    history = changes.pop("history", HISTORY)
    writer.finish(Manifest(**{**contents, **changes}), history)


def read(file: BytesIO) -> list[LogEntry]:
    archive = Archive(file)
    return [entry for g in range(len(archive.contents.generators)) for page in archive.log(g) for entry in page]


def test_what_was_written_is_read():
    assert written().getvalue() == written().getvalue()
    with zipfile.ZipFile(written()) as members:
        assert members.testzip() is None, "any program opens it"
        assert members.namelist()[0] == "format"
    archive = Archive(written())
    assert archive.contents == Manifest.model_validate_json(archive.contents.model_dump_json())
    assert [list(page) for page in archive.log(0)] == [ENTRIES[3:4], ENTRIES[4:]]
    assert (archive.snapshot(0, "is"), archive.snapshot(1, "is")) == (Snapshot(3, b"statistic"), None)
    assert (archive.history, archive.fitted("is")) == (HISTORY, None)
    stored = archive.state("new")
    a, b = stored.generators
    # 2 samples or more, then half as many again: due after 3, 6 and 10 of the 15 samples, and after the last.
    assert (a.samples, a.batches, a.seq, a.due_samples, a.due_seq) == (15, 5, 5, 15, 5)
    assert (b.samples, b.seq, stored.told, stored.rounds, stored.instance) == (0, 0, 5, 15, "new")


def test_contexts_are_members_of_their_own_where_there_are_any():
    entries = [dataclasses.replace(entry, context=b"context" * (entry.seq - 4)) for entry in ENTRIES[3:]]
    file = written(pages=(entries[:1], entries[1:]))
    assert read(file) == entries
    lacking = BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(lacking, "w") as members:
        assert [name for name in old.namelist() if name.endswith(".contexts")] == ["logs/2.contexts"]
        for name in old.namelist():
            members.writestr(name, old.read(name)[: 6 if name.endswith(".contexts") else None])
        members.comment = bytes(64)
    with pytest.raises(FixError, match=r"logs/2\.contexts does not have the size"):
        read(signed(lacking))


def test_no_byte_can_be_another_and_none_can_be_missing():
    whole = written().getvalue()
    for at in range(len(whole)):
        with pytest.raises(FixError):
            Archive(BytesIO(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]))
        with pytest.raises(FixError):
            Archive(BytesIO(whole[:at]))


KEPT = CONFIG.model_copy(update={"keep_log": True})
WRONG_ROWS = dataclasses.replace(ENTRIES[3], rows=9)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pages": (ENTRIES[4:],)}, "lacks its first batches"),
        ({"pages": (ENTRIES[3:],), "snapshot_position": 0}, "lacks its first batches"),
        ({"pages": (ENTRIES[1:],), "config": KEPT}, "lacks its first batches"),
        ({"pages": (ENTRIES[3:4],)}, "lacks the last batches"),
        ({"pages": ()}, "lacks the last batches"),
        ({"pages": (ENTRIES[2:3], ENTRIES[4:])}, "does not match the history"),
        ({"pages": ([WRONG_ROWS], ENTRIES[4:])}, "does not match the history"),
        ({"history": HISTORY[:28]}, "does not match the history"),
        ({"history": HISTORY + event(0, 5)}, "lacks the last batches"),
        ({"history": HISTORY + event(1, 5)}, "'b' lacks the last batches"),
        ({"history": HISTORY + event(2, 5)}, "does not exist"),
        ({"history": HISTORY[:-1]}, "the history is truncated"),
        ({"rounds": 14}, "a pick that does not exist"),
        ({"pages": (ENTRIES[2:], [])}, None),
        ({"pages": (ENTRIES,), "config": KEPT}, None),
    ],
)
def test_one_that_contradicts_itself_is_refused(changes: dict[str, Any], reason: str | None):
    file = written(**changes)
    if reason is None:
        assert read(file)[-1] == ENTRIES[-1]
    else:
        with pytest.raises(FixError, match=reason):
            read(file)


def test_members_that_are_packed_or_missing_are_refused():
    packed, lacking = BytesIO(), BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("format", "1" * 100_000)
        members.comment = bytes(64)
    with zipfile.ZipFile(written()) as old, zipfile.ZipFile(lacking, "w") as members:
        for name in old.namelist():
            if not name.endswith(".batches"):
                members.writestr(name, old.read(name))
        members.comment = bytes(64)
    with pytest.raises(FixError, match="without compression"):
        Archive(signed(packed))
    with pytest.raises(FixError, match=r"logs/1\.batches"):
        read(signed(lacking))


def signed(file: BytesIO) -> BytesIO:
    """The file with a digest that is right."""
    content = file.getvalue()[:-64]
    return BytesIO(content + hashlib.sha256(content).hexdigest().encode())


def test_a_history_is_cut_where_each_generator_stood():
    history = b"".join(event(g, rows) for g, rows in [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)])
    assert cut_history(history, [2, 1]) == b"".join(event(g, rows) for g, rows in [(0, 1), (1, 2), (0, 3)])
    assert cut_history(b"", [0]) == b""
