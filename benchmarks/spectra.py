"""The time of one batch of 5 and its score, compared with other ways to compute the same score from scratch.

    python benchmarks/spectra.py [--quick] [--threads 1] [--cpu-time]

Rows: FID at several sample counts, log Vendi_1 and log RKE at two widths. "update + score" is the time per batch of a
generator if every batch is scored (growth 0): statistic, follower and plug-in score, averaged over one whole cycle of
batches including its refresh; if there is no refresh, over `PLAIN_BATCHES`. The peers get the same statistic and are
timed alternately with it: `scipy.linalg.sqrtm` as pytorch-fid calls it, torchmetrics' FrechetInceptionDistance (update
and compute), vendi-score on the n × n kernel, whitening and `eigvalsh`, `eigh` and `eigvalsh` of the kernel covariance,
and a rank-5 float64 pass, which is the update itself. Packages that are not installed are skipped (pip install
'optimist[benchmark]').
With --cpu-time the times are processor time: use it with one thread on a machine with other work.
sqrtm takes minutes at d = 2048: it is timed at a quarter of d and multiplied by 64, because its cost grows as d³.
Features are normal with power-law spectra. Relative errors are against float64 `eigvalsh` of the smaller matrix.
"""

from __future__ import annotations

import argparse
import importlib.util
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

from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.score import FrechetDistance
from optimist.metrics.spectra import following
from optimist.metrics.threads import limit_threads
from optimist.metrics.vendi.kernels import make_feature_map
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore

BATCH = 5
CHECKS = 3
"""Number of times that the score is compared with the exact one."""
PLAIN_BATCHES = 40
"""Number of batches that are timed if there is no refresh."""


@dataclass
class Peer:
    """Another way to compute the same number."""

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
        """Seconds per call."""
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
    """Normal rows (n, d) with variances k⁻¹, rotated, and a mean."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(rows, dimension, dtype=torch.float64, generator=generator)
    return drawn * torch.arange(1, dimension + 1, dtype=torch.float64) ** -0.5 + 0.05


def real_features(dimension: int) -> Tensor:
    """Another such set, rotated a little."""
    return features(4 * dimension, dimension, 99).roll(3, 1)


def reference(dimension: int) -> Reference:
    """Its moments."""
    rows = real_features(dimension)
    centred = rows - rows.mean(0)
    return Reference(rows.mean(0), centred.T @ centred / len(rows))


def measure(
    name: str,
    metric: object,
    start: int,
    rows: Callable[[int, int], Tensor],
    exact: Callable[[object], float],
    peers: Callable[[object], list[Peer]],
) -> Measured:
    """Time a cycle of batches after `start` samples, alternately with the peers; measure errors at some batches."""
    statistic = metric.statistic(scatter=True) if isinstance(metric, FrechetDistance) else metric.statistic()
    for seed in range(0, start, 1000):
        statistic.update(rows(min(1000, start - seed), seed))
    metric.follow(statistic)
    others = peers(statistic)
    left = [peer for peer in others for _ in range(peer.calls)]
    refreshed = is_refreshed(metric, start)
    # The cycle began with the samples above, so it is full at the last batch.
    count = following.cycle(start, width_of(metric)) // BATCH + 1 if refreshed else PLAIN_BATCHES
    checks = {round((index + 1) * (count - 2) / CHECKS) for index in range(CHECKS)}
    batches, errors = [], []
    for fed in range(count):
        sample = rows(BATCH, 10_000 + fed)

        def step(sample: Tensor = sample) -> None:
            statistic.update(sample)
            metric.follow(statistic)
            metric.plug_in(statistic)

        batches.append(timed(step))
        if fed % (PLAIN_BATCHES // 8) == 0 and left:
            left.pop(0).run()
        if fed in checks:
            wanted = exact(statistic)
            errors.append(abs(metric.plug_in(statistic) - wanted) / abs(wanted))
    for peer in left:
        peer.run()
    return Measured(name, statistics.mean(batches), max(batches) if refreshed else 0.0, max(errors), others)


def width_of(metric: object) -> int:
    """The size of the eigenproblem that the follower tracks."""
    return metric.reference.root.shape[-1] if isinstance(metric, FrechetDistance) else metric.width


def is_refreshed(metric: object, start: int) -> bool:
    """Whether the follower uses low-rank changes between refreshes."""
    return metric.name != "rke" and start > following.GRAM_ROWS and width_of(metric) >= following.SMALLEST_WIDTH


class Passed(torch.nn.Module):
    """Returns features unchanged, for a package that requires a network."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, features: Tensor) -> Tensor:
        """The features (n, d)."""
        return features


