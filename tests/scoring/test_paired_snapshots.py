"""Snapshots of generators, paired and unpaired: the same bits from any of them, and whatever the log is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import COMMON, Pairing
from optimist.records import LogEntry, RetractedLog, codec
from optimist.scoring.cached import DIGEST_BYTES, CachedStatistic
from optimist_client import tensors
from tests.support.logs import KINDS, Kind, applied, bits_of, entry, entry_of, log_of, retraction

PAIRED = {name: kind for name, kind in KINDS.items() if kind.bound == "influence"}
FEW = ("fid past rank", "is", "rke", "conditional-vendi")


def in_order(log: Sequence[LogEntry]) -> list[LogEntry]:
    ends = np.cumsum([0, *(told.rows for told in log)]).tolist()
    return [replace(told, indices=(start, told.rows)) for start, told in zip(ends, log, strict=False)]


def disordered(log: Sequence[LogEntry]) -> list[LogEntry]:
    """Two batches change places; half way one says that its one row of an index was told before, one says nothing."""
    log = in_order(log)
    log[2], log[3] = log[3], log[2]
    half = len(log) // 2
    first, _ = log[half].indices or (0, 0)
    log[half + 1] = replace(log[half + 1], indices=(first, 1))
    log[half + 3] = replace(log[half + 3], indices=())
    return [replace(told, seq=seq, pick=seq) for seq, told in enumerate(log, start=1)]


def warm_of(kind: Kind, growth: float = 0.1, **other) -> CachedStatistic:
    return CachedStatistic(kind.make(), growth, paired=True, **other)


def pairing(stored: str) -> Pairing:
    found = codec.decode(Estimate, stored).pairing
    assert found is not None
    return found


EVERY = [*((name, False) for name in KINDS), *((name, True) for name in PAIRED)]


def soon(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a case of this kind: few of them are tried before each push."""
    return [] if name in FEW else [pytest.mark.long]


@pytest.mark.parametrize(("name", "paired"), [pytest.param(*case, marks=soon(case[0])) for case in EVERY])
def test_the_bits_of_the_whole_log_from_any_snapshot_and_in_any_pages(name: str, paired: bool):
    kind = KINDS[name]
    log = in_order(log_of(kind, 36)) if paired else log_of(kind, 36)
    whole = CachedStatistic(kind.make(), 0.1, paired=paired)
    made = applied(whole, log, 1)
    newest = max(made)
    assert len(made) > 12
    assert whole.estimator.statistic.samples == sum(told.rows for told in log)
    if paired:
        last = pairing(made[newest])
        assert last.told == (0, sum(told.rows for told in log[:newest]))
        assert len(last.history) > 10
    for page, wanted in ((7, 0), (36, newest)):
        other = CachedStatistic(kind.make(), 0.1, paired=paired)
        found = applied(other, log, page, newest=wanted)
        assert found.items() <= made.items()
        assert newest in found or not wanted
        assert other.freeze() == whole.freeze()
    for position in (1, 7, 25):
        begun = CachedStatistic(kind.make(), 0.1, paired=paired)
        applied(begun, log[:position], 4, 8)
        body = begun.freeze()
        resumed = CachedStatistic.thaw(body, position, kind.make(), 0.1, paired=paired)
        assert (resumed.seq, resumed.tail) == (position, 0)
        assert resumed.freeze() == body
        later = applied(resumed, log[position:], 3, 1)
        assert later.items() <= made.items()
        assert newest in later
        assert bits_of(resumed.estimator) == bits_of(whole.estimator)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("fid past rank", marks=pytest.mark.long),
        "is",
        "rke",
        pytest.param("conditional-vendi", marks=pytest.mark.long),
    ],
)
def test_late_repeated_and_missing_indices_too(name: str):
    kind = PAIRED[name]
    log = disordered(log_of(kind, 60))
    whole = warm_of(kind, 0.0)
    made = applied(whole, log, 1)
    found = pairing(made[60])
    again, without = log[31], log[33]
    assert found.end == sum(told.rows for told in log)
    assert sum(found.told[1::2]) - sum(found.told[::2]) == found.end - again.rows - without.rows
    # They are missing for good: the history ends there.
    assert found.history[-1].samples <= sum(told.rows for told in log[:31])
    assert len(found.history) > 8
    for position in (3, 31, 40):
        begun = warm_of(kind, 0.0)
        applied(begun, log[:position], position)
        resumed = CachedStatistic.thaw(begun.freeze(), position, kind.make(), 0.0, paired=True)
        assert applied(resumed, log[position:], 60).items() <= made.items()
        assert bits_of(resumed.estimator) == bits_of(whole.estimator)


def test_the_rows_kept_are_those_told_to_the_last_bit():
    kind = PAIRED["conditional-vendi"]
    log = in_order(log_of(kind, 80))
    order = np.random.default_rng(0).permutation(80)
    cached = warm_of(kind, 1.0)
    applied(cached, [replace(log[place], seq=seq, pick=seq) for seq, place in enumerate(order, start=1)], 10)
    kept = cached.estimator.state()
    for name in kind.widths:
        rows = np.concatenate([tensors.decode(told.body)[name] for told in log])[:COMMON]
        assert kept[f"paired/common/rows/{name}"].numpy().tobytes() == rows.tobytes()
    assert cached.bytes == sum(tensor.nbytes for tensor in kept.values())


