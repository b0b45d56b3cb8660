"""Without the folder of routing, everything else goes on: a goal is one folder, which a reader can skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.processes import serving

pytestmark = pytest.mark.long

ENVIRONMENT = {"OPTIMIST_METRICS": "without_routing", "PYTHONPATH": ":".join(sys.path)}
IN_MEMORY = """
import without_routing
import numpy as np
from optimist import run, simulate
rng = np.random.default_rng(0)
means = {"a": 0.0, "b": 3.0}
makers = {name: lambda size, seed, name=name: rng.normal(means[name], 1.0, (size, 1)) for name in means}
report = run(makers, metric="mean", direction="maximize", budget=400, progress=False)
samples = {name: maker(200, 0) for name, maker in makers.items()}
result = simulate(samples, metric="mean", policies=["ucb"], rounds=20, trials=1)
print(report.state, report.decision.best, len(result.summaries))
"""


def test_in_memory_and_in_simulations():
    environment = os.environ | ENVIRONMENT
    done = subprocess.run([sys.executable, "-c", IN_MEMORY], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["decided", "b", "1"]


def test_in_the_service(tmp_path: Path):
    # Not a fork of a process that has imported everything.
    new = {"environment": ENVIRONMENT, "popen": subprocess.Popen}
    with serving(tmp_path, **new) as service, Optimist(service.url) as client:
        experiment = client.create_experiment("x", ["a", "b"], metric=Mean(higher_is_better=True), budget=400)
        for pick in experiment.picks(worker="one"):
            mean = {"a": 0.0, "b": 3.0}[pick.generator]
            pick.tell(np.random.default_rng(pick.seed).normal(mean, 1.0, (pick.size, 1)))
        report = experiment.report()
    assert (report.state, report.decision.best) == ("decided", "b")
