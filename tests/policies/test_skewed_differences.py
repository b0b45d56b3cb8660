"""Rare rows that speak against a difference make its error larger (rules/calibration.md)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import Pairing
from optimist.estimates.skewness import skewness
from optimist.estimation.paired import Paired
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.vendi.score import RenyiKernelEntropy
from optimist.policies.contrasts import Contrasts
from optimist.records import codec
from tests.support.paired_arms import estimate, pairing

N = 80
SHARED = np.random.default_rng(1).standard_normal(N)
RARE = np.random.default_rng(2).standard_exponential(N) ** 2
REAL = np.random.default_rng(3).standard_exponential(50) ** 3


def pair(
    gap: float,
    skewed: float | None,
    lower_is_better: bool = True,
    missing: tuple[float, float] = (1.0, 1.0),
    **fields: np.ndarray,
) -> list[Estimate]:
    """The second one is worse by `gap`; its rare rows have more influence than those of the first one."""
    sign = 1.0 if lower_is_better else -1.0
    rows = SHARED, SHARED + sign * 0.1 * RARE
    real = fields.get("real", np.zeros(50))
    reference = np.zeros(50), sign * real
    return [
        estimate(
            sign * value,
            0.5,
            0.6,
            N,
            pairing(row, N, skewness=skewed, missing=lacks, reference=known if real.any() else None),
            lower_is_better,
        )
        for value, row, known, lacks in zip((0.0, gap), rows, reference, missing, strict=True)
    ]


def errors(made: list[Estimate], kind: str = "stopping") -> tuple[float, float]:
    """That of the difference of each from the other one."""
    contrasts = Contrasts(made)
    return contrasts.errors(0, kind)[1], contrasts.errors(1, kind)[0]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_only_rows_that_speak_against_the_difference_count(lower_is_better: bool):
    gamma = float(skewness(RARE))
    assert gamma > 2.0
    plain = errors(pair(-0.1, None, lower_is_better))
    assert errors(pair(0.1, 1.0, lower_is_better)) == plain
    rho = Contrasts(pair(-0.1, 1.0, lower_is_better)).against(0).rho[1]
    factor = 1.0 + rho * gamma / math.sqrt(N)
    assert errors(pair(-0.1, 1.0, lower_is_better)) == pytest.approx([factor * each for each in plain], rel=1e-5)
    assert errors(pair(-0.1, 1.0, lower_is_better), "selection") == errors(
        pair(-0.1, None, lower_is_better), "selection"
    )


@pytest.mark.parametrize(("gap", "part"), [(0.1, 1.0), (-0.1, 0.5)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_real_rows_speak_with_the_opposite_sign_and_half_as_much_with_the_same(gap: float, part: float, sign: float):
    """What a real row adds to a score, the same row of a generator takes off, unless it is another one there."""
    gap, real = sign * gap, sign * 0.01 * REAL
    made, plain = pair(gap, 1.0, real=real), errors(pair(gap, None, real=real))
    rho, added = Contrasts(made).against(0).rho[1], float(np.var(real, ddof=1))
    gamma = max(part * float(skewness(REAL)), float(skewness(RARE)) if gap < 0.0 else 0.0)
    widened = (plain[0] ** 2 - added) * (1.0 + rho * gamma / math.sqrt(N)) ** 2 + added
    assert errors(made) == pytest.approx([math.sqrt(widened)] * 2, rel=1e-4)


def test_rows_that_both_may_lack_are_not_known_to_be_alike():
    """Each one's factor counts, until the difference is known as little as that of independent generators."""
    plain = errors(pair(0.1, None))
    independent = math.hypot(0.6, 0.6)
    assert 1.2 * 1.5 * plain[0] ** 2 < independent**2
    assert errors(pair(0.1, None, missing=(1.2, 1.5))) == pytest.approx([math.sqrt(1.2 * 1.5) * plain[0]] * 2)
    assert errors(pair(0.1, None, missing=(1.2, 1e6))) == pytest.approx([independent] * 2)
    assert errors(pair(0.1, None, missing=(1.2, 1.5)), "selection") == errors(pair(0.1, None), "selection")


def test_unrelated_generators_that_may_lack_rows_are_compared_as_independent_ones():
    one, other = pair(0.1, None, missing=(3.0, 3.0))
    assert one.pairing is not None
    alone = replace(one, pairing=pairing(np.random.default_rng(9).standard_normal(N), N, missing=3.0))
    assert Contrasts([alone, other]).against(0).rho[1] == 0.0
    assert errors([alone, other]) == (math.hypot(0.6, 0.6),) * 2


def told_by_rke(part: float) -> Estimate:
    """Of a generator that keeps this part of the details, of which one row in ten has any."""
    rows = np.random.default_rng(4).standard_normal((60, 6))
    rows[:, 3:] *= np.where(np.arange(60) % 10 == 3, 3.0, 0.1)[:, None] * part
    metric = RenyiKernelEntropy(GaussianFourier.draw(6, 32, 2.0, 0))
    statistic = metric.statistic()
    paired = Paired(InfluenceBound(metric), statistic)
    batch = torch.from_numpy(rows)
    statistic.update(batch)
    paired.add({"features": batch}, (0, len(rows)), None)
    found = paired.estimate(statistic)
    assert found.stopping_error == pytest.approx(metric.analyse(statistic).stopping_error)
    return found


def test_rare_rows_widen_differences_of_rke_and_no_scores():
    both = told_by_rke(1.0), told_by_rke(0.2)
    one, other = (each.pairing for each in both)
    gamma = float(skewness((other.influence - one.influence)[:60]))
    assert abs(gamma) > 1.0
    bare = [
        replace(both[0], pairing=replace(one, skewness=None)),
        replace(both[1], pairing=replace(other, skewness=None)),
    ]
    seen, plain = (
        [errors([pair[0], replace(pair[1], value=pair[0].value + by)])[0] for by in (gamma, -gamma)]
        for pair in (both, bare)
    )
    rho = Contrasts(both).against(0).rho[1]
    assert seen == pytest.approx([plain[0], plain[1] * (1.0 + rho * abs(gamma) / math.sqrt(60))], rel=1e-5)


def test_what_is_stored_has_the_skewness_and_what_may_be_missing():
    made = pair(0.1, 2.5, missing=(1.5, 1.0))[0].pairing
    assert made is not None
    again = codec.decode(Pairing, codec.encode(made))
    assert (again, again.skewness, again.missing) == (made, 2.5, 1.5)
    assert pairing(SHARED, N, skewness=math.inf).is_sound() is False
    assert pairing(SHARED, N, missing=math.inf).is_sound() is False
