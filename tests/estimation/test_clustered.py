"""Errors of scores of rows that come in clusters: prompts that come again, and batches whose samples are alike."""

import math

import numpy as np
import pytest
import torch

from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.policies import Arm
from optimist.policies.contrasts import contrast
from tests.support.streams import stored_and_read

WIDTH, SIZE = 6, 10
REAL = np.random.default_rng(8).standard_normal((80, WIDTH))
SETTINGS = {
    "fid": {"reference": REAL},
    "kid": {"reference": REAL},
    "mmd": {"reference": REAL},
    "precision": {"reference": REAL},
    "coverage": {"reference": REAL, "at": 40},
    "vendi": {"kernel": {"name": "gaussian", "sigma": 3.0, "features": 40}},
    "rke": {"kernel": {"name": "gaussian", "sigma": 3.0, "features": 40}},
}


def bound_of(metric: str):
    return Question(declared_of(metric, **SETTINGS[metric])).bound_for({"features": WIDTH})


def alike(rng: np.random.Generator, n: int, correlation: float, size: int = SIZE) -> np.ndarray:
    """Rows (n, WIDTH) whose batches have this intraclass correlation."""
    of_batch = np.repeat(rng.standard_normal((n // size, WIDTH)), size, axis=0)
    return math.sqrt(correlation) * of_batch + math.sqrt(1 - correlation) * rng.standard_normal((n, WIDTH))


def streamed(metric, rows, *, clusters=None, paired=True, prompts=None, size=SIZE) -> StreamingEstimator:
    estimator = StreamingEstimator(bound_of(metric), 0.0, paired, clusters=clusters)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        listed = None if prompts is None else torch.from_numpy(prompts[part])
        ids = [f"{row}" for row in range(len(rows))[part]]
        estimator.add({"features": torch.from_numpy(rows[part])}, ids, listed, (start, len(ids)))
    return estimator


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("metric", SETTINGS)
def test_batches_that_are_alike_are_said_and_can_be_counted(metric: str, paired: bool):
    rng = np.random.default_rng(3)
    apart, close = (alike(rng, 250, correlation) for correlation in (0.0, 0.7))
    found = streamed(metric, apart, paired=paired).estimate()
    assert found.design_effect is None
    assert not any("alike" in warning for warning in found.warnings)
    found = streamed(metric, close, paired=paired).estimate()
    assert found.design_effect is not None
    assert found.design_effect > 1.5
    said = f"samples of a batch are alike: they count as {round(250 / found.design_effect)} independent ones"
    assert any(said in warning for warning in found.warnings)
    counted = streamed(metric, close, clusters="batch", paired=paired).estimate()
    assert counted.design_effect == found.design_effect
    assert counted.units == (25, "batches")
    assert found.units == (250, "samples")
    assert counted.value == found.value
    assert counted.stopping_error > 1.3 * found.stopping_error
    # What has been added is of this generator alone.
    if paired:
        added = counted.stopping_error**2 - found.stopping_error**2
        before, after = found.pairing.systematic_stopping, counted.pairing.systematic_stopping
        assert after**2 - before**2 == pytest.approx(added, rel=1e-9)
        assert np.array_equal(counted.pairing.influence, found.pairing.influence, equal_nan=True)


def test_few_batches_say_nothing():
    close = alike(np.random.default_rng(3), 190, 0.7)
    assert streamed("fid", close).estimate().design_effect is None


def test_the_variance_by_prompts_is_the_formula():
    rng, n, count = np.random.default_rng(5), 200, 40
    prompts = rng.permutation(np.arange(n) % count)
    shared = rng.standard_normal((count, WIDTH))[prompts]
    rows = [1.3 * shared + 0.2 * rng.standard_normal((n, WIDTH)) for _ in range(2)]
    metric = bound_of("precision").metric
    # The influence of precision is whether a row is in a ball; all rows are among the first indices.
    inside = [metric.statistic().scores(torch.from_numpy(each)).numpy().astype(float) for each in rows]
    found, plain = (
        [streamed("precision", each, clusters=clusters, prompts=prompts).estimate() for each in rows]
        for clusters in ("prompt", None)
    )
    sums = np.array([[(x - x.mean())[prompts == p].sum() for p in range(count)] for x in inside])
    for x, s, one, before in zip(inside, sums, found, plain, strict=True):
        effect = (s**2).sum() / n**2 * count / (count - 1) / (x.var(ddof=1) / n)
        assert one.design_effect == pytest.approx(effect, rel=1e-9)
        assert effect > 1.2
        assert one.units == (count, "prompts")
        step = before.pairing.systematic_stopping**2
        factor = effect * (1 + 5 / count) / (1 + 5 / n)
        expected = step + (before.stopping_error**2 - step) * factor
        assert one.stopping_error**2 == pytest.approx(expected, rel=1e-9)
    z = math.atanh(sums[0] @ sums[1] / math.sqrt((sums[0] @ sums[0]) * (sums[1] @ sums[1])))
    rho = math.tanh(z - 1 / math.sqrt(count - 3))
    between = contrast(Arm("a", found[0]), Arm("b", found[1]), 1.0)
    assert between.correlation == pytest.approx(rho, rel=1e-6)
    # Prompts that both have are no error of the difference.
    assert between.standard_error < math.hypot(*(one.stopping_error for one in found))


def test_prompts_that_come_once_change_nothing():
    rows = np.random.default_rng(6).standard_normal((60, WIDTH))
    found = streamed("fid", rows, clusters="prompt", prompts=np.arange(60)).estimate()
    plain = streamed("fid", rows).estimate()
    assert (found.stopping_error, found.standard_error) == (plain.stopping_error, plain.standard_error)
    assert found.units[0] == 60


def test_samples_of_unknown_prompts_are_clusters_of_their_own():
    rows = np.random.default_rng(6).standard_normal((60, WIDTH))
    prompts = np.where(np.arange(60) < 20, -1, np.arange(60) % 8)
    found = streamed("fid", rows, clusters="prompt", prompts=prompts).estimate()
    assert found.units[0] == 28
    assert streamed("fid", rows, clusters="prompt").estimate().units[0] == 60


@pytest.mark.parametrize(
    "clusters", ["prompt", *(pytest.param(each, marks=pytest.mark.long) for each in ("batch", None))]
)
def test_a_restored_estimator_goes_on_alike(clusters):
    rng = np.random.default_rng(7)
    rows, prompts = alike(rng, 600, 0.5), rng.integers(0, 30, 600)
    how = {"clusters": clusters, "prompts": prompts if clusters == "prompt" else None}
    estimator = streamed(
        "fid", rows[:400], clusters=clusters, prompts=None if how["prompts"] is None else prompts[:400]
    )
    restored = stored_and_read(estimator, StreamingEstimator(bound_of("fid"), 0.0, True, clusters=clusters))
    for one in (estimator, restored):
        for start in range(400, 600, SIZE):
            part = slice(start, start + SIZE)
            listed = None if how["prompts"] is None else torch.from_numpy(prompts[part])
            one.add({"features": torch.from_numpy(rows[part])}, [f"{start}"] * SIZE, listed, (start, SIZE))
    assert restored.estimate() == estimator.estimate()
    assert restored.estimate() == streamed("fid", rows, **how).estimate()
