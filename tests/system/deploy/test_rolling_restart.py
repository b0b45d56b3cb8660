"""The deployment as plain processes: every one of them restarted under load, nothing failed, nothing lost."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.support.places import ROOT

SCRIPT = ROOT / "deploy" / "local" / "run.py"


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.skipif(not (shutil.which("nginx") or shutil.which("/usr/sbin/nginx")), reason="needs nginx")
def test_a_rolling_restart_loses_nothing():
    command = [sys.executable, SCRIPT, "--workers=4", "--seconds=0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("api-1", "api-2", "scorer-1", "scorer-2", "redis", "proxy"):
        assert f"│ {name}" in done.stdout
    assert "0 failed after retries, 0 checks" in done.stdout
