"""What the service costs whoever generates: the share of a worker's time that it spends waiting for the next pick.

    python benchmarks/waiting.py [CASE …] [--against CHECKOUT] [--seconds 50] [--ms 50] [--workers 4] [--turns 1]
        [--decide | --samples N] [--fixed-size]

A real service, and workers by the SDK's own loop (`Experiment.run`), whose generators take `--ms` for each sample. A
worker waits from the end of generating a pick until it begins with the next one. With `--against` the services and
SDKs of both checkouts take turns. "first pick" is the time from the answer to the experiment's creation until some
generator is called; "stale" the share of picks that were made from older estimates than those due; "scorer", "API" and
"Redis" are milliseconds of processor time per round. With `--decide` the experiments run until they are decided:
"÷ ideal" is the time that this took, divided by the time in which the workers would have generated the same samples.
With `--samples` they end when so many have been told, so that versions score equally many: later ones cost more. With
`--fixed-size` every pick has the size of a batch, in versions whose picks grow, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client import Optimist
from optimist_client.config import ExperimentConfig
from optimist_client.metrics import FID, RKE, Cosine, Gaussian, Mean, Metric, Vendi
from raw import checkouts_of, cpu_seconds, free_port, header, line, process, redis_of, scorer_of, serve

HERE = Path(__file__).resolve().parents[1]
MODES, STEP = 30, 0.05


@dataclass(frozen=True)
class Case:
    """An experiment: its metric, and the generators, of which the first one is the best."""

    generators: int
    dimension: int
    metric: Callable[[int], Metric]
    make: Callable[[int, NDArray[np.float64]], NDArray[np.float64]]
    """The rows of a generator (its place) from normal ones (n, d); with dimension 1 numbers (n, 1)."""

    def batch(self, place: int, size: int, seed: int) -> NDArray[np.float32]:
        """The rows (size, d), or numbers (size), of a generator from this seed."""
        normal = np.random.default_rng(seed).standard_normal((size, self.dimension))
        rows = self.make(place, normal).astype(np.float32)
        return rows[:, 0] if self.dimension == 1 else rows


def _scaled(place: int, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal rows of variances 1/k, which are larger the worse the generator."""
    return (1.0 + STEP * place) * normal * np.arange(1, normal.shape[1] + 1) ** -0.5 + 0.05


