"""The influence of common samples, by which generators of the same seeds are compared, in every family of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.experiments.slices import prompt_order
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.inception import InceptionScore, entropy
from optimist.metrics.pairs import ConditionalVendi, InformationVendi
from optimist.metrics.vendi.influence import entropy_influence
from optimist.metrics.vendi.listed import UNKNOWN, list_influence, mean_variance
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.spectrum import log_vendi
from tests.support.streams import fed, stored_and_read

Arrays = dict[str, Tensor]
D = 24
"""Rank of the reference and width of every feature map: with as many samples all rows are held."""


def fourier(dimension: int, seed: int = 0) -> GaussianFourier:
    return GaussianFourier.draw(dimension, D // 2, 2.0, seed)


def reference() -> FrechetReference:
    spread = np.random.default_rng(5).standard_normal((D, D))
    return FrechetReference(np.full(D, 0.1), spread @ spread.T / D + 0.1 * np.eye(D))


KINDS: dict[str, Callable[[], Any]] = {
    "fid": lambda: FrechetDistance(reference()),
    "is": lambda: InceptionScore(6),
    "rke": lambda: RenyiKernelEntropy(fourier(D)),
    **{
        f"vendi {order:g}": lambda order=order: VendiScore(fourier(D), order)
        for order in (0.5, 1.0, 1.5, 3.0, math.inf)
    },
    "vendi truncated": lambda: VendiScore(fourier(D), truncation=5),
    "conditional 1": lambda: ConditionalVendi(fourier(D), fourier(3, 1)),
    "conditional 2": lambda: ConditionalVendi(fourier(D), fourier(3, 1), 2.0),
    "information 3": lambda: InformationVendi(fourier(D), fourier(3, 1), 3.0),
}
SIGNED = ("is", "vendi 1", "vendi 1.5")
BELOW_TWO = ("vendi 0.5", "vendi 1", "vendi 1.5", "conditional 1")
HELD, DROPPED, LONG = 19, 60, 700
"""All rows are held; they are not; not even the last 512 have the first ones."""
COUNTS = (HELD, DROPPED, LONG)


def arrays_of(metric: Any, count: int, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    if "probabilities" in metric.widths:
        return {"probabilities": torch.from_numpy(rng.dirichlet(np.full(6, 0.3), count))}
    # Nearly of the reference's law, with few directions that matter, so that no spectrum is flat.
    return {
        name: torch.from_numpy(rng.standard_normal((count, width)) * np.arange(1, width + 1) ** -0.5)
        for name, width in metric.widths.items()
    }


def taken(metric: Any, arrays: Arrays, batch: int = 7) -> Any:
    statistic = InfluenceBound(metric).statistic()
    for parts in zip(*(rows.split(batch) for rows in arrays.values()), strict=True):
        statistic.update(*parts)
    return statistic


def some(arrays: Arrays, rows: Any) -> Arrays:
    return {name: array[rows] for name, array in arrays.items()}


def centred(values: Tensor) -> Tensor:
    return values - values.mean()


def assert_same(found: Tensor, expected: Tensor, rtol: float = 1e-6) -> None:
    """Equal up to a constant, relative to how much they vary."""
    assert found.shape == expected.shape
    torch.testing.assert_close(centred(found), centred(expected), rtol=0.0, atol=rtol * float(expected.std()))


def influence_of(metric: Any, statistic: Any, common: Arrays) -> Tensor:
    found = metric.analyse(statistic, common)
    assert found.influence is not None
    return found.influence


# What every family has in common.


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_variance_of_the_estimate_is_that_of_the_last_rows(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    statistic = taken(metric, arrays)
    found = metric.analyse(statistic, some(arrays, slice(-(256 if kind == "fid" else 512), None)))
    variance = found.details["plain_error"] ** 2
    linear = found.first_order * variance
    of_rows = float(found.influence.var()) / count
    if kind in BELOW_TWO:
        # The larger of two influence functions counts, and this is one of them.
        assert 0.5 * linear < of_rows <= linear * (1 + 1e-9)
    else:
        assert linear == pytest.approx(of_rows, rel=1e-6)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_other_numbers_are_those_of_the_plain_analysis(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    statistic = taken(metric, arrays)
    plain, found = metric.analyse(statistic), metric.analyse(statistic, some(arrays, slice(256)))
    assert plain.influence is None
    assert len(found.influence) == min(count, 256)
    assert replace(found, influence=None, recent=None, warnings=()) == replace(plain, recent=None, warnings=())
    assert set(plain.warnings) <= set(found.warnings)
    # What is left of the errors without the systematic part is the sampling variance.
    inflation = 1 + (400 / count**2 if kind in BELOW_TWO else 20 / count)
    sampling = found.selection_error**2 - found.systematic_selection**2
    assert sampling == pytest.approx(inflation * found.details["plain_error"] ** 2, rel=1e-6)
    assert found.stopping_error**2 - found.systematic_stopping**2 > 0.0
    if kind != "fid":
        assert found.stopping_error**2 - found.systematic_stopping**2 == pytest.approx(sampling, rel=1e-6)
    assert 0.0 < found.first_order <= 1.0
    assert (found.systematic_sign != 0) == (kind in SIGNED)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_same_influence_in_any_order_and_company(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    statistic = taken(metric, arrays)
    whole = influence_of(metric, statistic, arrays)
    order = torch.from_numpy(np.random.default_rng(1).permutation(count))
    assert_same(influence_of(metric, statistic, some(arrays, order)), whole[order], 1e-7)
    assert_same(influence_of(metric, statistic, some(arrays, slice(3, 9))), whole[3:9], 1e-7)
    assert influence_of(metric, statistic, some(arrays, slice(0, 0))).shape == (0,)


@pytest.mark.parametrize("count", [HELD, DROPPED])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_snapshots_change_nothing(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    statistic, whole = taken(metric, arrays), taken(metric, arrays, count)
    common = some(arrays, slice(15))
    found = influence_of(metric, statistic, common)
    assert_same(influence_of(metric, whole, common), found, 1e-7)
    restored = stored_and_read(statistic, metric.statistic())
    assert torch.equal(influence_of(metric, restored, common), found)
    # Where rows begin in memory decides the last bit of a sum.
    shifted = {name: torch.cat([rows[:1], rows])[1:] for name, rows in common.items()}
    assert torch.equal(influence_of(metric, statistic, shifted), found)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_samples_tell_nothing_and_hardly_err(kind: str):
    metric = KINDS[kind]()
    for count in (2, 9, 10, 11, *COUNTS):
        arrays = {name: rows.expand(count, -1) for name, rows in arrays_of(metric, 1).items()}
        estimate = InfluenceBound(metric).estimate(taken(metric, arrays), arrays)
        assert estimate.value == estimate.plug_in
        if kind != "fid":
            assert estimate.value == pytest.approx(0.0, abs=1e-9)
        floor = 1e-9 * (1.0 + estimate.value)
        assert estimate.standard_error == estimate.stopping_error == pytest.approx(floor, rel=1e-3)
        assert estimate.pairing is not None
        assert np.ptp(estimate.pairing.influence) == 0.0
        assert estimate.pairing.is_sound()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_rows_have_the_influence_of_the_same_common_rows(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    found = metric.analyse(taken(metric, arrays), arrays)
    assert len(found.recent) == min(count, 256 if kind == "fid" else 512)
    expected = found.influence[-len(found.recent) :]
    # With the same constant, too.
    torch.testing.assert_close(found.recent, expected, rtol=1e-6, atol=1e-6 * float(expected.std()))
    torch.testing.assert_close(metric.analyse(taken(metric, arrays)).recent, found.recent)


shapes = st.sampled_from(["spread", "pairs", "one apart", "near", "twice"])


@given(st.integers(0, 99), shapes, st.sampled_from(sorted(KINDS)), st.sampled_from([2, 3, 12, HELD, DROPPED]))
def test_no_input_gives_nan(seed: int, shape: str, kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count, seed)
    for rows in arrays.values():
        if shape == "pairs":
            rows[::2], rows[1::2] = rows[0].clone(), rows[1].clone()
        elif shape == "one apart":
            rows[1:] = rows[0].clone()
            rows[0] = rows[0].flip(0)
        elif shape == "near":
            rows[:] = rows[0] * (1 - 1e-9) + 1e-9 * rows
        elif shape == "twice":
            rows[count // 2 :] = rows[: count - count // 2].clone()
    estimate = InfluenceBound(metric).estimate(taken(metric, arrays), arrays)
    pairing = estimate.pairing
    assert pairing is not None
    assert np.isfinite(pairing.influence).all()
    assert estimate.standard_error is not None
    assert estimate.stopping_error is not None
    assert estimate.standard_error**2 >= pairing.systematic_selection**2
    assert estimate.stopping_error**2 >= pairing.systematic_stopping**2
    assert 0.0 <= pairing.first_order <= 1.0


# Against brute force.


def derivatives(score: Callable[[Tensor], float], count: int, rows: range, step: float = 1e-6) -> Tensor:
    """The derivative of a function of the rows' weights towards some of them."""
    even = torch.full((count,), 1.0 / count, dtype=torch.float64)
    towards = torch.eye(count, dtype=torch.float64)
    plain = score(even)
    return torch.tensor([(score((1 - step) * even + step * towards[row]) - plain) / step for row in rows]).double()


