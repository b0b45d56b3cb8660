"""The rooms keep to themselves, and the documents say what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from optimist.numerics.bounds import bound_options
from optimist.numerics.registry import METRICS
from optimist.policies import NAMES
from optimist_client.config import BOUND_OPTIONS, METRIC_FIELDS, TENSORS, BoundName, MetricName, PolicyName

ROOT = Path(__file__).parent.parent


def test_imports_point_one_way():
    contracts = subprocess.run([Path(sys.executable).parent / "lint-imports"], capture_output=True, text=True, cwd=ROOT)
    assert contracts.returncode == 0, contracts.stdout


def test_the_wire_knows_the_bounds_options_and_policies_that_exist():
    assert set(get_args(PolicyName)) == set(NAMES)
    assert set(get_args(MetricName)) == set(METRICS) == set(METRIC_FIELDS) == set(BOUND_OPTIONS) == set(TENSORS)
    for metric, bounds in BOUND_OPTIONS.items():
        assert {bound: set(options) for bound, options in bound_options(metric).items()} == bounds
        assert set(bounds) <= set(get_args(BoundName))


def test_the_readme_in_memory_example_runs(capsys: pytest.CaptureFixture[str]):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    in_memory = next(example for example in examples if "Evaluation" in example)
    exec(compile(in_memory, "README.md", "exec"), {})
    assert "best='good'" in capsys.readouterr().out


def test_every_room_is_on_the_architecture_page():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [path.name for path in (ROOT / "service" / "optimist").iterdir() if not path.name.startswith("_")]
    missing = [room for room in rooms if f"{room}/" not in page and room not in page]
    assert not missing
