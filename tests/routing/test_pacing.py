"""The price of cost that keeps a router's budget: exact on the sampled prompts, monotone, 0 where it is not needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.routing.answers.policy import Frontier, RoutePolicy
from optimist_client import FixError

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def sampled(draw: st.DrawFn) -> Drawn:
    """Means and widths (m, G) on prompts, and costs (G,), some of them perhaps equal."""
    count, prompts = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    costs = np.round(np.exp(draw(st.floats(0.0, 4.0)) * rng.standard_normal(count)), draw(st.integers(0, 6)))
    return rng.random((prompts, count)), 0.2 * rng.random((prompts, count)), costs


def allocated(values: np.ndarray, costs: np.ndarray, price: float) -> float:
    """The mean cost where each prompt goes to the generator of the largest value less price times cost."""
    return float(costs[(values - price * costs).argmax(1)].mean())


@given(sampled(), st.floats(0.0, 1.0))
def test_the_frontier_has_every_allocation_between_the_most_valuable_and_the_cheapest(drawn: Drawn, part: float):
    values, scores, costs = drawn
    found = Frontier.from_values(values, scores, np.broadcast_to(costs, values.shape))
    assert found.prices[0] == 0.0
    assert (np.diff(found.prices) >= 0.0).all()
    rounding = 1e-12 * costs.max()
    assert (np.diff(found.costs) <= rounding).all()
    assert found.costs[-1] == pytest.approx(costs.min(), abs=rounding)
    # Between two prices at which something changes, it is what choosing by value less price times cost costs.
    ends = found.prices[[int(part * (len(found.prices) - 1)), min(int(part * (len(found.prices) - 1)) + 1, -1)]]
    if ends[0] * (1.0 + 1e-6) < ends[1]:
        price = float(ends.mean())
        at = int(np.searchsorted(found.prices, price)) - 1
        assert found.costs[at] == pytest.approx(allocated(values, costs, price), abs=rounding)


@given(sampled(), st.floats(0.0, 1.0), st.sampled_from(["optimistic", "ucb", "greedy"]))
def test_a_ceiling_is_kept_at_the_smallest_price(drawn: Drawn, part: float, name: str):
    means, widths, costs = drawn
    policy = RoutePolicy(name, ceiling=1.0)
    found = policy.frontier(means, widths, costs)
    ceiling = float(part * found.costs[0] + (1.0 - part) * found.costs[-1])
    price = found.price_of_cost(ceiling)
    at = np.flatnonzero(found.prices == price)
    assert found.costs[at[-1]] <= ceiling * (1.0 + 1e-12) or price == found.prices[-1]
    assert price == 0.0 or found.costs[at[0] - 1] > ceiling
    # Not needed: the price is 0. Not possible: the highest.
    assert found.price_of_cost(float(found.costs[0])) == 0.0
    assert found.price_of_cost(-1.0) == found.prices[-1]


@given(sampled(), st.floats(0.01, 1.0))
def test_a_share_of_the_best_single_score_is_kept_at_the_largest_price(drawn: Drawn, part: float):
    means, widths, costs = drawn
    found = RoutePolicy("greedy", at_least=part).frontier(means, widths, costs)
    least = part * found.single
    assert found.single == means.mean(0).max()
    price = found.price_of_score(least)
    at = np.flatnonzero(found.prices == price)
    # By their means the best generators of all prompts score at least as much as any single one.
    assert found.scores[0] >= found.single - 1e-12
    assert found.scores[at[0] : at[-1] + 1].max() >= least - 1e-12
    assert price == found.prices[-1] or found.scores[at[-1] + 1 :].min() < least


@given(sampled(), st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=5), st.floats(0.0, 2.0))
def test_who_has_spent_more_pays_a_higher_price_and_chances_stay_known(
    drawn: Drawn, overspent: list[float], price: float
):
    means, widths, costs = drawn
    policy = RoutePolicy("optimistic", price=price, ceiling=float(costs.mean()) or 1.0)
    found = policy.frontier(means, widths, costs)
    paced = [policy.paced(found, each) for each in sorted(overspent)]
    assert all(price <= one.price <= other.price for one, other in pairwise(paced))
    for one in paced:
        chances = one.chances(means[0], widths[0], costs)
        assert chances.sum() == pytest.approx(1.0)
        assert chances.min() >= one.floor / len(costs)
    # What was saved is spent, but never more than a multiple of the ceiling.
    assert policy.paced(found, -1e9).price == max(price, found.price_of_cost(2.0 * (policy.ceiling or 0.0)))
    # No prompt can cost more than the dearest generator.
    assert RoutePolicy("optimistic", price=price, ceiling=float(costs.max()) or 1.0).paced(found, 1e9).price == price


def test_calls_until_success_are_counted_by_what_they_cost():
    rng = np.random.default_rng(0)
    success, costs = rng.uniform(0.2, 0.9, (200, 3)), np.array([4.0, 2.0, 1.0])
    policy = RoutePolicy("greedy", tries=3, ceiling=2.0)
    found = policy.frontier(success, np.zeros((200, 3)), costs)
    reached = 1.0 - (1.0 - success) ** 3
    spent = costs * reached / success
    chosen = (np.arange(200), reached.argmax(1))
    assert found.costs[0] == pytest.approx(spent[chosen].mean())
    assert found.scores[0] == pytest.approx(reached[chosen].mean())
    assert found.costs[-1] == pytest.approx(spent.min(1).mean())
    price = found.price_of_cost(1.7)
    # What was spent beyond the reserve is to be saved again.
    assert found.dearest == pytest.approx(spent.mean(0).max())
    overspent = found.dearest * (0.3 / 2.0 * 4.0 - 1.0)
    assert policy.paced(found, overspent).price == price
    chances = np.array([policy.paced(found, overspent).chances(row, np.zeros(3), costs) for row in success])
    assert (chances * spent).sum(1).mean() == pytest.approx(1.7, abs=0.03)


WRONG = [
    ({"ceiling": 1.0, "at_least": 0.9}, "ceiling, at_least: expected one of them"),
    ({"ceiling": 0.0}, "ceiling: expected a mean cost of a prompt above 0, got 0"),
    ({"ceiling": float("inf")}, "ceiling: expected a mean cost of a prompt above 0, got inf"),
    ({"at_least": 0.0}, "at_least: expected a part of the best single generator's mean, .* got 0"),
    ({"at_least": 1.01}, "at_least: expected a part of the best single generator's mean, .* got 1.01"),
    ({"at_least": 0.9, "price": 0.1}, "at_least: costs are kept as low as that share allows.*; got price 0.1"),
]


@pytest.mark.parametrize(("settings", "expected"), WRONG)
def test_a_wrong_budget_is_said_in_words(settings: dict[str, float], expected: str):
    with pytest.raises(FixError, match=expected):
        RoutePolicy("optimistic", **settings)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["uniform", "best-single", "rff-ucb", "pak-ucb", "promptwise"])
def test_policies_that_do_not_compare_score_less_price_keep_no_budget(name: str):
    with pytest.raises(FixError, match=f"ceiling: the policies optimistic, ucb, greedy keep a budget; got '{name}'"):
        RoutePolicy(name, ceiling=1.0)
