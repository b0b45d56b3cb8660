"""Exports that meet what happens meanwhile: a log trimmed under the reader, a deletion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

import pytest

from optimist.archive.exporting import Exporter
from optimist.archive.file import Archive, ArchiveWriter
from optimist.records import Contents, NotFound, Snapshot, Unavailable, UnitState
from optimist.store import Store
from optimist_client.metrics import InceptionScore
from optimist_client.models import Experiment
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import claimed


async def made(store: Store, *watched: str) -> Experiment:
    watch = [InceptionScore(dimension=3, label=label) for label in watched]
    config = config_of(name="x", generators=["a", "b"], metric=InceptionScore(dimension=3), watch=watch)
    experiment = experiment_of(config, created=1.0, instance="one")
    text = experiment.model_dump_json()
    await store.create_experiment("x", text, ["a", "b"], 0.0, instance="one", labels=["is", *watched])
    for number in range(6):
        await append(store, number)
    return experiment


async def append(store: Store, number: int) -> None:
    await store.append("x", number % 2, f"key {number}", Contents("digest", 5, f"body {number}".encode()))


async def trim(store: Store, generator: int = 0) -> None:
    claim = await claimed(store, "x", generator, "scorer", 60, "is")
    seq = (await store.state("x")).generators[generator].seq
    await store.put_snapshot("x", generator, seq, f"statistic at {seq}".encode(), claim, label="is")


async def exported(store: Store, experiment: Experiment) -> Archive:
    file = BytesIO()
    with ArchiveWriter(file) as writer:
        await Exporter(store, experiment, writer).run()
    return Archive(file)


def before(store: Store, monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], Any], times: int = 1) -> None:
    """Have something happen just before the next calls of a method of the store."""
    method, left = getattr(store, name), iter(range(times))

    async def disturbed(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is not None:
            await act()
        return await method(*arguments, **options)

    monkeypatch.setattr(store, name, disturbed)


def growing(store: Store) -> Callable[[], Awaitable[None]]:
    """A function that tells four batches more, and trims the first log."""
    numbers = iter(range(6, 1000))

    async def grow_and_trim() -> None:
        for _ in range(4):
            await append(store, next(numbers))
        await trim(store)

    return grow_and_trim


@pytest.mark.parametrize(("moment", "expected"), [("read_log", ([], 6)), ("snapshot", ([], 8)), ("history", ([4], 3))])
async def test_a_log_trimmed_meanwhile_is_read_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str, expected: tuple[list[int], int]
):
    experiment = await made(store)
    await trim(store)
    for number in (1000, 1001):
        await append(store, number)
    before(store, monkeypatch, moment, growing(store), times=2)
    archive = await exported(store, experiment)
    stored, snapshot = archive.state("any"), archive.snapshot(0, "is")
    logs = [[entry.seq for page in archive.log(g) for entry in page] for g in range(2)]
    assert snapshot is not None
    assert (logs[0], snapshot.seq) == expected
    assert snapshot.body == f"statistic at {snapshot.seq}".encode()
    assert stored.generators[0].seq == (logs[0] or [snapshot.seq])[-1]
    assert logs[1] == [1, 2, 3, 4], "the other generator is as of the first state"
    assert stored.told == len(archive.history) // 7 == stored.generators[0].seq + 4


@pytest.mark.parametrize("trimmed", [False, True])
async def test_a_snapshot_is_exported_with_the_estimate_that_came_before_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, trimmed: bool
):
    """Otherwise that estimate is due for ever after the import: it cannot be made from the snapshot."""
    experiment = await made(store)
    if trimmed:
        await trim(store)
    for number in (6, 8):
        await append(store, number)

    async def score_and_trim() -> None:
        claim = await claimed(store, "x", 0, "scorer", 60, "is")
        await store.put_estimate("x", 0, 5, '{"value": 1.0, "samples": 25}', claim, label="is")
        await trim(store)

    before(store, monkeypatch, "snapshot", score_and_trim)
    archive = await exported(store, experiment)
    (first, _) = archive.state("any").generators
    assert (archive.snapshot(0, "is") is None) == (not trimmed)
    assert first.primary.estimate_seq == (5 if trimmed else 0)
    assert first.due_seq == 5


async def test_a_log_trimmed_all_the_time_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch):
    experiment = await made(store)
    await trim(store)
    before(store, monkeypatch, "snapshot", growing(store), times=100)
    with pytest.raises(Unavailable, match="faster"):
        await exported(store, experiment)


@pytest.mark.parametrize("moment", ["state", "read_log", "history"])
async def test_an_experiment_deleted_meanwhile_is_not_exported(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str
):
    experiment = await made(store)

    async def replace() -> None:
        await store.delete_experiment("x")
        await store.create_experiment("x", "config", ["a", "b"], 0.0, instance="two", labels=[""])

    before(store, monkeypatch, moment, replace)
    with pytest.raises(NotFound):
        await exported(store, experiment)


async def watched(store: Store, seq: int) -> None:
    """Its estimate and its snapshot."""
    claim = await claimed(store, "x", 0, "scorer", 60, "again")
    text = f'{{"value": {seq}.0, "samples": {5 * seq}}}'
    await store.put_estimate("x", 0, seq, text, claim, label="again")
    await store.put_snapshot("x", 0, seq, f"again at {seq}".encode(), claim, label="again")


async def test_the_log_is_exported_from_the_oldest_snapshot_on(store: Store):
    experiment = await made(store, "again")
    await watched(store, 1)
    await trim(store)
    archive = await exported(store, experiment)
    assert [entry.seq for page in archive.log(0) for entry in page] == [2, 3]
    assert archive.snapshot(0, "again") == Snapshot(1, b"again at 1")
    assert archive.snapshot(0, "is") == Snapshot(3, b"statistic at 3")
    first, second = archive.state("any").generators
    assert first.units == {
        "is": UnitState(snapshot_seq=3),
        "again": UnitState(1, '{"value": 1.0, "samples": 5}', snapshot_seq=1),
    }
    assert second.units == {"is": UnitState(), "again": UnitState()}
    assert archive.state("any").labels == ("is", "again")


@pytest.mark.parametrize("moment", ["state", "read_log", "snapshot"])
async def test_a_watched_metric_is_never_exported_ahead_of_its_log(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str
):
    """The log grows, is scored and is trimmed at one moment of the export; what is exported belongs together."""
    experiment = await made(store, "again")
    await watched(store, 2)
    await trim(store)

    async def go_on() -> None:
        for number in (6, 8):
            await append(store, number)
        await watched(store, 5)
        await trim(store)

    before(store, monkeypatch, moment, go_on)
    archive = await exported(store, experiment)
    first = archive.state("any").generators[0]
    known = first.units["again"]
    assert known.estimate_seq <= first.due_seq == first.seq == 5
    positions = [entry.seq for page in archive.log(0) for entry in page]
    oldest = min(unit.snapshot_seq for unit in first.units.values())
    assert positions == list(range(oldest + 1, 6))
    assert not known.estimate_seq < first.due_seq <= known.snapshot_seq
