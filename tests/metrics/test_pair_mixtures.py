"""Losses of mixtures by pairs of samples, RKE and MMD: stored numbers, single generators, halves, pairs, influences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, best_weights, minimise
from optimist.metrics.feature_maps import GaussianFourier, Nystrom
from optimist.metrics.mmd import MeanDiscrepancy, MeanMap, RealMean
from optimist.metrics.vendi.score import RenyiKernelEntropy
from optimist_client.metrics import MMD
from tests.support.real_rows import mmd_of
from tests.support.streams import fed, rows_of

WIDTH = 24
COUNTS = (40, 23, 31)
CENTRES = (0.0, 0.8, 1.6)


METRICS: dict[str, Callable[[], Any]] = {
    "rke": lambda: RenyiKernelEntropy(GaussianFourier.draw(3, WIDTH // 2, 1.5)),
    "mmd": lambda: mmd_of(rows_of(99, 60, 3, 0.7), 3.0, WIDTH // 2),
}


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> Any:
    """With a width of 24, so that the generators of `COUNTS` have and have not all rows."""
    return METRICS[request.param]()


def streams(counts: tuple[int, ...] = COUNTS) -> list[Tensor]:
    return [rows_of(seed, count, 3, centre) for seed, (count, centre) in enumerate(zip(counts, CENTRES, strict=True))]


def kernel_of(metric: Any, rows: Tensor, others: Tensor) -> Tensor:
    """κ of two sets of rows, straight from the definition."""
    if isinstance(metric, MeanDiscrepancy):
        mean = metric.real.mean
        one, other = (metric.real.feature_map.plain(each) - mean for each in (rows, others))
        return metric.factor * one @ other.T
    return (metric.feature_map(rows) @ metric.feature_map(others).T).square()


def unbiased_of(metric: Any, rows: list[Tensor]) -> Floats:
    """Means of κ over pairs of different samples, from the definition."""
    found = np.zeros((len(rows), len(rows)))
    for i, mine in enumerate(rows):
        for j, theirs in enumerate(rows):
            values = kernel_of(metric, mine, theirs)
            apart = ~torch.eye(len(mine), dtype=torch.bool) if i == j else torch.ones_like(values, dtype=torch.bool)
            found[i, j] = float(values[apart].mean())
    return found


def test_the_published_matrices_are_the_stored_ones(stored):
    """By landmarks at all samples, by which the kernel of these samples is exact."""
    file = stored("mixture_quadratic")
    rows = [file[f"x{i}"] for i in range(3)]
    feature_map = Nystrom(np.concatenate([*rows, file["y"]]), float(file["sigma"]))
    metric = RenyiKernelEntropy(feature_map)
    objective = metric.objective([fed(metric, each, 4) for each in rows])
    published = objective.model(np.ones(3) / 3, published=True)
    np.testing.assert_allclose(published.matrix, file["rke_V"], atol=1e-9)
    for vertex, answer in zip(np.eye(3), np.diag(file["rke_U"]), strict=True):
        assert objective.analyse(vertex).loss == pytest.approx(np.log(answer), abs=1e-8)
    np.testing.assert_allclose(minimise(objective, published=True), file["rke_greedy_alpha"], atol=1e-6)

    class AsMean(MeanMap):
        def __init__(self) -> None:
            super().__init__(feature_map, False)

    mmd = MeanDiscrepancy(MMD(), RealMean(AsMean(), file["y"]))
    objective = mmd.objective([fed(mmd, each, 4) for each in rows])
    published = objective.model(np.ones(3) / 3, published=True)
    np.testing.assert_allclose(best_weights(published), file["kid_greedy_alpha"], atol=1e-6)
    for weights in (*np.eye(3), np.array([0.2, 0.5, 0.3])):
        value = weights @ file["kid_V"] @ weights + file["kid_f"] @ weights + float(file["kid_reference_self"])
        assert published.value(weights) == pytest.approx(value, abs=1e-9)
    # Of OGD, too: gradients are the same up to a number that all generators share.
    counts = file["n"] / file["n"].sum()
    gradient = published.gradient(counts) - file["epsilon_kid"]
    np.testing.assert_allclose(gradient - gradient[0], file["ogd_h_kid"] - file["ogd_h_kid"][0], atol=1e-9)


@pytest.mark.parametrize("half", [None, 0, 1])
def test_losses_are_means_over_pairs_of_the_half(metric: Any, half: Any):
    rows = streams()
    objective = metric.objective([fed(metric, each) for each in rows], half)
    chosen = rows if half is None else [each[half::2] for each in rows]
    assert objective.samples == tuple(map(len, chosen))
    weights = np.array([0.5, 0.2, 0.3])
    unbiased = unbiased_of(metric, chosen)
    value = weights @ unbiased @ weights
    value = np.log(value) if metric.scale == "log" else value - metric.factor * metric.real.excess
    found = objective.analyse(weights)
    assert found.loss == pytest.approx(value, abs=1e-9)
    rate = 1.0 / np.exp(value) if metric.scale == "log" else 1.0
    np.testing.assert_allclose(found.slopes, 2.0 * rate * unbiased @ weights, atol=1e-9)
    model = objective.model(weights)
    assert np.linalg.eigvalsh(model.matrix)[0] > -1e-12
    own = [float(kernel_of(metric, each, each).diagonal().mean()) for each in chosen]
    ridge = 0.5 * (np.array(own) - np.diag(unbiased)) / np.array(objective.samples)
    np.testing.assert_allclose(model.matrix - np.diag(np.diag(model.matrix)), _apart(unbiased), atol=1e-9)
    assert (np.diag(model.matrix - unbiased) >= ridge - 1e-9).all()


def _apart(matrix: Floats) -> Floats:
    return matrix - np.diag(np.diag(matrix))


def test_influences_are_those_of_the_samples(metric: Any):
    """A row counts as much as leaving it out changes the loss, and its slopes, but for the second order."""
    rows = streams((22, 18, 20))
    weights = np.array([0.5, 0.3, 0.2])
    found = metric.objective([fed(metric, each) for each in rows]).analyse(weights, slopes=True)
    inflation = [(1.0 + 5.0 / len(each)) ** 0.5 for each in rows]
    for place, each in enumerate(rows):
        losses, slopes = [], []
        for left_out in range(len(each)):
            kept = [*rows]
            kept[place] = torch.cat([each[:left_out], each[left_out + 1 :]])
            without = metric.objective([fed(metric, one) for one in kept]).analyse(weights)
            losses.append(without.loss)
            slopes.append(without.slopes)
        changes = -(len(each) - 1.0) * (np.array(losses) - np.mean(losses))
        of_slopes = -(len(each) - 1.0) * (np.array(slopes) - np.mean(slopes, 0))
        influence = found.rows[place].numpy() / inflation[place]
        on_slopes = found.slope_rows[place].numpy() / inflation[place]
        np.testing.assert_allclose(influence - influence.mean(), changes, atol=0.15 * np.abs(changes).max())
        centred = on_slopes - on_slopes.mean(0)
        np.testing.assert_allclose(centred, of_slopes, atol=0.15 * np.abs(of_slopes).max())


def test_deviations_are_of_what_a_sample_adds_to_its_own_gradient(metric: Any):
    objective = metric.objective([fed(metric, rows) for rows in streams((22, 18, 20))])
    weights = np.array([0.7, 0.3, 0.0])
    rate = 1.0 / np.exp(objective.analyse(weights).loss) if metric.scale == "log" else 1.0
    found = objective.analyse(weights, slopes=True)
    rows = [rows[:, place].numpy() for place, rows in enumerate(found.slope_rows)]
    if metric.scale == "log":
        # The model is of 1/RKE, whose slopes do not change with the value.
        rows = [each + found.rows[place].numpy() * found.slopes[place] for place, each in enumerate(rows)]
    expected = [each.std(ddof=1) / rate for each in rows]
    np.testing.assert_allclose(objective.deviations(weights), expected, rtol=1e-9)


def test_pairs_of_one_index_are_left_out(metric: Any):
    shared = [rows_of(0, 21, 3, centre) + 0.3 * rows_of(seed, 21, 3) for seed, centre in enumerate(CENTRES, 1)]
    statistics = [fed(metric, rows) for rows in shared]
    weights = np.array([0.4, 0.3, 0.3])
    common = [{"features": rows} for rows in shared]
    found = metric.objective(statistics, None, common).analyse(weights)
    expected = unbiased_of(metric, shared)
    apart = ~torch.eye(21, dtype=torch.bool)
    for i in range(3):
        for j in range(3):
            expected[i, j] = float(kernel_of(metric, shared[i], shared[j])[apart].mean())
    value = weights @ expected @ weights
    value = np.log(value) if metric.scale == "log" else value - metric.factor * metric.real.excess
    assert found.loss == pytest.approx(value, abs=1e-9)
    assert metric.objective(statistics).analyse(weights).loss > found.loss + 1e-3
    # A generator without indices has none in common.
    alone = metric.objective(statistics, None, [common[0], None, common[2]])
    assert alone.analyse(weights).common[1] is None


def test_products_of_dropped_rows_are_those_of_held_ones(metric: Any):
    """One generator by its rows, and by its sums."""
    width = metric.statistic().width
    rows = streams((width, width, width))
    held = [fed(metric, each) for each in rows]
    more = [fed(metric, torch.cat([each, each[:1]])) for each in rows]
    assert held[0].holds_rows
    assert not more[0].holds_rows
    weights = np.array([0.2, 0.2, 0.6])
    mixed = metric.objective([held[0], more[1], held[2]]).model(weights, published=True).matrix
    for i, mine in enumerate((rows[0], torch.cat([rows[1], rows[1][:1]]), rows[2])):
        for j, theirs in enumerate((rows[0], torch.cat([rows[1], rows[1][:1]]), rows[2])):
            assert mixed[i, j] == pytest.approx(float(kernel_of(metric, mine, theirs).mean()), abs=1e-9)


def test_on_a_list_of_prompts_a_generator_alone_scores_as_its_own_estimate():
    """Each prompt equally often: then how prompts differ adds nothing to the error of the score on exactly these."""
    length, passes = 10, 6
    prompts = torch.arange(length).repeat(passes)
    metric = RenyiKernelEntropy(METRICS["rke"]().feature_map, prompts=length)
    places = 2.0 * rows_of(5, length, 3)
    statistics, common = [], []
    for seed, centre in enumerate(CENTRES):
        statistic, rows = metric.statistic(), places[prompts] + 0.5 * rows_of(seed, length * passes, 3, centre)
        statistic.update(rows, listed=prompts)
        statistics.append(statistic)
        common.append({"features": rows, "listed": prompts})
    objective = metric.objective(statistics, None, common)
    plain = METRICS["rke"]().objective([fed(METRICS["rke"](), each["features"]) for each in common])
    for place, vertex in enumerate(np.eye(3)):
        found, expected = objective.analyse(vertex), metric.analyse(statistics[place])
        assert -found.loss == pytest.approx(expected.estimate, abs=1e-9)
        assert float(found.rows[place].std()) / 60**0.5 == pytest.approx(expected.stopping_error, rel=0.35)
        assert found.rows[place].std() < 0.8 * plain.analyse(vertex).rows[place].std()
    blend = objective.analyse(np.array([0.4, 0.3, 0.3]), slopes=True)
    assert [rows.shape for rows in blend.slope_rows] == [(60, 3)] * 3
    assert [rows.shape for rows in blend.common_slopes if rows is not None] == [(60, 3)] * 3
