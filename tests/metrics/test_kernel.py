import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import Cosine, ExactKernel, FeatureMap, GaussianFourier, Nystrom
from optimist.metrics.vendi.declared import KernelTheoremBound
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.spectrum import log_vendi, spectrum_by
from optimist.metrics.vendi.statistic import KernelStatistic
from tests.support.streams import assert_bit_identical, rows_of, taken

ORDERS = [0.5, 1.0, 1.5, 2.0, 3.0, math.inf]
NAMES = {1.0: "1", 1.5: "1_5", 2.0: "2", 3.0: "3", math.inf: "inf"}


def fed(rows: Tensor, sizes: list[int] | int, feature_map: FeatureMap, **layout: int | bool) -> KernelStatistic:
    return taken(KernelStatistic(feature_map, **layout), rows, sizes)  # type: ignore[arg-type]


def bounded(metric: VendiScore, rows: Tensor, batch: int = 5) -> KernelStatistic:
    return taken(InfluenceBound(metric).statistic(), rows, batch)


# The stored reference numbers.


@pytest.mark.parametrize("name", ["kernel_digits_n300_r64", "kernel_mixture_n40_r128"])
def test_scores_are_those_of_the_authors(name, stored):
    file = stored(name)
    rows, sigma = torch.from_numpy(file["features"]).double(), float(file["sigma"])
    feature_map = GaussianFourier(file["omegas"])
    statistic = fed(rows, 7, feature_map)
    spectrum = VendiScore(feature_map).spectrum(statistic)
    answer = torch.from_numpy(file["eigenvalues"])
    torch.testing.assert_close(spectrum, answer[: len(spectrum)], rtol=1e-6, atol=1e-12)
    assert float(answer[len(spectrum) :].sum()) < 1e-9
    maps = ExactKernel([(rows.shape[1], sigma)]), Cosine(rows.shape[1])
    exact, cosine = (spectrum_by(each, each(rows)) for each in maps)
    for order, suffix in NAMES.items():
        found = math.exp(VendiScore(feature_map, order).plug_in(statistic))
        assert found == pytest.approx(float(file[f"fkea_vendi_{suffix}"]), rel=1e-6)
        if f"exact_vendi_{suffix}" in file:
            for spectrum, answer, truncation in (
                (exact, "exact_vendi", None),
                (exact, "exact_truncated10_vendi", 10),
                (cosine, "cosine_vendi", None),
            ):
                found = math.exp(log_vendi(spectrum, order, truncation))
                assert found == pytest.approx(float(file[f"{answer}_{suffix}"]), rel=1e-6), answer
    streamed = fed(rows, 50, Cosine(rows.shape[1]))
    assert math.exp(VendiScore(streamed.feature_map).plug_in(streamed)) == pytest.approx(
        float(file["cosine_vendi_1"]), rel=1e-6
    )


@pytest.mark.parametrize("name", ["n30_r64", "n400_r64"])
def test_the_influence_bound_gives_the_stored_numbers(name, stored):
    file = stored(f"influence_kernel_{name}")
    rows, feature_map = torch.from_numpy(file["features"]), GaussianFourier(file["omegas"])
    kappa = 1.0 + 20.0 / len(rows)
    for metric in (RenyiKernelEntropy(feature_map), VendiScore(feature_map, order=2.0)):
        found = metric.analyse(bounded(metric, rows))
        plain = float(file["log_rke_standard_error"])
        assert found.plug_in == pytest.approx(float(file["log_rke_plug_in"]), rel=1e-6)
        assert found.estimate == pytest.approx(float(file["log_rke_estimate"]), rel=1e-6)
        assert found.details["plain_error"] == pytest.approx(plain, rel=1e-6)
        error = plain * math.sqrt(kappa)
        estimate = InfluenceBound(metric).estimate(bounded(metric, rows, 30))
        assert estimate.value == pytest.approx(found.estimate, rel=1e-9)
        assert estimate.standard_error == pytest.approx(error, rel=1e-6)
        assert estimate.stopping_error == pytest.approx(error, rel=1e-6)
        assert estimate.upper - estimate.value == pytest.approx(1.959963984540054 * error, rel=1e-6)
        assert estimate.optimistic == estimate.upper
        assert (estimate.scale, estimate.lower_is_better) == ("log", False)


# Feature maps.