def test_fid_with_many_samples_is_the_derivative_of_the_distance():
    count, rows = 3000, range(0, 256)
    rng = np.random.default_rng(2)
    real = FrechetReference(np.zeros(3), np.diag([2.0, 1.0, 0.5]))
    features = torch.from_numpy(rng.standard_normal((count, 3)) @ np.array([[1, 0.5, 0], [0, 1.2, 0.3], [0, 0, 0.9]]))

    def score(weights: Tensor) -> float:
        mean = weights @ features
        covariance = (features - mean).T @ (weights[:, None] * (features - mean))
        root = torch.diag(torch.tensor([2.0, 1.0, 0.5]).double().sqrt())
        cross = torch.linalg.eigvalsh(root @ covariance @ root).sqrt().sum()
        return float(mean.square().sum() + covariance.trace() - 2 * cross)

    metric = FrechetDistance(real)
    found = influence_of(metric, taken(metric, {"features": features}), {"features": features[:256]})
    # T is pulled towards the reference's, by r/n.
    assert_same(found, derivatives(score, count, rows), 0.02)


@pytest.mark.parametrize("count", COUNTS)
def test_is_is_the_derivative_of_the_score(count: int):
    metric = KINDS["is"]()
    rows = arrays_of(metric, count)["probabilities"]

    def score(weights: Tensor) -> float:
        return float(entropy(weights @ rows) - weights @ entropy(rows))

    found = influence_of(metric, taken(metric, {"probabilities": rows}), {"probabilities": 1.0005 * rows[:40]})
    assert_same(found, derivatives(score, count, range(min(count, 40))), 1e-3)


