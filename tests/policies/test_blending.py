"""The policies of the goal "mixture": parity with the published algorithms, and what holds for all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optimist.numerics.mixtures.quadratic import Quadratic
from optimist.policies.blend_rules import Ranges, drawn, optimistic_weights, steepest

DATA = Path(__file__).parents[1] / "data" / "mixture_online.npz"


class Published:
    """The streams of the reference run, drawn by one rule: a first pull of each, then one sample a round."""

    def __init__(self) -> None:
        self.data = np.load(DATA)
        self.rows: list[list[np.ndarray]] = [[], [], []]
        self.arms: list[int] = []
        self.weights: list[np.ndarray] = []

    def run(self, rule: str) -> None:
        streams, uniforms = self.data["streams"], self.data["uniforms"]
        # The reference has ε = 0.2 √(log t/(2n)), without the term Δ_κ/n.
        ranges = Ranges(kernel=0.0, loss=0.2)
        for round_ in range(len(uniforms)):
            if round_ < 3:
                place, weights = round_, np.eye(3)[round_]
            else:
                samples = np.array([float(len(rows)) for rows in self.rows])
                model = Quadratic(self.sums() / np.outer(samples, samples), np.zeros(3))
                if rule == "ogd":
                    place = steepest(model, samples, ranges.bonus(samples))
                    weights = np.eye(3)[place]
                else:
                    bonus = ranges.bonus(samples) if rule == "cab" else np.zeros(3)
                    weights = optimistic_weights(model, bonus)
                    place = drawn(weights, float(uniforms[round_]))
            self.rows[place].append(streams[place, len(self.rows[place])])
            self.arms.append(place)
            self.weights.append(weights)

    def sums(self) -> np.ndarray:
        """The sums of the squared Gaussian kernel, self pairs once."""
        rows = [np.array(own) for own in self.rows]
        return np.array([[self.kernel(one, other).sum() for other in rows] for one in rows])

    def kernel(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        apart = ((one[:, None] - other[None, :]) ** 2).sum(axis=2)
        return np.exp(-apart / (2.0 * self.data["sigma"] ** 2)) ** 2


@pytest.mark.parametrize("rule", ["cab", "ogd", "greedy"])
def test_arms_are_those_of_the_published_algorithms(rule: str):
    run = Published()
    run.run(rule)
    assert run.arms == run.data[f"{rule}_arms"].tolist()
    np.testing.assert_allclose(run.weights, run.data[f"{rule}_alphas"], atol=1e-7)
    np.testing.assert_allclose(run.sums(), run.data[f"{rule}_sums"], rtol=1e-9)