def test_fourier_features_approach_the_kernel_and_are_the_same_for_one_seed():
    rows = rows_of(0, 20, 3)
    features = GaussianFourier.draw(3, 40_000, sigma=1.3, seed=7)(rows)
    kernel = torch.exp(-(rows[:, None] - rows).square().sum(-1) / (2 * 1.3**2))
    torch.testing.assert_close(features @ features.T, kernel, rtol=0.0, atol=0.03)
    torch.testing.assert_close(features.square().sum(-1), torch.ones(20, dtype=torch.float64))
    one, other = (GaussianFourier.draw(3, 8, sigma=2.0, seed=seed) for seed in (1, 2))
    assert torch.equal(one.omegas, GaussianFourier.draw(3, 8, sigma=2.0, seed=1).omegas)
    assert not torch.equal(one.omegas, other.omegas)


def test_landmarks_that_are_the_samples_give_the_exact_scores_and_fewer_give_less():
    rows = 2.0 * rows_of(1, 40, 4)
    exact = spectrum_by(ExactKernel([(4, 1.5)]), rows)
    for order in ORDERS:
        scores = []
        for count in (5, 20, 40):
            metric = VendiScore(Nystrom(rows[:count], 1.5), order)
            scores.append(metric.plug_in(bounded(metric, rows)))
        assert scores == sorted(scores)
        assert scores[-1] == pytest.approx(log_vendi(exact, order), rel=1e-6)


def test_rows_far_from_every_landmark_and_repeated_landmarks_do_no_harm():
    landmarks = rows_of(2, 6, 3)
    feature_map = Nystrom(torch.cat([landmarks, landmarks[:2]]), 0.5)
    features = feature_map(torch.cat([landmarks, 1e3 * landmarks, 1e30 * torch.sign(landmarks)]))
    torch.testing.assert_close(features.square().sum(-1), torch.ones(18, dtype=torch.float64))
    kernel = torch.exp(-2.0 * torch.cdist(landmarks, landmarks).square())
    torch.testing.assert_close(features[:6] @ features[:6].T, kernel, rtol=1e-6, atol=1e-6)


def test_the_cosine_of_tiny_and_huge_rows_is_that_of_plain_ones_and_of_zeros_is_refused():
    rows = rows_of(4, 5, 3)
    for scale in (1e-300, 1e-160, 1e30):
        torch.testing.assert_close(Cosine(3)(scale * rows), Cosine(3)(rows))
    statistic = fed(rows, [5], Cosine(3))
    with pytest.raises(ValueError, match="row of zeros"):
        statistic.update(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert_bit_identical(statistic, fed(rows, [5], Cosine(3)))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: GaussianFourier.draw(3, 5, 0.0), "sigma"),
        (lambda: GaussianFourier.draw(3, 5, math.nan), "sigma"),
        (lambda: GaussianFourier.draw(3, 0, 1.0), "features"),
        (lambda: GaussianFourier(np.zeros(3)), "matrix"),
        (lambda: GaussianFourier([[math.inf]]), "finite"),
        (lambda: Nystrom(np.zeros((0, 3)), 1.0), "matrix"),
        (lambda: Nystrom(np.zeros((2, 3)), -1.0), "sigma"),
        (lambda: Cosine(0), "dimension"),
        (lambda: VendiScore(Cosine(3), 0.0), "order"),
        (lambda: VendiScore(Cosine(3), math.nan), "order"),
        (lambda: VendiScore(Cosine(3), truncation=4), "truncation"),
        (lambda: VendiScore(Cosine(3), truncation=0), "truncation"),
        (lambda: KernelTheoremBound(VendiScore(Cosine(3), 0.9)), "order 0.9"),
        (lambda: KernelTheoremBound(VendiScore(Cosine(3)), 0.0), "delta"),
        (lambda: InfluenceBound(VendiScore(Cosine(3)), 1.0), "delta"),
        (lambda: ExactKernel([(2, -1.0)]), "sigma"),
        (lambda: ExactKernel([(2, None)])(torch.zeros(1, 2)), "no direction"),
        (lambda: log_vendi(torch.ones(1), truncation=0), "truncation"),
    ],
)
def test_what_makes_no_sense_is_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


# The statistic.


sizes = st.lists(st.integers(1, 13), min_size=1, max_size=10)
layouts = st.fixed_dictionaries({"last": st.integers(0, 40), "halves": st.booleans()})


