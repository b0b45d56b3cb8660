"""Shared by all examples: command line options, and a service."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from optimist_client import Experiment, Report


def options(about: str | None, budget: int) -> argparse.ArgumentParser:
    """The options of every example; `about` is its docstring, `budget` its default budget."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--url", help="URL of a running service; by default the example starts and stops its own")
    parser.add_argument("--name", help="name of the experiment, if the service already has one with the default name")
    parser.add_argument("--budget", type=int, default=budget, help=f"maximum number of samples (default {budget:,})")
    return parser


@contextmanager
def serving(url: str | None = None) -> Iterator[str]:
    """The given URL, or that of a service which runs, with temporary data, as long as this context."""
    if url is not None:
        yield url
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        command = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}"]
        service = subprocess.Popen(command)
        try:
            yield f"http://127.0.0.1:{port}"  # the SDK's calls wait until the service is ready
        finally:
            service.terminate()
            service.wait(30)


def scored_report(experiment: Experiment) -> Report:
    """The report, once everything that was told is scored."""
    while not (report := experiment.report()).scored:
        time.sleep(0.1)
    return report
