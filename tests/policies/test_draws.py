"""A policy's random numbers are those of numpy's generator, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.policies.draws import Draws, uniform_of

# Sizes beyond 32 bits are numpy's own business, and the edges of a word are where a wrong shift shows.
numbers = st.one_of(st.integers(0, 2**33), st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, 2**64]))


@settings(max_examples=500)
@given(numbers, numbers)
def test_the_number_of_any_seed_and_round(seed: int, round_: int):
    assert uniform_of(seed, round_) == np.random.default_rng((seed, round_)).random()


def test_thousands_of_rounds():
    rng = np.random.default_rng(0)
    for seed, round_ in rng.integers(0, 2 ** rng.integers(1, 33, (4000, 2)), dtype=np.uint64).tolist():
        assert uniform_of(seed, round_) == np.random.default_rng((seed, round_)).random()


def test_a_round_draws_the_same_each_time():
    draws = Draws(3, 7)
    assert draws.uniform() == draws.uniform()
    assert draws.normals(4) == np.random.default_rng((3, 7)).standard_normal(4).tolist()