def _clustered(place: int, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows around modes, fewer the worse the generator."""
    centres = np.random.default_rng(7).standard_normal((MODES, normal.shape[1]))
    of = np.floor((MODES - place) * (normal[:, 0] * 1e4 % 1.0)).astype(int)
    return centres[of] + 0.35 * normal


def _shifted(place: int, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.3 * normal - 0.02 * place


_KERNEL = Gaussian(sigma=20.0, features=2000)
CASES = {
    "fid": Case(5, 2048, lambda _: FID(reference="real"), _scaled),
    "fid20": Case(20, 2048, lambda _: FID(reference="real"), _scaled),
    "vendi": Case(5, 768, lambda d: Vendi(kernel=_KERNEL, dimension=d), _clustered),
    "rke": Case(5, 768, lambda d: RKE(kernel=_KERNEL, dimension=d), _clustered),
    "text": Case(5, 384, lambda d: RKE(kernel=Cosine(), dimension=d), _clustered),
    "means": Case(20, 1, lambda _: Mean(), _shifted),
}


@dataclass(frozen=True)
class Played:
    """What one run has shown."""

    rounds: int
    samples: int
    seconds: float
    """Of the whole run."""
    generating: float
    """Seconds that all workers together spent in generators."""
    waits: list[float]
    """Seconds between the end of a pick and the beginning of the next one."""
    first: float
    """Seconds from the answer to the creation until a generator was called."""
    best: str | None
    """The generator named, where the experiment was decided."""

    @property
    def waiting(self) -> float:
        """The share of the workers' time that they spent waiting."""
        waited = sum(self.waits)
        return waited / (waited + self.generating)


def play(port: int, name: str, options: argparse.Namespace) -> Played:
    """Create the experiment of a case, and let workers run it."""
    case = CASES[name]
    names = [f"g{place}" for place in range(case.generators)]
    config: dict[str, Any] = {"max_wait": options.max_wait, "stop": options.decide, "seed": options.seed}
    if options.samples:
        config["budget"] = options.samples
    if options.fixed_size and "grow" in ExperimentConfig.model_fields:
        config["grow"] = False
    waits, own = list[float](), threading.local()
    sizes, begun = list[tuple[int, float]](), list[float]()

    def generator(place: int) -> Callable[[int, int], NDArray[np.float32]]:
        def generate(size: int, seed: int) -> NDArray[np.float32]:
            start = time.perf_counter()
            if hasattr(own, "ended"):
                waits.append(start - own.ended)
            else:
                begun.append(start)
            rows = case.batch(place, size, seed)
            time.sleep(max(0.0, start + size * options.ms / 1000 - time.perf_counter()))
            own.ended = time.perf_counter()
            sizes.append((size, own.ended - start))
            return rows

        return generate

    with Optimist(f"http://127.0.0.1:{port}") as optimist:
        metric = case.metric(case.dimension)
        if "real" in str(metric):
            real = case.make(0, np.random.default_rng(1).standard_normal((4 * case.dimension, case.dimension)))
            optimist.create_reference("real", mean=real.mean(0), covariance=np.cov(real.T, bias=True))
        experiment = optimist.create_experiment(f"e{options.seed}", names, metric=metric, **config)
        created = time.perf_counter()
        functions = {each: generator(place) for place, each in enumerate(names)}
        timeout = None if options.decide or options.samples else options.seconds
        report = experiment.run(functions, workers=options.workers, timeout=timeout, progress=False)
        seconds = time.perf_counter() - created
    best = report.decision.best if report.decision.decided else None
    generating = sum(taken for _, taken in sizes)
    return Played(len(sizes), sum(size for size, _ in sizes), seconds, generating, waits, min(begun) - created, best)


def measure(checkout: Path, name: str, options: argparse.Namespace) -> dict[str, float | str]:
    """Start the service of a checkout, and play a case on it by that checkout's SDK. Returns the cells of a row."""
    with ExitStack() as stack:
        directory, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="waiting-")), free_port()
        started = time.perf_counter()
        api = stack.enter_context(process(serve(port, directory), port, checkout))
        listening = time.perf_counter() - started
        pids = {"scorer": scorer_of(api), "API": api, "Redis": redis_of(api)}
        _wait_until_ready(port)
        before = {role: cpu_seconds(pid) for role, pid in pids.items()}
        player = [sys.executable, __file__, *sys.argv[1:], f"--play={port}:{name}", f"--seed={options.seed}"]
        found = {"PYTHONPATH": f"{checkout}/service:{checkout}/clients/python:{HERE}/benchmarks"}
        output = subprocess.run(player, env=os.environ | found, check=True, capture_output=True, text=True).stdout
        played = Played(**json.loads(output.splitlines()[-1]))
        used = {role: cpu_seconds(pid) - before[role] for role, pid in pids.items()}
        peak = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pids['scorer']}/status").read_text())[0]) // 1024
        fresh, stale = _picks(port)
    waits = np.array(played.waits) * 1e3
    ideal = played.generating / options.workers
    decided = {"decided": f"{played.best}", "÷ ideal": f"{played.seconds / ideal:.2f}"}
    return {
        "case": name,
        "checkout": checkout.name,
        "load": f"{os.getloadavg()[0]:.1f}",
        "listens, s": f"{listening:.1f}",
        "first pick, s": f"{played.first:.2f}",
        "s": f"{played.seconds:.1f}",
        "rounds": f"{played.rounds}",
        "samples": f"{played.samples}",
        "waiting": f"{played.waiting:.1%}",
        "p50, p99, ms": f"{np.median(waits):.0f}, {np.quantile(waits, 0.99):.0f}",
        "stale": f"{stale / (fresh + stale):.1%}",
        **{f"{role}, ms": f"{1e3 * seconds / played.rounds:.1f}" for role, seconds in used.items()},
        "scorer's peak, MiB": f"{peak}",
        **(decided if options.decide else {}),
    }


def _picks(port: int) -> tuple[float, float]:
    """The numbers of fresh and of stale picks, by the service's own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    counts = dict(re.findall(r'optimist_picks\w*\{stale="(\w+)"\} (\S+)', text))
    return float(counts["false"]), float(counts.get("true", 0.0))


def _wait_until_ready(port: int) -> None:
    """Wait until the service says that it can score."""
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
        except urllib.error.HTTPError:
            time.sleep(0.1)
        else:
            return


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--against", type=Path, help="another checkout, whose service and SDK take turns")
    parser.add_argument("--seconds", type=float, default=50.0, help="length of a run that need not be decided")
    parser.add_argument("--ms", type=float, default=50.0, help="what a sample takes")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first turn; the next one has the next")
    parser.add_argument("--max-wait", type=float, default=2.0)
    parser.add_argument("--decide", action="store_true", help="run until the experiment is decided")
    parser.add_argument("--samples", type=int, help="run until so many are told, instead of for some seconds")
    parser.add_argument("--fixed-size", action="store_true", help="picks do not grow")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        port, name = options.play.split(":")
        print(json.dumps(asdict(play(int(port), name, options))))
        return
    checkouts = checkouts_of(options.against)
    shares: dict[tuple[str, Path], list[str]] = {}
    is_first, seed = True, options.seed
    for turn in range(options.turns):
        options.seed = seed + turn
        for name in options.cases or CASES:
            for checkout in checkouts[:: -1 if turn % 2 else 1]:
                row = measure(checkout, name, options)
                if is_first:
                    header(*row)
                    is_first = False
                line(*map(str, row.values()))
                shares.setdefault((name, checkout), []).append(str(row["÷ ideal" if options.decide else "waiting"]))
    for (name, checkout), found in shares.items():
        middle = statistics.median(float(each.rstrip("%")) for each in found)
        print(f"{name} {checkout.name}: median {middle:.2f}{'' if options.decide else ' % waiting'}")


if __name__ == "__main__":
    main()