@given(st.integers(0, 9), sizes, st.integers(1, 30), layouts)
def test_batches_of_any_size_are_one_stream(seed, sizes, features, layout):
    rows, feature_map = rows_of(seed, sum(sizes), 3), GaussianFourier.draw(3, features, 1.0)
    expected = torch.cat([feature_map(part) for part in rows.split(sizes)])
    statistic = fed(rows, sizes, feature_map, **layout)
    assert statistic.samples == len(rows)
    torch.testing.assert_close(statistic.moment, expected.T @ expected, rtol=1e-10, atol=1e-10)
    assert torch.equal(statistic.last_rows, expected[max(len(rows) - layout["last"], 0) :])
    if len(rows) <= feature_map.width:
        assert statistic.rows is not None
        assert torch.equal(statistic.rows, expected)
    else:
        assert statistic.rows is None
    if layout["halves"] or len(rows) <= feature_map.width:
        for parity in (0, 1):
            half = expected[parity::2]
            torch.testing.assert_close(statistic.half_moment(parity), half.T @ half, rtol=1e-10, atol=1e-10)


def test_other_layouts_are_not_mixed():
    feature_map = GaussianFourier.draw(3, 2, 1.0)
    statistic = fed(rows_of(0, 5, 3), [5], feature_map)
    with pytest.raises(ValueError, match="another layout"):
        KernelStatistic(Cosine(3)).restore(statistic.state())
    with pytest.raises(ValueError, match="halves=True"):
        statistic.half_moment(0)
    metric = VendiScore(feature_map, truncation=2)
    with pytest.raises(ValueError, match="halves=True"):
        InfluenceBound(metric).estimate(statistic)
    with pytest.raises(ValueError, match="another metric"):
        metric.plug_in(KernelStatistic(Cosine(3)))
    with pytest.raises(ValueError, match="at least 2 samples"):
        metric.half_spectra(bounded(metric, rows_of(0, 1, 3)))


# The scores.


def test_scores_are_continuous_in_the_order_and_fall_with_it():
    eigenvalues = torch.from_numpy(np.random.default_rng(0).dirichlet(np.full(20, 0.3)))
    scores = [
        log_vendi(eigenvalues, order) for order in (1e-3, 0.5, 1 - 1e-6, 1.0, 1 + 1e-6, 2.0, 1e3, 1e308, math.inf)
    ]
    assert all(left >= right - 1e-12 for left, right in itertools.pairwise(scores))
    assert scores[2] == pytest.approx(scores[4], rel=1e-5)
    assert log_vendi(eigenvalues, 1.0 + 1e-15) == scores[3]
    assert scores[-2] == pytest.approx(scores[-1], rel=1e-12)


@given(st.integers(0, 9), st.integers(1, 60), st.integers(1, 20))
def test_gram_and_covariance_have_one_spectrum(seed, count, features):
    feature_map = GaussianFourier.draw(3, features, 1.0)
    statistic = fed(rows_of(seed, count, 3), 7, feature_map, halves=True)
    rank = min(count, feature_map.width)
    covariance = torch.linalg.eigvalsh(statistic.moment / count).flip(0)
    metric = VendiScore(feature_map)
    torch.testing.assert_close(metric.spectrum(statistic), covariance[:rank].clamp_min(0.0), rtol=0.0, atol=1e-10)
    assert RenyiKernelEntropy(feature_map).plug_in(statistic) == pytest.approx(
        -math.log(float(covariance.square().sum())), abs=1e-10
    )
    if count > 1:
        for parity, spectrum in enumerate(metric.half_spectra(statistic)):
            half = feature_map(rows_of(seed, count, 3)[parity::2])
            expected = torch.linalg.eigvalsh(half.T @ half / len(half)).flip(0)
            torch.testing.assert_close(spectrum, expected[: len(spectrum)].clamp_min(0.0), rtol=0.0, atol=1e-10)


# The theorem's bound.


def stream(count: int, seed: int = 0) -> Tensor:
    """Samples of a mixture of five Gaussians in four dimensions."""
    generator = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(0).standard_normal((5, 4))
    picks = generator.choice(5, count, p=[0.35, 0.25, 0.2, 0.12, 0.08])
    return torch.from_numpy(centres[picks] + 0.4 * generator.standard_normal((count, 4)))


@pytest.mark.parametrize("truncation", [None, 5])
@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_the_theorem_allows_what_its_inequality_says(order, truncation):
    count, delta = 400_000, 0.05
    metric = VendiScore(GaussianFourier.draw(4, 8, 1.5), order, truncation)
    statistic = metric.statistic()
    statistic.update(stream(count))
    estimate = KernelTheoremBound(metric, delta).estimate(statistic)
    width = truncation or 16
    epsilon = math.sqrt(32 * math.log(2 / delta) / count)
    plug_in = metric.plug_in(statistic)
    if order == 1.0:
        expected = plug_in + math.sqrt(width) * epsilon * math.log(math.sqrt(width) / epsilon)
    else:
        # The upper end as a norm: exactly the allowed distance below the plug-in's, unless that is the ceiling.
        power = -1.0 if order == math.inf else (1.0 - order) / order
        stretch = width ** (1 / order - 0.5) if order < 2.0 else 1.0
        expected = math.log(max(math.exp(power * plug_in) - epsilon * stretch, width**power)) / power
    assert estimate.upper == pytest.approx(min(expected, math.log(width)), rel=1e-9)
    assert estimate.optimistic == estimate.upper > plug_in
    assert (estimate.value, estimate.lower, estimate.standard_error) == (estimate.plug_in, -math.inf, None)
    assert (estimate.upper < math.log(width)) == (estimate.warnings == ())


