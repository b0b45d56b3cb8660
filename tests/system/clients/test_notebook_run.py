"""A run in a real notebook kernel: its cell shows the standings, the chart and the decision."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.v4 import new_code_cell, new_notebook

from optimist_client import Optimist
from tests.support.processes import Service

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
    client.create_experiment(name, ["a", "b"], reference=reference, budget=400, stop=False)
    notebook = new_notebook(cells=[new_code_cell(CELL.format(url=service.url, name=name))])
    ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    report = client.experiment(name).report()
    live, last = (output["data"]["text/html"] for output in notebook.cells[0].outputs if "data" in output)
    assert f"{name}: 400 of 400 samples told by this run. b " in live
    assert "<table>" in live
    assert live.count("<svg") == 1
    assert report.sentences[0] in unescape(live)
    assert "<table>" in last
    page, _ = HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "run.html").write_text(page)
    nbformat.validate(notebook)
