import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.pairs import (
    ConditionalVendi,
    ConditionedScore,
    InformationVendi,
    JointStatistic,
    pair_maps,
)
from optimist.metrics.vendi.influence import entropy_influence
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.spectrum import log_vendi
from optimist.metrics.vendi.statistic import KernelStatistic

SCORES = (ConditionalVendi, InformationVendi)
ORDERS = [0.5, 1.0, 1.5, 2.0, 3.0, math.inf]
NAMES = {1.0: "1", 1.5: "1_5", 2.0: "2"}
CENTRES = 3.0 * np.random.default_rng(7).standard_normal((8, 2))


def exact_maps(pairs: tuple[torch.Tensor, torch.Tensor], *sigmas: float | None):
    kernels = [{"name": "cosine"} if sigma is None else {"sigma": sigma} for sigma in sigmas]
    widths = [rows.shape[1] for rows in pairs]
    return pair_maps(*({**kernel, "features": "exact"} for kernel in kernels), *widths)


def part_of(statistic: JointStatistic, name: str) -> KernelStatistic:
    part = getattr(statistic, name)
    assert isinstance(part, KernelStatistic)
    return part


def maps_of(features: int = 12, sigma: float = 1.5, dimension: int = 3) -> tuple[GaussianFourier, GaussianFourier]:
    return GaussianFourier.draw(dimension, features, sigma, 1), GaussianFourier.draw(2, features, sigma, 2)


