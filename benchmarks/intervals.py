"""How often do intervals of 95 % hold the truth, by metric, bed and number of samples, the worst first?

    python benchmarks/intervals.py [--streams 200] [--only "fid*" …] [--cells FILE]
    python benchmarks/intervals.py --show [FILE]

Each cell has that many streams of n samples, by themselves, with the bound `influence`. The cells go to FILE, one JSON
object a line (`benchmarks/results/0.1.0/coverage.jsonl`); `--show` prints the table of a file.

A bed is a population of 12,000 rows of a generator, from which samples are drawn at random, and 4,000 real rows. So
the truth is known: it is the score of the population. For FID the reference is the real rows' mean and covariance.

FID's interval was tuned on `same`, `flat`, `steep` and `60 rows`; the other beds show it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

from optimist.estimation.question import Question, declared_of
from optimist.metrics.threads import limit_threads

Rows = NDArray[np.float64]
CELLS = Path(__file__).parent / "results" / "0.1.0" / "coverage.jsonl"
COUNTS = (20, 50, 100, 300)
POPULATION, REAL = 12_000, 4_000
WIDTH = 128
WEIGHTS = 1.0 / np.arange(1.0, WIDTH + 1.0)


@dataclass(frozen=True)
class Bed:
    """A generator's population, and real rows; both (…, d)."""

    population: Rows
    real: Rows


def _spectrum(shape: str, rng: np.random.Generator, count: int) -> Rows:
    """Rows of N(m, S): S has the trace of diag(1/j), 1.2 times, and a spectrum of this shape."""
    variances = {"flat": np.ones(WIDTH), "steep": WEIGHTS**1.6, "reversed": WEIGHTS[::-1]}.get(shape, WEIGHTS)
    rows = rng.standard_normal((count, WIDTH)) * np.sqrt(1.2 * WEIGHTS.sum() / variances.sum() * variances)
    if shape == "heavy":
        rows *= np.sqrt(3.0 / rng.chisquare(5.0, count))[:, None]
    if shape == "rotated":
        rows = rows @ np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    if shape == "narrow":
        rows[:, 16:] *= 0.01
    return rows + 0.15 * np.sqrt(WEIGHTS)


def _gaussian(shape: str) -> Bed:
    rng = np.random.default_rng(1)
    return Bed(_spectrum(shape, rng, POPULATION), rng.standard_normal((REAL, WIDTH)) * np.sqrt(WEIGHTS))


def _repeated(distinct: int, shape: str = "same") -> Bed:
    """A population of so many distinct rows, equally often."""
    rng = np.random.default_rng(2)
    return Bed(_spectrum(shape, rng, distinct), _gaussian("same").real)


def _unequal(distinct: int) -> Bed:
    """Distinct rows whose shares fall as 1/rank, which the reference has, too."""
    rng = np.random.default_rng(3)
    kinds = 1.5 * rng.standard_normal((distinct, 48))
    shares = 1.0 / np.arange(1.0, distinct + 1.0)
    return Bed(kinds[rng.choice(distinct, POPULATION, p=shares / shares.sum())], kinds[rng.integers(0, distinct, REAL)])


def _relu() -> Bed:
    rng = np.random.default_rng(4)
    layer, bias = rng.standard_normal((24, WIDTH)) * 0.33, -0.9 + 0.5 * rng.standard_normal(WIDTH)
    made, real = (np.maximum(size * rng.standard_normal((count, 24)) @ layer + bias, 0.0) for size, count in _BOTH)
    return Bed(made, real)


_BOTH = ((0.85, POPULATION), (1.0, REAL))
"""The size and the number of latent rows of a generator, and of the real data."""


def _ternary() -> Bed:
    """Every number is −1, 0 or 1."""
    rng = np.random.default_rng(5)
    mix = 0.35 * rng.standard_normal((8, WIDTH))
    made, real = (
        np.clip(
            np.round(size * (rng.standard_normal((count, 8)) @ mix + 0.5 * rng.standard_normal((count, WIDTH)))), -1, 1
        )
        for size, count in _BOTH
    )
    return Bed(made, real)


def _hub() -> Bed:
    """Nine of ten rows are nearly the same, the others are spread out."""
    rng = np.random.default_rng(6)
    centre = rng.standard_normal(WIDTH)

    def rows(share: float, count: int) -> Rows:
        noise = rng.standard_normal((count, WIDTH))
        return np.where((rng.random(count) < share)[:, None], centre + 0.15 * noise, 1.5 * noise)

    return Bed(rows(0.9, POPULATION), rows(0.7, REAL))


BEDS: Mapping[str, Callable[[], Bed]] = {
    **{shape: (lambda shape=shape: _gaussian(shape)) for shape in ("same", "flat", "steep")},
    **{shape: (lambda shape=shape: _gaussian(shape)) for shape in ("reversed", "rotated", "narrow", "heavy")},
    **{f"{count} rows": (lambda count=count: _repeated(count)) for count in (60, 300)},
    "100 rows, flat": lambda: _repeated(100, "flat"),
    "25 kinds": lambda: _unequal(25),
    "relu": _relu,
    "ternary": _ternary,
    "hub": _hub,
}
bed = cache(lambda name: BEDS[name]())


def _median(rows: Rows) -> float:
    return float(np.median(torch.pdist(torch.from_numpy(rows[:1000])).numpy()))


def _probabilities(rows: Rows, real: Rows) -> Rows:
    logits = (rows - real.mean(0)) / real.std(0).mean() @ np.random.default_rng(7).standard_normal((rows.shape[1], 20))
    exponents = np.exp(logits * 4.0 / math.sqrt(rows.shape[1]))
    return exponents / exponents.sum(1, keepdims=True)


