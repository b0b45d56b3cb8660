"""Start-time fair queueing: whoever waits gets an equal share, and nobody saves any up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from optimist.turns import REMEMBERED, Shares

COSTS = st.dictionaries(st.sampled_from("abcde"), st.floats(0.001, 1.0), min_size=2, max_size=5)


def served(shares: Shares, costs: dict[str, float], turns: int) -> Counter[str]:
    """What each has used after so many turns in which all of them wait."""
    found = Counter[str]()
    for _ in range(turns):
        who = shares.first(costs)[0]
        shares.serve(who)
        shares.charge(who, costs[who])
        found[who] += costs[who]
    return found


@given(COSTS, st.integers(10, 300))
def test_all_that_wait_have_used_as_much_but_for_one_turn(costs: dict[str, float], turns: int):
    shares = Shares()
    for who in costs:
        shares.wait(who)
    found = served(shares, costs, turns)
    used = [found[who] for who in costs]
    assert max(used) - min(used) <= max(costs.values()) + 1e-9


@given(COSTS, st.floats(0.001, 1.0))
def test_who_comes_after_a_long_time_gets_no_more_than_its_share_from_then_on(costs: dict[str, float], cost: float):
    shares = Shares()
    for who in costs:
        shares.wait(who)
    served(shares, costs, 200)
    shares.wait("late")
    found = served(shares, costs | {"late": cost}, 200)
    assert all(found["late"] - found[who] <= max(*costs.values(), cost) * 2 for who in costs)


def test_those_that_used_nothing_since_are_forgotten_and_change_nothing():
    shares = Shares()
    for number in range(10 * REMEMBERED):
        shares.wait(f"{number}")
        shares.serve(f"{number}")
        shares.charge(f"{number}", 1.0)
    shares.wait("0")
    shares.serve("0")  # everybody has used as much
    assert len(shares._used) <= 1
    shares.wait("a")
    shares.wait("b")
    assert shares.first(["a", "b"]) == ["a", "b"]
