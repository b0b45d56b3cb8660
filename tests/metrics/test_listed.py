"""Scores on a fixed list of prompts: against reference numbers, brute force, and the real errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist.experiments.slices import prompt_order
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.pairs import ConditionalVendi, InformationVendi
from optimist.metrics.vendi.listed import UNKNOWN, ListedPrompts, mean_variance, reweighted_mean
from optimist.metrics.vendi.score import RenyiKernelEntropy
from tests.support.places import DATA
from tests.support.streams import fed


def test_the_mean_over_a_list_is_the_reference():
    known = np.load(DATA / "prompt_pairs.npz")
    k2, prompt, length = known["k2"], known["prompt"], int(known["list_size"])
    apart = ~np.eye(len(k2), dtype=bool)
    same = (prompt[:, None] == prompt) & apart
    n = len(k2)
    found = reweighted_mean(k2[apart].sum(), n * (n - 1.0), k2[same].mean(), same.sum(), length)
    assert k2[apart].mean() == pytest.approx(float(known["theta_iid"]), rel=1e-9)
    assert found == pytest.approx(float(known["theta_list"]), rel=1e-9)


@pytest.mark.parametrize("row", range(6))
def test_the_variance_of_a_mean_is_the_reference(row: int):
    known = np.load(DATA / "fixed_list.npz")
    n, block = int(known["n"][row]), int(known["block"][row])
    influence, prompt = (torch.from_numpy(known[name][row][:n]) for name in ("influence", "prompt"))
    variance, within, iid = known["out"][row]
    rest = n % block
    found = mean_variance(influence, prompt, n, rest / n * (1.0 - rest / block))
    assert found == pytest.approx(variance, rel=1e-9)
    assert mean_variance(influence, prompt, n, 1.0) == pytest.approx(iid, rel=1e-9)
    assert mean_variance(influence, prompt, n, 0.0) == pytest.approx(within * iid, rel=1e-9)


def feature_map(dimension: int = 3, features: int = 40, seed: int = 1) -> GaussianFourier:
    return GaussianFourier(torch.from_numpy(np.random.default_rng(seed).standard_normal((dimension, features))))


def stream(length: int, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples around their prompts' points, in passes through the list, and the prompts."""
    prompts = np.array(prompt_order(length, seed, 0, n, passes=True))
    centres = np.random.default_rng(7).standard_normal((length, 3))
    noise = np.random.default_rng((seed, 1)).standard_normal((n, 3))
    return torch.from_numpy(centres[prompts] + 0.3 * noise), torch.from_numpy(prompts)


def brute(metric: RenyiKernelEntropy, rows: torch.Tensor, prompts: torch.Tensor, length: int) -> float:
    features = metric.feature_map(rows)
    squares = (features @ features.T).square()
    apart = ~torch.eye(len(rows), dtype=torch.bool)
    same = (prompts[:, None] == prompts) & apart
    mean = (1 - 1 / length) * squares[apart & ~same].mean() + squares[same].mean() / length
    return -float(mean.log())


@pytest.mark.parametrize("n", [16, 50, 80])
def test_rke_on_a_list_weighs_the_pairs_of_a_prompt(n: int):
    rows, prompts = stream(8, n)
    metric = RenyiKernelEntropy(feature_map(), prompts=8)
    found = metric.analyse(fed(metric, rows, 7, prompts))
    assert found.estimate == pytest.approx(brute(metric, rows, prompts, 8), rel=1e-9)


def test_before_two_passes_the_value_is_that_of_a_sample():
    rows, prompts = stream(8, 15)
    metric, plain = RenyiKernelEntropy(feature_map(), prompts=8), RenyiKernelEntropy(feature_map())
    assert metric.analyse(fed(metric, rows, 7, prompts)).estimate == plain.analyse(fed(plain, rows, 15)).estimate


