"""The rooms keep to themselves, and the documents say what is so."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from optimist.bounds import BOUNDS, make_bound
from optimist.metrics import Reference, make_metric
from optimist.policies import NAMES
from optimist_client.models import BOUND_OPTIONS, ExperimentConfig

ROOT = Path(__file__).parent.parent


def test_imports_point_one_way():
    contracts = subprocess.run([Path(sys.executable).parent / "lint-imports"], capture_output=True, text=True, cwd=ROOT)
    assert contracts.returncode == 0, contracts.stdout


def test_the_wire_knows_the_bounds_options_and_policies_that_exist():
    assert set(BOUND_OPTIONS) == set(BOUNDS)
    fields = ExperimentConfig.model_fields
    assert set(fields["policy"].annotation.__args__) == set(NAMES)
    assert set(fields["bound"].annotation.__args__) == set(BOUNDS)
    metric = make_metric("fid", reference=Reference([0.0], [[1.0]]))
    for bound, option in itertools.product(BOUNDS, set().union(*BOUND_OPTIONS.values())):
        if option in BOUND_OPTIONS[bound]:
            make_bound(bound, metric, 0.05, **{option: 0.5})
        else:
            with pytest.raises(ValueError, match=option):
                make_bound(bound, metric, 0.05, **{option: 0.5})


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
