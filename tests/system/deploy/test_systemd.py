"""The unit for one machine is one that systemd accepts, and starts a command that there is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.places import ROOT

UNIT = ROOT / "deploy" / "systemd" / "optimist.service"


def test_systemd_accepts_the_unit(tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze on PATH")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.M))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_its_command_has_these_options():
    (command,) = re.findall(r"^ExecStart=\S+ (.+)$", UNIT.read_text(), flags=re.M)
    helped = warm.run(*command.split(), "--help")
    assert helped.returncode == 0, helped.stderr