def test_a_batch_that_cannot_be_read_leaves_a_gap():
    kind = PAIRED["fid past rank"]
    log = in_order(log_of(kind, 20))
    cached = warm_of(kind, 0.0)
    broken = [*log[:9], replace(log[9], digest="0" * 64), *log[10:]]
    found = pairing(applied(cached, broken, 1)[20])
    first, rows = log[9].indices or (0, 0)
    assert found.told == (0, first, first + rows, sum(told.rows for told in log))
    assert np.isnan(found.influence[first : first + rows]).all()
    assert np.isfinite(found.influence[:first]).all()
    assert first / 1.08 < found.history[-1].samples <= first
    # Indices that cannot be are as bad as a body that cannot be read.
    impossible = [*log[:9], replace(log[9], indices=(first, rows + 1)), *log[10:]]
    step = warm_of(kind, 0.0).apply(impossible)
    assert [seq for seq, _ in step.unreadable] == [10]
    assert step.scored is not None
    assert step.scored.estimate.pairing == found


def retracted_at(log: Sequence[LogEntry], position: int, retracted: int) -> tuple[list[LogEntry], RetractedLog]:
    """The log with a retraction at this position, of the batch at `retracted`, whose indices are told again after."""
    record = retraction(position, retracted)
    again = replace(log[retracted - 1], seq=position + 1, pick=position + 1)
    later = [replace(told, seq=told.seq + 2, pick=told.seq + 2) for told in log[position - 1 :]]
    return [*log[: position - 1], entry_of(record), again, *later], RetractedLog([record])


@pytest.mark.parametrize("name", [pytest.param("fid past rank", marks=pytest.mark.long), "rke", "conditional-vendi"])
def test_after_a_retraction_the_history_is_that_of_the_log_without_the_batch(name: str):
    kind = PAIRED[name]
    plain = in_order(log_of(kind, 30))
    log, retracted = retracted_at(plain, 16, 9)
    whole = warm_of(kind, 0.0, retracted=retracted)
    made = applied(whole, log, 1)
    assert min(made) == 16, "nothing is published before the retraction"
    first = (plain[8].indices or (0, 0))[0]
    assert first / 1.08 < pairing(made[16]).history[-1].samples <= first
    # Once its indices are told again, nothing is missing any more.
    last = pairing(made[32])
    assert last.told == (0, sum(told.rows for told in plain))
    later = [past.samples for past in last.history if past.samples > first]
    assert later[0] == sum(told.rows for told in plain[:15])
    frozen = whole.freeze()
    for page in (4, 32):
        other = warm_of(kind, 0.0, retracted=retracted)
        assert applied(other, log, page).items() <= made.items()
        assert other.freeze() == frozen
    # A snapshot from before the batch stands; it was made when nobody knew of the retraction.
    begun = warm_of(kind, 0.0)
    applied(begun, log[:8], 3)
    resumed = CachedStatistic.thaw(begun.freeze(), 8, kind.make(), 0.0, retracted=retracted, paired=True)
    assert applied(resumed, log[8:], 5).items() <= made.items()
    assert resumed.freeze() == frozen


def test_after_a_retraction_of_everything_indices_begin_at_0_again():
    kind = PAIRED["is"]
    log = in_order(log_of(kind, 12))
    record = retraction(13, 0)
    again = [replace(told, seq=told.seq + 13, pick=told.seq + 13) for told in log]
    cached = warm_of(kind, retracted=RetractedLog([record]))
    made = applied(cached, [entry_of(record), *again], 25)
    fresh = warm_of(kind)
    expected = applied(fresh, log, 12)
    assert list(made.values()) == list(expected.values())
    assert bits_of(cached.estimator) == bits_of(fresh.estimator)


def test_snapshots_of_paired_and_of_unpaired_generators_are_told_apart():
    kind = PAIRED["rke"]
    log = in_order(log_of(kind, 6))
    bodies = []
    for paired in (False, True):
        cached = CachedStatistic(kind.make(), 0.0, paired=paired)
        cached.apply(log)
        bodies.append(cached.freeze())
    for paired, body in zip((True, False), bodies, strict=True):
        with pytest.raises(ValueError, match=r"the snapshot cannot be read|of another kind"):
            CachedStatistic.thaw(body, 6, kind.make(), 0.0, paired=paired)
    names = load(bodies[0][DIGEST_BYTES:]).keys()
    found = {name.partition("/")[0] for name in names}
    assert found == {"format", "meaning", "samples", "last_due", "statistic", "reservoir", "clusters"}


def test_a_generator_that_was_told_nothing_can_be_frozen():
    kind = PAIRED["is"]
    body = warm_of(kind).freeze()
    cached = CachedStatistic.thaw(body, 0, kind.make(), 0.1, paired=True)
    assert cached.freeze() == body
    log = in_order([entry(1, kind.arrays(3, seed=1))])
    assert pairing(applied(cached, log, 1)[1]).end == 3
