import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.inception import (
    ClassStatistic,
    InceptionNaiveBound,
    InceptionScore,
    InceptionTheoremBound,
    normalised,
)
from tests.support.streams import taken

BOUNDS = {"theorem": InceptionTheoremBound, "naive": InceptionNaiveBound, "influence": InfluenceBound}


def rows_of(seed: int, count: int, classes: int, concentration: float = 0.3) -> Tensor:
    # Gamma variates of a small shape underflow, so that some rows have zeros; none may be all zero.
    parts = np.random.default_rng(seed).standard_gamma(concentration, (count, classes))
    parts[:, 0] += 1e-9
    return torch.from_numpy(parts / parts.sum(1, keepdims=True))


def fed(rows: Tensor, sizes: list[int] | int = 5) -> ClassStatistic:
    return taken(ClassStatistic(rows.shape[1]), rows, sizes)


def assert_same_moments(statistic: ClassStatistic, rows: Tensor) -> None:
    entropies = torch.special.entr(rows).sum(1)
    assert statistic.samples == len(rows)
    torch.testing.assert_close(statistic.mean, rows.mean(0), rtol=1e-10, atol=1e-10)
    assert statistic.entropy_mean == pytest.approx(float(entropies.mean()), rel=1e-10, abs=1e-12)
    if len(rows) > 1:
        torch.testing.assert_close(statistic.variance, rows.var(0), rtol=1e-10, atol=1e-10)
        assert statistic.entropy_variance == pytest.approx(float(entropies.var()), rel=1e-10, abs=1e-10)