@pytest.mark.parametrize("count", COUNTS)
def test_rke_is_the_derivative_of_the_mean_over_pairs(count: int):
    metric = KINDS["rke"]()
    rows = arrays_of(metric, count)["features"]
    features = metric.feature_map(rows)
    squares = (features @ features.T).square()

    def score(weights: Tensor) -> float:
        pairs = torch.outer(weights, weights).fill_diagonal_(0.0)
        return -math.log(float((pairs * squares).sum() / pairs.sum()))

    found = influence_of(metric, taken(metric, {"features": rows}), {"features": rows[:40]})
    assert_same(found, derivatives(score, count, range(min(count, 40))), 1e-3)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["vendi 3", "vendi inf", "vendi truncated", "information 3"])
def test_scores_by_halves_are_derivatives_of_the_plug_in(kind: str, count: int):
    metric = KINDS[kind]()
    arrays = arrays_of(metric, count)
    entropies = {"features": metric} if isinstance(metric, VendiScore) else metric.entropies
    rows = {**arrays, "joint": torch.cat(list(arrays.values()), -1)}
    features = {part: one.feature_map(rows[part]) for part, one in entropies.items()}
    signs = {"features": 1.0} if isinstance(metric, VendiScore) else metric.terms

    def score(weights: Tensor) -> float:
        return sum(
            signs[part]
            * log_vendi(torch.linalg.eigvalsh(each.T @ (weights[:, None] * each)), one.order, one.truncation)
            for (part, each), one in zip(features.items(), entropies.values(), strict=True)
        )

    found = influence_of(metric, taken(metric, arrays), some(arrays, slice(40)))
    assert_same(found, derivatives(score, count, range(min(count, 40)), 1e-7), 1e-3)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("order", [0.5, 1.0, 1.5])
