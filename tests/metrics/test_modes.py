import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy_score import MeanScore

from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, FeatureMap, GaussianFourier
from optimist.metrics.pairs import (
    ConditionalVendi,
    ConditionedScore,
    InformationVendi,
    JointStatistic,
    prompt_groups,
)
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.spectrum import log_vendi, spectrum_of_rows
from optimist_client.models.modes import ModeInfo
from tests.support.streams import fed, rows_of

ORDERS = [0.5, 1.0, 2.0, math.inf]


def clusters(sizes: list[int], spread: float = 0.05) -> tuple[Tensor, list[str]]:
    """Shuffled samples around orthogonal directions, and ids such as "1/7": the cluster and the number."""
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = torch.eye(len(sizes), dtype=torch.float64)[labels] * 4.0
    rows = rows + spread * rows_of(6, len(labels), len(sizes))
    return rows, [f"{label}/{index}" for index, label in enumerate(labels)]


def reservoir_of(ids: list[str] | None = None, capacity: int = 512, **arrays: Tensor) -> Reservoir:
    reservoir = Reservoir(capacity)
    count = len(next(iter(arrays.values())))
    reservoir.update(arrays, [str(index) for index in range(count)] if ids is None else ids)
    return reservoir


# Modes.


@pytest.mark.parametrize("metric", [VendiScore(Cosine(3)), RenyiKernelEntropy(GaussianFourier.draw(3, 1500, 1.0))])
def test_separate_clusters_are_the_modes_with_their_shares_and_samples(metric):
    rows, ids = clusters([50, 30, 20])
    found = metric.modes(fed(metric, rows), reservoir_of(ids, features=rows), count=3, samples=6)
    assert [mode.share for mode in found] == pytest.approx([0.5, 0.3, 0.2], abs=0.01)
    for label, mode in enumerate(found):
        assert {shown.id.split("/")[0] for shown in mode.samples} == {str(label)}
        weights = [shown.weight for shown in mode.samples]
        assert weights == sorted(weights, reverse=True)
        assert all(0.9 < weight <= 1.0 + 1e-12 for weight in weights)


@given(st.integers(0, 99), st.integers(2, 60))
def test_modes_are_the_eigenvectors_of_the_covariance(seed, count):
    rows, metric = rows_of(seed, count, 2), VendiScore(GaussianFourier.draw(2, 12, 1.0))
    reservoir = reservoir_of(features=rows, capacity=20)
    found = metric.modes(fed(metric, rows), reservoir, count=3, samples=20)
    features = metric.feature_map(rows)
    values, vectors = torch.linalg.eigh(features.T @ features / count)
    shown = metric.feature_map(reservoir.tensors["features"])
    for index, mode in enumerate(found):
        assert mode.share == pytest.approx(float(values[-1 - index]), abs=1e-9)
        weights = [sample.weight for sample in mode.samples]
        assert len(weights) == min(count, 20)
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) >= -1e-9
        if index < 2 and count > 10 and float(values[-1 - index] - values[-2 - index]) > 1e-3:
            scores = shown @ vectors[:, -1 - index]
            by_id = {sample.id: sample.weight for sample in mode.samples}
            ordered = torch.tensor([by_id[identity] for identity in reservoir.ids], dtype=torch.float64)
            torch.testing.assert_close(ordered.abs(), scores.abs(), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 100])
def test_identical_samples_have_one_mode_of_all(count):
    rows, metric = torch.ones(count, 3), VendiScore(GaussianFourier.draw(3, 20, 1.0))
    (mode,) = metric.modes(fed(metric, rows), reservoir_of(features=rows), samples=8)
    assert mode.share == pytest.approx(1.0, abs=1e-12)
    assert mode.share <= 1.0
    assert [shown.weight for shown in mode.samples] == pytest.approx([1.0] * min(count, 8))


def test_fewer_samples_than_modes_give_as_many_modes_as_samples():
    rows, metric = rows_of(0, 3, 4), VendiScore(GaussianFourier.draw(4, 100, 0.5))
    found = metric.modes(fed(metric, rows), reservoir_of(features=rows))
    assert len(found) == 3
    assert sum(mode.share for mode in found) == pytest.approx(1.0)
    assert all(len(mode.samples) == 3 for mode in found)


