"""What all examples share: their options, and a service to talk to."""

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
    """Options of every example; `about` is its docstring, `budget` its default."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--url", help="a service that runs; without it one is started, and ended, here")
    parser.add_argument("--name", help="name of the experiment, where the service may have one of the example's own")
    parser.add_argument("--budget", type=int, default=budget, help=f"samples in all at most (default {budget:,})")
    return parser


@contextmanager
def serving(url: str | None = None) -> Iterator[str]:
    """The URL of the service: the one given, else of one that lives, with its data, as long as this context."""
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
            yield f"http://127.0.0.1:{port}"  # calls of the SDK wait until it is up
        finally:
            service.terminate()
            service.wait(30)


def scored_report(experiment: Experiment) -> Report:
    """The report once all that was told is scored."""
    while not (report := experiment.report()).scored:
        time.sleep(0.1)
    return report
