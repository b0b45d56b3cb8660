"""Ingestion: samples per second into the kernel statistic, the published per-sample method, and the machine's GEMM.

    python benchmarks/ingestion.py [--quick]

"Ours" is `KernelStatistic.update` on float32 rows (n, 768), from the rows to S = Σ φφᵀ, including conversion, checks,
cos and sin. The published method computes every φφᵀ of a few samples with `torch.bmm` and adds them up; it is timed on
few samples and scaled. The GEMM is the best of several float64 products of this run, and both columns relate to it:
"useful" counts the arithmetic of a triangle, n·w·(w + 1) for S and 2·n·d·r for ωᵀx; "as GEMM" counts S as a whole
product, 2·n·w². The slope is that of log time over log n; 1 means linear. The last table shows the errors of single
precision: S from float32 products of 1024 rows, added up in float64, compared with float64 throughout.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.vendi.spectrum import log_vendi
from optimist.metrics.vendi.statistic import BLOCK, KernelStatistic

DIMENSION = 768
SIZES = {2000: (10_000, 30_000, 100_000), 4000: (10_000, 30_000, 100_000), 8000: (10_000, 100_000)}
QUICK = {2000: (4_000, 8_000, 16_000), 4000: (8_000, 16_000)}


def seconds(action: Callable[[], object], repeats: int = 1) -> float:
    """The shortest time of several runs."""
    taken: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def gemm_rate(dtype: torch.dtype, width: int = 2000) -> float:
    """Floating point operations per second of a square product."""
    factor = torch.ones(width, width, dtype=dtype)
    return 2.0 * width**3 / seconds(lambda: factor @ factor, 4)


def features_of(count: int) -> Tensor:
    """Rows (count, 768) float32 whose variances follow a power law, as those of embeddings do."""
    scales = 4.0 * torch.arange(1, DIMENSION + 1) ** -0.6
    return torch.from_numpy(np.random.default_rng(0).standard_normal((count, DIMENSION), np.float32)) * scales


def published(feature_map: GaussianFourier, rows: Tensor, together: int) -> float:
    """Seconds per sample with outer products, `together` of them in memory at once."""
    moment = torch.zeros(feature_map.width, feature_map.width, dtype=torch.float64)

    def add() -> None:
        features = feature_map(rows[:together].double())
        moment.add_(torch.bmm(features[:, :, None], features[:, None, :]).sum(0))

    return seconds(add, 3) / together


def ours(feature_map: GaussianFourier, rows: Tensor) -> float:
    """Seconds to ingest all rows."""
    return seconds(lambda: KernelStatistic(feature_map).update(rows))


def gaussian_rows(dimension: int, count: int) -> tuple[float, float]:
    """Samples per second into a scatter (d, d), and the rates of useful and of whole arithmetic."""
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((count, dimension), np.float32))
    rate = count / seconds(lambda: GaussianStatistic(dimension).update(rows), 2)
    return rate, rate * 2.0 * dimension**2


def single_precision(feature_map: GaussianFourier, rows: Tensor) -> dict[str, float]:
    """The relative errors of S and its scores if the products are of float32 blocks."""
    exact = KernelStatistic(feature_map)
    exact.update(rows)
    moment = torch.zeros_like(exact.moment)
    for block in rows.split(BLOCK):
        features = feature_map(block.double()).float()
        moment += (features.T @ features).double()
    spectra = [torch.linalg.eigvalsh(each / len(rows)).clamp_min(0.0) for each in (exact.moment, moment)]
    errors = {"‖S‖_F": float((moment - exact.moment).norm() / exact.moment.norm())}
    for order in (0.5, 1.0, 2.0):
        scores = [math.exp(log_vendi(spectrum, order)) for spectrum in spectra]
        errors[f"Vendi_{order:g}"] = abs(scores[1] / scores[0] - 1.0)
    return errors


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples and widths; takes seconds")
    sizes = QUICK if parser.parse_args().quick else SIZES
    console = Console(width=130)
    rows = features_of(max(max(counts) for counts in sizes.values()))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
    table = Table(title=f"Kernel ingestion, d = {DIMENSION}, float64 ({machine})", title_justify="left")
    for column in (
        "2r",
        "n",
        "seconds",
        "samples/s",
        "published/s",
        "times",
        "GEMM Gflop/s",
        "useful",
        "as GEMM",
        "slope",
    ):
        table.add_column(column, justify="right")
    for width, counts in sizes.items():
        feature_map = GaussianFourier.draw(DIMENSION, width // 2, 8.0)
        outer = published(feature_map, rows, together=4)
        taken = []
        for count in counts:
            peak = gemm_rate(torch.float64)
            taken.append(ours(feature_map, rows[:count]))
            rate = count / taken[-1]
            angles = 2.0 * DIMENSION * (width // 2)
            useful, whole = rate * (width * (width + 1.0) + angles), rate * (2.0 * width**2 + angles)
            slope = f"{np.polyfit(np.log(counts), np.log(taken), 1)[0]:.3f}" if count == counts[-1] else ""
            table.add_row(
                f"{width}",
                f"{count:,}",
                f"{taken[-1]:.2f}",
                f"{rate:,.0f}",
                f"{1.0 / outer:,.1f}",
                f"{rate * outer:.0f}",
                f"{peak / 1e9:.0f}",
                f"{useful / peak:.0%}",
                f"{whole / peak:.0%}",
                slope,
            )
    console.print(table)
    rate, whole = gaussian_rows(2048, 4_000 if sizes is QUICK else 20_000)
    share = whole / gemm_rate(torch.float64)
    console.print(f"Gaussian statistic, d = 2048: {rate:,.0f} samples/s, {share:.0%} of the GEMM.")
    ratio = gemm_rate(torch.float32) / gemm_rate(torch.float64)
    console.print(
        f"float32 products, added up in float64, 2r = 2000, n = 8,000 (GEMM {ratio:.1f}×), have these relative errors:"
    )
    for name, sample in {"all rows distinct": rows[:8_000], "500 rows, repeated": rows[:500].repeat(16, 1)}.items():
        errors = single_precision(GaussianFourier.draw(DIMENSION, 1000, 8.0), sample)
        console.print(f"  {name}: " + ", ".join(f"{number} {error:.1e}" for number, error in errors.items()))


if __name__ == "__main__":
    main()
