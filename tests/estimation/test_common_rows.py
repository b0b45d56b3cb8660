"""What a paired estimator keeps by index, and what its estimates say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_score import MeanScore

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import (
    COMMON,
    COMMON_NUMBERS,
    HISTORY,
    HISTORY_GROWTH,
    LARGEST_INDEX,
    Pairing,
    intervals_of,
    packed,
)
from optimist.estimation.paired import CommonRows, IndexRuns
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.evaluation import Evaluation
from optimist.metrics.base import Analysis
from optimist.metrics.bound import InfluenceBound
from optimist.records import codec
from optimist_client import NotFoundError
from optimist_client.config import ExperimentConfig
from tests.support.streams import stored_and_read

KERNEL = {"name": "gaussian", "sigma": 2.0, "features": 8}
OPEN = {"name": "gaussian", "sigma": "median", "features": 8}
METRICS: dict[str, dict[str, Any]] = {
    "fid": {"metric": "fid", "reference": (np.zeros(3), np.eye(3))},
    "rke": {"metric": "rke", "kernel": KERNEL},
    "vendi": {"metric": "vendi", "kernel": KERNEL},
    "is": {"metric": "is"},
}


class Mean(MeanScore):
    """A mean that refuses to analyse one count of samples, if told so, and notes where it was analysed."""

    def __init__(self, refused: int = 0) -> None:
        super().__init__(0, {"features": 1})
        self.refused = refused
        self.analysed: list[int] = []

    def analyse(self, statistic: Any, common: Any = None) -> Analysis:
        self.analysed.append(statistic.samples)
        if statistic.samples == self.refused:
            raise ArithmeticError("not finite")
        found = super().analyse(statistic)
        found = replace(found, selection_error=math.hypot(found.stopping_error, 0.5))
        return found if common is None else self.influenced(found, common)

    def influenced(self, found: Analysis, common: Any) -> Analysis:
        return replace(
            found,
            influence=common["features"][:, 0] - found.estimate,
            systematic_selection=0.5,
            systematic_stopping=0.25,
            systematic_sign=-1,
        )


class Unknowing(Mean):
    """The same without influences."""

    def influenced(self, found: Analysis, common: Any) -> Analysis:
        return found


def mean_estimator(growth: float = 0.0, metric: Mean | None = None, paired: bool = True) -> StreamingEstimator:
    return StreamingEstimator(InfluenceBound(metric or Mean()), growth, paired)


def tell(estimator: StreamingEstimator, values: Sequence[float], indices: IndexRuns | None) -> bool:
    rows = torch.tensor(values, dtype=torch.float64)[:, None]
    return estimator.add({"features": rows}, [""] * len(values), indices=indices)


def pairing(estimate: Estimate) -> Pairing:
    assert estimate.pairing is not None
    return estimate.pairing


Batches = list[tuple[int | None, int, int]]
"""The first index or None, rows, and rows without an index at the end."""
batches = st.lists(
    st.tuples(st.none() | st.integers(0, COMMON + 20), st.integers(1, 40), st.integers(0, 3)), max_size=12
)


def fill(common: CommonRows, told: Batches, split: int) -> dict[int, float]:
    """Tell batches whose rows count upwards, in pieces of at most `split` rows; the value of each index."""
    known: dict[int, float] = {}
    count = 0
    for first, rows, bare in told:
        for place in range(0, rows, split):
            size = min(split, rows - place)
            values = torch.arange(count, count + size, dtype=torch.float64)
            count += size
            indexed = max(0, min(size, rows - bare - place))
            indices = None if first is None else (first + place, indexed)
            common.check(indices, size)
            common.add({"x": values[:, None], "y": torch.stack([values, -values], 1)}, indices, values.long() % 5 - 1)
            if indices is not None:
                for index, value in enumerate(values[:indexed].tolist(), indices[0]):
                    known.setdefault(index, value)
    return known


@given(told=batches, split=st.integers(1, 9))
def test_rows_and_indices_are_those_told_first(told: Batches, split: int):
    widths = {"x": 1, "y": 2}
    common, plain = CommonRows(widths, is_listed=True), CommonRows(widths)
    known = fill(common, told, 1000)
    fill(plain, told, 1000)
    assert common.told == intervals_of(sorted(known))
    indices, rows = plain.rows()
    assert indices.tolist() == sorted(index for index in known if index < COMMON)
    assert rows.keys() == widths.keys()
    assert rows["x"][:, 0].tolist() == [known[index] for index in indices.tolist()]
    assert rows["y"][:, 1].tolist() == [-known[index] for index in indices.tolist()]
    # With a list, only rows of known prompts.
    indices, rows = common.rows()
    expected = [index for index in sorted(known) if index < COMMON and known[index] % 5 > 0]
    assert indices.tolist() == expected
    assert rows["listed"].tolist() == [known[index] % 5 - 1 for index in expected]
    # However the batches were split, and whatever was restored.
    other = CommonRows(widths, is_listed=True)
    fill(other, told, split)
    again = CommonRows(widths, is_listed=True)
    again.restore(common.state())
    for name, tensor in common.state().items():
        for state in (other.state(), again.state()):
            assert (tensor.dtype, tensor.shape) == (state[name].dtype, state[name].shape)
            assert torch.equal(tensor, state[name])


@pytest.mark.parametrize("indices", [(-1, 2), (0, 4), (0, -1), (LARGEST_INDEX - 2, 3), (0, 2, 1, 1), (0, 2, 5, 2)])
def test_indices_that_cannot_be_are_refused(indices: IndexRuns):
    estimator = mean_estimator()
    with pytest.raises(ValueError, match="expected ascending indices of at most 3 rows from 0 to"):
        tell(estimator, [1.0, 2.0, 3.0], indices)
    assert (estimator.samples, estimator.statistic.samples) == (0, 0)
    tell(estimator, [1.0, 2.0], (0, 2))
    assert tell(estimator, [1.0, 2.0, 3.0], (LARGEST_INDEX - 3, 3))
    assert pairing(estimator.estimate()).end == LARGEST_INDEX


def test_an_estimate_has_the_influence_at_the_indices_told():
    estimator = mean_estimator()
    tell(estimator, [5.0, 7.0], (4, 2))
    tell(estimator, [1.0, 3.0, 9.0], (0, 2))  # late, and one row without an index
    tell(estimator, [100.0], (1, 1))  # told before
    tell(estimator, [4.0, 2.0], None)
    found = pairing(estimator.estimate())
    mean = 131.0 / 8
    assert np.flatnonzero(~np.isnan(found.influence)).tolist() == [0, 1, 4, 5]
    assert found.influence.dtype == np.float32
    assert found.influence[[0, 1, 4, 5]].tolist() == [1.0 - mean, 3.0 - mean, 5.0 - mean, 7.0 - mean]
    assert (found.told, found.history) == ((0, 2, 4, 6), ())
    assert (found.systematic_selection, found.first_order) == (0.5, 1.0)


def test_an_estimate_has_none_without_two_samples_without_common_rows_and_unpaired():
    estimator = mean_estimator()
    tell(estimator, [1.0], (0, 1))
    assert estimator.estimate().pairing is None
    estimator = mean_estimator()
    tell(estimator, [1.0, 2.0, 3.0], None)
    assert estimator.estimate().pairing is None
    tell(estimator, [4.0], (COMMON_NUMBERS, 1))
    assert estimator.estimate().pairing is None, "none of the common indices"
    estimator = mean_estimator(paired=False)
    tell(estimator, [1.0, 2.0, 3.0], (0, 3))
    assert estimator.estimate().pairing is None
    assert not any(name.startswith("paired/") for name in estimator.state())


def test_a_metric_without_influences_has_the_estimate_of_an_unpaired_estimator():
    estimators = [mean_estimator(0.0, Unknowing(), paired) for paired in (True, False)]
    for start in range(0, 40, 4):
        for estimator in estimators:
            tell(estimator, np.sin(np.arange(start, start + 4)).tolist(), (start, 4))
    one, other = (estimator.estimate() for estimator in estimators)
    assert one == other
    assert one.pairing is None


def test_the_history_is_at_due_counts_that_have_grown_and_lack_nothing():
    estimator = mean_estimator(growth=0.02)
    expected: list[int] = []
    values: dict[int, float] = {}
    last, variance = 0, math.nan
    for start in range(0, 400, 2):
        due = tell(estimator, [math.sin(start), math.cos(start)], (start, 2))
        n = start + 2
        if not due:
            continue
        estimate = estimator.estimate()
        values[n] = estimate.value
        # Only earlier ones.
        assert [past.samples for past in pairing(estimate).history] == expected[-HISTORY:]
        assert all(past.value == values[past.samples] for past in pairing(estimate).history)
        if n >= (1.0 + HISTORY_GROWTH) * last:
            expected.append(n)
            last = n
            assert estimate.standard_error is not None
            variance = estimate.standard_error**2 - 0.25
    assert len(expected) > 20
    tell(estimator, [0.0, 0.0], (400, 2))
    newest = pairing(estimator.estimate()).history[-1]
    assert (newest.samples, newest.first_order) == (expected[-1], 1.0)
    assert newest.variance == pytest.approx(variance, rel=1e-12)
    assert newest.systematic == -0.25
    kept = pairing(estimator.estimate())
    assert codec.decode(Pairing, codec.encode(kept)) == kept
    assert (codec.decode(Pairing, codec.encode(kept)).history, kept.systematic_sign) == (kept.history, -1)


def test_with_the_default_growth_every_count_that_is_due_is_in_the_history():
    estimator = mean_estimator(growth=ExperimentConfig.model_fields["rescore_growth"].default)
    due = [
        start + 5 for start in range(0, 900, 5) if tell(estimator, [math.sin(start + i) for i in range(5)], (start, 5))
    ]
    history = [past.samples for past in pairing(estimator.estimate()).history]
    # The newest estimate may be at the last of them.
    assert history == [count for count in due if count < estimator.samples][-HISTORY:]


def test_the_history_keeps_the_newest_with_the_influences_that_they_had():
    estimator = mean_estimator()
    had: dict[int, bytes] = {}
    n, size = 0, 2
    for _ in range(HISTORY + 10):
        tell(estimator, [math.sin(n + i) for i in range(size)], (n, size))
        n += size
        size = int(n * HISTORY_GROWTH) + 1
        had[n] = packed(pairing(estimator.estimate()).influence[: min(n, COMMON)])
    made = estimator.estimate()
    history = pairing(made).history
    assert (len(history), history[-1].samples < n) == (HISTORY, True)
    assert {past.samples: past.influence for past in history}.items() <= had.items()
    assert [len(past.influence) for past in history] == [2 * min(past.samples, COMMON) for past in history]
    assert stored_and_read(estimator, StreamingEstimator(estimator._bound, 0.0, True)).estimate() == made
    tell(estimator, [0.0], (n, 1))
    later = pairing(estimator.estimate()).history
    assert (len(later), later[-1].samples) == (HISTORY, n)
    assert later[:-1] == history[1:]


def test_the_history_waits_while_an_index_is_missing():
    estimator = mean_estimator()
    tell(estimator, [1.0, 2.0], (0, 2))
    tell(estimator, [1.0, 2.0], (4, 2))
    tell(estimator, [1.0, 2.0], (6, 2))
    assert [past.samples for past in pairing(estimator.estimate()).history] == [2]
    tell(estimator, [1.0, 2.0], (2, 2))
    tell(estimator, [1.0, 2.0], (8, 2))
    assert [past.samples for past in pairing(estimator.estimate()).history] == [2, 8]
    tell(estimator, [1.0], None)
    for start in range(10, 30):
        tell(estimator, [1.0], (start, 1))
    assert [past.samples for past in pairing(estimator.estimate()).history] == [2, 8, 10], "one never has an index"


def test_a_skipped_batch_leaves_a_gap_until_its_indices_are_told():
    estimator = mean_estimator()
    tell(estimator, [1.0, 2.0], (0, 2))
    estimator.skip(3)
    tell(estimator, [5.0, 6.0], (5, 2))
    found = pairing(estimator.estimate())
    assert (estimator.samples, estimator.estimate().samples) == (7, 4)
    assert (found.told, len(found.history)) == ((0, 2, 5, 7), 1)
    tell(estimator, [1.0, 2.0, 3.0], (2, 3))
    tell(estimator, [1.0], None)
    assert [past.samples for past in pairing(estimator.estimate()).history] == [2, 7]


def test_an_estimate_that_cannot_be_made_is_left_out_of_the_history_and_stops_nothing():
    estimator = mean_estimator(metric=Mean(refused=4))
    tell(estimator, [1.0, 2.0], (0, 2))
    assert tell(estimator, [3.0, 4.0], (2, 2))
    with pytest.raises(ArithmeticError):
        estimator.estimate()
    tell(estimator, [5.0, 6.0], (4, 2))
    tell(estimator, [5.0, 6.0], (6, 2))
    assert [past.samples for past in pairing(estimator.estimate()).history] == [2, 6]


def test_no_estimate_is_made_twice_and_those_nobody_asks_for_only_where_the_history_needs_them():
    asked, silent = Mean(), Mean()
    estimators = [mean_estimator(0.02, asked), mean_estimator(0.02, silent)]
    due = []
    for start in range(0, 600, 3):
        for estimator in estimators:
            if tell(estimator, [math.sin(start)] * 3, (start, 3)) and estimator is estimators[0]:
                estimator.estimate()
                due.append(start + 3)
    assert asked.analysed == due
    assert estimators[0].estimate() == estimators[1].estimate()
    assert set(silent.analysed) < set(asked.analysed)


def told(kind: str, paired: bool = True, **settings: Any) -> Evaluation:
    return Evaluation(["a", "b"], **{**METRICS[kind], **settings}, paired=paired)


def rows_of(kind: str, seed: int, count: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), count) if kind == "is" else rng.standard_normal((count, 3))


def found_in(evaluation: Evaluation, name: str) -> Estimate:
    estimate = evaluation.estimates()[name]
    assert estimate is not None
    return estimate


@pytest.mark.parametrize("kind", METRICS)
def test_values_and_errors_do_not_depend_on_pairing(kind: str):
    paired, unpaired = told(kind), told(kind, paired=False)
    for seed in range(40):
        for evaluation in (paired, unpaired):
            evaluation.tell("ab"[seed % 2], rows_of(kind, seed, 11))
            for name in evaluation.generators:
                one, other = (each.estimates()[name] for each in (paired, unpaired))
                if evaluation is unpaired and one is not None:
                    assert one.pairing is not None
                    assert other is not None
                    assert replace(one, pairing=None, warnings=other.warnings) == other
    found = pairing(found_in(paired, "a"))
    assert found.told == (0, 220)
    assert np.isfinite(found.influence[:220]).all()
    assert np.isnan(found.influence[220:]).all()
    assert len(found.history) > 5


@pytest.mark.parametrize("kind", ["fid", "rke"])
def test_equal_samples_have_equal_influence_whenever_they_were_told(kind: str):
    evaluation = told(kind)
    rows = rows_of(kind, 1, 60)
    evaluation.tell("a", rows)
    for start in (40, 0, 20):
        evaluation.tell("b", rows[start : start + 20], start=start)
    one, other = (pairing(found_in(evaluation, name)) for name in "ab")
    np.testing.assert_allclose(one.influence, other.influence, rtol=1e-6)
    assert one.told == other.told == (0, 60)


@pytest.mark.parametrize("kind", METRICS)
def test_the_newest_samples_have_their_influence_beyond_the_common_indices(kind: str):
    """Batches are told in pairs the other way round, two of them are never told, and one has no indices."""
    evaluation = told(kind, rescore_growth=0.0)
    rows = torch.from_numpy(rows_of(kind, 0, 700))
    in_order: list[int] = []
    for batch in (number ^ 1 for number in range(70) if number not in (30, 50)):
        own = range(10 * batch, 10 * batch + 10)
        evaluation.tell("a", rows[own.start : own.stop].numpy(), start=None if batch == 65 else own.start)
        in_order += [-1] * 10 if batch == 65 else own
    found, estimator = pairing(found_in(evaluation, "a")), evaluation._primary.estimator("a")
    newest, all_told = sorted({*in_order[-256:]} - {-1}), sorted({*in_order} - {-1})
    assert (found.told, found.later_told) == (intervals_of(all_told), intervals_of(newest))
    first = [index for index in all_told if index < COMMON]
    common = dict.fromkeys(estimator.metric.widths, rows[[*first, *newest]])
    expected = estimator.metric.analyse(estimator.statistic, common).influence
    assert expected is not None
    np.testing.assert_allclose([*found.influence[first], *found.later], expected, rtol=1e-5, atol=1e-5)


def test_of_many_intervals_the_first_and_the_newest_are_kept():
    estimator = mean_estimator()
    for start in range(0, 400, 4):
        tell(estimator, [1.0, 2.0], (start, 2))
    ends = [end for start in range(0, 400, 4) for end in (start, start + 2)]
    assert pairing(estimator.estimate()).told == (*ends[:2], *ends[-126:])


@pytest.mark.parametrize("change", [{"bound": "theorem"}, {"policy": "fid-ucb"}, {"paired": False}])
def test_nothing_is_kept_where_nothing_is_paired(change: dict[str, Any]):
    evaluation = told("fid", **change)
    evaluation.tell("a", rows_of("fid", 0, 30), start=7)
    assert found_in(evaluation, "a").pairing is None
    assert not any(name.startswith("paired/") for name in evaluation._primary.estimator("a").state())
    assert evaluation.next_start("a") == 37


def test_batches_follow_those_told_unless_they_say_where_they_start():
    evaluation = told("fid", rescore_growth=0.0)
    evaluation.tell("a", rows_of("fid", 0, 4))
    assert evaluation.next_start("a") == 4
    evaluation.tell("a", rows_of("fid", 1, 4), start=10)
    assert evaluation.next_start("a") == 14
    evaluation.tell("a", rows_of("fid", 2, 4), start=None)
    assert evaluation.next_start("a") == 14
    evaluation.tell("a", rows_of("fid", 3, 2), start=np.int64(5))  # pyright: ignore[reportArgumentType]
    evaluation.tell("a", rows_of("fid", 3, 2))
    found = pairing(found_in(evaluation, "a"))
    told_indices = [*range(4), 5, 6, *range(10, 16)]
    assert np.flatnonzero(~np.isnan(found.influence)).tolist() == told_indices
    assert found.told == (0, 4, 5, 7, 10, 16)
    assert evaluation.next_start("b") == 0
    with pytest.raises(NotFoundError, match="unknown generator 'c'"):
        evaluation.next_start("c")


@pytest.mark.parametrize("start", [-1, 1.0, True, "last", [0], np.zeros(2, int), LARGEST_INDEX])
def test_a_start_that_is_none_is_refused_and_changes_nothing(start: Any):
    evaluation = told("fid")
    evaluation.tell("a", rows_of("fid", 0, 4))
    before = evaluation.estimates()
    with pytest.raises(ValueError, match='start: expected "next", None, or a whole number from 0 to'):
        evaluation.tell("a", rows_of("fid", 1, 4), start=start)
    assert (evaluation.told, evaluation.next_start("a"), evaluation.estimates()) == (1, 4, before)


def test_paired_is_true_or_false():
    with pytest.raises(ValueError, match="paired: expected true or false, got 1"):
        Evaluation(["a"], **METRICS["fid"], paired=1)  # pyright: ignore[reportArgumentType]


def test_a_refused_batch_takes_no_indices():
    evaluation = told("fid")
    with pytest.raises(ValueError):
        evaluation.tell("a", np.full((3, 3), np.nan))
    assert evaluation.next_start("a") == 0


def test_batches_told_before_the_kernels_are_fixed_keep_their_indices():
    evaluation = Evaluation(["a", "b"], metric="rke", kernel=OPEN, batch_size=50)

    def tell_all(one: Evaluation) -> None:
        for start in (50, 0, 100):
            one.tell("a", rows_of("rke", start, 50), start=start)
            assert one.next_start("a") == max(100, start + 50)
            assert (one.estimates()["a"] is None) == (one is evaluation)
        one.tell("b", rows_of("rke", 7, 500))
        one.tell("a", rows_of("rke", 8, 500))

    tell_all(evaluation)
    kernel = evaluation._primary.question.kernels["kernel"]
    fixed = Evaluation(["a", "b"], metric="rke", kernel={**OPEN, "sigma": kernel.sigma}, batch_size=50)
    tell_all(fixed)
    assert evaluation.estimates() == fixed.estimates()
    found = pairing(found_in(evaluation, "a"))
    assert found.told == (0, 650)
    # 50 samples from index 50 on lack those before.
    assert [past.samples for past in found.history] == [100, 150]


def test_enormous_features_keep_their_estimate_but_have_no_influence():
    """Their influence does not fit a float32."""
    huge = {"metric": "fid", "reference": (np.zeros(3), 1e50 * np.eye(3))}
    evaluation = Evaluation(["a", "b"], **huge)
    evaluation.tell("a", 1e25 * rows_of("fid", 0, 30))
    assert found_in(evaluation, "a").pairing is None
    assert found_in(evaluation, "a").value > 1e45


def test_rows_of_prompts_that_are_not_known_are_left_out():
    evaluation = Evaluation(["a"], metric="rke", kernel=KERNEL, prompts=list("pqrst"), prompts_are="list")
    evaluation.tell("a", rows_of("rke", 0, 10), prompt_indices=[*range(5), *range(5)])
    evaluation.tell("a", rows_of("rke", 1, 10))
    evaluation.tell("a", rows_of("rke", 2, 5), prompt_indices=[4, 3, 2, 1, 0])
    found = pairing(found_in(evaluation, "a"))
    assert np.flatnonzero(~np.isnan(found.influence)).tolist() == [*range(10), *range(20, 25)]
    assert found.told == (0, 25)
