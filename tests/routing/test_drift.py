"""Answers that change are found, and others are not: at small scale, with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optimist.routing.answers.drift import Drift, fitted
from optimist.routing.answers.ridge import Sums

WIDTH = 6
Law = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def successes(rng: np.random.Generator, expected: np.ndarray) -> np.ndarray:
    return (rng.random(expected.shape) < expected).astype(float)


def beta(rng: np.random.Generator, expected: np.ndarray) -> np.ndarray:
    return rng.beta(expected, 1.0 - expected)


def normal(rng: np.random.Generator, expected: np.ndarray) -> np.ndarray:
    return expected + 0.3 * rng.standard_normal(expected.shape)


def told(law: Law, seed: int, count: int, at: int = 0, step: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n, WIDTH) and scores (n,), which are `step` higher from sample `at` on."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((count, WIDTH)) / np.sqrt(WIDTH)
    expected = np.clip(0.6 + 0.1 * columns @ rng.standard_normal(WIDTH), 0.15, 0.85)
    expected[at:] += step if at else 0.0
    return columns, law(rng, np.clip(expected, 0.01, 0.99))


def after(columns: np.ndarray, scores: np.ndarray, drift: Drift | None = None, first: int = 0) -> tuple[Drift, int]:
    """The test after all samples from `first` on, and how many were told until it found a change; 0: it found none."""
    drift, found = drift or Drift(WIDTH, 2), 0
    for n in range(first, len(scores)):
        drift.add(columns[n], float(scores[n]), lambda n=n: Sums.from_rows(columns[:n], scores[:n]), n, (n, 10 * n + 1))
        found = found or (n + 1 if drift.change else 0)
    return drift, found


@pytest.mark.long
@pytest.mark.parametrize("law", [successes, beta, normal])
def test_answers_that_do_not_change_are_not_said_to(law: Law):
    assert not any(after(*told(law, seed, 2000))[1] for seed in range(5))


@pytest.mark.parametrize(
    ("law", "step", "within"),
    [
        (normal, 0.1, 300),
        pytest.param(normal, -0.1, 300, marks=pytest.mark.long),
        (beta, -0.2, 250),
        pytest.param(successes, -0.2, 300, marks=pytest.mark.long),
    ],
)
def test_a_step_is_found_and_named(law: Law, step: float, within: int):
    delays, apart = [], []
    for seed in range(5):
        drift, found = after(*told(law, seed, 2800, at=2000, step=step))
        assert found > 2000
        change = drift.change
        assert change is not None
        delays.append(found - 2000)
        apart.append(abs(change.position - 2000))
        assert change.pick == 10 * change.position + 1
        assert change.samples == 2800 - change.position
        assert abs(change.shift - step) < 4.0 * change.standard_error + 0.04
    assert np.median(delays) < within
    assert np.median(apart) < 100


def test_what_is_wrong_of_the_regression_all_the_time_is_no_change():
    """Prompts come from where the scores are higher than a regression on these columns can know."""
    columns, scores = told(normal, 1, 3000)
    rest = np.random.default_rng(1).standard_normal(3000)
    chosen = (np.arange(3000) < 100) | (rest > 0.5)
    assert after(columns[chosen], (scores + 0.1 * rest)[chosen])[1] == 0


def test_a_state_goes_on_bit_for_bit():
    columns, scores = told(beta, 3, 1500, at=1000, step=-0.2)
    whole, found = after(columns, scores)
    for cut in (10, 700, found + 20):
        first, _ = after(columns[:cut], scores[:cut])
        restored = Drift(WIDTH, 2)
        restored.restore({name: array.copy() for name, array in first.state().items()})
        second, _ = after(columns, scores, restored, cut)
        assert second.change == whole.change
        for name, array in whole.state().items():
            np.testing.assert_array_equal(second.state()[name], array)
    assert whole.bytes == sum(array.nbytes for array in whole.state().values())


def test_scores_of_any_level_and_size_are_alike():
    columns, scores = told(normal, 2, 1600, at=1000, step=-0.3)
    plain = after(columns, scores)
    larger = after(columns, 1e5 + 1e3 * scores)
    assert plain[1] == larger[1] > 1000
    assert plain[0].change is not None
    assert larger[0].change is not None
    assert larger[0].change.shift == pytest.approx(1e3 * plain[0].change.shift, rel=1e-6)


def test_equal_scores_are_tested_once_one_differs():
    columns, scores = told(successes, 5, 900)
    scores[:] = 1.0
    assert after(columns, scores)[1] == 0
    scores[400] = 0.0
    assert after(columns, scores)[1] == 0
    scores[500::3] = 0.0
    assert 500 < after(columns, scores)[1] < 700


def test_one_absurd_score_is_no_change():
    columns, scores = told(normal, 6, 1200)
    scores[600] = -1e9
    assert after(columns, scores)[1] == 0


def test_the_regression_is_that_of_all_samples():
    columns, scores = told(normal, 7, 35)
    drift, _ = after(columns, scores)
    weights, covariance, _ = fitted(Sums.from_rows(columns[:30], scores[:30]), 2)
    prior = np.linalg.inv(np.linalg.inv(covariance) - _gram(columns[:30]))
    expected = np.linalg.inv(np.linalg.inv(prior) + _gram(columns))
    rows = np.concatenate([np.ones((35, 1)), columns], axis=1)
    np.testing.assert_allclose(drift.state()["covariance"], expected[np.tril_indices(WIDTH + 1)], rtol=1e-6, atol=1e-9)
    mean = scores[:30].mean()
    np.testing.assert_allclose(drift.state()["weights"], expected @ rows.T @ (scores - mean), rtol=1e-5, atol=1e-9)
    assert weights.shape == (WIDTH + 1,)


def _gram(columns: np.ndarray) -> np.ndarray:
    rows = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
    return rows.T @ rows


@pytest.mark.long
def test_all_wealth_is_one_for_each_sample_on_average():
    """Of Shiryaev and Roberts: E[wealth] = n without a change, so that the bound of Markov holds."""
    ends = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        columns = np.zeros((60, WIDTH))
        drift, _ = after(columns, rng.standard_normal(60))
        ends.append(float(drift.state()["bets"][:, 0].mean()))
    assert np.mean(ends) == pytest.approx(30.0, rel=0.3)
