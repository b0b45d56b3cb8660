"""How often is one of two equal generators named, where samples of a batch, or of a prompt, are alike?

    OMP_NUM_THREADS=1 python benchmarks/alike.py [--streams 60] [--only "fid, batches of 5, 0.1" ...]

Two generators of one law are looked at in lockstep, whenever their samples have grown by 4 %, by the product's
estimates and its stopping rule. Whoever is named is named wrongly: in 5 % of streams (δ), and not in more than 10 % by
the lower limit. Errors count samples, and then clusters: batches (`clusters="batch"`), or prompts that come again.
Samples of a batch have an effect of their own, with this intraclass correlation. Of prompts the generators have a part
in common, a part of their own, and noise. z: the difference at the last look, over its error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.estimates.estimate import Estimate, is_due
from optimist.estimation.clustered import ClusterKind
from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import prompt_order
from optimist.policies import Arm, Stopping
from optimist.policies.contrasts import contrasts_among

BATCH, DELTA, WIDTH = 5, 0.05, 24
SPREAD = np.sqrt(1.0 / np.arange(1.0, WIDTH + 1.0))
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Bed:
    """A law of samples that come in clusters."""

    metric: Literal["mean", "fid", "mmd", "precision"]
    samples: int
    """Of each generator at the last look."""
    size: int = BATCH
    """Of a batch."""
    correlation: float = 0.0
    """Of samples of a batch."""
    prompts: int = 0
    """M; 0: none."""
    noise: float = 0.5
    """Of a prompt's samples; its effect common to both generators, and that of each, have deviation 1."""

    @property
    def counts(self) -> ClusterKind:
        """What errors should count."""
        return "prompt" if self.prompts else "batch"

    def draw(self, seed: int) -> tuple[list[Rows], NDArray[np.int64] | None]:
        """The samples (n, d) of the two generators, and their prompts (n,)."""
        rng, width = np.random.default_rng((self.size, self.prompts, seed)), 1 if self.metric == "mean" else WIDTH
        n = self.samples
        if not self.prompts:
            own, alone = math.sqrt(self.correlation), math.sqrt(1.0 - self.correlation)
            batches = np.arange(n) // self.size
            return [
                own * rng.standard_normal((batches[-1] + 1, width))[batches] + alone * rng.standard_normal((n, width))
                for _ in range(2)
            ], None
        prompts, common = np.array(prompt_order(self.prompts, seed, 0, n)), rng.standard_normal((self.prompts, width))
        effects = [common + rng.standard_normal((self.prompts, width)) for _ in range(2)]
        scale = 1.0 / math.sqrt(2.0 + self.noise**2)
        return [scale * (own[prompts] + self.noise * rng.standard_normal((n, width))) for own in effects], prompts


BEDS = {
    "mean, batches of 5, 0.05": Bed("mean", 1000, correlation=0.05),
    "mean, batches of 5, 0.1": Bed("mean", 1000, correlation=0.1),
    "mean, batches of 5, 0.3": Bed("mean", 1000, correlation=0.3),
    "mean, batches of 20, 0.05": Bed("mean", 1000, 20, 0.05),
    "mean, batches of 20, 0.1": Bed("mean", 1000, 20, 0.1),
    "fid, batches of 5, 0.1": Bed("fid", 300, correlation=0.1),
    "fid, batches of 5, 0.3": Bed("fid", 300, correlation=0.3),
    "fid, batches of 20, 0.1": Bed("fid", 600, 20, 0.1),
    "mmd, batches of 20, 0.1": Bed("mmd", 600, 20, 0.1),
    "precision, batches of 20, 0.3": Bed("precision", 600, 20, 0.3),
    "fid, 30 prompts": Bed("fid", 400, prompts=30),
    "fid, 100 prompts": Bed("fid", 400, prompts=100),
    "mmd, 50 prompts": Bed("mmd", 600, prompts=50),
    "precision, 50 prompts": Bed("precision", 600, prompts=50),
}


def question_of(bed: Bed) -> Question:
    """The question of a bed."""
    if bed.metric == "mean":
        return Question(declared_of("mean"), delta=DELTA)
    if bed.metric == "fid":
        return Question(declared_of("fid", reference=(np.zeros(WIDTH), np.diag(SPREAD**2))), delta=DELTA)
    real = np.random.default_rng(1).standard_normal((400, WIDTH)) * SPREAD
    return Question(declared_of(bed.metric, reference=real), delta=DELTA)


def looks(
    estimator: StreamingEstimator, rows: Rows, prompts: NDArray[np.int64] | None, size: int
) -> Iterator[Estimate]:
    """The estimates of one generator, as they are due."""
    array, last = next(iter(estimator.metric.widths)), 0
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        batch, listed = torch.from_numpy(rows[part]), None if prompts is None else torch.from_numpy(prompts[part])
        estimator.add({array: batch}, [f"{start}"] * len(batch), listed, (start, len(batch)))
        if start + size >= 20 and is_due(start + size, last, 0.04):
            last = start + size
            yield estimator.estimate()


def play(bed: Bed, counted: bool, seed: int) -> tuple[bool, float]:
    """Whether a generator is named, and z at the last look. counted: whether errors count clusters."""
    question = question_of(bed)
    if counted and bed.metric == "mean":
        question = Question(
            question.metric, delta=DELTA, prompts=bed.prompts or None, clusters=None if bed.prompts else "batch"
        )
    rows, prompts = bed.draw(seed)
    rows = rows if bed.metric == "mean" else [(0.3 + 1.1 * each) * SPREAD for each in rows]
    bound = question.bound_for(dict.fromkeys(question.arrays, int(rows[0].shape[1])))
    clusters = bed.counts if counted else None
    made = [looks(StreamingEstimator(bound, 0.04, True, clusters=clusters), each, prompts, bed.size) for each in rows]
    named, stopping = False, Stopping(DELTA)
    z = math.nan
    for both in zip(*made, strict=True):
        n = both[0].samples
        arms = [Arm(name, one, samples=n, batches=n // bed.size) for name, one in zip("ab", both, strict=True)]
        named = named or stopping.decide(arms, 2 * n // bed.size).decided
        contrasts = contrasts_among(arms)
        z = contrasts.against(0).differences[1] / contrasts.errors(0, "stopping")[1]
    return named, z


def lower_limit(count: int, of: int, z: float = 1.645) -> float:
    """Wilson's one-sided lower limit of a share."""
    share = count / of
    centre = share + z * z / (2 * of)
    return (centre - z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)


def main() -> None:
    """Play the beds and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=60, help="runs of each row")
    parser.add_argument("--only", choices=BEDS, nargs="+", default=list(BEDS), help="names of the beds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(box=box.MARKDOWN)
    for column in ("bed", "samples", "counting samples: named", "rms z", "counting clusters: named", "rms z"):
        table.add_column(column, justify="left" if column == "bed" else "right")
    for name in options.only:
        bed, cells = BEDS[name], list[str]()
        for counted in (False, True):
            found = [play(bed, counted, seed) for seed in range(options.streams)]
            named, z = sum(each for each, _ in found), np.array([each for _, each in found])
            limit = 100 * lower_limit(named, options.streams)
            cells += [f"{100 * named / options.streams:.1f} % (≥ {limit:.1f} %)", f"{np.sqrt(np.mean(z * z)):.2f}"]
        table.add_row(name, f"{bed.samples:,}", *cells)
        Console(stderr=True).print(name, *cells)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
