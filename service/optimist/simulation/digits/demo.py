"""Runs the demo: the real service on its embedded Redis, and two workers with generators of handwritten digits.

Afterwards the experiment is played once more in memory without pairing, to measure the savings by pairing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from optimist.simulation.digits.generators import TEXTS
from optimist.simulation.digits.world import KERNEL, PROMPT_KERNEL, Digits, load
from optimist.simulation.judges.best import NamedBest
from optimist.simulation.plan import Plan
from optimist.simulation.run import Play
from optimist.simulation.sources import digits
from optimist.simulation.trial import Contender, Trial
from optimist.store import dies_with_parent
from optimist_client import Experiment, Optimist, Report, RetryError
from optimist_client.display import as_text, standings
from optimist_client.layout import Page
from optimist_client.metrics import find
from optimist_client.models import ExperimentConfig
from optimist_client.progress import Line, counted

Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Demo:
    """The user's options. `directory` None uses a temporary directory, `port` None a free port."""

    metric: str = "fid"
    budget: int = 20_000
    seed: int = 0
    port: int | None = None
    directory: Path | None = None

    def run(self, console: Console, keep: bool = False) -> Report:
        """Run until the decision or the end of the budget and return the final report.

        With `keep` the service then keeps running until Ctrl-C.
        """
        digits = load()
        port = self.port or _free_port()
        url = f"http://127.0.0.1:{port}"
        with ExitStack() as stack:
            directory = self.directory or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="optimist-demo-", ignore_cleanup_errors=True))
            )
            serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={directory}"]
            # The server has its own session, so that Ctrl-C does not reach it before the workers give up their picks.
            guarded = [sys.executable, "-I", "-S", dies_with_parent.__file__, str(os.getpid()), *serve]
            server = stack.enter_context(_process(guarded, own_session=True))
            experiment = stack.enter_context(Optimist(url)).create_experiment(
                f"digits-{self.metric}-{self.seed}",
                metric=self.metric,
                **_question(self.metric, digits),
                policy="top-two",
                seed=self.seed,
                budget=self.budget,
            )
            work = [sys.executable, "-m", "optimist.simulation.digits.worker", url, experiment.name]
            workers = [stack.enter_context(_process(work)) for _ in range(2)]
            watched = stack.enter_context(Optimist(url, timeout=5.0, patience=1.0)).experiment(experiment.name)
            report = _watch(watched, workers, console, f"run this to continue: {shlex.join(serve)}")
            console.print(as_text(report), soft_wrap=True)
            if report.decision.decided:
                config = experiment.info.config
                common = "seeds" if config.prompts is None else "prompts and seeds"
                unpaired = play_unpaired(config)
                drawn = len(unpaired.picks) * config.batch_size
                sentence = saved_by_pairing(report.samples, drawn, unpaired.decided, common)
                console.print(Page([sentence]), soft_wrap=True)
            if keep:
                console.print(Page([f"The service keeps running on {url}: stop it with Ctrl-C."]), soft_wrap=True)
                with contextlib.suppress(KeyboardInterrupt):
                    server.wait()
            return report


def _question(metric: str, digits: Digits) -> dict[str, Any]:
    """The config of a metric's experiment: its generators, and the settings that the metric needs."""
    kind = find(metric)
    array = digits.probabilities if "probabilities" in kind.arrays else digits.features
    settings: dict[str, Callable[[], Any]] = {
        "reference": digits.reference,
        "dimension": lambda: array(digits.images[:1]).shape[1],
        "kernel": lambda: KERNEL,
        "prompt_dimension": lambda: digits.embeddings(TEXTS[:1]).shape[1],
        "prompt_kernel": lambda: PROMPT_KERNEL,
        "prompts": lambda: list(TEXTS),
    }
    is_prompted = "prompts" in kind.needs
    generators, of_these = (digits.prompted, {"prompts_are": "list"}) if is_prompted else (digits.family, {})
    return {"generators": list(generators), **of_these, **{name: settings[name]() for name in kind.needs}}


def _watch(
    experiment: Experiment, workers: list[Process], console: Console, advice: str, patience: float = 120.0
) -> Report:
    """Show the standings until the experiment has ended and all batches are scored.

    Raises Retry if the service does not respond for `patience` seconds, RuntimeError if all workers have ended.
    """
    last_seen, warned = time.monotonic(), False
    line = Line(experiment.name, experiment.info.config.budget)
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while True:
            # Check the workers before the report, so that the report includes all their batches.
            idle = all(worker.poll() is not None for worker in workers)
            try:
                report = experiment.report()
            except RetryError:
                if time.monotonic() - last_seen > patience:
                    raise
                if not warned:
                    warned = True
                    sentence = f"The service does not respond. If it was killed, {advice}"
                    console.print(Page([sentence]), style="yellow", soft_wrap=True)
                continue
            last_seen, warned = time.monotonic(), False
            if report.ended and report.scored:
                return report
            if idle and not report.ended:
                raise RuntimeError("all workers ended before the experiment")
            if console.is_terminal:
                live.update(Page([standings(report), headline(report)]))
            else:
                line.update(report.samples, report.decision)
            time.sleep(0.3)


@contextmanager
def _process(command: list[str], own_session: bool = False) -> Generator[Process]:
    """A child process, which is terminated at the end of the context, and killed if it does not end in time."""
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


def play_unpaired(config: ExperimentConfig) -> Play:
    """Play the experiment until it is decided or its budget is spent, with unpaired samples and the same settings."""
    source_set = digits(config.metric.name)
    settings = {"metric": source_set.settings["metric"]} | {
        name: getattr(config, name) for name in ("delta", "tolerance", "warmup", "rescore_growth")
    }
    assert config.budget is not None
    rounds, size = -(-config.budget // config.batch_size), config.batch_size
    plan = Plan(rounds=rounds, batch_size=size, seed=config.seed, stop=True, paired=False)
    contender = Contender(config.policy, {"policy": config.policy})
    trial = Trial(source_set.sources, contender, settings, plan, 0, NamedBest)
    with counted("playing it again with independent seeds", rounds * size, " samples") as step:
        return trial.play(lambda: step(size))


def saved_by_pairing(took: int, samples: int, decided: bool, common: str = "seeds") -> str:
    """The sentence that compares `took`, the paired samples until the decision, with the samples without pairing.

    `decided` says whether these sufficed, `common` what the paired samples shared.
    """
    more = "" if decided else "more than "
    times = samples / took
    return (
        f"With the same {common} it took {took:,} samples. With independent seeds: {more}{samples:,}, "
        f"{more}{f'{times:.1f}' if times < 10 else f'{times:,.0f}'} times as many."
    )


def headline(report: Report) -> str:
    """The current answer, and why it is not final."""
    return f"{report.answer} {report.why}"
