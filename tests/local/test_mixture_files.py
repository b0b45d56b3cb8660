"""`optimist.mixture` and `optimist score --mixture FILE…`: the best mixture of samples that are there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import optimist
from tests.support.commands import invoked

D = 3
REFERENCE = (np.zeros(D), np.eye(D) + 4.0 * np.diag([1.0, 0.0, 0.0]))
KERNEL = {"name": "gaussian", "sigma": 1.5, "features": 48, "seed": 3}
RNG = np.random.default_rng(0)
SETS = {
    "left": RNG.standard_normal((400, D)) - [2.0, 0.0, 0.0],
    "right": RNG.standard_normal((300, D)) - [-2.0, 0.0, 0.0],
    "middle": 0.3 * RNG.standard_normal((200, D)),
}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{name}.npy" for name in SETS]
    for file, rows in zip(found, SETS.values(), strict=True):
        np.save(file, rows)
    return found


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = invoked("score", *arguments, code=code)
    return done.stdout, done.stderr


@pytest.mark.parametrize("metric", ["fid", "rke", "vendi", "mmd"])
def test_two_halves_are_better_than_one(metric: str):
    reference = {"fid": REFERENCE, "mmd": RNG.standard_normal((500, D)) * [5.0**0.5, 1.0, 1.0]}.get(metric)
    kernel = None if metric == "fid" else KERNEL
    found = optimist.mixture(SETS, metric, reference=reference, kernel=kernel)
    weights = {one.generator: one.weight for one in found.weights}
    assert list(weights) == list(SETS)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["left"] == pytest.approx(weights["right"], abs=0.15)
    assert found.gain > 0.0
    assert found.confidence > 0.95
    assert found.gap < found.gap_bound
    single = optimist.score(SETS[found.best], metric, reference=reference, kernel=kernel)
    assert found.best_score == pytest.approx(single.score, rel=0.02)
    assert found.best in f"{found}"
    assert "left" in found._repr_html_()


def test_no_mixture_is_better_than_one_that_has_all():
    sets = {"all": 10.0 * SETS["middle"], "few": SETS["middle"]}
    found = optimist.mixture(sets, "rke", kernel=KERNEL)
    assert found.weights[0].weight == pytest.approx(1.0, abs=1e-9)
    assert "No mixture is better than all alone" in f"{found}"
    assert found.gap_bound == 0.0


def test_it_is_that_of_an_evaluation_that_was_told_the_same():
    for paired in (True, False):
        evaluation = optimist.Evaluation(list(SETS), metric="rke", kernel=KERNEL, paired=paired)
        for name, rows in SETS.items():
            evaluation.tell(name, rows)
        told, found = evaluation.mixture(), optimist.mixture(SETS, "rke", kernel=KERNEL, paired=paired)
        # Sets are looked at once; an evaluation is looked at again and again, which makes its bounds wider.
        looks = dict.fromkeys(("gap_bound", "confidence", "gain_lower", "gain_upper"), 0.0)
        assert told.model_copy(update=looks) == found.model_copy(update=looks | {"basis": None})


def test_files(files: list[Path]):
    options = ("--metric=rke:kernel.sigma=1.5,kernel.features=48,kernel.seed=3",)
    known = optimist.mixture(dict(zip(SETS, files, strict=True)), "rke", kernel=KERNEL)
    told = json.loads(run(*files, *options, "--mixture", "--json")[0])
    assert [row["name"] for row in told["scores"]] == [
        row["name"] for row in json.loads(run(*files, *options, "--json")[0])
    ]
    assert told["mixture"] == json.loads(known.model_dump_json())
    said = " ".join(run(*files, *options, "--mixture")[0].split())
    assert "Best mixture by RKE, 900 samples" in said
    assert f"{known.gain_text.partition(' is ')[2]} {known.gap_text}" in said


def test_samples_that_cannot_be_mixed_are_refused(files: list[Path]):
    with pytest.raises(ValueError, match="fewer of few"):
        optimist.mixture({"few": SETS["left"][:3], "b": SETS["right"]}, "rke", kernel=KERNEL)
    with pytest.raises(ValueError, match="two or more sets"):
        optimist.mixture({"a": SETS["left"]}, "rke", kernel=KERNEL)
    with pytest.raises(ValueError, match="samples of 'b'"):
        optimist.mixture({"a": SETS["left"], "b": SETS["right"][:, :2]}, "rke", kernel=KERNEL)
    with pytest.raises(ValueError, match="features=r"):
        optimist.mixture(SETS, "rke", kernel={**KERNEL, "features": "exact", "seed": 0})
    assert "no score of mixtures" in run(*files, "--metric=vendi:kernel.sigma=1.5,truncation=3", "--mixture", code=1)[1]
    assert "two or more sets" in run(files[0], "--metric=rke:kernel.sigma=1.5", "--mixture", code=1)[1]
