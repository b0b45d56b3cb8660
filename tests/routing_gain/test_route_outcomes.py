"""What logs say of generators that other prompts were given to."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.policies.routing import RoutePolicy
from optimist.routing_gain.gain import route_gain
from optimist.routing_gain.outcomes import Outcomes, ScoredPrompts
from optimist.simulation.routing import RoutingProblem, play

FIRST, SECOND = np.zeros(400, dtype=np.int64), np.ones(400, dtype=np.int64)
EVERYWHERE = np.ones(400, dtype=np.bool_)


def log(seed: int, rare: float = 0.2) -> tuple[ScoredPrompts, np.ndarray, np.ndarray]:
    """A log of two generators, the second rarely drawn; true scores (m, 2); and predictions that are off by a part."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((400, 4))
    true = np.stack([contexts[:, 0], 0.5 - contexts[:, 1]], axis=1)
    generator = (rng.random(400) < rare).astype(np.int64)
    generator[0] = 1
    scores = true[np.arange(400), generator] + 0.3 * rng.standard_normal(400)
    probability = np.where(generator == 1, rare, 1.0 - rare)
    known = ScoredPrompts(("a", "b"), contexts, np.arange(400), generator, scores, probability)
    return known, true, 0.5 * true + [0.3, -0.2]


def test_wrong_predictions_are_corrected_by_draws():
    z = []
    for seed in range(40):
        known, true, predicted = log(seed)
        found = Outcomes(known, predicted, np.zeros(2)).difference(FIRST, SECOND, EVERYWHERE)
        assert found is not None
        assert found.error is not None
        # The error is for further prompts: 0 − 0.5 on average over all.
        z.append((found.value + 0.5) / found.error)
        assert abs(found.value - (true[:, 0] - true[:, 1]).mean()) < 0.3
    assert 0.7 < np.sqrt(np.square(z).mean()) < 1.3
    assert abs(np.mean(z)) < 0.5


def test_draws_without_a_probability_correct_nothing():
    known, _, predicted = log(0)
    probability = np.where(np.arange(400) < 100, np.nan, known.probability)
    scores = np.where(np.arange(400) < 100, 99.0, known.scores)
    some = ScoredPrompts(known.names, known.contexts, known.prompt, known.generator, scores, probability)
    rest = ScoredPrompts(
        known.names, known.contexts[100:], np.arange(300), known.generator[100:], scores[100:], probability[100:]
    )
    of_some = Outcomes(some, predicted, np.zeros(2))
    assert not of_some.judged[:100].any()
    expected = Outcomes(rest, predicted[100:], np.zeros(2)).difference(FIRST[100:], SECOND[100:], EVERYWHERE[100:])
    assert of_some.difference(FIRST, SECOND, EVERYWHERE) == expected


def test_a_generator_that_was_not_drawn_is_known_on_few_prompts_only():
    known, _, predicted = log(1, rare=1e-9)
    outcomes = Outcomes(known, predicted, np.zeros(2))
    everywhere = outcomes.difference(FIRST, SECOND, EVERYWHERE)
    assert everywhere is not None
    assert everywhere.error is None
    assert everywhere.value == pytest.approx((predicted[:, 0] - predicted[:, 1]).mean())
    few = np.where(np.arange(400) < 8, 1, 0)
    rarely = outcomes.difference(few, FIRST, EVERYWHERE)
    assert rarely is not None
    assert rarely.error is not None
    assert 0.0 < rarely.error < 0.1


@pytest.mark.long
def test_the_error_is_right_on_logs_that_the_default_wrote():
    z = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        contexts = rng.standard_normal((600, 6))
        expected = contexts[:, :3] * 0.5 + [0.3, 0.0, 0.0]
        problem = RoutingProblem("", contexts, expected + 0.5 * rng.standard_normal(expected.shape), expected)
        run = play(problem, RoutePolicy("optimistic", seed=seed), features=32)
        scores = problem.scores[run.order, run.chosen]
        known = ScoredPrompts(("a", "b", "c"), contexts[run.order], np.arange(600), run.chosen, scores, run.probability)
        found = route_gain(known, features=32, seed=seed)
        if not found.error:
            continue
        there = expected[run.order]
        rows = np.arange(600)
        z.append((found.gain - (there[rows, found.routed] - there[:, found.single]).mean()) / found.error)
    assert len(z) > 16
    assert 0.5 < np.sqrt(np.square(z).mean()) < 1.5
