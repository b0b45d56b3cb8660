"""What all examples share: their options, a service to talk to, and the last words."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from optimist_client import Experiment, Optimist


def options(about: str, budget: int) -> argparse.ArgumentParser:
    """Options of every example; `about` is its docstring, `budget` its default."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--url", help="a service that runs; without it one is started, and ended, here")
    parser.add_argument("--name", help="name of the experiment, where the service may have one of the example's own")
    parser.add_argument("--budget", type=int, default=budget, help=f"samples in all at most (default {budget:,})")
    return parser


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a service that lives, with its data, as long as this context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        command = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}"]
        service = subprocess.Popen(command)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            service.terminate()
            service.wait(30)


@contextmanager
def connected(url: str | None) -> Iterator[Optimist]:
    """A connection to the service at `url`, or to one of its own; its calls wait until the service is up."""
    with nullcontext(url) if url else serving() as found, Optimist(found) as optimist:
        yield optimist


def print_outcome(experiment: Experiment) -> None:
    """Print the standings, best first, and the decision, once all that was told is scored."""
    while not (report := experiment.report()).scored:
        time.sleep(0.1)
    best_first = sorted(
        (row for row in report.standings if row.score is not None),
        key=lambda row: row.score if report.lower_is_better else -row.score,
    )
    for row in best_first:
        print(f"{row.generator:>16}  {row.score:10.3f} ± {row.error:.3f}  {row.samples:6,} samples")
    decision = report.decision
    print(f"{report.state}: {decision.best} after {report.samples:,} samples ({decision.reason})")
