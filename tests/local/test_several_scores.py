"""Scores by several metrics of the same samples: in memory and of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import contrast, score
from optimist.estimation.question import declared_of
from optimist_client.metrics import FID, RKE, Coverage, Density, Gaussian, Mean, Precision, Vendi
from optimist_client.metrics.texts import parsed
from tests.support.commands import invoked

REAL = np.random.default_rng(0).standard_normal((300, 3))


def arrays(shift: float) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(1).standard_normal((200, 3)) + shift
    return {"features": rows, "dinov2": np.tanh(rows), "wit": np.abs(rows).mean(axis=1)}


def run(*options: object) -> Any:
    return invoked("score", *options)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    for name, shift in (("near", 0.1), ("far", 1.0)):
        np.savez(place / f"{name}.npz", **arrays(shift))
    np.save(place / "real.npy", REAL)
    np.save(place / "tanh.npy", np.tanh(REAL))
    return place


def test_several_scores_in_memory_are_those_of_each():
    metrics = [FID(reference=REAL), RKE(kernel=Gaussian(2.0, 16), reads="dinov2"), Mean(reads="wit")]
    found = score(arrays(0.0), metrics)
    assert [*found] == ["fid", "rke-dinov2", "mean-wit"]
    assert found["fid"] == score(arrays(0.0)["features"], "fid", reference=REAL)
    assert found["mean-wit"].score == pytest.approx(arrays(0.0)["wit"].mean())
    with pytest.raises(ValueError, match="found no dinov2, wit"):
        score({"features": REAL}, metrics)
    with pytest.raises(ValueError, match="fid is given twice"):
        score(arrays(0.0), [metrics[0], metrics[0]])


def test_scores_of_the_same_samples_share_what_they_are_computed_from():
    rows, kernel = arrays(0.5)["features"], Gaussian(2.0, 16)
    by_balls = [Precision(reference=REAL), Density(reference=REAL), Coverage(reference=REAL)]
    balls = [declared_of(metric).setting("reference") for metric in by_balls]
    assert balls[0] is balls[1] is balls[2]
    for metrics in ([RKE(kernel=kernel), Vendi(kernel=kernel), Vendi(kernel=kernel, order=3.0, label="3")], by_balls):
        found = score({"features": rows}, metrics)
        assert [*found.values()] == [score(rows, metric) for metric in metrics]


def test_values_of_one_column_may_be_vectors(tmp_path: Path):
    values = {name: np.random.default_rng(i).random(60) for i, name in enumerate("ab")}
    np.savez(tmp_path / "all.npz", **values)
    for name, array in values.items():
        np.save(tmp_path / f"{name}.npy", array)
        assert score(array, Mean()) == score(array[:, None], Mean())
    columns = {name: array[:, None] for name, array in values.items()}
    expected = contrast(columns, "mean", paired=True).to_dict()
    assert contrast(values, "mean", paired=True).to_dict() == expected
    for files in ([tmp_path / "all.npz"], [tmp_path / "a.npy", tmp_path / "b.npy"]):
        found = {row["name"]: row["score"] for row in json.loads(run(*files, "--metric=mean", "--json").stdout)}
        assert found == {name: score(array, "mean").score for name, array in values.items()}
        ended = invoked("contrast", *files, "--metric=mean", "--paired", "--json")
        assert json.loads(ended.stdout)["contrasts"] == json.loads(json.dumps(expected["contrasts"]))


def test_files_of_several_arrays(files: Path):
    watch = ["kid", "rke:kernel.sigma=2,kernel.features=16", "mean:reads=wit,higher_is_better=false"]
    watch += [f"fid:reads=dinov2,reference={files / 'tanh.npy'}"]
    options = [files / "far.npz", files / "near.npz", "--reference", files / "real.npy"]
    ended = run(*options, *[part for one in watch for part in ("--watch", one)], "--json")
    assert ended.exit_code == 0, ended.output
    near, far = json.loads(ended.stdout)
    assert (near["name"], far["name"]) == ("near", "far")
    assert [*near["watched"]] == ["kid", "rke", "mean-wit", "fid-dinov2"]
    assert near["score"] == score(arrays(0.1)["features"], "fid", reference=REAL).score
    other = FID(reads="dinov2", reference=np.tanh(REAL))
    assert near["watched"]["fid-dinov2"]["score"] == score({"dinov2": arrays(0.1)["dinov2"]}, other).score
    shown = run(*options, "--watch", "mean:reads=wit")
    assert "mean-wit" in shown.output
    alone = run(files / "far.npz", "--metric", "mean:reads=wit", "--json")
    assert json.loads(alone.stdout)[0]["score"] == pytest.approx(arrays(1.0)["wit"].mean())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--watch", "mean:wit"], "expected name:setting=value,setting=value; got 'mean:wit'"),
        (["--watch", "mean:reads=wit,best=low"], "it does not take best"),
        (["--watch", "mean:reads=humour"], "expected the arrays features, humour; found features, dinov2, wit"),
    ],
)
def test_what_cannot_be_scored(files: Path, options: list[str], expected: str):
    ended = run(files / "near.npz", "--reference", files / "real.npy", *options)
    assert ended.exit_code == 1
    assert expected in ended.output.replace("\n", " ")


def test_settings_are_json_or_text():
    text = 'mean:range=[0, 1],reads=wit,label="x",higher_is_better=false'
    assert parsed(text) == ("mean", {"range": [0, 1], "reads": "wit", "label": "x", "higher_is_better": False})
    assert parsed("rke:kernel.sigma=median,kernel.features=8")[1] == {"kernel": {"sigma": "median", "features": 8}}
