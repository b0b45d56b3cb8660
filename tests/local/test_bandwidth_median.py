"""The bandwidth "median": the lower median of the generators' own, which an absurd generator does not move."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation, score

pytestmark = pytest.mark.filterwarnings("ignore:values over")  # which are taken here: max_magnitude is 1e40

KERNEL = {"sigma": "median", "features": 64}
BATCH = 32


def rows(generator: int, batch: int, scale: float, d: int = 3) -> np.ndarray:
    return scale * np.random.default_rng((generator, batch)).standard_normal((BATCH, d))


def told(scales: list[float], **settings: Any) -> Evaluation:
    """An evaluation of generators of these scales, each told 300 rows or a few more."""
    names = [f"g{place}" for place in range(len(scales))]
    settings = {
        "metric": "rke",
        "kernel": KERNEL,
        "batch_size": BATCH,
        "rescore_growth": 0.0,
        "max_magnitude": 1e40,
        **settings,
    }
    evaluation = Evaluation(names, **settings)
    for batch in range(10):
        for place, (name, scale) in enumerate(zip(names, scales, strict=True)):
            evaluation.tell(name, rows(place, batch, scale))
    return evaluation


def first(place: int, scale: float, count: int) -> list[np.ndarray]:
    return list(np.concatenate([rows(place, batch, scale) for batch in range(10)])[:count])


def median_distance(samples: list[np.ndarray]) -> float:
    """Pair by pair."""
    distances = [np.sqrt(((x - y) ** 2).sum()) for x, y in itertools.combinations(samples, 2)]
    return float(np.median([distance for distance in distances if distance > 0.0]))


@pytest.mark.parametrize("scales", [[1.0, 1e29], [1e29, 1.0], [1e29, 1.0, 1.1, 0.9, 1e29]])
def test_generators_that_are_absurd_do_not_move_the_others(scales: list[float]):
    """By the median over the pairs of all generators pooled, the sane ones would score exactly 1.0 each."""
    estimates = told(scales).estimates()
    needed = -(-256 // len(scales))
    own = [median_distance(first(place, scale, needed)) for place, scale in enumerate(scales)]
    sigma = sorted(own)[(len(own) - 1) // 2]
    assert 1.0 < sigma < 4.0
    for place, scale in enumerate(scales):
        if scale > 2.0:
            continue
        found = estimates[f"g{place}"]
        alone = score(np.array(first(place, scale, 320)), "rke", kernel={**KERNEL, "sigma": sigma})
        assert found.value == pytest.approx(alone.value, rel=1e-9)
        assert found.score > 1.5


@pytest.mark.parametrize("scales", [[1.0], [1.0, 3.0], [1.0, 3.0, 9.0], [1.0, 3.0, 9.0, 0.1]])
def test_the_bandwidth_is_what_brute_force_finds(scales: list[float]):
    needed = -(-256 // len(scales))
    firsts = [first(place, scale, needed) for place, scale in enumerate(scales)]
    expected = sorted(map(median_distance, firsts))[(len(scales) - 1) // 2]
    found = told(scales)
    sigma = found._primary.question.kernels["kernel"].sigma
    assert sigma == pytest.approx(expected, rel=1e-14)
    assert found.estimates() == told(scales, kernel={**KERNEL, "sigma": sigma}).estimates()


def test_generators_without_two_different_rows_do_not_count():
    evaluation = told([0.0, 2.0, 0.0])
    assert evaluation._primary.question.kernels["kernel"].sigma == pytest.approx(median_distance(first(1, 2.0, 86)))
    assert told([0.0, 0.0])._primary.question.kernels["kernel"].sigma == 1.0


def test_each_kernel_of_pairs_is_fixed_by_the_same_rule():
    kernels = {"kernel": KERNEL, "prompt_kernel": {"sigma": "median"}}
    evaluation = Evaluation(
        ["sane", "absurd"], metric="conditional-vendi", batch_size=128, max_magnitude=1e40, **kernels
    )
    batches = {}
    for place, (name, scale) in enumerate((("sane", 1.0), ("absurd", 1e29))):
        rng = np.random.default_rng(place)
        batches[name] = {
            "features": scale * rng.standard_normal((128, 3)),
            "prompts": scale * rng.standard_normal((128, 2)),
        }
        evaluation.tell(name, batches[name])
    found = evaluation._primary.question.kernels
    for field, tensor in (("kernel", "features"), ("prompt_kernel", "prompts")):
        assert found[field].sigma == pytest.approx(median_distance(list(batches["sane"][tensor])), rel=1e-14)
