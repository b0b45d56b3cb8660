"""Mixtures by FID: parity, derivatives, and whether de-biased losses and their errors are true of known Gaussians."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, minimise
from optimist.metrics.fid.objective import FrechetObjective
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.mixtures.objective import Half
from tests.support.places import DATA
from tests.support.streams import fed

WIDTH = 24
SPECTRUM = torch.arange(1, WIDTH + 1, dtype=torch.float64) ** -1.0


def metric_of() -> FrechetDistance:
    return FrechetDistance(FrechetReference(np.zeros(WIDTH), SPECTRUM.diag()))


def taken(metric: FrechetDistance, rows: Tensor) -> GaussianStatistic:
    return fed(metric, rows, 29)


class Problem:
    """Generators with independent Gaussian coordinates, whose mixtures have a known FID."""

    def __init__(self, spreads: Tensor, shifts: Tensor) -> None:
        self.metric = metric_of()
        self.means, self.variances = shifts * SPECTRUM.sqrt(), spreads * SPECTRUM

    @classmethod
    def inside(cls, count: int = 3) -> "Problem":
        """The best mixture has all generators."""
        noise = torch.Generator().manual_seed(5)
        spreads = (0.8 * torch.randn(count, WIDTH, generator=noise, dtype=torch.float64)).exp()
        return cls(spreads, 0.3 * torch.randn(count, WIDTH, generator=noise, dtype=torch.float64))

    @classmethod
    def single(cls, count: int = 3) -> "Problem":
        """The first generator is the reference's own law; the others have ever less variance."""
        return cls(torch.tensor([[1.0 - 0.15 * place] for place in range(count)]), torch.zeros(count, 1))

    def draw(self, count: int, seed: int) -> list[Tensor]:
        noise = torch.Generator().manual_seed(seed)
        pairs = zip(self.means, self.variances, strict=True)
        return [
            mean + torch.randn(count, WIDTH, generator=noise, dtype=torch.float64) * variance.sqrt()
            for mean, variance in pairs
        ]

    def statistics(self, count: int, seed: int) -> list[GaussianStatistic]:
        return [taken(self.metric, rows) for rows in self.draw(count, seed)]

    def loss(self, weights: Floats) -> float:
        alpha = torch.from_numpy(weights)
        mean = alpha @ self.means
        covariance = (alpha * (self.means - mean).T) @ (self.means - mean) + (alpha @ self.variances).diag()
        root = SPECTRUM.sqrt().diag()
        roots = torch.linalg.eigvalsh(root @ covariance @ root).clamp_min(0.0).sqrt()
        return float(mean.square().sum() + covariance.trace() + SPECTRUM.sum() - 2.0 * roots.sum())


@pytest.fixture(scope="module")
def parity() -> tuple[FrechetObjective, dict[str, Floats]]:
    file = dict(np.load(DATA / "mixture_fid_vendi.npz"))
    metric = FrechetDistance(FrechetReference(file["mu_r"], file["cov_r"]))
    statistics = []
    for mean, covariance in zip(file["mus"], file["covs"], strict=True):
        # 2d rows that have exactly these moments.
        factor = math.sqrt(len(mean)) * np.linalg.cholesky(covariance).T
        statistics.append(taken(metric, torch.from_numpy(np.concatenate([mean + factor, mean - factor]))))
    return metric.objective(statistics), file


def test_parity_of_values_and_gradient(parity):
    mixtures, file = parity
    for vertex, value in zip(np.eye(3), file["fid_single"], strict=True):
        assert mixtures.model(vertex, published=True).value(vertex) == pytest.approx(value, rel=1e-6)
    uniform = np.full(3, 1.0 / 3.0)
    model = mixtures.model(uniform, published=True)
    assert model.value(uniform) == pytest.approx(float(file["fid_uniform"]), rel=1e-9)
    gradient, expected = model.gradient(uniform), file["fid_gradient_uniform"]
    np.testing.assert_allclose(gradient - gradient.mean(), expected - expected.mean(), rtol=1e-8, atol=1e-8)


def test_parity_of_the_best_weights(parity):
    mixtures, file = parity
    weights = minimise(mixtures, published=True)
    np.testing.assert_allclose(weights, file["fid_alpha"], atol=1e-5)
    assert mixtures.model(weights, published=True).value(weights) == pytest.approx(float(file["fid_value"]), rel=1e-6)


@pytest.mark.parametrize("count", [15, 60, pytest.param(250, marks=pytest.mark.long)])
@pytest.mark.parametrize("weights", [[0.3, 0.4, 0.3], [0.7, 0.3, 0.0]])
def test_losses_and_slopes_are_without_bias_and_their_errors_true(count, weights):
    problem, alpha = Problem.inside(), np.array(weights)
    plug_in, losses, slacks = [], [], []
    step = 1e-5
    true = problem.loss(alpha)
    ways = np.eye(3) - alpha
    true_slacks = np.array([(problem.loss(alpha) - problem.loss(alpha + step * way)) / step for way in ways])
    for seed in range(30):
        mixtures = problem.metric.objective(problem.statistics(count, seed))
        found = mixtures.analyse(alpha, slopes=True)
        variance = sum(float(rows.var()) / count for rows in found.rows) + float(found.extra @ found.extra)
        losses.append((found.loss - true) / math.sqrt(variance))
        plug_in.append((mixtures.model(alpha, published=True).value(alpha) - true) / math.sqrt(variance))
        moved = [(rows @ rows.new_tensor(alpha)[:, None] - rows).var(0) / count for rows in found.slope_rows]
        errors = torch.stack(moved).sum(0).sqrt().numpy()
        slacks.append((alpha @ found.slopes - found.slopes - true_slacks) / errors)
    # Errors of few samples are a little too large.
    assert 0.5 < math.sqrt(np.mean(np.square(losses))) < 1.45
    assert abs(np.mean(losses)) < min(0.9, 0.7 * np.mean(plug_in))
    assert 0.6 < math.sqrt(np.mean(np.square(slacks))) < 1.5


