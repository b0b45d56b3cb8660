"""What the choices of one trial of a router are worth, by numbers that can be checked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optimist.routing.simulation.trials import RoutingProblem, RoutingTrial

SCORES = np.array([[0.9, 0.5], [0.2, 0.6], [0.8, 0.1], [0.7, 0.3]])
COSTS = np.array([0.3, 0.1])


def trial(chosen: list[int], scores: np.ndarray = SCORES, price: float = 0.0, **problem: Any) -> RoutingTrial:
    """Prompts that come in the order 3, 2, 1, 0."""
    known = RoutingProblem("", np.zeros((len(scores), 1)), scores, scores, **problem)
    order = np.arange(len(scores))[::-1]
    return RoutingTrial.from_choices(known, price, order, np.array(chosen), np.full(len(scores), math.nan))


def test_scores_and_regret():
    found = trial([1, 0, 1, 0])
    np.testing.assert_allclose(found.values, [0.3, 0.8, 0.6, 0.9])
    assert (found.best, found.ideal) == pytest.approx((0.65, 0.75))
    np.testing.assert_allclose(found.regret, [0.75 - 0.3, 0.75 - 0.55, 0.75 - 1.7 / 3, 0.75 - 0.65])


@pytest.mark.parametrize(("chosen", "share"), [([0, 0, 0, 0], 0.0), ([0, 0, 1, 0], 1.0), ([1, 1, 1, 1], -2.75)])
def test_the_share_of_what_the_best_single_generator_leaves(chosen: list[int], share: float):
    assert trial(chosen).share_of_ideal == pytest.approx(share)


def test_where_routing_gains_nothing_there_is_no_share():
    assert math.isnan(trial([0, 1], np.array([[0.9, 0.5], [0.6, 0.2]])).share_of_ideal)


def test_costs_are_those_of_the_prompts_and_weigh_by_their_price():
    paid = np.array([[0.1, 0.2], [0.3, 0.1], [0.5, 0.1], [0.2, 0.4]])
    found = trial([1, 0, 1, 0], price=0.5, costs=COSTS, paid=paid)
    np.testing.assert_allclose(found.costs, [0.4, 0.5, 0.1, 0.1])
    np.testing.assert_allclose(found.values, [0.3 - 0.2, 0.8 - 0.25, 0.6 - 0.05, 0.9 - 0.05])
    assert (found.single_cost, found.dearest_cost) == pytest.approx((0.275, 0.275))
    assert trial([0, 0, 0, 0], costs=COSTS[::-1]).dearest_cost == pytest.approx(0.3)
