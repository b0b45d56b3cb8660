"""The demo: the real service on its embedded Redis, two worker processes, real generators of handwritten digits."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from optimist.simulation.digits import Digits, load
from optimist_client import Experiment, Optimist, Report

WORKERS = 2


@dataclass(frozen=True)
class Demo:
    """What the user chose. `directory` None keeps the data in a temporary one."""

    budget: int = 20_000
    seed: int = 0
    port: int | None = None
    directory: Path | None = None
    cache: Path | None = None

    def run(self, console: Console, keep: bool = False) -> Report:
        """Run to the decision or the budget and return the final report; `keep` then serves until Ctrl-C."""
        digits = load(self.cache)
        port = self.port or _free_port()
        url = f"http://127.0.0.1:{port}"
        with ExitStack() as stack:
            directory = self.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="optimist-")))
            optimist = stack.enter_context(Optimist(url, patience=120.0))
            command = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}"]
            server = stack.enter_context(_process(command, own_session=True))
            console.print(f"Service on {url}, data in {directory}", soft_wrap=True)
            experiment = self._create(optimist, digits)
            worker = [sys.executable, "-m", "optimist.simulation.worker", url, experiment.name]
            worker += [str(self.cache)] if self.cache else []
            for _ in range(WORKERS):
                stack.enter_context(_process(worker))
            report = self._watch(experiment, console, server, command)
            console.print(summary(report), soft_wrap=True)
            if keep:
                console.print(f"The service stays up on {url}: end it with Ctrl-C.", soft_wrap=True)
                with contextlib.suppress(KeyboardInterrupt):
                    server.wait()
            return report

    def _create(self, optimist: Optimist, digits: Digits) -> Experiment:
        return optimist.create_experiment(
            f"digits-fid-{self.seed}",
            list(digits.generators),
            reference=digits.reference(),
            metric="fid",
            policy="top-two",
            seed=self.seed,
            budget=self.budget,
        )

    def _watch(
        self, experiment: Experiment, console: Console, server: subprocess.Popen[bytes], command: list[str]
    ) -> Report:
        """Draw the standings until the experiment has ended and everything told is scored."""
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            warned = False
            while True:
                report = experiment.report()
                if report.ended and report.scored:
                    return report
                live.update(Group(standings(report), headline(report)))
                if server.poll() is not None and not warned:
                    warned = True
                    console.print(f"[yellow]The service is gone. To go on: {shlex.join(command)}", soft_wrap=True)
                time.sleep(0.3)


def standings(report: Report) -> Table:
    """The generators, best first, as a table."""
    table = Table(title=f"{report.experiment}: {report.samples:,} samples, {report.state}", title_justify="left")
    table.add_column("generator")
    for column in (report.metric.upper(), "± error", "samples", "pick ratio"):
        table.add_column(column, justify="right")
    worst = float("inf")
    ranked = sorted(report.standings, key=lambda s: worst if s.score is None else s.score, reverse=False)
    for row in ranked if report.lower_is_better else reversed(ranked):
        score = "…" if row.score is None else f"{row.score:.3f}"
        error = "…" if row.error is None else f"{row.error:.3f}"
        style = "bold green" if row.generator == report.decision.best else ""
        table.add_row(row.generator, score, error, f"{row.samples:,}", f"{row.pick_ratio:.1%}", style=style)
    return table


def headline(report: Report) -> Text:
    """The answer so far in a sentence."""
    decision = report.decision
    if decision.best is None or decision.confidence is None:
        return Text(decision.reason)
    return Text(f"{decision.best} leads with {decision.confidence:.1%} confidence: {decision.reason}")


def summary(report: Report) -> Group:
    """The final standings, the winner with its interval, and what uniform sampling would have spent."""
    winner = next((row for row in report.standings if row.generator == report.decision.best), None)
    if winner is None or winner.score is None:
        return Group(standings(report), Text("No winner: no generator has an estimate."))
    interval = ""
    if winner.lower is not None and winner.upper is not None:
        interval = f" (interval {winner.lower:.3f} to {winner.upper:.3f})"
    verdict = "is best" if report.decision.decided else "leads, undecided at the budget"
    confidence = "" if report.decision.confidence is None else f" with {report.decision.confidence:.1%} confidence"
    lines = [
        f"{winner.generator} {verdict}{confidence} after {report.samples:,} samples: "
        f"{report.metric.upper()} {winner.score:.3f}{interval}."
    ]
    if report.uniform_samples is not None:
        ratio = report.uniform_samples / report.samples
        lines.append(f"Uniform sampling would have spent about {report.uniform_samples:,} samples ({ratio:.1f} times).")
    return Group(standings(report), *(Text(line) for line in lines))


@contextmanager
def _process(command: list[str], own_session: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is asked to end, then made to. In its own session Ctrl-C does not reach it: it ends last."""
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=quiet, stdout=quiet, start_new_session=own_session)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
