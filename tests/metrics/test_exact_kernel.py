"""Scores by the kernel itself, from its n × n matrix, against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation, contrast, score
from optimist_client.metrics import Vendi

SIGMA = 2.0
KERNEL = {"sigma": SIGMA, "features": "exact"}


def rows(seed: int = 0, count: int = 120) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 5))


def matrix(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.square(x[:, None] - x).sum(-1) / (2 * SIGMA**2))


def entropy(x: np.ndarray, order: float) -> float:
    values = np.linalg.eigvalsh(matrix(x) / len(x))
    values = values[values > 1e-14]
    if order == 1.0:
        return float(-(values * np.log(values)).sum())
    return float(-np.log(values[-1]) if order == math.inf else np.log((values**order).sum()) / (1.0 - order))


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_the_plug_in_is_the_entropy_of_the_matrix(order: float):
    found = score(rows(), "vendi", order=order, kernel=KERNEL)
    assert found.plug_in == pytest.approx(entropy(rows(), order), rel=1e-9)
    assert found.stopping_error is not None
    assert 0.0 < found.stopping_error < 0.5
    assert found.lower < found.value < found.upper


def test_order_2_has_the_mean_over_pairs_and_its_error():
    x = rows()
    n, k = len(x), matrix(x)
    pairs = np.square(k)[~np.eye(n, dtype=bool)]
    mean = pairs.mean()
    influence = -2.0 / mean * (np.square(k).sum(1) - 1.0) / (n - 1)
    variance = (influence.var(ddof=1) / n + 2.0 * (pairs / mean).var(ddof=1) / n**2) * (1.0 + 20.0 / n)
    found = score(x, "rke", kernel=KERNEL)
    assert found.value == pytest.approx(-np.log(mean), rel=1e-9)
    assert found.stopping_error == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_the_bracket_of_order_1_is_the_least_cross_entropy_of_each_sample_with_the_others():
    x = rows(count=40)
    n, k = len(x), matrix(x)
    penalties = np.geomspace(1e-9, 1.0, 4000)
    total = np.zeros_like(penalties)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        values, vectors = np.linalg.eigh(k[np.ix_(others, others)] / n)
        shares = np.square(vectors.T @ k[others, i]) / (n * values)
        total -= np.log(values[:, None] + penalties).T @ shares + np.log(penalties) * (1.0 - shares.sum())
    cross_entropy = total / n + np.log((n - 1) / n + 10_000 * penalties)
    found = score(x, "vendi", kernel=KERNEL)
    assert found.bracket == pytest.approx((entropy(x, 1.0), cross_entropy.min()), rel=1e-3)


def test_evaluations_and_contrasts_use_it():
    narrow, wide = rows(0, 80), 1.5 * rows(0, 80)
    alone = score(wide, "vendi", kernel=KERNEL)
    compared = contrast({"narrow": narrow, "wide": wide}, "vendi", kernel=KERNEL, paired=True)
    assert compared.best == "wide"
    assert compared.estimates["wide"].value == alone.value
    assert compared.contrasts[0].correlation > 0.5
    evaluation = Evaluation(["narrow", "wide"], metric="vendi", kernel=KERNEL, rescore_growth=0.0)
    for start in range(0, 80, 20):
        for name, x in (("narrow", narrow), ("wide", wide)):
            evaluation.tell(name, x[start : start + 20])
    found = evaluation.estimates()["wide"]
    assert found is not None
    assert found.value == alone.value
    with pytest.raises(ValueError, match="has no modes"):
        evaluation.modes("wide")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: score(np.zeros((10_001, 1)), "rke", kernel=KERNEL), "at most 10,000 samples, got 10,001"),
        (lambda: score(rows(), "rke", kernel=KERNEL, bound="theorem"), "no bound 'theorem'"),
        (lambda: Vendi(dimension=5, kernel=KERNEL), "an experiment scores a stream of any length: give r"),  # type: ignore[arg-type]
        (lambda: score(rows(), "mmd", kernel=KERNEL, reference=rows(1)), "for RKE, Vendi and scores of pairs"),
        (lambda: Evaluation(["a"], metric="rke", kernel=KERNEL, prompts=["p"], prompts_are="list"), "list of prompts"),
    ],
)
def test_what_it_cannot_do_is_refused_with_the_reason(make: Any, expected: str):
    with pytest.raises(ValueError, match=expected):
        make()
