"""What an estimator keeps of routed prompts: sums, a sample of batches, and what is made of those of all generators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question
from optimist.estimation.stored import pack_kernels, take, unpack_kernels
from optimist.estimation.streaming import StreamingEstimator
from optimist.records import AskedPrompt, LogEntry, RetractedLog, codec
from optimist.routing.answers.features import ContextMap, ContextSettings
from optimist.routing.answers.ridge import Regressions, Sums
from optimist.routing.learning.kept import RoutedStatistic
from optimist.routing.learning.learner import RouteLearner, model_of, rows_of
from optimist.scoring.cached import CachedStatistic
from optimist_client.metrics import Mean
from tests.support.logs import applied, bits_of, entry, entry_of, retraction

COLUMNS, WIDTH = 3, 16
CONTEXTS = ContextMap.drawn(COLUMNS, WIDTH, 1.5)
LEARNER = RouteLearner(ContextSettings(COLUMNS, WIDTH, 1.5))
PARTS = ("gram", "total", "cross", "sum", "squares")


@dataclass(frozen=True)
class Batch:
    scores: np.ndarray
    prompt: AskedPrompt


def batches(count: int, seed: int = 0, tries: int = 3) -> list[Batch]:
    rng = np.random.default_rng(seed)
    found: list[Batch] = []
    for number in range(count):
        context = rng.standard_normal(COLUMNS).astype(np.float32)
        probability = None if number < 3 else float(rng.uniform(0.1, 1.0))
        # The longest batch comes after the first ones.
        rows = 1 if number < 5 else int(rng.integers(1, tries + 1))
        scores = rng.standard_normal((rows, 1)) + context[0]
        found.append(Batch(scores, AskedPrompt(context, probability, f"prompt {number}\0é")))
    return found


def entries(told: list[Batch]) -> list[LogEntry]:
    return [
        entry(seq, {"values": batch.scores}, context=batch.prompt.pack()) for seq, batch in enumerate(told, start=1)
    ]


def bound_of(metric: Mean | None = None):
    return Question(metric or Mean(), paired=False).bound_for({"values": 1})


def fed(told: list[Batch], metric: Mean | None = None, ordinal: int = 0) -> StreamingEstimator:
    estimator = StreamingEstimator(bound_of(metric), 0.1, learner=LEARNER, ordinal=ordinal)
    for each in entries(told):
        assert not take(estimator, each).unreadable
    return estimator


@pytest.mark.parametrize("higher", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_change_is_said_with_its_place_in_the_log_and_on_the_scale_of_the_metric(higher: bool):
    told = batches(400, tries=1)
    told = [replace(one, scores=one.scores - (4.0 if n >= 300 else 0.0)) for n, one in enumerate(told)]
    estimate = fed(told, Mean(higher_is_better=higher)).estimate()
    change = estimate.change
    assert change is not None
    assert abs(change.position - 300) <= 8
    assert change.pick == change.position + 1
    assert change.samples == 400 - change.position
    assert change.shift == pytest.approx(-4.0, abs=0.5)
    assert codec.decode(Estimate, codec.encode(estimate)) == estimate
    assert fed(told[:300]).estimate().change is None


def moments_of(estimator: StreamingEstimator) -> Sums:
    assert isinstance(estimator.learned, RoutedStatistic)
    return estimator.learned.moments


def assert_close(found: Sums, expected: Sums) -> None:
    assert found.samples == expected.samples
    for name in PARTS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("higher", [True, False])
def test_sums_are_those_of_every_row_with_the_context_of_its_batch_in_any_order(higher: bool):
    told, metric = batches(40), Mean(higher_is_better=higher)
    scores = np.concatenate([batch.scores[:, 0] for batch in told])
    contexts = np.concatenate([np.tile(batch.prompt.context, (len(batch.scores), 1)) for batch in told])
    # More is better in the sums.
    expected = Sums.from_rows(CONTEXTS(contexts), scores if higher else -scores)
    estimator = fed(told, metric)
    for found in (moments_of(estimator), moments_of(fed(told[::-1], metric))):
        assert_close(found, expected)
    assert isinstance(estimator.learned, RoutedStatistic)
    assert estimator.learned.sum == pytest.approx(scores.sum())
    assert estimator.bytes == sum(part.nbytes for part in estimator.state().values())


def test_batches_without_a_context_that_fits_are_quarantined_and_change_nothing_else():
    told = entries(batches(6))
    estimator, expected = (StreamingEstimator(bound_of(), 0.1, learner=LEARNER) for _ in range(2))
    wide = AskedPrompt(np.ones(COLUMNS + 1, dtype=np.float32)).pack()
    damaged = {3: b"", 4: wide, 5: told[4].context[:10]}
    for each in told:
        found = take(estimator, replace(each, context=damaged.get(each.seq, each.context)))
        assert bool(found.unreadable) == (each.seq in damaged)
        if each.seq in damaged:
            assert "context" in found.unreadable or "prompt" in found.unreadable or "buffer" in found.unreadable
            expected.skip(each.rows)
        else:
            take(expected, each)
    assert bits_of(estimator) == bits_of(expected)
    with pytest.raises(ValueError, match="expected 3 finite numbers"):
        estimator.add(
            {"values": torch.ones(1, 1)}, ["a"], prompt=AskedPrompt(np.full(COLUMNS, np.nan, dtype=np.float32))
        )
    assert moments_of(estimator).samples == sum(each.rows for each in told if each.seq not in damaged)
    # A metric that is only watched leaves the context alone.
    assert not take(StreamingEstimator(bound_of(), 0.1), replace(told[0], context=b"?")).unreadable


def warm_of(retracted: RetractedLog | None = None, learner: RouteLearner = LEARNER) -> CachedStatistic:
    return CachedStatistic(bound_of(), 0.1, retracted or RetractedLog(), learner=learner, ordinal=2)


def test_a_snapshot_goes_on_to_the_bits_of_the_whole_log():
    log = entries(batches(60))
    whole = warm_of()
    whole.apply(log)
    frozen = whole.freeze()
    for position in (1, 5, 30, 60):
        begun = warm_of()
        applied(begun, log[:position], 1)
        body = begun.freeze()
        resumed = CachedStatistic.thaw(body, position, bound_of(), 0.1, learner=LEARNER, ordinal=2)
        assert resumed.freeze() == body
        resumed.apply(log[position:])
        assert resumed.freeze() == frozen
    for other in (None, *(RouteLearner(ContextSettings(COLUMNS, *of)) for of in ((WIDTH, 1.6), (8, 1.5)))):
        with pytest.raises(ValueError, match=r"cannot be read|of another (metric|kind)"):
            CachedStatistic.thaw(frozen, 60, bound_of(), 0.1, learner=other, ordinal=2)


def test_after_a_retraction_the_sums_are_as_if_the_batch_had_never_been_told():
    told = batches(30)
    log = entries(told)
    record = retraction(31, 9)
    cached = warm_of(RetractedLog([record]))
    cached.apply([*log, entry_of(record)])
    without = fed([*told[:8], *told[9:]], ordinal=2)
    found, expected = cached.estimator.learned, without.learned
    assert found is not None
    assert expected is not None
    for name, part in expected.state().items():
        same = [0, 1, 4, 5, 6] if name == "drift/bets" else ...  # without places in the log, which differ
        np.testing.assert_array_equal(found.state()[name][..., same], part[..., same])


@pytest.mark.long
def test_batches_of_all_generators_are_one_uniform_sample_and_kept_whole(monkeypatch: pytest.MonkeyPatch):
    most = 400
    monkeypatch.setattr("optimist.routing.learning.kept.BATCHES", most)
    monkeypatch.setattr("optimist.routing.learning.learner.BATCHES", most)
    narrow, counts = ContextMap.drawn(1, 2, 1.0), (1500, 750, 0, 250)
    routed = [RoutedStatistic(narrow, True, ordinal) for ordinal in range(4)]
    for ordinal, count in enumerate(counts):
        for number in range(count):
            scores = torch.tensor([[float(number)], [-1.0]][: 1 + number % 2])
            prompt = AskedPrompt(np.array([number], dtype=np.float32), 0.5 if number % 3 else None, f"{number}")
            routed[ordinal].add(routed[ordinal].read(scores, prompt))
    estimators = {ordinal: SimpleNamespace(learned=one) for ordinal, one in enumerate(routed)}
    rows = rows_of(estimators, 5)  # pyright: ignore[reportArgumentType]
    assert rows.samples.tolist() == [2250, 1125, 0, 375, 0]
    assert rows.sums[3] == sum(range(250)) - 125
    firsts = np.flatnonzero(np.diff(rows.pick, prepend=-1))
    assert len(firsts) == most == len(set(rows.pick))
    # Every row has what its batch was told with.
    number = rows.contexts[:, 0].astype(int)
    assert rows.prompts == [f"{each}" for each in number]
    assert (rows.score[firsts] == number[firsts]).all()
    assert np.isnan(rows.probability).tolist() == (number % 3 == 0).tolist()
    assert (np.bincount(rows.pick) == 1 + number[firsts] % 2).all()
    # 400 of 2500, wherever they were told: the standard errors are about 9, 8 and 5 batches.
    kept = np.bincount(rows.generator[firsts], minlength=5)
    assert np.abs(kept - [240, 120, 0, 40, 0]).max() < 25
    assert abs(float((number[firsts] < 250).mean()) - 0.3) < 0.07


def test_the_model_is_that_of_the_regressions_on_all_estimators():
    told = {ordinal: batches(50, seed=ordinal) for ordinal in (4, 1)}
    estimators = {ordinal: fed(one, ordinal=ordinal) for ordinal, one in told.items()}
    model = model_of({**estimators, 2: fed([], ordinal=2)}, "optimistic")
    assert model.generators == (1, 4)
    rows = np.random.default_rng(9).standard_normal((5, COLUMNS)).astype(np.float32)
    expected = Regressions.from_moments([moments_of(estimators[1]), moments_of(estimators[4])])
    for found, own in zip(model.predict(rows), expected.predict(CONTEXTS(rows)), strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-5)
    # The mean of the predictions over the prompts of both.
    contexts = [np.repeat(batch.prompt.context[None], len(batch.scores), 0) for one in told.values() for batch in one]
    np.testing.assert_allclose(model.singles, model.predict(np.concatenate(contexts))[0].mean(0), atol=1e-5)
    published = model_of(estimators, "rff-ucb")
    assert published.floors.tolist() == [0.0, 0.0]
    assert published.samples == model.samples
    with pytest.raises(ValueError, match="at least one sample"):
        model_of({0: fed([])}, "optimistic")
    with pytest.raises(ValueError, match="not routed"):
        model_of({0: StreamingEstimator(bound_of(), 0.1)}, "optimistic")
    with pytest.raises(ValueError, match="at least one sample"):
        rows_of({0: fed([])}, 1)


def test_the_bandwidth_of_contexts_is_fixed_by_the_first_ones_and_stored():
    question = Question(Mean(), paired=False, learner=RouteLearner(ContextSettings(COLUMNS, WIDTH)))
    assert question.is_open
    assert (question.rows_to_fit(4), question.batches_to_fit(4)) == (0, 16)
    found = question.fitted({}, [np.zeros((2, COLUMNS)), np.eye(COLUMNS)])
    assert not found.is_open
    again = unpack_kernels(question, pack_kernels(question, found))
    assert isinstance(found.learner, RouteLearner)
    assert isinstance(again.learner, RouteLearner)
    assert again.learner.settings.bandwidth == found.learner.settings.bandwidth
    for one, other in zip(again.learner.arrays, found.learner.arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    given = Question(Mean(), paired=False, learner=RouteLearner(ContextSettings(COLUMNS, WIDTH, 2.0)))
    assert not given.is_open
    assert given.batches_to_fit(4) == 0
