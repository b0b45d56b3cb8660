import math

import numpy as np
import pytest
import torch

from optimist.metrics.spectra.eigen import centre, double_centre, pair_sum, root_trace
from optimist.metrics.spectra.leave_one_out import leave_one_out_curve


def sample(seed: int, count: int, spectrum: np.ndarray):
    """Eigenvalues and shares of a Gaussian sample whose M has this spectrum."""
    rows = torch.from_numpy(np.random.default_rng(seed).standard_normal((count, len(spectrum))) * np.sqrt(spectrum))
    left, singular, _ = torch.linalg.svd(centre(rows)[1], full_matrices=False)
    rank = min(count - 1, len(spectrum))
    return singular[:rank].square() / (count - 1), left[:, :rank].square()


def test_batches_are_independent():
    spectra = [np.arange(1.0, 9.0) ** -power for power in (0.0, 1.0, 2.0)]
    reference = torch.from_numpy(spectra[1])
    for count in (6, 9, 30):
        parts = [sample(seed, count, spectrum) for seed, spectrum in enumerate(spectra)]
        stacked = [torch.stack(list(tensors)) for tensors in zip(*parts, strict=True)]
        together = leave_one_out_curve(stacked[0], stacked[1], count - 1, reference)
        for index, part in enumerate(parts):
            alone = leave_one_out_curve(*part, count - 1, reference)
            assert float(together.value[index]) == pytest.approx(float(alone.value), rel=1e-12)
            assert float(together.extrapolated[index]) == pytest.approx(float(alone.extrapolated), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("count", [6, 30])
def test_the_quadrature_of_the_degrees_of_freedom_is_the_trace(count: int, scale: float):
    spectrum = scale * np.arange(1.0, 9.0) ** -2.0
    curve = leave_one_out_curve(*sample(0, count, spectrum), count - 1, torch.from_numpy(spectrum))
    assert float(curve.quadrature @ curve.freedom) == pytest.approx(float(curve.value), rel=1e-12)


def test_rows_that_sit_at_the_mean_do_no_harm():
    found = leave_one_out_curve(torch.ones(3), torch.zeros(5, 3), 600, torch.ones(3))
    assert math.isfinite(float(found.value))


def test_singular_values_take_over_where_eigenvalues_are_noise():
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]
    factor = torch.from_numpy(basis * np.logspace(0.0, -12.0, 30))
    trace = root_trace(torch.linalg.eigvalsh(factor.T @ factor), lambda: factor)
    assert trace == pytest.approx(np.logspace(0.0, -12.0, 30).sum(), rel=1e-13)
    assert root_trace(torch.zeros(4), lambda: factor) == 0.0
    assert root_trace(torch.zeros(0), lambda: factor) == 0.0


def test_small_helpers_are_their_formulas():
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 7, 3)) + 5.0)
    mean, centred = centre(rows)
    torch.testing.assert_close(mean, rows.mean(-2))
    torch.testing.assert_close(double_centre(rows @ rows.mT), centred @ centred.mT, rtol=0.0, atol=1e-12)
    values = [0.5, 2.0, 3.0]
    assert pair_sum(torch.tensor(values)) == pytest.approx(sum((a * b / (a + b)) ** 2 for a in values for b in values))
