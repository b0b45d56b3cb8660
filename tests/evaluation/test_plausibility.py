"""Sizes of batches, and what an evaluation in memory says of absurd ones."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from optimist import Evaluation
from optimist.numerics.plausibility import magnitudes, reference_scale, sized, usual_scale
from optimist_client.metrics import RKE, InceptionScore

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


def test_an_evaluation_refuses_absurd_batches_and_warns_of_large_ones():
    rng = np.random.default_rng(3)
    evaluation = Evaluation(["a", "b"], metric="rke", kernel=KERNEL)
    evaluation.tell("a", rng.standard_normal((30, 4)))
    with pytest.raises(ValueError, match=r"features: row 2 holds a value of size 1e\+30.*max_magnitude"):
        evaluation.tell("b", np.eye(4)[[0, 1, 2]] * np.array([[1.0], [1.0], [1e30]]))
    with pytest.warns(UserWarning, match="over 1,000 times the usual size"):
        evaluation.tell("b", 1e4 * rng.standard_normal((30, 4)))
    assert evaluation.told == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Evaluation(["a"], metric="rke", kernel=KERNEL).tell("a", 1e29 * rng.standard_normal((30, 4)))
    bold = Evaluation(["a"], reference=(np.zeros(4), np.eye(4)), max_magnitude=1e12)
    with pytest.warns(UserWarning, match="usual size 1"):
        bold.tell("a", np.full((2, 4), 1e9))
    with pytest.raises(ValueError, match="max_magnitude must be greater than 1"):
        Evaluation(["a"], reference=(np.zeros(4), np.eye(4)), max_magnitude=1.0)