@pytest.mark.long
def test_influences_are_what_leaving_a_row_out_changes():
    problem, count, weights = Problem.inside(), 240, np.array([0.5, 0.3, 0.2])
    rows = problem.draw(count, 3)
    statistics = [taken(problem.metric, each) for each in rows]
    found = problem.metric.objective(statistics).analyse(weights, slopes=True)
    for place in range(3):
        losses, slopes = [], []
        for row in range(0, count, 12):
            kept = torch.arange(count) != row
            fewer = [*statistics]
            fewer[place] = taken(problem.metric, rows[place][kept])
            without = problem.metric.objective(fewer).analyse(weights, slopes=True)
            losses.append((count - 1) * (found.loss - without.loss))
            change = (count - 1) * (found.slopes - without.slopes)
            slopes.append(change - weights @ change)
        influence = found.rows[place][::12].numpy()
        assert np.corrcoef(influence, losses)[0, 1] > 0.98
        assert np.std(influence) == pytest.approx(np.std(losses), rel=0.15)
        expected = found.slope_rows[place][::12].numpy()
        expected = expected - (expected @ weights)[:, None]
        for other in range(3):
            assert np.corrcoef(expected[:, other], np.array(slopes)[:, other])[0, 1] > 0.9


@pytest.mark.parametrize("count", [25, 60])
@pytest.mark.parametrize("shared", [True, False])
def test_generators_that_answer_a_seed_alike_have_losses_without_bias_and_others_change_little(
    shared: bool, count: int
):
    problem, alpha = Problem.inside(), np.array([0.3, 0.4, 0.3])
    paired, ignored = [], []
    for seed in range(12):
        noise = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        laws = zip(problem.means, problem.variances, strict=True)
        rows = [mean + noise * variance.sqrt() for mean, variance in laws] if shared else problem.draw(count, seed)
        statistics, common = [taken(problem.metric, each) for each in rows], [{"features": each} for each in rows]
        for found, known in ((paired, common), (ignored, ())):
            found.append(problem.metric.objective(statistics, None, known).analyse(alpha).loss - problem.loss(alpha))
    if shared:
        error = np.std(paired) / math.sqrt(len(paired))
        assert np.mean(ignored) > 4.0 * error
        assert abs(np.mean(paired)) < max(3.0 * error, 0.35 * np.mean(ignored))
    else:
        changes = np.subtract(paired, ignored)
        assert abs(np.mean(changes)) < 0.3 * np.std(ignored)
        assert np.std(changes) < np.std(ignored)


def test_where_one_generator_is_best_the_model_mixes_less_than_the_published_one():
    problem = Problem.single()
    losses = {published: [] for published in (False, True)}
    for seed in range(12):
        mixtures = problem.metric.objective(problem.statistics(40, seed))
        for published in losses:
            losses[published].append(problem.loss(minimise(mixtures, published=published)))
    assert np.mean(losses[False]) < 0.6 * np.mean(losses[True])


def test_the_best_weights_are_those_of_the_model():
    problem = Problem.inside()
    mixtures = problem.metric.objective(problem.statistics(200, 6))
    weights = minimise(mixtures)
    model = mixtures.model(weights)
    gradient = model.gradient(weights)
    assert weights @ gradient - gradient.min() < 1e-9
    assert np.linalg.eigvalsh(model.matrix)[0] > -1e-9 * np.abs(model.matrix).max()
    assert problem.loss(weights) < 1.05 * min(problem.loss(np.full(3, 1.0 / 3.0)), *map(problem.loss, np.eye(3)))


def test_a_mixture_finds_the_gain_of_the_mixture():
    problem = Problem.inside()
    mixture = cross_fitted(problem.metric, problem.statistics(200, 7), ["a", "b", "c"])
    true = min(map(problem.loss, np.eye(3))) - problem.loss(np.array(mixture.weights))
    assert abs(mixture.gain - true) < 4.0 * mixture.gain_error
    assert mixture.gain > 3.0 * mixture.gain_error
    assert mixture.gap < 4.0 * max(mixture.slack_errors)


@pytest.mark.long
def test_where_one_generator_is_best_the_gain_is_not_flattered():
    problem = Problem.single()
    claims = 0
    for seed in range(8):
        mixture = cross_fitted(problem.metric, problem.statistics(24, seed), ["a", "b", "c"])
        claims += mixture.gain > 1.645 * mixture.gain_error
    assert claims <= 2


@pytest.mark.parametrize("count", [WIDTH - 4, WIDTH, WIDTH + 1, WIDTH + 2])
@pytest.mark.parametrize("half", [None, 0])
def test_equal_rows_do_not_let_rounding_decide(count: int, half: Half | None):
    """At the vertex of a generator whose rows repeat; a half stands at the rank where the log has twice as many."""
    problem, step = Problem.inside(2), 1 if half is None else 2
    drawn = problem.draw(step * count, 3)
    for rows in drawn:
        rows[4 * step] = rows[2 * step] = rows[0]
    statistics = [taken(problem.metric, rows) for rows in drawn]
    alone = problem.metric.analyse(taken(problem.metric, drawn[0][::step]))
    found = problem.metric.objective(statistics, half).analyse(np.array([1.0, 0.0]))
    assert found.loss == pytest.approx(alone.estimate, abs=0.3 * alone.stopping_error)