def test_modes_of_equal_share_span_what_their_samples_do():
    rows, metric = torch.eye(4, dtype=torch.float64).repeat(5, 1), VendiScore(Cosine(4))
    found = metric.modes(fed(metric, rows), reservoir_of(features=rows), samples=20)
    assert [mode.share for mode in found] == pytest.approx([0.25] * 4)
    squares = sum(np.square([dict_of(mode)[str(index)] for index in range(20)]) for mode in found)
    assert squares == pytest.approx(np.ones(20))


def dict_of(mode: ModeInfo) -> dict[str, float]:
    return {shown.id: shown.weight for shown in mode.samples}


@pytest.mark.parametrize("score", [ConditionalVendi, InformationVendi])
def test_conditional_scores_have_the_modes_of_the_pairs(score: type[ConditionedScore]):
    # Two kinds of output, each for two prompts of its own, and the second for a third.
    outputs, prompts = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 2, 3, 4])
    repeats = torch.tensor([40, 25, 20, 10, 5])
    kind = torch.repeat_interleave(torch.arange(5), repeats)
    features = 6.0 * torch.eye(2, dtype=torch.float64)[outputs[kind]]
    texts = 6.0 * torch.eye(5, dtype=torch.float64)[prompts[kind]]
    metric = score(GaussianFourier.draw(2, 2000, 1.0, seed=1), GaussianFourier.draw(5, 2000, 1.0, seed=2))
    statistic = metric.statistic()
    statistic.update(features, texts)
    ids = [f"{label}/{index}" for index, label in enumerate(kind.tolist())]
    found = metric.modes(statistic, reservoir_of(ids, features=features, prompts=texts), samples=5)
    assert [mode.share for mode in found] == pytest.approx([0.4, 0.25, 0.2, 0.1, 0.05], abs=0.01)
    for label, mode in enumerate(found):
        assert {shown.id.split("/")[0] for shown in mode.samples} == {str(label)}


