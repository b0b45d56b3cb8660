"""What one batch of 5 costs, score included: beside the peers' ways of computing the same score from scratch.

    python benchmarks/spectra.py [--quick] [--threads 1] [--seconds 20] [--cpu-time]

Rows: FID at several sample counts, log Vendi_1 and log RKE at two widths. "update + score" is what a generator costs
after every batch where each is scored (growth 0): statistic, follower and plug-in score, averaged over as many batches
as fit into the time and over the refreshes among them; where no whole cycle fits, the refresh is timed and counted as
its part of one. Peers see the same statistic, in turns with it: `scipy.linalg.sqrtm` as pytorch-fid calls it,
`torch.linalg.eigvals` of Σ₁Σ₂ as torchmetrics' FrechetInceptionDistance does (that line, not the package), whitening
and `eigvalsh`, `eigh` and `eigvalsh` of the kernel covariance, and the rank-5 float64 pass that the update itself is.
With --cpu-time processor time is counted instead of the clock: for one thread on a machine that
has other work. sqrtm takes minutes at d = 2048: it is timed at a quarter of d and taken 64-fold, as d³ has it.
Features are normal with power-law spectra. Relative errors are against float64 `eigvalsh` of the smaller matrix.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import scipy.linalg
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from optimist.metrics import FrechetDistance, Reference, make_metric
from optimist.spectra import following

BATCH = 5
CHECKS = 3
"""How often the score is compared with the exact one."""


@dataclass
class Peer:
    """Another way to the same number."""

    name: str
    call: Callable[[], object]
    calls: int = 3
    factor: float = 1.0
    seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Time one more call."""
        self.seconds.append(self.factor * timed(self.call))

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return statistics.median(self.seconds)


@dataclass
class Measured:
    """One row of the table."""

    name: str
    seconds: float
    refresh: float
    error: float
    peers: list[Peer]


clock = time.perf_counter


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begun = clock()
    call()
    return clock() - begun


