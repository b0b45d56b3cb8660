"""How likely each generator is the best one, where what each scores is known as a normal distribution."""

from __future__ import annotations

import numpy as np

from optimist.numerics.routing.features import Floats

POINTS = 256
"""Points of the grid on which the distributions are compared."""
REACH = 5.0
"""Standard errors that the grid reaches beyond the means."""
_STEPS = np.linspace(0.0, 1.0, POINTS)


def normal_below(z: Floats) -> Floats:
    """Φ(z), with an error below 7.5e-8 (Abramowitz and Stegun 26.2.17): numpy has no error function."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
    return np.where(z >= 0.0, 1.0 - tail, tail)


def best_chances(means: Floats, errors: Floats, floor: float = 0.0) -> Floats:
    """The chance (…, G) that each of independent normal variables (…, G) is the largest, each at least `floor`/G.

    errors: standard deviations, above 0. These are the probabilities by which Thompson sampling chooses: drawing from
    them is drawing all variables and taking the largest. Between two points of a grid, variable g is the largest with
    the probability that it lies there times that of all others to lie below.
    """
    count = means.shape[-1]
    # Only differences count, and a grid about a large mean would be too coarse for small errors.
    means = means - means.max(axis=-1, keepdims=True)
    low = (means - REACH * errors).max(axis=-1, keepdims=True)
    high = (means + REACH * errors).max(axis=-1, keepdims=True)
    grid = low + (high - low) * _STEPS
    below = normal_below((grid[..., None, :] - means[..., :, None]) / errors[..., :, None])
    inside = np.maximum(below[..., 1:] - below[..., :-1], 0.0)
    logs = np.log(np.maximum(0.5 * (below[..., 1:] + below[..., :-1]), 1e-300))
    others = np.exp(logs.sum(axis=-2, keepdims=True) - logs)
    found = (inside * others).sum(axis=-1)
    found = found / found.sum(axis=-1, keepdims=True)
    return (1.0 - floor) * found + floor / count