@pytest.mark.parametrize("n", [30, 300])
def test_samples_of_unknown_prompts_count_as_those_of_a_sample(n: int):
    rows, _ = stream(8, n)
    metric, plain = RenyiKernelEntropy(feature_map(), prompts=8), RenyiKernelEntropy(feature_map())
    found, expected = (score.analyse(fed(score, rows, 7)) for score in (metric, plain))
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)
    assert found.stopping_error == pytest.approx(expected.stopping_error, rel=1e-12)


def test_past_the_width_the_value_stays_near_that_of_all_pairs():
    rows, prompts = stream(8, 600)
    metric = RenyiKernelEntropy(feature_map(), prompts=8)
    found = metric.analyse(fed(metric, rows, 7, prompts))
    plain = RenyiKernelEntropy(feature_map())
    exact = brute(metric, rows, prompts, 8)
    corrected = exact - plain.analyse(fed(plain, rows, 600)).estimate
    assert found.estimate == pytest.approx(exact, abs=0.1 * abs(corrected))


@pytest.mark.parametrize("kind", [ConditionalVendi, InformationVendi])
def test_all_entropies_of_pairs_are_over_the_list(kind):
    rows, prompts = stream(5, 60)
    embedded = torch.eye(5, dtype=torch.float64)[prompts]
    metric = kind(feature_map(), feature_map(5, 40, 2), order=2.0, prompts=5)
    statistic = metric.statistic()
    statistic.update(rows, embedded, listed=prompts)
    of = {"features": rows, "prompts": embedded, "joint": torch.cat([rows, embedded], -1)}
    expected = sum(sign * brute(metric.entropies[part], of[part], prompts, 5) for part, sign in metric.terms.items())
    assert metric.analyse(statistic).estimate == pytest.approx(expected, rel=1e-9)


def test_unevenness_is_that_of_the_counts():
    listed = ListedPrompts(4, 2, 512, torch.device("cpu"))
    listed.add(torch.tensor(prompt_order(4, 0, 0, 10, passes=True)), torch.zeros(10, 2))
    assert listed.unevenness == pytest.approx(2 / 10 * (1 - 2 / 4))
    listed.add(torch.full((5,), UNKNOWN), torch.zeros(5, 2))
    assert listed.unevenness == pytest.approx((1.0 + 5.0) / 15)


@pytest.mark.parametrize(("length", "n"), [(10, 60), (40, 120), (10, 200)])
def test_intervals_on_a_list_are_as_wide_as_the_errors(length: int, n: int):
    """As in the table of docs/calibration.md, smaller; that of a sample has a root mean square z of 0.5."""
    metric, plain = RenyiKernelEntropy(feature_map(), prompts=length), RenyiKernelEntropy(feature_map())
    truth = -np.log(true_mean(metric, length))
    z: dict[str, list[float]] = {"list": [], "sample": []}
    for seed in range(60):
        rows, prompts = stream(length, n, seed + 1)
        for name, found in (
            ("list", metric.analyse(fed(metric, rows, n, prompts))),
            ("sample", plain.analyse(fed(plain, rows, n))),
        ):
            z[name].append((found.estimate - truth) / found.stopping_error)
    rms = {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in z.items()}
    assert 0.6 < rms["list"] < 1.35, rms
    assert rms["sample"] < 0.85 * rms["list"], rms


def true_mean(metric: RenyiKernelEntropy, length: int) -> float:
    """θ of the list: E k² of independent samples of two prompts drawn with replacement, by its Fourier map."""
    rows, prompts = stream(length, 1000 * length, 10**6)
    features = metric.feature_map(rows)
    parts = [features[prompts == prompt] for prompt in range(length)]
    moments = [part.T @ part / len(part) for part in parts]
    mean = torch.stack(moments).mean(0)
    # Within a prompt without the diagonal, as samples are independent.
    extra = 0.0
    for moment, part in zip(moments, parts, strict=True):
        square, count = float(moment.square().sum()), len(part)
        extra += (square * count - 1) / (count - 1) - square
    return float(mean.square().sum()) + extra / length**2
