"""Variances of means by clusters, against a few lines of numpy."""

import numpy as np
import pytest

from optimist.estimates.clusters import (
    alike,
    clustered_variance,
    clusters_to_decide,
    design_effect,
    deviations,
    lasting_variance,
    list_variance,
    unevenness,
    within_variance,
)

rng = np.random.default_rng(4)
M = 30
PROMPTS = np.concatenate([rng.permutation(M), rng.permutation(M), rng.permutation(M)[:17]])
VALUES = rng.standard_normal(M)[PROMPTS] + 0.7 * rng.standard_normal(len(PROMPTS))


def brute_clustered(values: np.ndarray, prompts: np.ndarray) -> float:
    n, names = len(values), sorted(set(prompts.tolist()))
    squares = sum(float(sum(v - values.mean() for v in values[prompts == p])) ** 2 for p in names)
    m = len(names)
    return squares / n**2 * m / (m - 1) * (1 + 5 / m)


def brute_list(values: np.ndarray, prompts: np.ndarray, length: int, repeatable: bool) -> float:
    n = len(values)
    total = ((values - values.mean()) ** 2).sum() / (n - 1)
    counts = np.array([(prompts == p).sum() for p in range(length)])
    within = total
    if n - (counts > 0).sum() >= 10:
        squares = sum(((values[prompts == p] - values[prompts == p].mean()) ** 2).sum() for p in set(prompts.tolist()))
        within = min(total, squares / (n - (counts > 0).sum()))
    within = 0.0 if repeatable else within
    uneven = min(1.0, float(((counts - n / length) ** 2).sum()) / n)
    return (1 + 5 / n) * (within + (total - within) * uneven) / n


@pytest.mark.parametrize("n", [12, 30, 45, 60, 77])
def test_variance_by_clusters_is_the_formula(n: int):
    values, prompts = VALUES[:n], PROMPTS[:n]
    found = clustered_variance(deviations(values, prompts), len(set(prompts.tolist())))
    assert found == pytest.approx(brute_clustered(values, prompts), rel=1e-9)


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("n", [12, 30, 45, 60, 77])
def test_variance_on_a_list_is_the_formula(n: int, repeatable: bool):
    values, prompts = VALUES[:n], PROMPTS[:n]
    counts = np.bincount(prompts, minlength=M).astype(float)
    means = np.bincount(prompts, values, M) / np.maximum(counts, 1)
    total = float(values.var(ddof=1))
    squares, seen = float(np.square(values - means[prompts]).sum()), int((counts > 0).sum())
    within = 0.0 if repeatable else within_variance(squares, n, seen, total)
    found = list_variance(total, within, n, unevenness(counts, counts, M) / n**2)
    assert found == pytest.approx(brute_list(values, prompts, M, repeatable), rel=1e-9, abs=1e-15)


def test_prompts_that_come_once_are_samples():
    n = 20
    found = clustered_variance(deviations(VALUES[:n], np.arange(n)), n)
    assert found == pytest.approx(VALUES[:n].var(ddof=1) / n * (1 + 5 / n), rel=1e-12)
    assert np.isnan(clustered_variance(np.zeros(3), 1))


def test_what_remains_is_the_part_between_prompts():
    values = VALUES[:60]
    parts = deviations(values, PROMPTS[:60])
    residuals = values - (np.bincount(PROMPTS[:60], values, M) / 2)[PROMPTS[:60]]
    within = float(np.square(residuals).sum()) / 30
    lasting = float(lasting_variance(parts, within / 60))
    assert lasting == pytest.approx(np.square(parts).sum() - within / 60, rel=1e-12)
    assert lasting > 0.0
    assert lasting_variance(parts, 1.0) == 0.0
    # Noise within prompts of .49 against 1 between them: most of the variance remains.
    assert lasting > 0.5 * float(clustered_variance(parts, 30))


def test_design_effect_of_batches_that_are_alike():
    batches = np.repeat(np.arange(400), 5)
    values = np.sqrt(0.3) * rng.standard_normal(400)[batches] + np.sqrt(0.7) * rng.standard_normal(2000)
    found = design_effect(deviations(values, batches), 400, 2000, float(values.var(ddof=1)))
    assert found == pytest.approx(1 + 4 * 0.3, rel=0.15)
    assert design_effect(np.zeros(4), 4, 20, 0.0) == 1.0


def test_how_many_more_clusters_would_decide():
    assert clusters_to_decide(0.1, 0.01, 50, 3.0) == 400
    assert clusters_to_decide(1.0, 0.01, 50, 3.0) == 1
    assert clusters_to_decide(0.0, 0.01, 50, 3.0) is None


def test_unevenness_of_runs_of_unequal_length():
    first, second = (np.bincount(PROMPTS[:n], minlength=M).astype(float) for n in (20, 12))
    assert unevenness(first, second, M) / (20 * 12) == pytest.approx(1 / 20 - 1 / M)
    assert unevenness(first, first, M) / 20**2 == pytest.approx(1 / 20 - 1 / M)
    assert unevenness(np.full(M, 2.0), first, M) == pytest.approx(0.0, abs=1e-12)


def test_how_much_some_samples_are_alike_is_scaled_to_all():
    batches = np.repeat(np.arange(400), 5)
    values = np.sqrt(0.3) * rng.standard_normal(400)[batches] + np.sqrt(0.7) * rng.standard_normal(2000)
    whole = design_effect(deviations(values, batches), 400, 2000, float(values.var(ddof=1)))
    found = alike(values, batches, 5.0)
    assert found.effect == pytest.approx(whole, rel=1e-12)
    assert found.error == pytest.approx(np.sqrt(2 * 4 / 2000))
    # Of two samples of each batch.
    some = np.arange(2000) % 5 < 2
    part = alike(values[some], batches[some], 5.0)
    assert part.effect == pytest.approx(whole, rel=0.15)
    assert part.error == pytest.approx(4.0 * np.sqrt(2.0 / 800))


def test_nothing_is_known_of_samples_of_one_cluster_or_of_different_ones():
    assert alike(VALUES[:20], np.arange(20), 2.0) is None
    assert alike(VALUES[:20], np.zeros(20, int), 20.0) is None
    assert alike(np.zeros(20), np.arange(20) % 4, 5.0).effect == 1.0
