"""`score` of every metric against the stored numbers of the authors' programs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimist import score
from optimist.metrics.bound import FEW_ROWS_DECIDE
from tests.support.places import DATA

ORDERS = {"1": 1.0, "1_5": 1.5, "2": 2.0, "3": 3.0, "inf": math.inf}


def stored(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as data:
        return dict(data)


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("inception_*.npz")))
def test_inception_scores(name: str):
    file = stored(name)
    for bound, answer in (("theorem", "is_ucb"), ("naive", "naive_ucb")):
        estimate = score(file["probabilities"], "is", bound=bound)
        assert estimate.score == pytest.approx(float(file["inception_score"]), rel=1e-6)
        assert estimate.optimistic == pytest.approx(math.log(float(file[answer])), rel=1e-6)


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("kernel_*.npz")))
def test_kernel_scores(name: str):
    file = stored(name)
    features, sigma = file["features"], float(file["sigma"])
    kernels = {
        "fkea": {"name": "gaussian", "omegas": file["omegas"]},
        "exact": {"name": "gaussian", "sigma": sigma, "features": "exact"},
        "cosine": {"name": "cosine"},
    }
    seen = 0
    for key, answer in file.items():
        kind, _, order = key.partition("_vendi_")
        if order not in ORDERS:
            continue
        truncation = 10 if kind == "exact_truncated10" else None
        kernel = kernels[kind.removesuffix("_truncated10")]
        estimate = score(features, "vendi", kernel=kernel, order=ORDERS[order], truncation=truncation)
        assert math.exp(estimate.plug_in) == pytest.approx(float(answer), rel=1e-6), key
        seen += 1
    assert seen == 14
    by_order = score(features, "vendi", kernel=kernels["fkea"], order=2.0)
    assert score(features, "rke", kernel=kernels["fkea"]).value == pytest.approx(by_order.value)


def test_nystrom_landmarks_approach_the_exact_score():
    rows = np.random.default_rng(0).standard_normal((300, 2))
    exact = score(rows, "vendi", kernel={"sigma": 1.0, "features": "exact"}).plug_in
    few, many = (
        score(rows, "vendi", kernel={"name": "nystrom", "sigma": 1.0, "landmarks": rows[:m]}) for m in (5, 150)
    )
    assert abs(many.plug_in - exact) < 0.02
    assert abs(few.plug_in - exact) > abs(many.plug_in - exact)


@pytest.mark.parametrize("metric", ["fid", "kid", "mmd", "rke"])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_large_rows_are_named_by_the_scores_that_they_decide(metric: str, size: float):
    rng = np.random.default_rng(0)
    rows, real = rng.standard_normal((100, 4)), rng.standard_normal((200, 4))
    rows[::50] *= size
    kernel = {"kernel": {"sigma": 2.0}} if metric in ("mmd", "rke") else {}
    found = score(rows, metric, **kernel, **({} if metric == "rke" else {"reference": real}))
    # A bounded kernel bounds what any row has to say.
    assert (FEW_ROWS_DECIDE in found.warnings) == (size > 1.0 and metric in ("fid", "kid"))


def test_a_score_is_printed_on_two_lines():
    values = np.arange(200.0) % 2
    plain = score({"values": values}, "mean")
    assert f"{plain}".splitlines() == [
        "0.500 (0.430 to 0.570), 200 samples, higher is better",
        "standard error 0.036; plug-in 0.500",
    ]
    rows = np.random.default_rng(0).standard_normal((200, 4))
    first, second = f"{score(rows, 'vendi:kernel.sigma=2')}".splitlines()
    assert first == "9.001 (7.783 to 10.409), 200 samples, higher is better"
    assert second.startswith("standard error 0.67; plug-in 8.470; fewer samples than features")