Asked = tuple[Question, Rows]
"""A question, and the population (12,000, …) as the metric takes it."""


def _asked(metric: str, of: Bed) -> Asked:
    name, _, order = metric.partition(", order ")
    if name == "is":
        return Question(declared_of("is")), _probabilities(of.population, of.real)
    if name == "mean":
        return Question(declared_of("mean")), of.population[:, :1]
    if name == "fid":
        reference: Any = of.real.mean(0), np.cov(of.real.T)
        return Question(declared_of("fid", reference=reference)), of.population
    if name in ("rke", "vendi"):
        kernel = {"sigma": round(0.6 * _median(of.real), 4), "features": 128}
        settings: dict[str, Any] = {"order": float(order)} if order else {}
        return Question(declared_of(name, kernel=kernel, **settings)), of.population
    return Question(declared_of(name, reference=of.real[:800])), of.population


METRICS = ("fid", "is", "rke", "vendi, order 1", "kid", "precision", "density", "coverage", "mean")


def _truth(asked: Asked, of: Bed) -> float:
    question, population = asked
    if question.metric.name == "fid":
        return _distance(population, of.real)
    bound = question.bound_for(dict.fromkeys(question.arrays, len(population[0])))
    statistic = bound.statistic()
    for part in torch.from_numpy(population).split(1000):
        statistic.update(part)
    # Of the plug-in, which is exact for a population, but for scores over pairs of different rows.
    is_over_pairs = question.metric.name in ("kid", "coverage")
    return bound.estimate(statistic).value if is_over_pairs else float(bound.metric.plug_in(statistic))


def _distance(rows: Rows, real: Rows) -> float:
    """FID of a population from the moments of real rows, by numpy alone."""
    ours, theirs = np.cov(rows.T, bias=True), np.cov(real.T)
    values, vectors = np.linalg.eigh(theirs)
    root = (vectors * np.sqrt(values.clip(0.0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ ours @ root).clip(0.0)).sum()
    return float(np.square(rows.mean(0) - real.mean(0)).sum() + np.trace(ours) + np.trace(theirs) - 2.0 * shared)


@dataclass(frozen=True)
class Cell:
    """What the streams of one metric, bed and number of samples have shown."""

    metric: str
    bed: str
    n: int
    streams: int
    covered: int
    """Streams whose interval holds the truth."""
    z: float
    """Root mean square of (value − truth)/stopping error."""
    bias: float
    """Mean of it."""
    warned: int
    """Streams whose estimate warns of the spectrum, or of repeated rows."""

    @property
    def share(self) -> float:
        return self.covered / self.streams

    @property
    def low(self) -> float:
        """The one-sided lower limit of the coverage, at 95 % (Wilson)."""
        p, n, z = self.share, self.streams, 1.645
        return (p + z * z / 2 / n - z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)) / (1 + z * z / n)


def cells(metric: str, name: str, streams: int) -> Iterator[Cell]:
    """The cells of a metric on a bed, by the number of samples."""
    asked = _asked(metric, bed(name))
    question, population = asked
    truth = _truth(asked, bed(name))
    bound = question.bound_for(dict.fromkeys(question.arrays, len(population[0])))
    for n in COUNTS:
        errors, covered, warned = list[float](), 0, 0
        for stream in range(streams):
            statistic = bound.statistic()
            places = np.random.default_rng((n, stream)).integers(0, len(population), n)
            statistic.update(torch.from_numpy(population[places]))
            found = bound.estimate(statistic)
            covered += found.lower - 1e-12 <= truth <= found.upper + 1e-12
            warned += any("spectrum" in text or "repeat" in text for text in found.warnings)
            errors.append((found.value - truth) / (found.stopping_error or math.inf))
        z = np.array(errors)
        yield Cell(
            metric,
            name,
            n,
            streams,
            covered,
            round(float(np.sqrt((z**2).mean())), 3),
            round(float(z.mean()), 3),
            warned,
        )


def table(found: Sequence[Cell]) -> str:
    """A Markdown table: a row for each metric and bed, that of the worst cell first."""
    rows: dict[tuple[str, str], dict[int, Cell]] = {}
    for cell in found:
        rows.setdefault((cell.metric, cell.bed), {})[cell.n] = cell
    lines = [f"| metric | bed | {' | '.join(f'n = {n}' for n in COUNTS)} |", f"| --- | --- |{' --- |' * len(COUNTS)}"]
    for (metric, name), of in sorted(rows.items(), key=lambda row: min(cell.share for cell in row[1].values())):
        shown = [f"{of[n].share:.0%} (≥ {of[n].low:.0%}; {of[n].z:.2f})" if n in of else "" for n in COUNTS]
        lines.append(f"| {metric} | {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=["*"], help='patterns of "METRIC on BED"')
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--show", nargs="?", type=Path, const=CELLS)
    given = parser.parse_args()
    if given.show is None:
        limit_threads(1)
        todo = [(metric, name) for metric in METRICS for name in BEDS if _wanted(metric, name, given.only)]
        with given.cells.open("a") as file:
            for metric, name in track(todo, "cells"):
                for cell in cells(metric, name, given.streams):
                    file.write(json.dumps(asdict(cell)) + "\n")
                    file.flush()
    with (given.show or given.cells).open() as file:
        print(table([Cell(**json.loads(line)) for line in file]))


def _wanted(metric: str, name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(f"{metric} on {name}", pattern) for pattern in patterns)


if __name__ == "__main__":
    main()
