"""What a mixture costs beside an estimate: processor seconds and bytes of an update, as the scorer makes it.

    python benchmarks/mixture_costs.py [--generators 20] [--features 1000] [--samples 2500] [--metrics rke mmd fid]

By default 20 generators with 2r = 2000 columns of random Fourier features (FID: as many columns), each with more
samples than columns, so that its statistic no longer holds rows. A scorer may hold the statistics of all generators
already; those that it does not hold it reads as copies, of which the table shows one: the snapshot's bytes, and the
seconds to take it up. The generators share samples by index.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.estimation.artefacts import mixture_of
from optimist.estimation.question import Question, prepared, with_real_data
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.curves import curve_point
from optimist.metrics.threads import limit_threads
from optimist.records import LogEntry
from optimist.scoring.cached import CachedStatistic
from optimist_client import tensors

DIMENSION = 32
BATCH = 250


def question(metric: str, features: int) -> tuple[Question, int]:
    """A metric with 2r columns, and the columns of its samples."""
    rng = np.random.default_rng(0)
    if metric == "fid":
        columns = 2 * features
        return Question(prepared(with_real_data(metric, reference=(np.zeros(columns), np.eye(columns))))), columns
    kernel = {"name": "gaussian", "sigma": 8.0, "features": features}
    given = {"reference": rng.standard_normal((2000, DIMENSION))} if metric == "mmd" else {}
    return Question(prepared(with_real_data(metric, kernel=kernel, **given))), DIMENSION


def told(generator: int, columns: int, samples: int) -> list[LogEntry]:
    """The log of a generator: normal samples around a centre of its own."""
    rng = np.random.default_rng(generator)
    entries = []
    for seq, start in enumerate(range(0, samples, BATCH), start=1):
        size = min(BATCH, samples - start)
        rows = rng.standard_normal((size, columns)) * (1.0 + 0.02 * generator)
        rows[:, generator % columns] += 3.0
        arrays = {"features": rows}
        body, digest = tensors.encode(arrays), tensors.digest(arrays)
        entries.append(LogEntry(seq, seq, size, digest, body, indices=(start, size)))
    return entries


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """The result, and the processor seconds of this thread."""
    begun = time.thread_time()
    result = work(*arguments)
    return result, time.thread_time() - begun


def peak() -> int:
    """The most bytes that this process ever had in memory."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def row(metric: str, generators: int, features: int, samples: int) -> list[str]:
    """One metric: the estimate of one generator, then the mixture of all."""
    asked, columns = question(metric, features)
    bound = asked.bound_for({"features": columns})
    estimators: dict[str, StreamingEstimator] = {}
    cached = CachedStatistic(bound, 1e9, paired=asked.is_paired)
    for generator in range(generators):
        cached = CachedStatistic(bound, 1e9, paired=asked.is_paired)
        cached.apply(told(generator, columns, samples))
        estimators[f"g{generator}"] = cached.estimator
    _, estimate = timed(cached.estimator.estimate)
    body, _ = timed(cached.freeze)
    _, thawing = timed(partial(CachedStatistic.thaw, paired=asked.is_paired), body, cached.seq, bound, 1e9)
    before = peak()
    mixture, seconds = timed(mixture_of, estimators)
    payload = json.dumps(mixture.to_dict())
    cells = [metric, f"{estimate:.2f} s", f"{cached.bytes / 2**20:.0f} MiB", f"{seconds:.2f} s"]
    cells += [f"{seconds / estimate:.1f}", f"{(peak() - before) / 2**20:.0f} MiB"]
    cells += [f"{len(payload) / 1024:.1f} KiB", f"{len(curve_point(mixture, 0.05)):,} B"]
    return [*cells, f"{len(body) / 2**20:.0f} MiB", f"{thawing:.2f} s"]


def main() -> None:
    """Print one row for each metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", type=int, default=20)
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--metrics", nargs="+", default=["rke"], choices=["rke", "vendi", "mmd", "fid"])
    options = parser.parse_args()
    limit_threads(1)
    title = f"{options.generators} generators, {2 * options.features} columns, {options.samples} samples each"
    table = Table(title=title, box=box.SIMPLE)
    for head in (
        "metric",
        "estimate",
        "statistic",
        "mixture",
        "times",
        "memory",
        "stored",
        "point",
        "snapshot",
        "copy",
    ):
        table.add_column(head, justify="left" if head == "metric" else "right")
    for metric in options.metrics:
        table.add_row(*row(metric, options.generators, options.features, options.samples))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
