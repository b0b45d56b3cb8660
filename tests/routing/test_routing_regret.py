"""What the default router gets of the gain that is possible while it learns, on problems whose expected scores are
known."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.simulation.trials import RoutingProblem, play

pytestmark = pytest.mark.long


def successes(name: str, contexts: np.ndarray, expected: np.ndarray, rng: np.random.Generator) -> RoutingProblem:
    return RoutingProblem(name, contexts, (rng.random(expected.shape) < expected).astype(np.float64), expected)


def clustered(of_kinds: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """1,500 contexts about as many centres as there are rows, and the row (G,) of each."""
    kind = rng.integers(0, len(of_kinds), 1500)
    centres = rng.standard_normal((len(of_kinds), 32)) / np.sqrt(32.0)
    return centres[kind] + 0.5 * rng.standard_normal((1500, 32)) / np.sqrt(32.0), of_kinds[kind]


def alike_on_average(seed: int) -> RoutingProblem:
    """Five generators, each good at some of eight kinds of prompts, all of the same mean."""
    rng = np.random.default_rng(seed)
    contexts, expected = clustered(rng.uniform(0.3, 0.9, (8, 5)), rng)
    return successes("alike", contexts, np.clip(expected - expected.mean(0) + 0.6, 0.02, 0.98), rng)


def one_is_best(seed: int) -> RoutingProblem:
    """Three generators, of which the last is the best on all kinds."""
    rng = np.random.default_rng(seed)
    contexts, expected = clustered(np.sort(rng.uniform(0.3, 0.9, (6, 3)), axis=1), rng)
    return successes("one is best", contexts, expected, rng)


def linear(seed: int) -> RoutingProblem:
    """Four generators whose scores are linear in the context, with much noise."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((1500, 8)) / np.sqrt(8.0)
    expected = contexts @ (0.5 * rng.standard_normal((4, 8)).T + rng.standard_normal((8, 1)))
    return RoutingProblem("linear", contexts, expected + 0.5 * rng.standard_normal(expected.shape), expected)


def test_generators_alike_on_average_are_told_apart_by_prompt_and_none_is_locked_out():
    """With a flat prior of each mean five plays have a share of 0.62: generators with bad first scores get few."""
    shares = [play(alike_on_average(seed), RoutePolicy(), trial=seed, features=64).share_of_ideal for seed in range(2)]
    assert np.mean(shares) > 0.7


def test_scores_linear_in_the_context_are_learned_at_once():
    # The limit is meant for five plays: one of the first three is far below it.
    shares = [play(linear(seed), RoutePolicy(), trial=seed, features=64).share_of_ideal for seed in range(5)]
    assert np.mean(shares) > 0.85


def test_little_is_lost_where_one_generator_is_the_best():
    trials = [play(one_is_best(seed), RoutePolicy(), trial=seed, features=64) for seed in range(3)]
    losses = [1.0 - float(trial.values.mean()) / trial.best for trial in trials]
    assert np.mean(losses) < 0.035