def assert_same_log(statistic: ClassStatistic, rows: Tensor) -> None:
    """The parts of the state that follow the order of the samples."""
    for fold in range(10):
        assert float(statistic.fold_counts[fold]) == len(rows[fold::10])
        torch.testing.assert_close(statistic.fold_sums[fold], rows[fold::10].sum(0), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(statistic.last_rows, rows[-512:], rtol=0.0, atol=1e-15)


sizes = st.lists(st.integers(1, 23) | st.just(600), min_size=1, max_size=12)


@given(st.integers(0, 9), sizes, st.integers(1, 40))
def test_batches_of_any_size_are_one_stream(seed, sizes, classes):
    rows = rows_of(seed, sum(sizes), classes)
    for statistic in (fed(rows, sizes), fed(rows, len(rows))):
        assert_same_moments(statistic, rows)
        assert_same_log(statistic, rows)


def test_identical_rows_have_a_variance_of_exactly_zero():
    for classes in (1, 2, 3, 1000):
        statistic = fed(rows_of(0, 1, classes).expand(35, classes), [7, 1, 5, 22])
        assert torch.equal(statistic.variance, torch.zeros(classes, dtype=torch.float64))
        assert statistic.entropy_variance == 0.0


def test_a_small_variance_is_not_lost_beside_a_large_mean():
    rows = torch.stack([1.0 - 1e-9 * torch.arange(400.0, dtype=torch.float64), 1e-9 * torch.arange(400.0).double()], 1)
    torch.testing.assert_close(fed(rows).variance, rows.var(0), rtol=1e-6, atol=0.0)


def test_rows_near_the_simplex_are_brought_onto_it():
    rows = rows_of(1, 40, 6)
    off = rows * torch.linspace(0.9991, 1.0009, 40, dtype=torch.float64)[:, None]
    assert_same_moments(fed(off), rows)
    assert_same_log(fed(off), rows)
    half = fed(rows.to(torch.float16))
    torch.testing.assert_close(half.mean.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(normalised(off).sum(1), torch.ones(40, dtype=torch.float64))


def test_what_makes_no_sense_is_refused():
    for make in (ClassStatistic, InceptionScore):
        with pytest.raises(ValueError, match="at least 1 class"):
            make(0)
    statistic = fed(rows_of(0, 1, 3))
    with pytest.raises(ValueError, match="at least 2 samples"):
        _ = statistic.variance
    for make_bound in BOUNDS.values():
        with pytest.raises(ValueError, match="delta"):
            make_bound(InceptionScore(3), 1.0)
        with pytest.raises(ValueError, match="another metric"):
            make_bound(InceptionScore(4)).estimate(statistic)


@pytest.mark.parametrize("name", ["k10_n2", "k10_n60", "k100_n25", "k1000_n300"])
def test_the_papers_scores_are_the_stored_ones(name, stored):
    file = stored(f"inception_{name}")
    statistic = fed(torch.from_numpy(file["probabilities"]))
    metric = InceptionScore(statistic.classes)
    assert metric.plug_in(statistic) == pytest.approx(math.log(file["inception_score"]), rel=1e-6)
    for bound, answer in (("theorem", "is_ucb"), ("naive", "naive_ucb")):
        estimate = BOUNDS[bound](metric).estimate(statistic)
        assert estimate.value == estimate.plug_in == metric.plug_in(statistic)
        assert estimate.upper == pytest.approx(math.log(file[answer]), rel=1e-6)
        assert (estimate.lower, estimate.optimistic, estimate.standard_error) == (-math.inf, estimate.upper, None)


@pytest.mark.parametrize("name", ["k10_n40", "k200_n120"])
def test_the_influence_bound_gives_the_stored_numbers(name, stored):
    file = stored(f"influence_inception_{name}")
    statistic = fed(torch.from_numpy(file["probabilities"]))
    metric = InceptionScore(statistic.classes)
    analysis = metric.analyse(statistic)
    for own, answer in {
        "plug_in": "log_plug_in",
        "estimate": "log_estimate",
        "miller_madow": "log_miller_madow",
        "plain_error": "standard_error",
        "selection_error": "standard_error_selection",
    }.items():
        assert (vars(analysis) | analysis.details)[own] == pytest.approx(float(file[answer]), rel=1e-6), own
    estimate = InfluenceBound(metric).estimate(statistic)
    half_width = 1.959963984540054 * float(file["standard_error_selection"])
    assert (estimate.value, estimate.plug_in) == (analysis.estimate, analysis.plug_in)
    assert estimate.standard_error == estimate.stopping_error == analysis.selection_error == analysis.stopping_error
    assert estimate.optimistic == estimate.upper == pytest.approx(analysis.estimate + half_width, rel=1e-6)
    assert estimate.lower == pytest.approx(analysis.estimate - half_width, rel=1e-6)
    assert (estimate.scale, estimate.lower_is_better) == ("log", False)


@pytest.mark.parametrize(("count", "classes"), [(2, 4), (7, 4), (15, 200), (300, 30), (700, 12)])
def test_the_analysis_is_the_formula_taken_row_by_row(count, classes):
    """rules/estimates.md written out in numpy: outer products, folds by index, buffers of 512 and 256."""

    def entropy(p: np.ndarray) -> float:
        return float(-sum(x * math.log(x) for x in p if x > 0.0))

    p = rows_of(count, count, classes).numpy()
    mean, h = p.mean(0), np.array([entropy(row) for row in p])
    folds = [np.delete(p, np.s_[k::10], 0).mean(0) for k in range(min(10, count))]
    estimate = len(folds) * entropy(mean) - (len(folds) - 1) * np.mean([entropy(f) for f in folds]) - h.mean()
    floored = np.maximum(mean, 1e-12)
    miller_madow = entropy(mean) - h.mean() + (np.var(p, axis=0, ddof=1) / floored).sum() / (2 * count)
    influence = np.array([-(row @ np.log(floored)) - e for row, e in zip(p[-512:], h[-512:], strict=True)])
    last = (p[-256:] - mean) / np.sqrt(floored)
    q = np.sum([np.outer(row, row) for row in last], axis=0) / len(last)
    second = 0.5 * max((q**2).sum() - np.trace(q) ** 2 / len(last), 0.05 * (q**2).sum())
    variance = (influence.var(ddof=1) / count + second / count**2) * (1 + 20 / count)

    found = InceptionScore(classes).analyse(fed(torch.from_numpy(p)))
    assert found.estimate == pytest.approx(estimate, rel=1e-9)
    assert found.details["miller_madow"] == pytest.approx(miller_madow, rel=1e-9)
    assert found.details["influence_variance"] == pytest.approx(influence.var(ddof=1), rel=1e-9)
    assert found.details["second_order_variance"] == pytest.approx(second, rel=1e-9)
    assert found.selection_error == pytest.approx(math.sqrt(variance + (3 * (estimate - miller_madow)) ** 2), rel=1e-9)
    assert found.systematic_sign * found.systematic_stopping == pytest.approx(3 * (estimate - miller_madow), rel=1e-6)


def estimates_of(statistic: ClassStatistic) -> dict[str, Estimate]:
    metric = InceptionScore(statistic.classes)
    return {name: make_bound(metric).estimate(statistic) for name, make_bound in BOUNDS.items()}


@given(st.integers(0, 99), st.integers(1, 12), st.sampled_from([1, 2, 5, 1000]), st.data())
def test_no_input_gives_nan(seed, count, classes, data):
    count = data.draw(st.sampled_from([count, 530]), label="count")
    shape = data.draw(st.sampled_from(["spread", "one-hot", "same", "same one-hot", "rare", "tiny"]), label="shape")
    generator = np.random.default_rng(seed)
    rows = rows_of(seed, count, classes).numpy()
    one_hot = np.eye(classes)[generator.integers(classes, size=count)]
    if shape == "same":
        rows[:] = rows[0]
    elif shape == "one-hot":
        rows = one_hot
    elif shape == "same one-hot":
        rows = one_hot[:1].repeat(count, 0)
    elif shape == "rare":
        rows = np.eye(classes)[np.zeros(count, dtype=int)]
        rows[-1] = one_hot[0]
    elif shape == "tiny":
        rows = np.abs(one_hot - 1e-300 * generator.uniform(size=rows.shape))
    for name, estimate in estimates_of(fed(torch.from_numpy(rows), data.draw(st.sampled_from([5, 1000])))).items():
        assert estimate.is_sound()
        assert 0.0 <= estimate.plug_in <= math.log(classes) + 1e-9
        assert estimate.lower <= estimate.value <= estimate.upper == estimate.optimistic
        assert (estimate.standard_error is not None) == (name == "influence" and count > 1)
        assert math.isinf(estimate.upper) == (count == 1 and name != "naive")


@pytest.mark.parametrize(("classes", "count", "total"), [(10, 50, 2.0), (10, 200, 2.0), (100, 100, 10.0)])
def test_the_interval_is_as_wide_as_the_error(classes, count, total):
    """Rows are Dirichlet(w), whose log IS is known: E[−p_j log p_j] = (w_j/W)(ψ(W + 1) − ψ(w_j + 1)), W = Σ w."""
    shares = 1.0 / np.arange(1, classes + 1)
    shares /= shares.sum()
    weights = total * shares
    truth = (shares * (digamma(weights + 1) - digamma(total + 1) - np.log(shares))).sum()
    generator = np.random.default_rng(classes + count)
    bound = InfluenceBound(InceptionScore(classes))
    z = []
    for _ in range(60):
        estimate = bound.estimate(fed(torch.from_numpy(generator.dirichlet(weights, count)), count))
        z.append((estimate.value - truth) / (estimate.stopping_error or math.nan))
    assert 0.5 <= np.sqrt(np.mean(np.square(z))) <= 1.3
    assert abs(np.mean(z)) <= 0.5
