"""The random numbers of a round stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.policies.policy import Draws

KNOWN = {(7, 12345): 0.9927260955852857, (0, 1): 0.8897387912781343, (2**33, 2**64): 0.46863136862707433}


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_the_same_with_every_version_of_numpy(key: tuple[int, int], expected: float):
    """The picks of an experiment are made again from these."""
    assert Draws(*key).uniform() == expected


def test_a_round_draws_the_same_each_time():
    draws = Draws(3, 7)
    assert draws.uniform() == draws.uniform()
    assert draws.normals(4) == np.random.default_rng((3, 7)).standard_normal(4).tolist()