def test_with_few_samples_the_theorem_sits_at_its_ceiling():
    for metric, ceiling in ((VendiScore(Cosine(7)), 7), (VendiScore(Cosine(7), math.inf, truncation=3), 3)):
        for count in (1, 25, 26, 60):
            estimate = KernelTheoremBound(metric).estimate(bounded(metric, rows_of(0, count, 7) + 1.0))
            assert estimate.upper == math.log(ceiling)
            assert any("largest value" in warning for warning in estimate.warnings)


# The influence bound.


@pytest.mark.parametrize("count", [60, 400])
@pytest.mark.parametrize(
    ("order", "truncation"), [(3.0, None), (math.inf, None), (1.0, 6), (2.0, 6), (0.5, 6), (3.0, 6)]
)
def test_half_streams_and_their_influence_are_by_the_book(order, truncation, count):
    feature_map = GaussianFourier.draw(4, 40, 1.5)
    metric, rows = VendiScore(feature_map, order, truncation), stream(count)
    features = feature_map(rows)

    def score(covariance: Tensor) -> float:
        return log_vendi(torch.linalg.eigvalsh(covariance), order, truncation)

    covariance = features.T @ features / count
    even, odd = (part.T @ part / len(part) for part in (features[::2], features[1::2]))
    plain, correction = score(covariance), score(covariance) - 0.5 * (score(even) + score(odd))
    # The influence function is the derivative towards one more sample.
    step = 1e-6
    influence = [
        (score((1 - step) * covariance + step * torch.outer(row, row)) - plain) / step for row in features[-512:]
    ]
    found = metric.analyse(bounded(metric, rows))
    variance = float(np.var(influence, ddof=1)) / count
    ceiling = math.log(truncation or feature_map.width)
    assert found.estimate == pytest.approx(min(max(plain + correction, 0.0), ceiling), rel=1e-9)
    assert found.details["plain_error"] ** 2 == pytest.approx(variance, rel=1e-3)
    expected = math.sqrt((1 + 20 / count) * found.details["plain_error"] ** 2 + correction**2 / 4)
    assert found.selection_error == found.stopping_error == pytest.approx(expected, rel=1e-9)


BELOW_TWO = [0.5, 1.0, 1.5]
OTHERS = [(2.0, None), (3.0, None), (math.inf, None), (1.0, 8), (2.0, 8)]


@pytest.mark.long
def test_errors_are_of_the_size_of_the_misses():
    feature_map = GaussianFourier.draw(4, 64, 1.5, seed=1)
    metrics = [VendiScore(feature_map, order) for order in BELOW_TWO]
    metrics += [VendiScore(feature_map, order, truncation) for order, truncation in OTHERS]
    large = VendiScore(feature_map).statistic()
    large.update(stream(60_000, seed=10_000))
    truth = VendiScore(feature_map).spectrum(large)
    z = np.empty((len(metrics), 2, 24))
    misses = np.empty((2, len(metrics), 24))
    for repeat in range(24):
        for row, metric in enumerate(metrics):
            expected = log_vendi(truth, metric.order, metric.truncation)
            for column, count in enumerate((60, 150)):
                estimate = InfluenceBound(metric).estimate(bounded(metric, stream(count, seed=repeat), count))
                assert estimate.stopping_error is not None
                z[row, column, repeat] = (estimate.value - expected) / estimate.stopping_error
                if count == 60:
                    misses[:, row, repeat] = estimate.value - expected, estimate.plug_in - expected
    rms = np.sqrt(np.mean(z**2, axis=-1))
    assert np.all((rms > 0.5) & (rms < 1.4)), rms
    # From order 3 on, and of the eight largest alone, the plug-in has hardly a bias at n = 60.
    left, before = np.abs(misses.mean(-1))[:, :4]
    assert np.all(left < 0.6 * before), left / before


kinds = st.sampled_from(["spread", "same", "pairs", "one apart", "near", "line"])


