"""What tests leave behind is seen: `nothing_left` of tests/conftest.py ends a run with an error that names it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from tests.support.left import left_ports, left_processes
from tests.support.processes import until

SLEEPS = "import time; time.sleep(600)"
LEAVES = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {SLEEPS!r}], stdout=subprocess.DEVNULL).pid)
"""


def named() -> bool:
    return any(SLEEPS in command for command in left_processes())


def test_a_process_whose_parent_has_gone_is_named():
    left = int(subprocess.run([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, check=True).stdout)
    until(named)
    os.kill(left, signal.SIGKILL)
    until(lambda: not named())


def test_a_port_that_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in left_ports()
    assert port not in left_ports()