def test_below_two_each_row_is_seen_from_outside(order: float, count: int):
    """From C without the row itself, whose logarithm or power the resolvents integrate to."""
    metric = VendiScore(fourier(D), order)
    arrays = arrays_of(metric, count)
    features, statistic = metric.feature_map(arrays["features"]), taken(metric, arrays)
    found = influence_of(metric, statistic, some(arrays, slice(256)))
    last = entropy_influence(metric, statistic).influence[1]
    whole = influence_of(metric, statistic, arrays)
    assert_same(whole[-len(last) :], last, 1e-9)
    assert_same(whole[:256], found, 1e-9)
    if order == 0.5:
        return
    estimate, covariance = metric.analyse(statistic).estimate, features.T @ features / count
    expected = []
    for row in features[:40]:
        values, vectors = torch.linalg.eigh(covariance - torch.outer(row, row) / count)
        seen, values = (row @ vectors).square(), values.clamp_min(0.0)
        if order == 1.5:
            power = float(seen @ (values * count / (count - 1)).sqrt())
            expected.append(order / (1 - order) * math.exp((order - 1) * estimate) * power)
        else:
            expected.append(-float(seen @ (values + _penalty(metric, statistic)).log()))
    assert_same(found[:40], torch.tensor(expected).double(), 0.02)


def _penalty(metric: VendiScore, statistic: Any) -> float:
    """λ, the grid's point from which on the resolvents are integrated."""
    from optimist.metrics.spectra.cross_entropy import LeaveOneOut
    from optimist.metrics.vendi.spectrum import KernelMatrix, floored_at, weights_of

    eigenvalues, weights = weights_of(statistic, KernelMatrix())
    outside = LeaveOneOut(floored_at(eigenvalues), weights, statistic.samples, metric.width)
    return float(outside.w[outside.best[0]])


# Two generators.


@pytest.mark.parametrize("kind", [pytest.param("fid", marks=pytest.mark.long), "is", "rke", "vendi 1"])
def test_influences_correlate_as_the_estimates_do(kind: str):
    """Two generators that make sample i from the same noise, over repeated streams."""
    feature_map = GaussianFourier.draw(4, 16, 2.0)
    metric = {
        "fid": FrechetDistance(FrechetReference(np.zeros(4), np.eye(4))),
        "is": InceptionScore(4),
        "rke": RenyiKernelEntropy(feature_map),
        "vendi 1": VendiScore(feature_map),
    }[kind]
    name, count, streams = next(iter(metric.widths)), 60, 70
    mixing = np.array([[1.3, 0.2, 0.0, 0.1], [0.0, 1.0, 0.4, 0.0], [0.3, 0.0, 0.8, 0.0], [0.0, 0.1, 0.0, 1.1]])
    estimates, expected = np.empty((streams, 2)), []
    for stream in range(streams):
        rng = np.random.default_rng(stream)
        noise = rng.standard_normal((count, 4))
        made = [noise @ mixing, 0.8 * noise @ mixing.T + 0.5 * rng.standard_normal((count, 4))]
        found = []
        for column, rows in enumerate(made):
            rows = torch.from_numpy(rows)
            arrays = {name: rows.softmax(-1) if kind == "is" else rows}
            found.append(metric.analyse(taken(metric, arrays, count), arrays))
            estimates[stream, column] = found[-1].estimate
        one, other = found
        linear = float(torch.corrcoef(torch.stack([one.influence, other.influence]))[0, 1])
        second = math.sqrt((1 - one.first_order) * (1 - other.first_order))
        expected.append(linear * math.sqrt(one.first_order * other.first_order) + linear * abs(linear) * second)
    seen = float(torch.corrcoef(torch.from_numpy(estimates.T))[0, 1])
    # 70 streams show a correlation to ±0.08.
    assert seen > 0.3
    assert np.mean(expected) == pytest.approx(seen, abs=0.15)