@given(st.integers(0, 99), kinds, st.sampled_from(["fourier", "cosine", "nystrom"]), st.data())
def test_no_input_gives_nan(seed, kind, kernel, data):
    generator = np.random.default_rng(seed)
    dimension = data.draw(st.integers(1, 5), label="dimension")
    count = data.draw(st.sampled_from([1, 2, 3, 4, 7, 12, 13, 40]), label="count")
    rows = generator.standard_normal((count, dimension))
    if kind == "same":
        rows[:] = rows[0]
    elif kind == "pairs":
        rows[:] = np.where(np.arange(count)[:, None] % 2 == 0, rows[0], -rows[0])
    elif kind == "one apart":
        rows[1:] = rows[0] + 5.0
    elif kind == "near":
        rows = rows[0] + 1e-9 * rows
    elif kind == "line":
        rows[:, 1:] = 0.0
    rows *= 10.0 ** data.draw(st.sampled_from([-100, -5, 0, 3, 29]), label="scale")
    if kernel == "fourier":
        feature_map = GaussianFourier.draw(dimension, data.draw(st.integers(1, 6), label="features"), 1.0)
    elif kernel == "cosine":
        feature_map = Cosine(dimension)
    else:
        feature_map = Nystrom(rows[: data.draw(st.integers(1, 4), label="landmarks")], 1.0)
    order = data.draw(
        st.sampled_from([0.01, 0.5, 1.0, 1.0 + 1e-5, 1.5, 1.999, 2.0, 2.5, 100.0, math.inf]), label="order"
    )
    truncation = data.draw(st.none() | st.integers(1, feature_map.width), label="truncation")
    metric = VendiScore(feature_map, order, truncation)
    bounds = [InfluenceBound(metric)] + ([KernelTheoremBound(metric)] if order >= 1.0 else [])
    for bound in bounds:
        statistic = bound.statistic()
        for part in torch.from_numpy(rows).split(5):
            statistic.update(part)
        estimate = bound.estimate(statistic)
        assert estimate.is_sound()
        assert estimate.lower <= estimate.value <= estimate.upper
        assert -1e-12 <= estimate.plug_in <= math.log(metric.ceiling) + 1e-9
        if kind == "same" and bound.name == "influence":
            assert estimate.value == estimate.plug_in == pytest.approx(0.0, abs=1e-9)


def test_warnings_name_few_samples():
    feature_map = GaussianFourier.draw(4, 20, 1.5)
    rows = stream(30)

    def warned(rows: Tensor, **options: Any) -> list[str]:
        metric = VendiScore(feature_map, **options)
        return [text.split(":")[0] for text in InfluenceBound(metric).estimate(bounded(metric, rows)).warnings]

    higher = "by the kernel itself the score is higher"
    above = f"above a quarter of the 20 random features; {higher} by much"
    assert warned(rows) == ["fewer samples than features", above]
    assert warned(stream(40)) == [above]
    assert warned(stream(40) / 10.0) == [f"by 20 random features; {higher}"]
    assert warned(stream(40) / 10.0, order=2.0) == []
    assert warned(rows, order=2.0) == [above]
    assert warned(rows, truncation=16) == ["fewer samples than twice the truncation"]
    assert warned(rows, truncation=15) == []


@pytest.mark.parametrize("order", [pytest.param(1.0, marks=pytest.mark.long), 2.0])
def test_estimates_of_a_growing_stream_reuse_the_products_of_older_rows_and_change_no_bit(order):
    rows = torch.from_numpy(np.random.default_rng(3).standard_normal((700, 8)))
    rows[650:660] = rows[:10]  # repeats
    metric = VendiScore(GaussianFourier.draw(8, 350, 2.0), order)
    growing = metric.statistic()
    for stop in range(50, 701, 50):
        growing.update(rows[stop - 50 : stop])
        fresh = fed(rows[:stop], 50, metric.feature_map, halves=True)
        common = {"features": rows[:40]}
        found, again = metric.analyse(growing, common), metric.analyse(fresh, common)
        assert (found.estimate, found.stopping_error) == (again.estimate, again.stopping_error)
        assert found.influence is not None
        assert again.influence is not None
        assert torch.equal(found.influence, again.influence)
        metric.forget(fresh)
    kept, features = metric.matrix(growing), metric.feature_map(rows)
    whole, spoilt = kept.of(metric.feature_map, features), features.clone()
    spoilt[:512] = math.nan
    assert torch.equal(kept.of(metric.feature_map, spoilt)[:512, :512], whole[:512, :512])
    assert metric.cached_bytes(growing) >= 256 * 768 * 8
    growing.update(rows[:1])  # more rows than features: only sums are left
    metric.analyse(growing)
    assert "matrix" not in metric.cache(growing)
