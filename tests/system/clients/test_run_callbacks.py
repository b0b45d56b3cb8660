"""What `experiment.run` tells its callbacks, as real trackers and a notebook have it afterwards."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Experiment, Optimist, Report
from optimist_client.callbacks import COLUMNS, CsvCallback, MlflowCallback, TensorBoardCallback, values
from tests.support.processes import Service

SHIFTS = {"a": 1.0, "b, or β": 0.0}


def drawing(shift: float):
    return lambda size, seed: np.random.default_rng(seed).standard_normal((size, 4)) + shift


GENERATORS = {name: drawing(shift) for name, shift in SHIFTS.items()}


@pytest.fixture
def experiment(client: Optimist, name: str, reference) -> Experiment:
    return client.create_experiment(name, list(SHIFTS), reference=reference, budget=400, stop=False)


def test_a_csv_file_has_a_line_for_each_generator_and_report(experiment: Experiment, tmp_path: Path):
    file, seen = tmp_path / "run.csv", list[Report]()
    last = experiment.run(GENERATORS, callbacks=[seen.append, CsvCallback(file)])
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 2 * len(seen) >= 4
    assert tuple(rows[0]) == COLUMNS
    assert [int(row["samples"]) for row in rows[::2]] == [report.samples for report in seen]
    assert seen[-1] == last
    assert {row["generator"]: float(row["score"]) for row in rows[-2:]} == {
        row.generator: row.score for row in last.standings
    }
    CsvCallback(file)(last)  # goes on in the same file
    assert len(file.read_text().splitlines()) == len(rows) + 3
    file.write_text("else\n")
    with pytest.raises(ValueError, match=r"expected the columns time, samples, state.*found else"):
        CsvCallback(file)


@pytest.mark.long
def test_tensorboard_has_the_scores_by_samples(experiment: Experiment, tmp_path: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    last = experiment.run(GENERATORS, callbacks=[TensorBoardCallback(tmp_path)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = {tag: events.Tensors(tag)[-1] for tag in events.Tags()["tensors"]}
    assert found.keys() == values(last).keys()
    for tag, event in found.items():
        assert event.step == last.samples
        assert make_ndarray(event.tensor_proto) == pytest.approx(values(last)[tag])


@pytest.mark.long
def test_mlflow_has_the_scores_and_the_decision(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    last = experiment.run(GENERATORS, callbacks=[MlflowCallback()])
    active = mlflow.active_run()
    mlflow.end_run()
    run = mlflow.get_run(active.info.run_id)
    assert run.info.run_name == experiment.name
    assert run.data.tags["optimist.best"] == last.decision.best
    assert run.data.metrics["score/b_ or β"] == values(last)["score/b, or β"]
    history = mlflow.MlflowClient().get_metric_history(active.info.run_id, "score/a")
    assert [point.step for point in history] == sorted(point.step for point in history)
    assert history[-1].step == last.samples


IN_WANDB = """
import sys, wandb, numpy as np
from optimist_client import Optimist
from optimist_client.callbacks import WandbCallback
url, name, directory = sys.argv[1:]
def drawing(shift):
    return lambda size, seed: np.random.default_rng(seed).standard_normal((size, 4)) + shift
with Optimist(url) as client:
    track = WandbCallback(project="trial", dir=directory, mode="offline")
    client.experiment(name).run({"a": drawing(1.0), "b, or β": drawing(0.0)}, callbacks=[track])
print(wandb.run.name, wandb.run.summary["score/a"], wandb.run.summary["optimist/best"])
wandb.finish()
"""


@pytest.mark.long
def test_wandb_has_them_offline(service: Service, experiment: Experiment, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", IN_WANDB, service.url, experiment.name, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "WANDB_SILENT": "true"},
    )
    assert done.returncode == 0, done.stderr
    last = experiment.report()
    name, score, best = done.stdout.strip().split(" ", 2)
    assert (name, float(score), best) == (experiment.name, values(last)["score/a"], last.decision.best)
    (stored,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"score/a" in stored.read_bytes()


def test_a_callback_that_raises_ends_the_run_and_leaves_no_pick_open(experiment: Experiment):
    def full(report: Report) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        experiment.run(GENERATORS, callbacks=[full], workers=2)
    assert experiment.report().open_picks == 0


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_timeout_that_is_none_is_refused(experiment: Experiment, timeout: float):
    with pytest.raises(ValueError, match="timeout: expected seconds above 0"):
        experiment.run(GENERATORS, timeout=timeout)


CELL = """
import time
import numpy as np
from optimist_client import Optimist

def drawing(shift):
    def draw(size, seed):
        time.sleep(0.04)
        return np.random.default_rng(seed).standard_normal((size, 4)) + shift
    return draw

with Optimist({url!r}) as client:
    report = client.experiment({name!r}).run({{"a": drawing(1.0), "b": drawing(0.0)}})
report
"""


@pytest.mark.long
def test_a_cell_shows_the_standings_the_chart_and_the_decision(
    service: Service, client: Optimist, name: str, reference, tmp_path: Path
):
    import nbformat
    from nbconvert import HTMLExporter
    from nbconvert.preprocessors import ExecutePreprocessor
    from nbformat.v4 import new_code_cell, new_notebook

    client.create_experiment(name, ["a", "b"], reference=reference, budget=400, stop=False)
    notebook = new_notebook(cells=[new_code_cell(CELL.format(url=service.url, name=name))])
    ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    report = client.experiment(name).report()
    live, last = (output["data"]["text/html"] for output in notebook.cells[0].outputs if "data" in output)
    assert f"{name}: 400 of 400 samples made by this run. b " in live
    assert "<table>" in live
    assert live.count("<svg") == 1
    assert report.sentences[0] in unescape(live)
    assert "<table>" in last
    page, _ = HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "run.html").write_text(page)
    nbformat.validate(notebook)
