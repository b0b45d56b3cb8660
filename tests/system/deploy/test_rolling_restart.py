"""The deployment as plain processes: every one of them restarted under load, nothing failed, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.processes import children, is_alive, until

SCRIPT = ROOT / "deploy" / "local" / "run.py"
NAMES = ("api-1", "api-2", "scorer-1", "scorer-2", "redis", "proxy")
pytestmark = [
    pytest.mark.faults,
    pytest.mark.long,
    pytest.mark.skipif(not (shutil.which("nginx") or shutil.which("/usr/sbin/nginx")), reason="needs nginx"),
]


def test_a_rolling_restart_loses_nothing():
    command = [sys.executable, SCRIPT, "--workers=4", "--seconds=0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in NAMES:
        assert f"│ {name}" in done.stdout
    assert "0 failed after retries, 0 checks" in done.stdout


def test_nothing_runs_on_when_the_script_is_killed(tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, SCRIPT], stdout=subprocess.DEVNULL, env=environment) as script:
        until(lambda: len(children(script.pid)) == len(NAMES))
        members = children(script.pid)
        script.kill()
    until(lambda: not any(map(is_alive, members)))
