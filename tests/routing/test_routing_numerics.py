"""Regressions on contexts, their additive sums, and the chances of being the best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.policies.mixture_policy import drawn
from optimist.references.distances import median_distance
from optimist.routing.answers.features import Components, ContextMap
from optimist.routing.answers.model import best_chances, normal_below
from optimist.routing.answers.ridge import (
    MEAN_RIDGES,
    RIDGES,
    SHARED_RIDGES,
    KernelRidge,
    PublishedRidge,
    Regressions,
    Sums,
    common_mean,
    forms_of,
    prior_variances,
)

SEEDS = st.integers(0, 10_000)


def sample(seed: int, n: int = 60, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, d))
    return contexts, contexts @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)


def test_products_of_features_are_the_kernel():
    contexts, _ = sample(0, n=40)
    phi = ContextMap.drawn(5, 20_000, 2.0)(contexts)
    apart = np.square(contexts[:, None] - contexts[None]).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-apart / 8.0), atol=0.03)
    np.testing.assert_allclose(np.square(phi).sum(1), 1.0)


@pytest.mark.parametrize("features", [0, 3, -2])
def test_features_come_in_pairs(features: int):
    with pytest.raises(ValueError, match="expected an even number of at least 2"):
        ContextMap.drawn(3, features, 1.0)


def test_contexts_that_are_equal_have_no_bandwidth():
    with pytest.raises(ValueError, match="at least half of all pairs are equal"):
        median_distance(np.ones((6, 3)))
    contexts, _ = sample(1, n=30)
    apart = np.sqrt(np.square(contexts[:, None] - contexts[None]).sum(-1))
    assert median_distance(contexts) == pytest.approx(np.median(apart[np.triu_indices(30, 1)]))


@given(SEEDS)
def test_sums_are_additive_and_a_sample_can_be_taken_back(seed: int):
    contexts, scores = sample(seed)
    phi = ContextMap.drawn(5, 16, 2.0)(contexts)
    whole, first, rest = (Sums.from_rows(phi[rows], scores[rows]) for rows in (slice(None), slice(7), slice(7, None)))
    for found, expected in ((first + rest, whole), (whole - first, rest)):
        assert found.samples == expected.samples
        for name in ("gram", "total", "cross", "sum", "squares"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


def test_sums_take_no_numbers_that_are_not_finite():
    with pytest.raises(ValueError, match="finite"):
        Sums.from_rows(np.ones((2, 4)), np.array([1.0, np.nan]))


def test_the_published_regression_is_that_of_all_rows():
    contexts, scores = sample(3)
    phi = ContextMap.drawn(5, 12, 2.0)(contexts)
    means, widths = PublishedRidge.from_moments([Sums.from_rows(phi, scores)], ridge=0.7).predict(phi[:3])
    inverse = np.linalg.inv(0.7 * np.eye(12) + phi.T @ phi)
    np.testing.assert_allclose(means[:, 0], phi[:3] @ inverse @ phi.T @ scores)
    np.testing.assert_allclose(widths[:, 0], np.sqrt(np.einsum("nr,rs,ns->n", phi[:3], inverse, phi[:3])))


def test_the_kernel_regression_is_that_of_all_rows():
    contexts, scores = sample(4, n=25)
    made = KernelRidge(2.0, 0.5)
    for context, score in zip(contexts[:20], scores[:20], strict=True):
        made.add(context, score)
    kernel = np.exp(-np.square(contexts[:, None] - contexts[None]).sum(-1) / 8.0)
    inverse = np.linalg.inv(kernel[:20, :20] + 0.5 * np.eye(20))
    for place in range(20, 25):
        row = kernel[place, :20]
        mean, width = made.predict(contexts[place])
        assert mean == pytest.approx(row @ inverse @ scores[:20])
        assert width == pytest.approx(np.sqrt((1.0 - row @ inverse @ row) / 0.5))


def of_rows(seed: int, linear: int = 3, columns: int = 7) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Columns and scores of three generators, one of them with a single sample."""
    rng = np.random.default_rng(seed)
    rows = [rng.standard_normal((n, columns)) + rng.standard_normal(columns) for n in (12, 1, 8)]
    shared = rng.standard_normal(columns)
    scores = [each @ (shared + 0.7 * rng.standard_normal(columns)) + rng.standard_normal(len(each)) for each in rows]
    return rows, scores