def test_what_cannot_have_modes_is_refused():
    rows, feature_map = rows_of(0, 5, 3), GaussianFourier.draw(3, 4, 1.0)
    metric, reservoir = VendiScore(feature_map), reservoir_of(features=rows)
    statistic, pairs = fed(metric, rows), JointStatistic(feature_map, feature_map)
    pairs.update(rows, rows)
    for wrong in (
        lambda: metric.modes(metric.statistic(), reservoir),
        lambda: metric.modes(statistic, Reservoir()),
        lambda: metric.modes(statistic, reservoir, count=0),
        lambda: metric.modes(statistic, reservoir, samples=0),
        lambda: metric.modes(pairs, reservoir),
        lambda: ConditionalVendi(feature_map, feature_map).modes(statistic, reservoir),
        lambda: VendiScore(Cosine(2)).modes(statistic, reservoir),
        lambda: prompt_groups(feature_map, feature_map, Reservoir()),
        lambda: prompt_groups(feature_map, feature_map, reservoir_of(features=rows, prompts=rows), count=0),
        lambda: prompt_groups(feature_map, feature_map, reservoir_of(features=rows, prompts=rows), order=0.0),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(KeyError):
        prompt_groups(feature_map, feature_map, reservoir)


def test_a_metric_of_base_classes_alone_has_neither_modes_nor_prompts():
    estimator = StreamingEstimator(InfluenceBound(MeanScore(0, {"features": 1})), growth=0.0)
    estimator.add({"features": torch.ones(2, 1, dtype=torch.float64)}, ["a", "b"])
    estimator.forget()
    assert (estimator.reservoir, estimator.has_prompts, estimator.cached_bytes) == (None, False, 0)
    with pytest.raises(ValueError, match="no modes"):
        estimator.modes()
    with pytest.raises(ValueError, match="no prompts"):
        estimator.prompt_groups()


# Groups of prompts.


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("maps", [(Cosine(3), Cosine(4)), (GaussianFourier.draw(3, 50, 1.0), Cosine(4))])
def test_a_group_is_scored_on_its_part_of_the_kernel(maps: tuple[FeatureMap, FeatureMap], order):
    features, prompts = rows_of(1, 30, 3), rows_of(2, 30, 4)
    found = prompt_groups(*maps, reservoir_of(features=features, prompts=prompts), order, count=4, samples=30)
    of_features, of_prompts = (rows @ rows.T for rows in (maps[0](features), maps[1](prompts)))
    values, vectors = torch.linalg.eigh(of_prompts / 30)
    assert len(found) == 4
    for group, value, vector in zip(found, values.flip(-1), vectors.T.flip(0), strict=False):
        spectrum = torch.linalg.eigvalsh(of_features * vector[:, None] * vector)
        assert group.share == pytest.approx(float(value), abs=1e-12)
        assert group.log_score == pytest.approx(log_vendi(spectrum, order), rel=1e-6, abs=1e-9)
        assert group.score == pytest.approx(math.exp(group.log_score))
        weights = {shown.id: shown.weight for shown in group.prompts}
        expected = vector.square().tolist()
        assert [weights[str(index)] for index in range(30)] == pytest.approx(expected, abs=1e-9)
        assert sum(weights.values()) == pytest.approx(1.0)


def test_groups_tell_prompts_that_get_many_outputs_from_those_that_get_one():
    prompts, ids = clusters([60, 40])
    labels = torch.tensor([int(identity[0]) for identity in ids])
    # The first type of prompt gets one output, the second eight kinds evenly.
    kinds = torch.where(labels == 0, 0, 1 + (labels.cumsum(0) % 8))
    features = 5.0 * torch.eye(9, dtype=torch.float64)[kinds]
    reservoir = reservoir_of(ids, features=features, prompts=prompts)
    maps = GaussianFourier.draw(9, 3000, 0.7), GaussianFourier.draw(2, 3000, 1.0, seed=1)
    # A lower order would count the little that the types of prompt share.
    for order in ORDERS[1:]:
        same, diverse = prompt_groups(*maps, reservoir, order, count=2)
        assert (same.share, diverse.share) == pytest.approx((0.6, 0.4), abs=0.02)
        assert same.score == pytest.approx(1.0, abs=0.1)
        assert diverse.score == pytest.approx(8.0, rel=0.1)
        for label, group in enumerate((same, diverse)):
            assert {shown.id[0] for shown in group.prompts} == {str(label)}


def test_one_type_of_prompt_is_one_group_with_the_score_of_all_outputs():
    features, feature_map = rows_of(3, 50, 3), GaussianFourier.draw(3, 40, 1.0)
    reservoir = reservoir_of(features=features, prompts=torch.ones(50, 2))
    (group,) = prompt_groups(feature_map, Cosine(2), reservoir, order=1.5)
    assert group.share == pytest.approx(1.0)
    assert group.log_score == pytest.approx(log_vendi(spectrum_of_rows(feature_map(features)), 1.5), rel=1e-9)
    assert [shown.weight for shown in group.prompts] == pytest.approx([0.02] * 8)


@given(
    st.integers(1, 12),
    st.sampled_from(["same", "distinct", "random", "orthogonal"]),
    st.sampled_from(["same", "distinct", "random", "orthogonal"]),
    st.sampled_from(ORDERS),
)
def test_no_degenerate_pairs_make_a_crash_or_a_nan(count, outputs, texts, order):
    kinds = {
        "same": torch.ones(count, 4, dtype=torch.float64),
        "distinct": torch.arange(1, count + 1, dtype=torch.float64)[:, None] * torch.full((4,), 1e6),
        "random": rows_of(count, count, 4),
        "orthogonal": torch.eye(4, dtype=torch.float64).repeat(3, 1)[:count],
    }
    features, prompts = kinds[outputs], kinds[texts]
    reservoir = reservoir_of(features=features, prompts=prompts)
    feature_map = GaussianFourier.draw(4, 6, 1.0)
    for maps in ((feature_map, feature_map), (Cosine(4), Cosine(4))):
        found = prompt_groups(*maps, reservoir, order, count=20, samples=3)
        assert 1 <= len(found) <= count
        assert sum(group.share for group in found) == pytest.approx(1.0, abs=1e-6)
        for group in found:
            numbers = [group.share, group.log_score, *(shown.weight for shown in group.prompts)]
            assert all(math.isfinite(number) for number in numbers)
            assert group.share > 0.0
            assert 0.0 <= group.log_score <= math.log(count) + 1e-9
            assert len(group.prompts) == min(count, 3)
    metric = ConditionalVendi(feature_map, feature_map)
    statistic = metric.statistic()
    statistic.update(features, prompts)
    found = metric.modes(statistic, reservoir, count=20)
    assert sum(mode.share for mode in found) == pytest.approx(1.0, abs=1e-6)
    assert all(math.isfinite(shown.weight) for mode in found for shown in mode.samples)