def torchmetrics_peer(dimension: int, real: Tensor, fake: Tensor) -> Peer:
    """FrechetInceptionDistance in float64 with all features so far: one more batch and `compute`."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    distance = FrechetInceptionDistance(Passed(dimension)).set_dtype(torch.float64)
    distance.update(real, real=True)
    distance.update(fake, real=False)

    def call() -> Tensor:
        distance.update(fake[:BATCH], real=False)
        return distance.compute()

    return Peer("torchmetrics", call, 1)


def vendi_peer(phi: Tensor) -> Peer:
    """vendi-score of the kernel matrix of unit feature rows (n, 2r), including making the matrix."""
    from vendi_score import vendi

    return Peer("vendi-score n × n", lambda: vendi.score_K((phi @ phi.T).numpy()), 1)


def is_installed(package: str) -> bool:
    """Whether a peer can be measured."""
    return importlib.util.find_spec(package) is not None


def frechet_row(start: int, dimension: int, of_reference: Reference, slow: bool) -> Measured:
    """FID after `start` samples."""
    metric = FrechetDistance(of_reference)
    plain = FrechetDistance(of_reference)
    sigma = of_reference.covariance

    def peers(statistic: object) -> list[Peer]:
        part = dimension // 4

        def sqrtm() -> None:
            scipy.linalg.sqrtm((statistic.scatter / (statistic.samples - 1) @ sigma)[:part, :part].numpy())

        def whitened() -> Tensor:
            return torch.linalg.eigvalsh(of_reference.root.T @ statistic.scatter @ of_reference.root)

        found = [
            Peer("whiten + eigvalsh", whitened),
            Peer("rank-5 pass", rank_five(dimension), 9),
        ]
        if slow and is_installed("torchmetrics"):
            fake = torch.cat([rows(min(1000, start - seed), seed) for seed in range(0, start, 1000)])
            found.insert(0, torchmetrics_peer(dimension, real_features(dimension), fake))
        return [Peer("scipy sqrtm", sqrtm, 1, 64.0), *found] if slow else found

    def exact(statistic: object) -> float:
        return plain.plug_in(statistic)

    def rows(count: int, seed: int) -> Tensor:
        return features(count, dimension, seed)

    return measure(f"FID d={dimension}, n={start}", metric, start, rows, exact, peers)


def kernel_row(name: str, width: int, start: int) -> Measured:
    """log Vendi_1 or log RKE after `start` samples."""
    kernel = {"name": "gaussian", "sigma": 3.0, "features": width // 2}
    score_of = RenyiKernelEntropy if name == "rke" else VendiScore
    metric, plain = (score_of(make_feature_map(kernel, 64)) for _ in range(2))

    def peers(statistic: object) -> list[Peer]:
        found = [
            Peer("eigh", lambda: torch.linalg.eigh(statistic.moment), 1),
            Peer("eigvalsh", lambda: torch.linalg.eigvalsh(statistic.moment), 1),
            Peer("rank-5 pass", rank_five(width), 9),
        ]
        if name == "vendi" and is_installed("vendi_score"):
            samples = torch.cat([rows(min(1000, start - seed), seed) for seed in range(0, start, 1000)])
            found.insert(0, vendi_peer(metric.feature_map(samples)))
        return found

    def rows(count: int, seed: int) -> Tensor:
        return features(count, 64, seed)

    return measure(f"{name} 2r={width}, n={start}", metric, start, rows, plain.plug_in, peers)


def rank_five(dimension: int) -> Callable[[], object]:
    """S += UᵀU with 5 rows, the operation that updates a statistic."""
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
    parser.add_argument("--quick", action="store_true", help="d = 512 and widths of 500; takes a minute")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--dimension", type=int, default=2048)
    parser.add_argument("--widths", type=int, nargs="*", default=[2000, 4000])
    parser.add_argument("--counts", nargs="*", type=int, help="sample counts of the FID rows")
    parser.add_argument("--rows", nargs="*", default=["fid", "vendi", "rke"], choices=["fid", "vendi", "rke"])
    arguments = parser.parse_args()
    limit_threads(arguments.threads)
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
            found.append(frechet_row(count, dimension, of_reference, slow))
    for name in ("vendi", "rke"):
        if name in arguments.rows:
            found += [kernel_row(name, width, 2 * width) for width in widths]
    show(found)


if __name__ == "__main__":
    main()
