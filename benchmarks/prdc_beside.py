"""Precision, density and coverage beside those of the package `prdc`, on the same rows, and how long both take.

    pip install prdc --no-deps
    python benchmarks/prdc_beside.py [--data DIR]

`prdc` is by the authors of density and coverage (Naeem et al., 2020), and needs scikit-learn. Without `--data` it uses
the demo's digits; with it also mnist_lenet_generators.npz (`real_feat`, `arm_feat`, `arm_names`) in that directory.
Coverage is that of the samples as they are (our plug-in); prdc has no coverage at another number of samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.threads import limit_threads
from optimist.numerics.real_data import RealData
from optimist.simulation.digits.world import load
from optimist_client.metrics import Coverage, Density, Metric, Precision

NEIGHBOURS = 5
BATCH = 50

Rows = NDArray[np.float64]


def digits() -> Iterator[tuple[str, Rows, Rows]]:
    """Features of the demo's real digits and of 2,000 samples of each generator."""
    world = load(progress=False)
    real = world.features(world.images).astype(np.float64)
    for name, generator in world.generators.items():
        yield f"digits, {name}", real, world.features(generator.sample(2000, 0)).astype(np.float64)


def mnist(data: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """LeNet features of 5,000 real digits and of 5,000 samples of each generator."""
    with np.load(data / "mnist_lenet_generators.npz") as file:
        real = file["real_feat"].astype(np.float64)
        real = real[np.random.default_rng(0).permutation(len(real))[:5000]]
        for name, rows in zip(file["arm_names"], file["arm_feat"], strict=True):
            yield f"MNIST, {name}", real, rows.astype(np.float64)


def ours(real: Rows, rows: Rows) -> tuple[dict[str, float], dict[str, float]]:
    """The three scores with their errors, from batches of 50."""
    data = RealData(real.mean(axis=0), np.cov(real, rowvar=False), real)
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    balls: Any = None
    metrics: list[Metric] = [Precision(), Density(), Coverage(at=len(rows))]
    for declared in metrics:
        balls = balls or make_reference(declared, data)  # the same for all three
        metric = make_metric(declared.model_copy(update={"reference": balls}), Setting(widths={}))
        statistic = metric.statistic()
        for batch in torch.from_numpy(rows).split(BATCH):
            statistic.update(batch)
        found = metric.analyse(statistic)
        values[declared.name], errors[declared.name] = found.plug_in, found.stopping_error
    return values, errors


def main() -> None:
    """Print the table."""
    from prdc import compute_prdc  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory with further samples")
    options = parser.parse_args()
    limit_threads(1)
    table = Table(title=f"k = {NEIGHBOURS}, batches of {BATCH}", box=box.MARKDOWN)
    names = ("precision", "density", "coverage")
    for column in ("samples", "real", "n", *names, "largest difference from prdc", "s", "prdc: s"):
        table.add_column(column, no_wrap=True)
    for name, real, rows in [*digits(), *([] if options.data is None else mnist(options.data))]:
        started = time.perf_counter()
        values, errors = ours(real, rows)
        middle = time.perf_counter()
        theirs: dict[str, float] = compute_prdc(real_features=real, fake_features=rows, nearest_k=NEIGHBOURS)
        taken = middle - started, time.perf_counter() - middle
        apart = max(abs(values[each] - float(theirs[each])) for each in names)
        shown = [f"{values[each]:.4f} ± {errors[each]:.4f}" for each in names]
        table.add_row(name, f"{len(real):,}", f"{len(rows):,}", *shown, f"{apart:.1g}", *(f"{s:.1f}" for s in taken))
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
