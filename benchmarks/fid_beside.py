"""FID of one set of features beside what other tools make of the same rows (docs/fid.md).

    python benchmarks/fid_beside.py [--data DIR]

*pytorch-fid* is the formula of that package, and of clean-fid, torchmetrics and torch-fidelity: sample covariances with
n − 1, and tr √(Σ Σ_r). *FID∞* (Chong and Forsyth, 2020) is the line through that formula at 15 numbers of samples from
n/10 to n, at 1/n = 0. *ours* is the de-biased estimate with half of its 95 % interval. The truth of the digits is the
estimate from 50,000 other samples. `--data` is a directory with `cifar10_ref2048_stats.npz` and
`cifar10_ref2048_arms.npz`, real features that are not part of the project; nothing is known of their truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

import optimist
from optimist.metrics.threads import limit_threads
from optimist.simulation.digits.world import load

Rows = NDArray[np.float64]
Moments = tuple[Rows, Rows]
"""Mean (d,) and covariance (d, d) of real features, or the root of the covariance in its place."""
SIZES = 15


def rooted(moments: Moments) -> Moments:
    """The mean, and the symmetric root of the covariance."""
    values, vectors = np.linalg.eigh(moments[1])
    return moments[0], (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def pytorch_fid(rows: Rows, moments: Moments) -> float:
    """The Fréchet distance of rows (n, d) by their sample covariance, by the root of that of the reference."""
    mean, root = moments
    centred = (rows - rows.mean(axis=0)) @ root
    spectrum = np.linalg.eigvalsh(centred @ centred.T if len(rows) < len(mean) else centred.T @ centred)
    spread = np.sqrt(np.clip(spectrum, 0, None) / (len(rows) - 1)).sum()
    shift = rows.mean(axis=0) - mean
    return float(shift @ shift + rows.var(axis=0, ddof=1).sum() + (root**2).sum() - 2 * spread)


def infinite(rows: Rows, moments: Moments) -> float:
    """FID∞ of rows (n, d), by the root of the covariance of the reference."""
    rng = np.random.default_rng(0)
    sizes = np.linspace(len(rows) // 10, len(rows), SIZES).astype(int)
    scores = [pytorch_fid(rows[rng.permutation(len(rows))[:size]], moments) for size in sizes]
    return float(np.polyfit(1 / sizes, scores, 1)[1])


def digits() -> Iterator[tuple[str, Rows, Moments, float | None]]:
    """Features (d = 64) of 10,000 samples of two generators of digits, with the truth."""
    world = load(progress=False)
    real = world.features(world.images).astype(np.float64)
    moments = real.mean(axis=0), np.cov(real, rowvar=False)
    for name in ("vae-1.0", "gmm-40"):
        generator = world.generators[name]
        many = world.features(generator.sample(50_000, 1)).astype(np.float64)
        truth = optimist.score(many, "fid", reference=moments).point[1]
        yield f"digits, {name}", world.features(generator.sample(10_000, 0)).astype(np.float64), moments, truth


def cifar(data: Path) -> Iterator[tuple[str, Rows, Moments, float | None]]:
    """Features (d = 2048) of 800 images."""
    with np.load(data / "cifar10_ref2048_stats.npz") as file:
        moments = file["mu"].astype(np.float64), file["sigma"].astype(np.float64)
    with np.load(data / "cifar10_ref2048_arms.npz") as file:
        for name in ("heldout_real", "blur0.7", "class_ppca_k60"):
            rows = file[f"feat2048_{name}"].astype(np.float64)
            yield f"CIFAR-10, {name}", rows[np.random.default_rng(0).permutation(len(rows))], moments, None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory with further features")
    options = parser.parse_args()
    limit_threads(1)
    table = Table(box=box.MARKDOWN)
    for column in ("features", "n", "pytorch-fid", "FID∞", "ours", "truth"):
        table.add_column(column, no_wrap=True)
    for name, rows, moments, truth in [*digits(), *([] if options.data is None else cifar(options.data))]:
        root = rooted(moments)
        for size in (100, 200, 500, 800, 2_000, 10_000):
            if size > len(rows):
                continue
            part = rows[:size]
            _, value, lower, upper = optimist.score(part, "fid", reference=moments).point
            assert lower is not None
            assert upper is not None
            others = pytorch_fid(part, root), infinite(part, root)
            table.add_row(
                name,
                f"{size:,}",
                *(f"{other:.3g}" for other in others),
                f"{value:.3g} ± {(upper - lower) / 2:.2g}",
                "" if truth is None else f"{truth:.3g}",
            )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
