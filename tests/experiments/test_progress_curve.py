"""Checkpoints of the history: few, exact, and the same however the history came."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.experiments.curves import MAX_CHECKPOINTS, MAX_POINTS, REMEMBERED, ProgressCurve, stride_of
from optimist.records import HISTORY, CurvePoint


def history(rounds: int, generators: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    batches = np.zeros(rounds, HISTORY)
    batches["generator"] = rng.integers(generators, size=rounds)
    batches["rows"] = rng.integers(1, 9, size=rounds)
    return batches


@given(cuts=st.lists(st.integers(0, 3000), max_size=6), after=st.integers(0, 3100))
def test_checkpoints_hold_what_the_history_does_however_it_came(cuts: list[int], after: int):
    batches = history(3000, 3)
    edges = [0, *sorted(cuts), 3000]
    curve = ProgressCurve()
    for start, end in itertools.pairwise(edges):
        curve = curve.then(batches[start:end].tobytes(), {"": [[], [], []]})
    rounds, samples, counts = curve.checkpoints(after)
    stride = stride_of(3000)
    assert rounds == [at for at in [*range(stride, 3000, stride), 3000] if at > after - stride]
    for at, told, row in zip(rounds, samples, counts, strict=True):
        assert told == batches["rows"][:at].sum()
        assert row.tolist() == np.bincount(batches["generator"][:at], minlength=3).tolist()


@pytest.mark.parametrize("told", [0, 1, 255, 256, 257, 511, 512, 513, 100_000, 1_000_003])
def test_checkpoints_are_few_and_earlier_ones_stay(told: int):
    stride = stride_of(told)
    assert -(-told // stride) <= MAX_CHECKPOINTS
    assert stride == 1 or told // stride >= MAX_CHECKPOINTS // 2
    assert stride_of(2 * told) % stride == 0


def test_a_generator_that_joins_had_no_batches_before():
    curve = (
        ProgressCurve()
        .then(history(300, 2).tobytes(), {"": [[], []]})
        .then(history(300, 3).tobytes(), {"": [[], [], []]})
    )
    rounds, _, counts = curve.checkpoints(0)
    assert rounds[-1] == 600
    assert counts[:75, 2].tolist() == [0] * 75
    assert counts[-1].sum() == 600
    assert counts[-1, 2] == np.count_nonzero(history(300, 3)["generator"] == 2)


def test_curves_are_thinned_to_what_can_be_drawn_and_end_with_the_newest():
    points = [[CurvePoint(told, told, f"[{told},1.5,null,2]") for told in range(1, 501)] for _ in range(20)]
    curve = ProgressCurve().then(history(500, 20).tobytes(), {"": points})
    names = [f"g{g}" for g in range(20)]
    whole = curve.generators(names, curve.checkpoints(0)[2], 0)
    assert sum(len(known.curve.samples) for known in whole) <= MAX_POINTS
    assert all(known.curve.samples[-1] == 500 for known in whole)
    newest = curve.generators(names, curve.checkpoints(490)[2], 490)
    assert newest[0].curve.told == list(range(489, 501))
    assert (newest[0].curve.scores[0], newest[0].curve.lower[0], newest[0].curve.upper[0]) == (1.5, None, 2)


def test_a_course_follows_only_from_what_was_read_before():
    batches, points = history(1000, 2).tobytes(), [[CurvePoint(n, n, f"[{n},1.5,1,2]") for n in (5, 700)], []]
    watched = [[CurvePoint(n, n, f"[{n},9,8,10]") for n in (6, 800)], []]
    curve = ProgressCurve().then(batches[: 7 * 600], {"": [points[0][:1], []], "rke": [watched[0][:1], []]})
    start = curve.start
    assert start == 7 * (600 - REMEMBERED)
    assert (curve.starts("", 2), curve.starts("rke", 3), curve.starts("is", 2)) == ([0, 0], [0, 0, 0], [0, 0])
    followed = curve.follows(batches[start:], {"": [*points, []], "rke": [*watched, []]})  # and a generator joined
    whole = ProgressCurve().then(batches, {"": [*points, []]})
    assert followed.checkpoints(0)[2].tolist() == whole.checkpoints(0)[2].tolist()
    kept = {label: [[point.seq for point in curve] for curve in curves] for label, curves in followed.points.items()}
    assert kept == {"": [[5, 700], [], []], "rke": [[6, 800], [], []]}
    shorter, others = batches[start : 7 * 599], batches[start : 7 * 599] + history(1, 2, seed=9).tobytes()
    assert curve.follows(shorter, {"": points, "rke": watched}) is None
    assert curve.follows(others, {"": points, "rke": watched}) is None
    assert curve.follows(batches[start:], {"": [[CurvePoint(5, 5, "[5,1.6,1,2]")], []], "rke": watched}) is None
    assert curve.follows(batches[start:], {"": [[], []], "rke": watched}) is None
    assert curve.follows(batches[start:], {"": points, "rke": [[], []]}) is None


def test_curves_of_watched_metrics_come_by_label_and_share_their_limit():
    points = {"": 10, "rke": 3 * MAX_POINTS, "is": MAX_POINTS}
    curve = ProgressCurve().then(
        history(500, 1).tobytes(),
        {label: [[CurvePoint(n, n, f"[{n},1.5,1,2]") for n in range(1, most + 1)]] for label, most in points.items()},
    )
    [known] = curve.generators(["a"], curve.checkpoints(0)[2], 0)
    assert len(known.curve.samples) == 10
    assert {label: len(kept.samples) for label, kept in known.watched.items()} == {"rke": 3000, "is": 1000}
    assert known.watched["rke"].samples[-1] == 3 * MAX_POINTS
    [known] = curve.generators(["a"], curve.checkpoints(0)[2], 3 * MAX_POINTS)
    assert known.watched["is"].samples == [MAX_POINTS]
    assert known.watched["rke"].samples == [3 * MAX_POINTS - 1, 3 * MAX_POINTS]
