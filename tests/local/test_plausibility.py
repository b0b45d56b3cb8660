"""Sizes of batches, and what an evaluation in memory says of absurd ones."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.anomalies.plausibility import levelled, magnitudes, reference_scale, sized, usual_scale
from optimist_client import NotFoundError
from optimist_client.metrics import RKE, InceptionScore, Mean
from tests.support.reports import unwrapped

KERNEL = {"sigma": 2.0, "features": 16}


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (200, 2048), (3, 70_000)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sizes_are_those_of_all_entries(shape: tuple[int, int], dtype: type):
    rows = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    rows[shape[0] // 2, -1] = -50.0
    before = rows.copy()
    [found] = magnitudes({"features": rows, "ids": np.zeros((shape[0], 3), np.uint8)}, ["features"])
    assert (found.name, found.largest, found.row) == ("features", 50.0, shape[0] // 2)
    assert found.mean_square == pytest.approx(np.mean(np.square(rows.astype(np.float64))), rel=1e-12)
    assert (rows == before).all()
    assert sized([InceptionScore(reads="classes"), RKE(), InceptionScore()]) == ["features"]


def test_a_references_scale_is_that_of_its_features():
    features = np.random.default_rng(2).standard_normal((4000, 3)) * 2.0 + 5.0
    scale = reference_scale(features.mean(axis=0), np.cov(features, rowvar=False))
    assert scale == pytest.approx(math.sqrt(np.mean(np.square(features))), rel=1e-3)
    assert [usual_scale(known) for known in ([], [0.0], [3.0, 1.0, 0.0], [9.0, 1.0, 3.0])] == [None, None, 1.0, 3.0]


def test_levels_are_those_of_wide_arrays_whose_lengths_count():
    rows = np.random.default_rng(4).standard_normal((9, 8)).astype(np.float32)
    rows[3] = 0.0
    [found] = magnitudes({"features": rows}, ["features"], ["features"])
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert found.level == round(math.log(np.median(norms[norms > 0])), 4)
    assert magnitudes({"features": rows}, ["features"])[0].level is None
    metrics = [RKE(), InceptionScore(reads="classes"), Mean(reads="reward")]
    assert levelled(metrics, {"features": 8, "classes": 10, "reward": 1}) == ["features"]
    assert levelled(metrics, {"features": 7, "classes": 10, "reward": 1}) == []
    assert levelled([RKE(kernel={"name": "cosine"})], {"features": 8}) == [], "only directions count"


def two(**more: Any) -> Evaluation:
    return Evaluation(["good", "bad"], reference=(np.zeros(8), np.eye(8)), seed=1, warmup=2, **more)


def tell(evaluation: Evaluation, batches: int = 40, wrong: int | None = 6) -> list[str]:
    """Tell both generators batches, one of them as pixels from 0 to 255. Returns what was warned of."""
    rng, said = np.random.default_rng(5), []
    for batch in range(batches):
        for name, mean in (("good", 0.0), ("bad", 1.0)):
            rows = mean + rng.standard_normal((5, 8))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                evaluation.tell(name, rows * (255.0 if (name, batch) == ("bad", wrong) else 1.0))
            said += [f"{one.message}" for one in caught]
    return said


def test_a_decision_that_rests_on_a_batch_on_another_scale_is_provisional(tmp_path: Path):
    evaluation = two()
    [said] = tell(evaluation)
    assert said.startswith("batch 7 of bad is about 2")
    assert said.endswith("times larger than its others: pixels 0–255 instead of 0–1?")
    report = evaluation.report()
    [odd] = report.decision.anomalies
    assert (odd.generator, odd.positions, odd.whole) == ("bad", (7,), False)
    assert report.decision.provisional == report.decision.decided
    for decided in (True, False):
        said = str(report.model_copy(update={"decision": report.decision.model_copy(update={"decided": decided})}))
        assert ("unless batch 7 of bad is wrong: leave it out, or accept it." in said) == decided
    assert "Warning: batch 7 of bad is about 2" in unwrapped(report)
    evaluation.save(tmp_path / "saved.npz")
    again = Evaluation.load(tmp_path / "saved.npz")
    assert again.report().decision.anomalies == report.decision.anomalies
    with pytest.raises(ValueError, match="has 40 batches, got 41"):
        again.accept("bad", 41)
    with pytest.raises(NotFoundError):
        again.accept("worse", 7)
    assert [again.accept("bad", 7), again.accept("bad", 7)] == [True, False]
    assert again.report().decision.anomalies == ()
    assert evaluation.accept("bad")
    assert not evaluation.accept("bad", 7)
    assert evaluation.report().decision.anomalies == ()


@pytest.mark.long
def test_who_wants_no_anomalies_gets_none():
    evaluation = two(on_anomaly="ignore")
    assert tell(evaluation) == []
    assert evaluation.report().decision.anomalies == ()
    assert tell(two(), wrong=None) == []
    with pytest.raises(ValueError, match="on_anomaly"):
        two(on_anomaly="never")


def test_an_evaluation_refuses_absurd_batches():
    rng = np.random.default_rng(3)
    evaluation = Evaluation(["a", "b"], metric="rke", kernel=KERNEL)
    evaluation.tell("a", rng.standard_normal((30, 4)))
    with pytest.raises(ValueError, match=r"features: row 2 holds a value of size 1e\+30.*max_magnitude"):
        evaluation.tell("b", np.eye(4)[[0, 1, 2]] * np.array([[1.0], [1.0], [1e30]]))
    evaluation.tell("b", 1e4 * rng.standard_normal((30, 4)))
    assert evaluation.told == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Evaluation(["a"], metric="rke", kernel=KERNEL).tell("a", 1e29 * rng.standard_normal((30, 4)))
    bold = Evaluation(["a"], reference=(np.zeros(4), np.eye(4)), max_magnitude=1e12)
    bold.tell("a", np.full((2, 4), 1e9))
    with pytest.raises(ValueError, match="max_magnitude: expected a number above 1, got"):
        Evaluation(["a"], reference=(np.zeros(4), np.eye(4)), max_magnitude=1.0)
