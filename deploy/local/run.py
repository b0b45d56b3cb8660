"""Restarts every process of a deployment in turn under load and counts lost batches: `python deploy/local/run.py`.

Two API replicas that require access keys, two scorers, Redis and nginx run as plain processes, with the configuration
of docker/. Workers use the SDK through the proxy, with a key of role worker for one experiment. Each process is
stopped (SIGTERM; SIGQUIT for nginx), as in an upgrade, and started again. No call may fail after the SDK's retries,
and no acknowledged batch may be missing at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from topology import EXPERIMENT, Deployment, Member, topology, until

from optimist_client import Experiment, Optimist, OptimistError

SHIFTS = {"a": 0.0, "b": 0.3, "c": 0.6}
DIMENSION = 32


@dataclass(frozen=True)
class Tell:
    """One acknowledged batch: when it was told, the duration of the tell, and its position in the generator's log."""

    at: float
    seconds: float
    generator: str
    position: int
    repeated: bool


class Load:
    """Workers that ask and tell until `stop` is called."""

    def __init__(self, deployment: Deployment, workers: int, seconds: float) -> None:
        """seconds: what a worker takes for a batch."""
        self.tells: list[Tell] = []
        self.failures: list[str] = []
        self._deployment = deployment
        self._seconds = seconds
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(workers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all workers after their current round."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for_tells(self, tells: int) -> None:
        """Wait until this many more batches are told."""
        enough = len(self.tells) + tells
        until(lambda: len(self.tells) >= enough, f"{tells} more tells")

    def _work(self, number: int) -> None:
        with Optimist(self._deployment.url, api_key=self._deployment.worker) as client:
            experiment = client.experiment(EXPERIMENT)
            while not self._stopping.is_set():
                try:
                    self._round(experiment, f"worker-{number}")
                except OptimistError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")

    def _round(self, experiment: Experiment, worker: str) -> None:
        pick = experiment.ask(worker=worker)
        if pick is None:
            return
        rng = np.random.default_rng(pick.seed)
        rows = rng.normal(SHIFTS[pick.generator], 1.0, (pick.size, DIMENSION))
        time.sleep(self._seconds)
        began = time.monotonic()
        reply = pick.tell(rows)
        now = time.monotonic()
        self.tells.append(Tell(now, now - began, pick.generator, reply.position, reply.duplicate))


def restart(member: Member, load: Load) -> list[str]:
    """Stop and start one process under load. Returns a row of the table."""
    began = time.monotonic()
    code = member.stop()
    stopped = time.monotonic()
    member.start()
    member.wait()
    ready = time.monotonic()
    load.wait_for_tells(20)
    meanwhile = [tell for tell in load.tells if began <= tell.at <= ready]
    longest = max((tell.seconds for tell in load.tells if tell.at >= began), default=0.0)
    cells = (f"{stopped - began:.1f}", f"{ready - stopped:.1f}", f"{len(meanwhile)}", f"{longest:.2f}")
    return [member.name, f"{code}", *cells]


def lost(experiment: Experiment, tells: list[Tell]) -> list[str]:
    """Descriptions of acknowledged batches that are missing or counted twice."""
    report = experiment.report()
    wrong = []
    for row in report.standings:
        positions = sorted(tell.position for tell in tells if tell.generator == row.generator)
        if positions != list(range(1, len(positions) + 1)):
            wrong.append(f"{row.generator}: expected the acknowledged positions to be 1 to {len(positions)}")
        if row.batches != len(positions):
            wrong.append(f"{row.generator}: {len(positions)} batches acknowledged, {row.batches} counted")
    return wrong


def main(workers: int, rounds: int, seconds: float) -> int:
    """Start a deployment, restart all its processes `rounds` times under load, and print the results.

    Returns the exit status: 0 if nothing failed and nothing was lost, else 1.
    """
    table = Table("restarted", "exit", "s to stop", "s until ready", "tells meanwhile", "slowest tell, s")
    reference = (np.zeros(DIMENSION), np.eye(DIMENSION))
    with (
        tempfile.TemporaryDirectory(prefix="optimist-") as folder,
        topology(Path(folder)) as deployment,
        Optimist(deployment.url, api_key=deployment.admin) as client,
    ):
        experiment = client.create_experiment(EXPERIMENT, list(SHIFTS), reference=reference, stop=False)
        load = Load(deployment, workers, seconds)
        try:
            load.wait_for_tells(50)
            for _ in range(rounds):
                for member in deployment.members:
                    table.add_row(*restart(member, load))
        finally:
            load.stop()
        wrong = [*load.failures, *lost(experiment, load.tells)]
    console = Console(width=100)
    console.print(table)
    repeats = sum(tell.repeated for tell in load.tells)
    console.print(
        f"{len(load.tells):,} tells acknowledged by {workers} workers, {repeats} of them repeats; "
        f"{len(load.failures)} failed after retries, {len(wrong) - len(load.failures)} checks of the counts failed."
    )
    for line in wrong:
        console.print(line, style="red", soft_wrap=True)
    return int(bool(wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8, help="number of loops that ask and tell")
    parser.add_argument("--rounds", type=int, default=1, help="number of times that every process is restarted")
    parser.add_argument("--seconds", type=float, default=0.0, help="what a worker takes for a batch")
    given = parser.parse_args()
    sys.exit(main(given.workers, given.rounds, given.seconds))