def pairs_of(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Prompts of 8 kinds, outputs (n, 3) that follow them and have something of their own."""
    generator = np.random.default_rng(seed)
    prompts = CENTRES[generator.integers(8, size=count)] + 0.2 * generator.standard_normal((count, 2))
    own = generator.standard_normal((count, 3))
    return torch.from_numpy(0.5 * prompts @ np.eye(2, 3) + own), torch.from_numpy(prompts)


def fed(statistic: JointStatistic, pairs: tuple[Tensor, Tensor], sizes: list[int] | int) -> JointStatistic:
    for features, prompts in zip(*(side.split(sizes) for side in pairs), strict=True):
        statistic.update(features, prompts)
    return statistic


def taken(metric: ConditionedScore, pairs: tuple[Tensor, Tensor], sizes: list[int] | int = 7) -> JointStatistic:
    return fed(InfluenceBound(metric).statistic(), pairs, sizes)


# The stored reference numbers.


def stored_pairs(file: Any) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(file["features"]).double(), torch.from_numpy(file["prompts"]).double()


def test_exact_scores_are_those_of_the_authors(stored):
    file = stored("conditional_n120")
    pairs = stored_pairs(file)
    maps = exact_maps(pairs, float(file["sigma_features"]), float(file["sigma_prompts"]))
    statistic = fed(JointStatistic(*maps), pairs, 50)
    for order, suffix in NAMES.items():
        found = {
            "information_vendi": InformationVendi(*maps, order).plug_in(statistic),
            "conditional_vendi": ConditionalVendi(*maps, order).plug_in(
                fed(JointStatistic(*maps, marginal=False), pairs, 50)
            ),
            "vendi": VendiScore(maps[0], order).plug_in(part_of(statistic, "features")),
        }
        for name, value in found.items():
            assert math.exp(value) == pytest.approx(float(file[f"{name}_{suffix}"]), rel=1e-6), (name, order)


@pytest.mark.parametrize("kernel", ["gaussian", "cosine"])
@pytest.mark.parametrize("prompt_kernel", ["gaussian", "cosine"])
def test_the_exact_joint_kernel_is_the_product_of_the_two(kernel, prompt_kernel):
    features, prompts = (side.numpy() for side in pairs_of(0, 30))

    def matrix(rows: np.ndarray, kind: str, sigma: float) -> np.ndarray:
        if kind == "cosine":
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            return rows @ rows.T
        return np.exp(-np.square(rows[:, None] - rows).sum(-1) / (2 * sigma**2))

    both = matrix(features, kernel, 0.9), matrix(prompts, prompt_kernel, 1.4)
    sigmas = 0.9 if kernel == "gaussian" else None, 1.4 if prompt_kernel == "gaussian" else None
    maps = exact_maps(pairs_of(0, 30), *sigmas)
    statistic = fed(JointStatistic(*maps), pairs_of(0, 30), 7)
    for name, kernels in {"features": both[0], "prompts": both[1], "joint": both[0] * both[1]}.items():
        expected = np.linalg.eigvalsh(kernels / 30)[::-1].clip(0.0)
        part = part_of(statistic, name)
        np.testing.assert_allclose(VendiScore(part.feature_map).spectrum(part).numpy(), expected, atol=1e-12)


# The scores.


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [9, 60])
def test_scores_are_sums_of_entropies_of_explicit_features(order, count):
    maps, (features, prompts) = maps_of(), pairs_of(1, count)
    angles = {
        "X": features @ maps[0].omegas,
        "T": prompts @ maps[1].omegas,
        "XT": features @ maps[0].omegas + prompts @ maps[1].omegas,
    }
    entropies = {}
    for name, angle in angles.items():
        phi = torch.cat([angle.cos(), angle.sin()], 1).numpy() / math.sqrt(12)
        values = np.linalg.eigvalsh(phi.T @ phi / count)
        values = values[values > 1e-14]
        if order == 1.0:
            entropies[name] = float(-np.sum(values * np.log(values)))
        elif order == math.inf:
            entropies[name] = float(-np.log(values.max()))
        else:
            entropies[name] = float(np.log(np.sum(values**order)) / (1.0 - order))
    conditional, information = (
        score(*maps, order).plug_in(taken(score(*maps, order), (features, prompts))) for score in SCORES
    )
    # Low orders make a score of the eigenvalues that are zero but for rounding.
    near = {"rel": 1e-4 if order < 1.0 else 1e-9, "abs": 1e-9}
    assert conditional == pytest.approx(entropies["XT"] - entropies["T"], **near)
    assert information == pytest.approx(entropies["X"] + entropies["T"] - entropies["XT"], **near)
    vendi = VendiScore(maps[0], order)
    alone = vendi.statistic()
    alone.update(features)
    assert conditional + information == pytest.approx(vendi.plug_in(alone), rel=1e-9)


def test_what_outputs_tell_of_their_prompts_is_what_is_scored():
    maps, (own, prompts) = maps_of(60, 1.0), pairs_of(2, 400)
    random = torch.from_numpy(np.random.default_rng(3).standard_normal((400, 3)))
    copied = torch.cat([prompts, torch.zeros(400, 1)], 1)
    scored = {
        score.declared.name: [
            score(*maps).plug_in(taken(score(*maps), (rows, prompts), 100)) for rows in (copied, own, random)
        ]
        for score in SCORES
    }
    assert scored["information-vendi"] == sorted(scored["information-vendi"], reverse=True)
    assert scored["conditional-vendi"][0] < 0.2 * min(scored["conditional-vendi"][1:])


def test_information_of_another_order_than_1_may_be_negative_and_is_not_clamped():
    # Counts of pairs of kinds whose classical Rényi entropies of order 2 are not subadditive.
    counts = {(0, 0): 16, (0, 1): 4, (1, 0): 4, (0, 2): 4, (2, 0): 4, (1, 1): 0}
    kinds = torch.tensor([kind for kind, count in counts.items() for _ in range(count)], dtype=torch.float64)
    pairs = 100.0 * kinds[:, :1], 100.0 * kinds[:, 1:]
    maps = exact_maps(pairs, 1.0, 1.0)
    statistic = fed(JointStatistic(*maps), pairs, 32)
    joint = np.array([[16, 4, 4], [4, 0, 0], [4, 0, 0]]) / 32
    expected = np.log(np.square(joint).sum()) - 2 * np.log(np.square(joint.sum(0)).sum())
    assert expected < -0.01
    assert InformationVendi(*maps, 2.0).plug_in(statistic) == pytest.approx(expected, rel=1e-9)
    assert InformationVendi(*maps, 1.0).plug_in(statistic) > 0.0


# The statistic.


def test_other_layouts_are_not_mixed():
    maps = maps_of(2)
    with pytest.raises(ValueError, match="same number of frequencies"):
        JointStatistic(maps[0], maps_of(3)[1])
    with pytest.raises(ValueError, match="one kind"):
        JointStatistic(maps[0], exact_maps(pairs_of(0, 2), 1.0, 1.0)[1])
    with pytest.raises(ValueError, match="order"):
        ConditionalVendi(*maps, order=0.0)
    statistic = fed(JointStatistic(*maps), pairs_of(0, 9), 9)
    without_features = fed(JointStatistic(*maps, marginal=False), pairs_of(0, 9), 9)
    for other in (without_features, JointStatistic(*reversed(maps)), JointStatistic(*maps_of(3))):
        with pytest.raises(ValueError, match="another metric"):
            InformationVendi(*maps).plug_in(other)
    with pytest.raises(ValueError, match="halves=True"):
        InfluenceBound(ConditionalVendi(*maps, order=3.0)).estimate(statistic)
    with pytest.raises(ValueError, match="delta"):
        InfluenceBound(ConditionalVendi(*maps), 0.0)


# The influence bound.


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("order", ORDERS)
def test_the_estimate_and_its_errors_are_made_of_the_entropies(score, order):
    metric, count = score(*maps_of(), order), 150
    statistic = taken(metric, pairs_of(4, count), 50)
    found = metric.analyse(statistic)
    parts = metric.parts(statistic)
    alone = {part: entropy_influence(metric.entropies[part], parts[part]) for part in parts}
    assert found.estimate == pytest.approx(sum(metric.terms[part] * one.estimate for part, one in alone.items()))
    assert found.plug_in == pytest.approx(metric.plug_in(statistic), rel=1e-9)
    doubts = {part: metric.terms[part] * one.doubt for part, one in alone.items()}
    shared = doubts["joint"] + doubts.get("features", 0.0)
    expected = shared**2 + doubts["prompts"] ** 2 + 0.01 * sum(doubt**2 for doubt in doubts.values())
    expected += sum(one.systematic**2 for one in alone.values())
    inflation = 1 + 400 / count**2 if order < 2.0 else 1 + 20 / count
    assert found.stopping_error**2 - inflation * found.details["plain_error"] ** 2 == pytest.approx(expected, abs=1e-12)

    # The influence function is the derivative towards one more pair.
    features = {part: parts[part].last_rows for part in parts}
    assert all(len(rows) == count for rows in features.values())

    def scored(index: int | None) -> float:
        total = 0.0
        for part, rows in features.items():
            covariance = rows.T @ rows / count
            if index is not None:
                covariance = (1 - 1e-6) * covariance + 1e-6 * torch.outer(rows[index], rows[index])
            total += metric.terms[part] * log_vendi(torch.linalg.eigvalsh(covariance), order)
        return total

    plain = scored(None)
    influence = np.array([(scored(index) - plain) / 1e-6 for index in range(count)])
    if order == 2.0:
        # The recipe's own functional has no diagonal terms.
        assert found.details["plain_error"] ** 2 == pytest.approx(np.var(influence, ddof=1) / count, rel=0.25)
        return
    own = sum((metric.terms[part] * torch.atleast_2d(one.influence) for part, one in alone.items()), torch.zeros(1, 1))
    variances = own.var(-1).tolist()
    assert variances[0] == pytest.approx(np.var(influence, ddof=1), rel=1e-3)
    second = sum(one.second_order for one in alone.values()) / count**2
    assert found.details["plain_error"] ** 2 == pytest.approx(max(variances) / count + second, rel=1e-9)


def test_covariances_between_the_entropies_count():
    # Outputs that are the same for all, so that the joint entropy is the prompts' and their difference is no chance.
    maps, (features, prompts) = maps_of(), pairs_of(5, 80)
    metric = ConditionalVendi(*maps, order=2.0)
    statistic = taken(metric, (features[:1].expand(80, 3), prompts))
    estimate = InfluenceBound(metric).estimate(statistic)
    assert estimate.value == pytest.approx(0.0, abs=1e-9)
    assert estimate.standard_error == estimate.stopping_error == pytest.approx(1e-9, rel=1e-3)
    assert metric.entropies["prompts"].analyse(statistic.prompts).selection_error > 0.01


CALIBRATED = [1.0, 2.0, 3.0]


@pytest.mark.long
def test_errors_are_of_the_size_of_the_misses():
    maps = maps_of(40, 2.0)
    truth = fed(JointStatistic(*maps, halves=True), pairs_of(10_000, 50_000), 10_000)
    z = np.empty((2, len(CALIBRATED), 2, 24))
    for row, score in enumerate(SCORES):
        for column, order in enumerate(CALIBRATED):
            metric = score(*maps, order)
            bound, expected = InfluenceBound(metric), metric.analyse(truth).estimate
            for level, count in enumerate((60, 150)):
                for repeat in range(24):
                    estimate = bound.estimate(taken(metric, pairs_of(repeat, count), count))
                    assert estimate.stopping_error is not None
                    z[row, column, level, repeat] = (estimate.value - expected) / estimate.stopping_error
    rms = np.sqrt(np.mean(z**2, axis=-1))
    assert np.all((rms > 0.5) & (rms < 1.4)), rms


@pytest.mark.parametrize(("count", "order", "warned"), [(20, 1.0, 1), (20, 2.0, 0), (30, 1.0, 0)])
def test_a_warning_names_few_samples_once(count: int, order: float, warned: int):
    metric = ConditionalVendi(*maps_of(), order)
    found = InfluenceBound(metric).estimate(taken(metric, pairs_of(0, count))).warnings
    assert [text.split(":")[0] for text in found if "fewer" in text] == ["fewer samples than features"] * warned
    assert found[-1].startswith("above a quarter of the 12 random features")
