"""The base install is light: what it requires, and what importing the SDK loads."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tomllib

import pytest

import optimist_client
from optimist_client import models
from tests.support.places import ROOT

PROJECT = ROOT / "pyproject.toml"
HEAVY = {"torch", "redis", "fastapi", "uvicorn", "scipy", "pandas", "matplotlib", "tqdm", "rich", "transformers"}


def test_the_base_install_requires_three_packages():
    required = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    assert {re.match(r"[\w-]+", line)[0] for line in required} == {"httpx", "numpy", "pydantic"}


def test_importing_the_sdk_loads_nothing_heavy():
    """Nor numpy, for who only looks; pydantic and the models when the first one is used, by whatever way."""
    # httpx itself loads rich for its command line, where that is installed.
    code = f"""
import sys
sys.modules["rich"] = None
from optimist_client import Optimist, models
Optimist("http://127.0.0.1:1").close()
assert not [name for name in sys.modules if name.startswith(("pydantic", "numpy"))]
assert "Report" in dir(models) and "pydantic" in sys.modules
import optimist_client.embedders
loaded = {{name.partition(".")[0] for name in sys.modules if sys.modules[name] is not None}}
assert not loaded & {HEAVY}, loaded & {HEAVY}
import optimist
assert optimist.Optimist is Optimist
sys.modules["torch"] = None
try:
    optimist.Evaluation
except ModuleNotFoundError as error:
    assert "[scoring]" in str(error), error
else:
    raise AssertionError("Evaluation without torch")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_package_names_is_there():
    assert sorted(optimist_client.__all__) == optimist_client.__all__
    assert all(hasattr(optimist_client, name) for name in optimist_client.__all__)


def test_the_models_are_there_by_every_way():
    names: dict[str, object] = {}
    exec("from optimist_client.models import *", names)
    assert set(dir(models)) == set(models.__all__) <= set(names)
    assert models.Report is names["Report"] is optimist_client.Report
    change = models.GeneratorChange(state="paused")
    assert pickle.loads(pickle.dumps(change)) == change
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        models.nothing  # noqa: B018
