import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.metrics.bound import FEW_ROWS_DECIDE
from optimist.metrics.fid import declared
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.implementations import make_bound
from optimist.metrics.spectra.symmetric import SymmetricSum
from optimist_client.metrics import FID
from tests.support.streams import fed

BOUNDS = tuple(FID.bounds)
ANSWERS = {
    "plug_in": "plug_in",
    "estimate": "estimate",
    "extrapolated": "extrapolated",
    "influence_variance": "influence_variance",
    "second_order_variance": "second_order_variance",
    "plain_error": "standard_error",
    "jackknife_error": "jackknife_error",
    "selection_error": "standard_error_selection",
    "stopping_error": "standard_error_stopping",
}


def estimates_of(metric: FrechetDistance, rows: np.ndarray, batch: int = 5) -> dict[str, Estimate]:
    return {name: make_bound(name, metric).estimate(fed(metric, rows, batch)) for name in BOUNDS}


@pytest.mark.parametrize("name", ["fid_d8_n2", "fid_d16_n7", "fid_d16_n200", "fid_d64_n40", "fid_d64_n500"])
def test_the_papers_bounds_give_the_stored_bonuses(name, stored, fid_of):
    file = stored(name)
    metric = fid_of(file)
    statistic = fed(metric, file["features"])

    def bonus(bound: str, **options: float) -> float:
        estimate = make_bound(bound, metric, **options).estimate(statistic)
        assert estimate.optimistic == estimate.lower
        assert (estimate.upper, estimate.standard_error, estimate.value) == (math.inf, None, estimate.plug_in)
        return estimate.value - estimate.optimistic

    assert metric.plug_in(statistic) == pytest.approx(float(file["fid"]), rel=1e-6)
    assert bonus("theorem") == pytest.approx(float(file["bonus_seed"]), rel=1e-6)
    assert bonus("naive") == pytest.approx(float(file["bonus_naive"]), rel=1e-6)
    assert bonus("authors") == pytest.approx(float(file["bonus_fd_ucb"]), rel=1e-6)
    assert bonus("authors", M=0.3) == pytest.approx(float(file["bonus_fd_ucb_M03"]), rel=1e-6)
    assert make_bound("authors", metric).estimate(statistic).optimistic == pytest.approx(
        float(file["fd_ucb_score"]), rel=1e-6
    )


@pytest.mark.parametrize("name", ["d1_n2", "d6_n3", "d32_n10", "d48_n400", "d64_n40", "d64_n64", "d64_n65"])
def test_the_influence_bound_gives_the_stored_numbers(name, stored, fid_of):
    file = stored(f"influence_fid_{name}")
    metric = fid_of(file)
    statistic = fed(metric, file["features"])
    analysis = metric.analyse(statistic)
    # The stored errors lack what an unlike spectrum adds.
    expected = {own: float(file[answer]) for own, answer in ANSWERS.items()}
    expected["stopping_error"] = math.hypot(expected["stopping_error"], analysis.details["doubt"])
    for own, answer in expected.items():
        assert (vars(analysis) | analysis.details)[own] == pytest.approx(answer, rel=1e-6, abs=1e-12), own
    estimate = make_bound("influence", metric).estimate(statistic)
    sampled = expected["stopping_error"] ** 2 - analysis.systematic_stopping**2
    widened = sampled * (1.0 + 10.0 * analysis.skewness**2 / len(file["features"]))
    stop = math.hypot(math.sqrt(widened), analysis.systematic_stopping)
    assert estimate.value == pytest.approx(float(file["estimate"]), rel=1e-6)
    assert estimate.standard_error == pytest.approx(float(file["standard_error_selection"]), rel=1e-6)
    assert estimate.stopping_error == pytest.approx(stop, rel=1e-6)
    assert estimate.upper - estimate.value == pytest.approx(1.959963984540054 * stop, rel=1e-6)
    assert estimate.optimistic == estimate.lower == pytest.approx(2 * estimate.value - estimate.upper)
    assert estimate.plug_in == pytest.approx(float(file["plug_in"]), rel=1e-6)
    assert estimate.plug_in == pytest.approx(metric.plug_in(statistic, unbiased=True), rel=1e-9)