def without_means(rows: list[np.ndarray], scores: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows and scores in a basis (n − 1) of what is left of each generator's samples without their mean."""
    bases = [np.linalg.svd(np.eye(len(each)) - 1.0 / len(each))[0][:, : len(each) - 1] for each in rows]
    return (
        [basis.T @ each for basis, each in zip(bases, rows, strict=True)],
        np.concatenate([basis.T @ each for basis, each in zip(bases, scores, strict=True)]),
    )


def covariance(rows: list[np.ndarray], own: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Of all scores, in units of the noise, by the prior variances of θ and u by column."""
    whole = np.concatenate(rows)
    found = np.eye(len(whole)) + (whole * shared) @ whole.T
    place = 0
    for each in rows:
        stop = place + len(each)
        found[place:stop, place:stop] += (each * own) @ each.T
        place = stop
    return found


@pytest.mark.parametrize("columns", [5, 33, 150])
def test_factors_are_those_of_the_inverse_at_any_width(columns: int):
    rng = np.random.default_rng(columns)
    rows = rng.standard_normal((40, columns))
    factor = PublishedRidge.from_moments([Sums.from_rows(rows, rng.standard_normal(40))], ridge=0.3).factors[0]
    covariance = rows.T @ rows + 0.3 * np.eye(columns)
    np.testing.assert_allclose(factor @ covariance @ factor.T, np.eye(columns), atol=1e-11)


@pytest.mark.parametrize("linear", [0, 3])
def test_prior_variances_are_those_of_the_normal_law_of_all_scores(linear: int):
    rows, scores = of_rows(2)
    moments = [Sums.from_rows(each, score) for each, score in zip(rows, scores, strict=True)]
    counts = np.array([float(len(each)) for each in rows])
    found = prior_variances([each.centred for each in moments], counts, linear)
    left, values = without_means(rows, scores)
    logs, owns, shareds = [], [], []
    forms = forms_of(7, linear)
    assert len(forms) == (3 if linear else 1)
    for form in forms:
        for ridge in RIDGES:
            for of_all in SHARED_RIDGES:
                kept = np.where(form == 1.0, form, 0.0)
                matrix = covariance(left, kept / ridge, kept / of_all)
                quadratic = values @ np.linalg.solve(matrix, values)
                logs.append(-0.5 * (np.linalg.slogdet(matrix)[1] + len(values) * np.log(quadratic) - np.log(ridge)))
                owns.append(form / ridge)
                shareds.append(form / of_all)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    np.testing.assert_allclose(found[0], weights @ np.array(owns), rtol=1e-9)
    np.testing.assert_allclose(found[1], weights @ np.array(shareds), rtol=1e-9)


def test_weights_and_widths_are_those_of_the_normal_law_of_all_scores():
    """Each mean counts as further samples at the mean of all contexts, which is a prior of it there."""
    rows, scores = of_rows(4)
    moments = [Sums.from_rows(each, score) for each, score in zip(rows, scores, strict=True)]
    counts = np.array([float(len(each)) for each in rows])
    found = Regressions.from_moments(moments, linear=3)
    own, shared = prior_variances([each.centred for each in moments], counts, 3)
    ridges = found.samples - counts
    assert (ridges > 0.0).all()
    common = np.array(
        [
            (total * mean - score.sum()) / ridge
            for total, mean, score, ridge in zip(found.samples, found.means, scores, ridges, strict=True)
        ]
    )
    np.testing.assert_allclose(common, common[0], rtol=1e-9)
    centred = [each - np.concatenate(rows).mean(0) for each in rows]
    levels = np.zeros((int(counts.sum()), int(counts.sum())))
    ends = np.cumsum(counts).astype(int)
    for end, count, ridge in zip(ends, counts.astype(int), ridges, strict=True):
        levels[end - count : end, end - count : end] = 1.0 / ridge
    explained = np.linalg.solve(covariance(centred, own, shared) + levels, np.concatenate(scores) - common[0])
    for place, each in enumerate(centred):
        mine = explained[ends[place] - len(each) : ends[place]]
        weights = shared * (np.concatenate(centred).T @ explained) + own * (each.T @ mine)
        np.testing.assert_allclose(found.weights[place], weights, rtol=1e-8, atol=1e-10)
        means, widths = found.predict(rows[0])
        level = common[0] + mine.sum() / ridges[place]
        np.testing.assert_allclose(means[:, place], level + centred[0] @ weights, rtol=1e-8)
        with_one = np.concatenate([np.ones((len(each), 1)), each], axis=1)
        posterior = np.linalg.inv(np.diag([ridges[place], *(1.0 / own)]) + with_one.T @ with_one)
        asked = np.concatenate([np.ones((len(rows[0]), 1)), centred[0]], axis=1)
        expected = found.noise[place] * np.sqrt(np.einsum("nr,rs,ns->n", asked, posterior, asked))
        np.testing.assert_allclose(widths[:, place], expected, rtol=1e-8)


def test_the_spread_of_means_is_that_of_the_normal_law_of_their_estimates():
    rng = np.random.default_rng(1)
    values, errors, noise = rng.standard_normal(4), np.array([0.1, 0.5, 0.3, 1.0]), np.array([1.0, 2.0, 1.5, 1.0])
    scale = np.square(noise).mean()
    basis = np.linalg.svd(np.eye(4) - 0.25)[0][:, :3]
    logs = []
    for ridge in MEAN_RIDGES:
        left = basis.T @ np.diag(np.square(errors) + scale / ridge) @ basis
        logs.append(-0.5 * (np.linalg.slogdet(left)[1] + basis.T @ values @ np.linalg.solve(left, basis.T @ values)))
    weights = np.exp(np.array(logs) - max(logs))
    spread = np.sqrt(scale / np.exp(weights @ np.log(MEAN_RIDGES) / weights.sum()))
    parts = 1.0 / (np.square(errors) + spread**2)
    assert common_mean(values, errors, noise) == pytest.approx((parts @ values / parts.sum(), spread))


def test_a_few_failures_do_not_keep_a_generator_from_all_prompts_unless_means_do_differ():
    rng = np.random.default_rng(2)
    phi = ContextMap.drawn(4, 16, 2.0)(rng.standard_normal((500, 4)))

    def of_newcomer(means: tuple[float, ...]) -> float:
        told = [
            Sums.from_rows(phi[100 * place : 100 * (place + 1)], (rng.random(100) < mean).astype(np.float64))
            for place, mean in enumerate(means)
        ]
        found = Regressions.from_moments([*told, Sums.from_rows(phi[400:403], np.zeros(3))])
        return float(found.predict(phi)[0][:, -1].mean())

    assert of_newcomer((0.5, 0.5, 0.5, 0.5)) > 0.35
    assert of_newcomer((0.95, 0.05, 0.95, 0.05)) < 0.2


def test_means_far_apart_for_their_noise_and_scores_without_noise_are_kept():
    phi = ContextMap.drawn(4, 16, 2.0)(np.random.default_rng(3).standard_normal((60, 4)))
    for size in (1e-9, 1e6):
        told = [Sums.from_rows(phi[20 * place :][:20], np.full(20, size * place)) for place in range(3)]
        means, widths = Regressions.from_moments(told).predict(phi)
        np.testing.assert_allclose(means, np.broadcast_to(size * np.arange(3.0), means.shape), atol=2e-3 * size)
        assert np.isfinite(widths).all()


def test_the_ridge_of_what_a_generator_is_better_at_is_found_though_all_share_much():
    """The true ridges are 10 and 10; with the fitted u put in as if it were known, θ seemed to vanish."""
    rng = np.random.default_rng(8)
    likeliest: list[float] = []
    for _ in range(9):
        u = rng.standard_normal(40) / np.sqrt(10.0)
        parts, counts = [], np.full(5, 100.0)
        for _ in range(5):
            rows = rng.standard_normal((100, 40))
            scores = rows @ (u + rng.standard_normal(40) / np.sqrt(10.0)) + rng.standard_normal(100)
            parts.append(Sums.from_rows(rows, scores).centred)
        likeliest.append(1.0 / float(prior_variances(parts, counts)[0][0]))
    assert 5.0 < np.median(likeliest) < 20.0


@pytest.mark.parametrize(("count", "columns"), [(64, 12), (20, 40)])
def test_components_are_the_eigenvectors_of_the_covariance(count: int, columns: int):
    rng = np.random.default_rng(count)
    contexts = rng.standard_normal((count, columns)) * np.geomspace(4.0, 0.1, columns) + 3.0
    found = Components.from_contexts(contexts, limit=8)
    values, vectors = np.linalg.eigh(np.cov(contexts.T, bias=True))
    values, vectors = values[::-1][:8], vectors[:, ::-1][:, :8].T
    vectors *= np.sign(vectors[np.arange(8), np.abs(vectors).argmax(1)])[:, None]
    expected = vectors / np.sqrt(8.0 * (values + values.mean()))[:, None]
    np.testing.assert_allclose(found.directions, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.origin, contexts.mean(0))
    columns_found = ContextMap.drawn(columns, 6, 2.0, components=found)(contexts)
    assert columns_found.shape == (count, 14)
    np.testing.assert_allclose(columns_found[:, :8], (contexts - contexts.mean(0)) @ expected.T, atol=1e-9)


def test_equal_contexts_have_no_components_and_one_of_a_wrong_size_is_cut():
    assert Components.from_contexts(np.full((9, 4), 0.1)).directions.shape == (0, 4)
    contexts, _ = sample(1, n=64)
    known = ContextMap.drawn(5, 4, 2.0, components=Components.from_contexts(contexts))
    assert known.linear == 5
    columns = known(np.array([[1e20, 0.0, 0.0, 0.0, 0.0]]))
    assert np.abs(columns[:, :5]).max() == pytest.approx(8.0 / np.sqrt(5.0))


def test_a_generator_that_is_better_on_some_prompts_is_found_so():
    rng = np.random.default_rng(5)
    contexts = rng.standard_normal((600, 4))
    phi = ContextMap.drawn(4, 64, median_distance(contexts))(contexts)
    expected = np.stack([contexts[:, 0], -contexts[:, 0]], axis=1) + contexts[:, 1:2]
    scores = expected + 0.3 * rng.standard_normal(expected.shape)
    given_to = rng.integers(0, 2, 500)
    moments = [Sums.from_rows(phi[:500][given_to == g], scores[:500][given_to == g, g]) for g in (0, 1)]
    means, errors = Regressions.from_moments(moments).predict(phi[500:])
    chosen = means.argmax(1)
    right = expected[500:].argmax(1)
    clear = np.abs(contexts[500:, 0]) > 0.3
    assert (chosen == right)[clear].mean() > 0.97
    off = (means - expected[500:]) / errors
    assert 0.5 < np.sqrt(np.square(off).mean()) < 2.0


def test_generators_that_differ_in_nothing_but_their_means_are_not_told_apart_by_prompt():
    rng = np.random.default_rng(6)
    contexts = rng.standard_normal((400, 4))
    phi = ContextMap.drawn(4, 64, median_distance(contexts))(contexts)
    scores = contexts[:, :1] + np.array([0.4, 0.0]) + 0.3 * rng.standard_normal((400, 2))
    means, _ = Regressions.from_moments(
        [Sums.from_rows(phi[:200], scores[:200, 0]), Sums.from_rows(phi[200:], scores[200:, 1])]
    ).predict(phi)
    assert (means.argmax(1) == 0).mean() > 0.99
    # Though the second got other prompts: their difficulty is common to both.
    assert np.abs(means[:, 0] - means[:, 1] - 0.4).mean() < 0.15


@given(SEEDS)
def test_one_sample_each_is_enough_to_predict(seed: int):
    rng = np.random.default_rng(seed)
    phi = ContextMap.drawn(3, 8, 1.0)(rng.standard_normal((3, 3)))
    means, errors = Regressions.from_moments(
        [Sums.from_rows(phi[:1], np.ones(1)), Sums.from_rows(phi[1:2], np.zeros(1))]
    ).predict(phi)
    assert np.isfinite(means).all()
    assert (errors > 0.0).all()


def test_the_normal_law():
    grid = np.array([-8.0, -1.959963984540054, -0.5, 0.0, 1.2815515655446004, 3.0])
    expected = [0.0, 0.025, 0.3085375387, 0.5, 0.9, 0.9986501020]
    np.testing.assert_allclose(normal_below(grid), expected, atol=1e-7)


@given(SEEDS)
def test_chances_are_those_of_drawing_all_and_taking_the_largest(seed: int):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    means, errors = 0.5 * rng.standard_normal(count), np.exp(rng.standard_normal(count))
    draws = means + errors * rng.standard_normal((40_000, count))
    seen = np.bincount(draws.argmax(1), minlength=count) / len(draws)
    found = best_chances(means, errors)
    np.testing.assert_allclose(found, seen, atol=0.015)
    assert found.sum() == pytest.approx(1.0)


def test_chances_where_one_is_known_exactly_and_where_all_are_alike():
    assert best_chances(np.array([0.0, 1.0]), np.array([1e-9, 1e-9])) == pytest.approx([0.0, 1.0], abs=1e-6)
    assert best_chances(np.full(2, 1e6 + 0.1), np.full(2, 1e-12)) == pytest.approx([0.5, 0.5])
    assert best_chances(np.zeros(4), np.ones(4)) == pytest.approx(np.full(4, 0.25))
    found = best_chances(np.array([0.0, 0.0]), np.array([1e-6, 1.0]))
    assert found == pytest.approx([0.5, 0.5], abs=0.01)
    floored = best_chances(np.array([0.0, 100.0]), np.ones(2), floor=0.02)
    assert floored == pytest.approx([0.01, 0.99])


def test_a_uniform_number_chooses_by_the_chances():
    chances = np.array([0.2, 0.0, 0.5, 0.3])
    assert [drawn(chances, uniform) for uniform in (0.0, 0.199, 0.2, 0.699, 0.7, 0.9999999)] == [0, 0, 2, 2, 3, 3]


def test_a_few_equal_scores_are_not_taken_for_scores_without_noise():
    contexts, _ = sample(3, n=40)
    phi = ContextMap.drawn(5, 16, 2.0)(contexts)
    mixed = np.random.default_rng(3).integers(0, 2, 30).astype(np.float64)
    alike = Sums.from_rows(phi[:5], np.ones(5))
    found = Regressions.from_moments([alike, Sums.from_rows(phi[10:], mixed)])
    assert found.noise[0] > 0.3 * found.noise[1] > 0.1
    # Alone they say nothing about a noise.
    assert Regressions.from_moments([Sums.from_rows(phi[:1], np.ones(1))]).noise.tolist() == [1.0]
