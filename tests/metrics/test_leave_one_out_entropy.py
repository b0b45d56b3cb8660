"""log Vendi of orders below 2 from leave-one-out resolvents, its bracket, and entropies of curves of freedom."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, GaussianFourier
from optimist.metrics.pairs import ConditionalVendi, InformationVendi
from optimist.metrics.spectra.cross_entropy import LeaveOneOut, entropy_of_curve
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.spectrum import KernelMatrix, floored_at, log_vendi, weights_of
from tests.support.streams import fed

ORDERS = [0.5, 1.0, 1.5]
CASES = [
    "gauss_n40_p64",
    "gauss_n150_p64",
    "gauss_n600_p16",
    "repeats_n36_p384",
    "onehot_n50_p30",
    "mnist_n64_p100",
    "narrow_n30_p64",
    "n2_p32",
    "equal_n5_p32",
    "all_twice_n12_p32",
]
Stored = Callable[[str], Mapping[str, np.ndarray]]


def estimate_of(rows: Tensor, order: float = 1.0) -> Estimate:
    score = VendiScore(Cosine(rows.shape[1]), order)
    return InfluenceBound(score).estimate(fed(score, rows, 50))


def one_hot(kinds: np.ndarray, width: int) -> Tensor:
    return torch.eye(width, dtype=torch.float64)[torch.from_numpy(kinds)]


@pytest.mark.parametrize("case", CASES)
def test_the_reference_numbers(case: str, stored: Stored):
    file = stored("leave_one_out_entropy")
    rows = torch.from_numpy(file[f"{case}/phi"]).double()
    for numbers in file[f"{case}/out"]:
        known = dict(zip(file["columns"], numbers, strict=True))
        score = VendiScore(Cosine(rows.shape[1]), known["order"])
        statistic = fed(score, rows, 50)
        found = score.analyse(statistic)
        assert found.estimate == pytest.approx(known["estimate"], abs=1e-9)
        assert found.selection_error == pytest.approx(known["sampling"], abs=1e-9)
        assert found.stopping_error == pytest.approx(known["error"], abs=1e-9)
        if case == "equal_n5_p32":
            assert found.bracket == (found.plug_in, found.plug_in)
            continue
        eigenvalues, weights = weights_of(statistic, KernelMatrix())
        inside = LeaveOneOut(floored_at(eigenvalues), weights, *rows.shape).entropy(known["order"])
        for column in ("plug_in", "gap", "ridge", "unseen", "systematic"):
            assert getattr(inside, column) == pytest.approx(known[column], abs=1e-9), column
        assert inside.evenness == pytest.approx(known["share"], abs=1e-9)
        assert found.bracket is not None
        assert found.bracket[0] == found.plug_in <= found.estimate <= found.bracket[1] <= math.log(rows.shape[1])


def test_the_truth_lies_in_the_bracket_and_repeats_change_nothing():
    """A law of 60 kinds of unequal shares, seen 50 times: most kinds are seen once or never."""
    generator = np.random.default_rng(1)
    shares = np.arange(1.0, 61.0) ** -0.8
    shares /= shares.sum()
    truth = -float((shares * np.log(shares)).sum())
    z: list[float] = []
    ends: list[tuple[float, float]] = []
    for _ in range(40):
        estimate = estimate_of(one_hot(generator.choice(60, size=50, p=shares), 200))
        assert estimate.stopping_error is not None
        z.append((estimate.value - truth) / estimate.stopping_error)
        assert estimate.bracket is not None
        ends.append(estimate.bracket)
    low, high = np.mean(ends, 0)
    assert low < truth < high
    assert float(np.sqrt(np.mean(np.square(z)))) < 1.2


@pytest.mark.parametrize("order", ORDERS)
def test_rows_that_have_nothing_in_common_may_be_of_as_many_kinds_as_there_are(order: float):
    estimate = estimate_of(one_hot(np.arange(30), 200), order)
    assert estimate.value == pytest.approx(math.log(200), abs=1e-3)
    assert estimate.bracket == pytest.approx((math.log(30), math.log(200)))


@pytest.mark.parametrize(("count", "least"), [(2, 4.0), (3, 2.0)])
def test_two_or_three_samples_say_little_and_say_so(count: int, least: float):
    rows = torch.from_numpy(np.random.default_rng(2).standard_normal((count, 40)))
    estimate = estimate_of(rows)
    assert estimate.stopping_error is not None
    assert least < estimate.stopping_error < math.inf


def test_estimates_are_continuous_in_the_order_and_past_the_width():
    rows = torch.from_numpy(np.random.default_rng(3).standard_normal((90, 64)))
    for count in (30, 64, 65, 90):
        values = [estimate_of(rows[:count], order).value for order in (1.0 - 1e-6, 1.0, 1.0 + 1e-6)]
        assert np.ptp(values) < 1e-4
    before, after = estimate_of(rows[:64]), estimate_of(rows[:65])
    assert after.value == pytest.approx(before.value, abs=0.05)
    assert after.bracket == pytest.approx(before.bracket, abs=0.1)


def test_the_bracket_of_a_sum_is_as_wide_as_those_of_its_entropies_together():
    maps = GaussianFourier.draw(3, 24, 1.5, 1), GaussianFourier.draw(2, 24, 1.5, 2)
    generator = np.random.default_rng(4)
    prompts = torch.from_numpy(generator.standard_normal((80, 2)))
    outputs = torch.cat([prompts, prompts[:, :1]], -1) + torch.from_numpy(generator.standard_normal((80, 3)))
    for kind in (ConditionalVendi, InformationVendi):
        score = kind(*maps)
        statistic = score.statistic()
        statistic.update(outputs, prompts)
        found = score.analyse(statistic)
        parts = {part: score.entropies[part].analyse(of_part) for part, of_part in score.parts(statistic).items()}
        ends = [sorted(sign * end for end in parts[part].bracket or ()) for part, sign in score.terms.items()]
        assert found.bracket == pytest.approx(np.sum(ends, 0))
        assert found.estimate == pytest.approx(sum(sign * parts[part].estimate for part, sign in score.terms.items()))
        doubts = [one.stopping_error**2 - one.selection_error**2 for one in parts.values()]
        assert found.stopping_error**2 - found.selection_error**2 == pytest.approx(sum(doubts))
        # Joint and marginal entropies rise and fall together: the error of their sum is not that of independent ones.
        assert found.selection_error**2 < sum(one.selection_error**2 for one in parts.values())


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