# Lists of prompts.


def test_values_of_a_list_vary_as_its_mean_does():
    rng = np.random.default_rng(3)
    prompts = torch.from_numpy(np.tile(np.arange(20), 5))
    values = torch.from_numpy(rng.standard_normal(20)[prompts] + 0.5 * rng.standard_normal(100))
    for unevenness in (0.0, 0.3, 1.0):
        found = list_influence(values, prompts, unevenness)
        assert float(found.mean()) == pytest.approx(0.0, abs=1e-12)
        expected = 100 * mean_variance(values, prompts, 100, unevenness)
        assert float(found.var()) == pytest.approx(expected, rel=0.02)
    assert_same(list_influence(values, prompts, 1.0), values, 1e-12)
    prompts[::3] = UNKNOWN
    assert_same(list_influence(values, prompts, 0.3)[::3], values[::3], 1e-12)


def test_what_is_not_known_of_a_list_is_not_used():
    feature_map = fourier(3)
    metric, plain = RenyiKernelEntropy(feature_map, prompts=40), RenyiKernelEntropy(feature_map)
    prompts = torch.from_numpy(np.array(prompt_order(40, 0, 0, 120, passes=True)))
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.standard_normal((40, 3)))[prompts] + 0.5 * torch.from_numpy(
        rng.standard_normal((120, 3))
    )
    # Within the first pass a list is as a sample.
    common = {"features": rows[:40], "listed": prompts[:40]}
    once = influence_of(metric, fed(metric, rows[:40], 16, prompts[:40]), common)
    assert_same(once, influence_of(plain, taken(plain, {"features": rows[:40]}), common))
    # Later the error is that of a list, of which 40 rows without a repeated or known prompt tell nothing.
    whole = fed(metric, rows, 16, prompts)
    assert not influence_of(metric, whole, common).any()
    assert not influence_of(metric, whole, {"features": rows}).any()
    found = metric.analyse(whole, {"features": rows, "listed": prompts})
    assert found.influence is not None
    linear = found.first_order * found.details["plain_error"] ** 2
    assert float(found.influence.var()) / 120 == pytest.approx(linear, rel=0.02)
    assert replace(found, influence=None) == metric.analyse(whole)


@pytest.mark.parametrize("n", [60, 90])
def test_on_a_list_differences_are_as_uncertain_as_their_errors_say(n: int):
    """Two generators whose outputs share the prompt and little else; the difference of their means over 20 prompts."""
    errors: dict[str, list[float]] = {"list": [], "sample": []}
    for seed in range(80):
        rng = np.random.default_rng(seed)
        of_prompt = rng.standard_normal((20, 1)) + 0.3 * rng.standard_normal((20, 2))
        prompts = torch.from_numpy(np.array(prompt_order(20, seed, 0, n, passes=True)))
        values = torch.from_numpy(of_prompt)[prompts] + 0.4 * torch.from_numpy(rng.standard_normal((n, 2)))
        missed = values.mean(0) - torch.from_numpy(of_prompt).mean(0)
        miss = float(missed[0] - missed[1])
        uneven = n % 20 / n * (1 - n % 20 / 20)
        one, other = (mean_variance(values[:, arm], prompts, n, uneven) for arm in (0, 1))
        for name, carried in (
            ("list", [list_influence(values[:, arm], prompts, uneven) for arm in (0, 1)]),
            ("sample", [values[:, arm] for arm in (0, 1)]),
        ):
            correlation = float(torch.corrcoef(torch.stack(carried))[0, 1])
            errors[name].append(miss / math.sqrt(one + other - 2 * correlation * math.sqrt(one * other)))
    rms = {name: float(np.sqrt(np.mean(np.square(found)))) for name, found in errors.items()}
    assert 0.8 < rms["list"] < 1.25, rms
    # As those of a sample the influences would claim that the prompts' share is common, which passes have cancelled.
    assert rms["sample"] > 1.4, rms