@pytest.mark.parametrize("policy", ["fd_ucb", "greedy"])
def test_the_authors_run_is_followed_score_by_score(policy, stored, fid_of):
    file = stored(f"trajectory_{policy}")
    metric, streams = fid_of(file), torch.from_numpy(file["streams"])
    bound = make_bound("authors", metric)
    statistics = [metric.statistic(scatter=True) for _ in streams]
    told = [0] * len(streams)
    scores = np.full(len(streams), np.nan)
    for step, pick in enumerate(file["picks"]):
        statistics[pick].update(streams[pick, told[pick]])
        told[pick] += 1
        estimate = bound.estimate(statistics[pick])
        scores[pick] = estimate.optimistic if policy == "fd_ucb" else estimate.value
        known = np.isfinite(scores)
        np.testing.assert_allclose(scores[known], file["scores"][step][known], rtol=1e-6)
        if known.all() and step + 1 < len(file["picks"]):
            assert np.argmin(scores) == file["picks"][step + 1]


@given(st.integers(0, 99), st.integers(1, 12), st.data())
def test_no_input_gives_nan(seed, dimension, data):
    generator = np.random.default_rng(seed)
    rank = data.draw(st.integers(0, dimension), label="rank")
    count = data.draw(st.sampled_from([1, 2, 3, dimension, dimension + 1, dimension + 2, 40, 305]), label="count")
    scale = 10.0 ** data.draw(st.sampled_from([-30, -8, 0, 8, 30]), label="scale")
    reference_scale = 10.0 ** data.draw(st.sampled_from([-60, -8, 0, 8, 60]), label="reference scale")
    rows = generator.uniform(-1.0, 1.0, (count, dimension))
    shape = data.draw(st.sampled_from(["spread", "same", "pairs", "outlier", "line"]), label="shape")
    if shape == "same":
        rows[:] = rows[0]
    elif shape == "pairs":
        rows[:] = np.where(np.arange(count)[:, None] % 2 == 0, rows[0], -rows[0])
    elif shape == "outlier":
        rows[1:] *= 1e-12
    elif shape == "line":
        rows[:, 1:] = 0.0
    factor = generator.uniform(-1.0, 1.0, (dimension, rank)) / max(dimension, 1)
    metric = FrechetDistance(FrechetReference(np.zeros(dimension), reference_scale * (factor @ factor.T)))
    for name, estimate in estimates_of(metric, rows * scale, data.draw(st.sampled_from([5, 1000]))).items():
        assert estimate.is_sound()
        assert estimate.lower <= estimate.value <= estimate.upper
        assert (estimate.standard_error is not None) == (name == "influence" and count > 1)


def test_warnings_name_few_samples_and_what_the_reference_lacks():
    generator = np.random.default_rng(0)
    metric = FrechetDistance(FrechetReference(np.zeros(6), np.diag([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])))
    bound = make_bound("influence", metric)
    few = bound.estimate(fed(metric, generator.standard_normal((4, 6))))
    many = bound.estimate(fed(metric, generator.standard_normal((50, 6)) * [1, 1, 1, 1, 0.01, 0.01]))
    assert [warning.split(":")[0] for warning in few.warnings][:1] == ["fewer samples than dimensions"]
    assert any("outside the reference's span" in warning for warning in few.warnings)
    assert many.warnings == ()


@pytest.mark.parametrize("count", [37, 40, 41])
def test_up_to_one_row_past_the_kept_ones_batching_changes_no_bit(count):
    generator = np.random.default_rng(1)
    metric = FrechetDistance(FrechetReference(np.zeros(40), np.eye(40)))
    rows = generator.standard_normal((count, 40))
    influence = make_bound("influence", metric)
    assert influence.estimate(fed(metric, rows, 5)) == influence.estimate(fed(metric, rows, count))


@pytest.mark.parametrize(("dimension", "count"), [(30, 20), (30, 30), (30, 31), (30, 32), (12, 350)])
def test_the_estimate_follows_a_change_of_units_and_of_axes(dimension, count):
    generator = np.random.default_rng(count)
    rows = generator.standard_normal((count, dimension)) + 0.1
    covariance = np.diag(np.linspace(0.5, 2.0, dimension))
    turn = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
    plain = FrechetDistance(FrechetReference(np.zeros(dimension), covariance))
    turned = FrechetDistance(FrechetReference(np.zeros(dimension), 1e4 * turn.T @ covariance @ turn))
    expected = make_bound("influence", plain).estimate(fed(plain, rows))
    found = make_bound("influence", turned).estimate(fed(turned, 100.0 * rows @ turn))
    for number in ("value", "plug_in", "standard_error", "stopping_error", "upper"):
        assert getattr(found, number) == pytest.approx(1e4 * getattr(expected, number), rel=1e-7)


