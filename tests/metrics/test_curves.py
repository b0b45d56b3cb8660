"""Entropies of a population's curve of degrees of freedom."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.spectra.cross_entropy import entropy_of_curve
from optimist.metrics.vendi.spectrum import log_vendi


def curve_of(spectrum: np.ndarray, x: np.ndarray) -> tuple[Tensor, Tensor]:
    """D(x) = Σ λ/(λ + x), and x."""
    return torch.from_numpy((spectrum / (spectrum + x[:, None])).sum(-1)), torch.from_numpy(x)


@pytest.mark.parametrize("order", [0.2, 0.5, 0.9, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.1, 1.5, 1.9, 1.999])
@pytest.mark.parametrize("shape", [np.arange(1.0, 41.0) ** -1.5, np.exp(-np.arange(12.0)), np.ones(5)])
def test_the_integrals_are_the_entropies(order: float, shape: np.ndarray):
    spectrum = shape / shape.sum()
    curve = curve_of(spectrum, np.geomspace(1e-4 * spectrum.min(), 1e4 * spectrum.max(), 161))
    expected = log_vendi(torch.from_numpy(spectrum), order)
    assert entropy_of_curve(*curve, len(spectrum), order) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5])
def test_below_the_grid_the_curve_is_a_power_law_that_ends_at_the_rank(order: float):
    rank, shape = 30, np.arange(1.0, 31.0) ** -1.0
    freedom, x = curve_of(shape / shape.sum(), np.geomspace(0.05, 1e4, 161))
    start, full = float(x[0]), float(freedom[0])
    fourfold = int(np.argmax(x.numpy() >= 4.0 * start))
    slope = math.log(full / float(freedom[fourfold])) / math.log(float(x[fourfold]) / start)
    bend = start * (full / rank) ** (1.0 / slope)
    # The power law itself, on points so close that nothing remains below them.
    beyond = np.geomspace(1e-12, start, 40_000)[:-1]
    law = np.where(beyond < bend, rank, full * (start / beyond) ** slope)
    joined = torch.cat([torch.from_numpy(law), freedom]), torch.cat([torch.from_numpy(beyond), x])
    assert bend < start
    assert entropy_of_curve(freedom, x, rank, order) == pytest.approx(entropy_of_curve(*joined, rank, order), rel=1e-4)
