"""Simulations with further metrics: the same picks, and what they cost by each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optimist import score, simulate
from optimist_client.metrics import FID, RKE, Gaussian, Mean
from tests.support.commands import invoked

REAL = np.random.default_rng(0).standard_normal((300, 2))


def arrays(shift: float, seed: int) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(seed).standard_normal((200, 2)) + shift
    return {"features": rows, "dinov2": np.tanh(rows), "wit": rows[:, 0]}


SOURCES = {"near": arrays(0.0, 1), "far": arrays(1.0, 2)}
WATCH = [Mean(reads="wit"), RKE(kernel=Gaussian(2.0, 8), reads="dinov2")]
HOW = {"policies": ["ucb", "uniform"], "rounds": 12, "trials": 2}


@pytest.mark.long
def test_picks_are_those_without_and_regret_is_by_each_metric():
    alone = {name: made["features"] for name, made in SOURCES.items()}
    expected = simulate(alone, metric=FID(reference=REAL), **HOW)
    found = simulate(SOURCES, metric=FID(reference=REAL), watch=WATCH, **HOW)
    assert (found["ucb"].picks == expected["ucb"].picks).all()
    assert [*found.watched] == ["mean-wit", "rke-dinov2"]
    by_wit = found.watched["mean-wit"]
    assert (found.judge.best, by_wit.judge.best) == (("near",), ("far",))
    assert by_wit.truth["far"].score == score({"wit": SOURCES["far"]["wit"]}, WATCH[0]).score
    gap = by_wit.truth["far"].score - by_wit.truth["near"].score
    assert by_wit["uniform"]["regret"][0, -1] == pytest.approx(6 * gap)
    assert "by mean-wit" in str(found)
    assert json.loads(found.to_json())[0]["watched"]["rke-dinov2"]["best"]


def test_on_the_command_line(tmp_path: Path):
    for name, made in SOURCES.items():
        np.savez(tmp_path / f"{name}.npz", **made)
    np.save(tmp_path / "real.npy", REAL)
    options = [f"--reference={tmp_path / 'real.npy'}", "--rounds=6", "--trials=1", "--watch=mean:reads=wit"]
    ended = invoked("simulate", f"--features={tmp_path}", *options, code=0)
    assert "Best by mean-wit: far" in ended.output
    refused = invoked("simulate", f"--features={tmp_path}", *options, "--watch=mean:reads=humour", code=1)
    assert "humour" in refused.output