def test_the_jackknife_is_settled_by_the_first_300_rows():
    generator = np.random.default_rng(2)
    metric = FrechetDistance(FrechetReference(np.zeros(8), np.eye(8)))
    bound, statistic = make_bound("influence", metric), metric.statistic()
    for count in (150, 150, 40, 300):
        statistic.update(torch.from_numpy(generator.standard_normal((count, 8))))
        kept = bound.estimate(statistic)
        assert kept == make_bound("influence", metric).estimate(statistic)


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("hoeffding", {}, "unknown bound"),
        ("influence", {"sigma2": 1.0}, "no option sigma2: it takes none"),
        ("theorem", {"kappa": 1.0}, "no option kappa: it takes mean_gap, sigma2, tau"),
        ("theorem", {"sigma2": 0.0}, "sigma2"),
        ("theorem", {"tau": -1.0}, "tau"),
        ("theorem", {"mean_gap": math.nan}, "mean_gap"),
        ("authors", {"M": -0.1}, "M must"),
        ("authors", {"kappa": math.inf}, "kappa"),
        ("naive", {"sigma2": -2.0}, "sigma2"),
        ("naive", {"delta": 0.0}, "delta"),
        ("influence", {"delta": 1.0}, "delta"),
        ("authors", {"delta": math.nan}, "delta"),
    ],
)
def test_what_makes_no_sense_is_refused(name, options, word):
    metric = FrechetDistance(FrechetReference(np.zeros(2), np.eye(2)))
    with pytest.raises(ValueError, match=word):
        make_bound(name, metric, **options)


def test_an_option_left_out_or_none_takes_its_default():
    metric = FrechetDistance(FrechetReference(np.zeros(2), 3.0 * np.eye(2)))
    rows = np.random.default_rng(0).standard_normal((9, 2))
    default = make_bound("naive", metric).estimate(fed(metric, rows))
    assert make_bound("naive", metric, sigma2=None, kappa=None).estimate(fed(metric, rows)) == default
    assert make_bound("naive", metric, sigma2=3.0).estimate(fed(metric, rows)).lower == pytest.approx(default.lower)
    assert make_bound("naive", metric, sigma2=9.0).estimate(fed(metric, rows)).lower < default.lower


def test_what_the_theorem_keeps_of_a_covariance_is_that_of_the_whole_matrix():
    rows = torch.randn(40, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scatter, weights = rows.T @ rows, rows[:20].T @ rows[:20]
    found = declared._kept_sums(SymmetricSum.pack(scatter), 40, 0.2, weights)
    kept = torch.where(scatter / 40 >= 0.2, scatter / 40, 0.0)
    assert found == pytest.approx((float(kept.sum()), float((kept * weights).sum())), rel=1e-10)


@pytest.mark.parametrize(("size", "count", "warned"), [(1.0, 100, False), (30.0, 100, True), (30.0, 49, False)])
def test_a_few_large_rows_widen_the_error_and_are_named(size: float, count: int, warned: bool):
    metric = FrechetDistance(FrechetReference(np.zeros(4), np.eye(4)))
    rows = np.random.default_rng(0).standard_normal((count, 4))
    rows[::40] *= size
    statistic = fed(metric, rows)
    found, analysis = make_bound("influence", metric).estimate(statistic), metric.analyse(statistic)
    assert (FEW_ROWS_DECIDE in found.warnings) == warned
    assert analysis.skewness is not None
    assert found.stopping_error is not None
    sampled, systematic = analysis.stopping_error**2, analysis.systematic_stopping**2
    factor = (found.stopping_error**2 - systematic) / (sampled - systematic)
    assert factor == pytest.approx(1.0 + 10.0 * analysis.skewness**2 / count)
    assert (factor > 3.0) == (size > 1.0)