def features(rows: int, dimension: int, seed: int) -> Tensor:
    """Normal rows (n, d) with variances k⁻¹, turned, and a mean."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(rows, dimension, dtype=torch.float64, generator=generator)
    return drawn * torch.arange(1, dimension + 1, dtype=torch.float64) ** -0.5 + 0.05


def reference(dimension: int) -> Reference:
    """Moments of another such set, turned a little."""
    rows = features(4 * dimension, dimension, 99).roll(3, 1)
    centred = rows - rows.mean(0)
    return Reference(rows.mean(0), centred.T @ centred / len(rows))


def measure(
    name: str,
    metric: object,
    start: int,
    rows: Callable[[int, int], Tensor],
    exact: Callable[[object], float],
    peers: Callable[[object], list[Peer]],
    seconds: float,
) -> Measured:
    """Feed batches past `start` samples, timed; peers in turns with them; errors at some of the batches."""
    statistic = metric.statistic(scatter=True) if isinstance(metric, FrechetDistance) else metric.statistic()
    for seed in range(0, start, 1000):
        statistic.update(rows(min(1000, start - seed), seed))
    begun = timed(lambda: metric.follow(statistic))
    others = peers(statistic)
    left = [peer for peer in others for _ in range(peer.calls)]
    batch, refreshes, errors = [], [], []
    used, fed = 0.0, 0
    while used < seconds and fed < 1000:
        sample = rows(BATCH, 10_000 + fed)

        def step(sample: Tensor = sample) -> None:
            statistic.update(sample)
            metric.follow(statistic)
            metric.plug_in(statistic)

        took = timed(step)
        used, fed = used + took, fed + 1
        # A batch that brings a refresh takes many times as long as those around it.
        (refreshes if batch and took > 8.0 * statistics.median(batch) else batch).append(took)
        if fed % 20 == 0 and left:
            left.pop(0).run()
        if fed % 40 == 10 and len(errors) < CHECKS:
            wanted = exact(statistic)
            errors.append(abs(metric.plug_in(statistic) - wanted) / abs(wanted))
    for peer in left:
        peer.run()
    if not errors:
        wanted = exact(statistic)
        errors.append(abs(metric.plug_in(statistic) - wanted) / abs(wanted))
    refresh, per = part_of_refresh(metric, start, begun, refreshes)
    return Measured(name, statistics.mean(batch) + refresh * BATCH / per, refresh, max(errors), others)


def part_of_refresh(metric: object, start: int, begun: float, refreshes: list[float]) -> tuple[float, int]:
    """Seconds of a refresh, and the samples from one to the next."""
    width = metric.reference.root.shape[-1] if isinstance(metric, FrechetDistance) else metric.width
    if metric.name == "rke" or start <= following.GRAM_ROWS or width < following.SMALLEST_WIDTH:
        return 0.0, 1
    found = statistics.median(refreshes) if refreshes else begun
    return found, following.GRAM_LIMIT if start < width else following.SCATTER_LIMIT


def frechet_row(start: int, dimension: int, of_reference: Reference, seconds: float, slow: bool) -> Measured:
    """FID after `start` samples."""
    metric = FrechetDistance(of_reference)
    plain = FrechetDistance(of_reference)
    sigma = of_reference.covariance

    def peers(statistic: object) -> list[Peer]:
        part = dimension // 4

        def sqrtm() -> None:
            scipy.linalg.sqrtm((statistic.covariance(True) @ sigma)[:part, :part].numpy())

        def whitened() -> Tensor:
            return torch.linalg.eigvalsh(of_reference.root.T @ statistic.scatter @ of_reference.root)

        found = [
            Peer("eigvals, as torchmetrics", lambda: torch.linalg.eigvals(statistic.covariance(True) @ sigma), 1),
            Peer("whiten + eigvalsh", whitened),
            Peer("rank-5 pass", rank_five(dimension), 9),
        ]
        return [Peer("scipy sqrtm", sqrtm, 1, 64.0), *found] if slow else found

    def exact(statistic: object) -> float:
        return plain.plug_in(statistic)

    def rows(count: int, seed: int) -> Tensor:
        return features(count, dimension, seed)

    return measure(f"FID d={dimension}, n={start}", metric, start, rows, exact, peers, seconds)


def kernel_row(name: str, width: int, start: int, seconds: float) -> Measured:
    """log Vendi_1 or log RKE after `start` samples."""
    kernel = {"name": "gaussian", "sigma": 3.0, "features": width // 2}
    metric, plain = (make_metric(name, 64, kernel=kernel) for _ in range(2))

    def peers(statistic: object) -> list[Peer]:
        return [
            Peer("eigh", lambda: torch.linalg.eigh(statistic.moment), 1),
            Peer("eigvalsh", lambda: torch.linalg.eigvalsh(statistic.moment), 1),
            Peer("rank-5 pass", rank_five(width), 9),
        ]

    def rows(count: int, seed: int) -> Tensor:
        return features(count, 64, seed)

    return measure(f"{name} 2r={width}, n={start}", metric, start, rows, plain.plug_in, peers, seconds)


def rank_five(dimension: int) -> Callable[[], object]:
    """S += UᵀU with 5 rows, which is what the update of a statistic is."""
    matrix = torch.zeros(dimension, dimension, dtype=torch.float64)
    rows = torch.randn(BATCH, dimension, dtype=torch.float64)
    return lambda: matrix.addmm_(rows.T, rows)


def show(found: list[Measured]) -> None:
    """The table: milliseconds, ratios, errors."""
    table = Table(title=f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads for torch")
    table.add_column("")
    for column in ("update + score ms", "refresh ms", "rel. error"):
        table.add_column(column, justify="right")
    table.add_column("peers: ms (times slower than update + score)")
    for row in found:
        peers = ", ".join(f"{p.name} {1e3 * p.median:.3g} ({p.median / row.seconds:.3g}×)" for p in row.peers)
        table.add_row(row.name, f"{1e3 * row.seconds:.3g}", f"{1e3 * row.refresh:.0f}", f"{row.error:.1e}", peers)
    Console(width=200).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="d = 512 and widths of 500: a minute")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="of batches, for each row")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--dimension", type=int, default=2048)
    parser.add_argument("--widths", type=int, nargs="*", default=[2000, 4000])
    parser.add_argument("--counts", nargs="*", type=int, help="samples of the FID rows")
    parser.add_argument("--rows", nargs="*", default=["fid", "vendi", "rke"], choices=["fid", "vendi", "rke"])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.cpu_time:
        global clock
        clock = time.process_time
    dimension, widths = (512, (500,)) if arguments.quick else (arguments.dimension, arguments.widths)
    counts = (300, 600, 1500, 5000) if arguments.quick else (300, 1000, 2000, 2500, 5000, 20_000)
    counts = arguments.counts or counts
    found: list[Measured] = []
    if "fid" in arguments.rows:
        of_reference = reference(dimension)
        for count in counts:
            slow = count == 5000
            found.append(frechet_row(count, dimension, of_reference, arguments.seconds, slow))
    for name in ("vendi", "rke"):
        if name in arguments.rows:
            found += [kernel_row(name, width, 2 * width, arguments.seconds) for width in widths]
    show(found)


if __name__ == "__main__":
    main()
