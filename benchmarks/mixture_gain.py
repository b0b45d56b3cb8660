"""Mixtures: are gain and score as exact as their errors say, and does the bound of the gap hold?

    python benchmarks/mixture_gain.py [--metrics rke vendi mmd fid] [--problems …] [--repeats 100] [--data DIR]
    python benchmarks/mixture_gain.py --stopping [--metrics …] [--runs 20]

The first command draws samples of every generator of a benchmark problem (`mixture_problems.py`), independent ones and
with the same seeds, and makes the mixture. z of the gain is (gain − true gain of the weights named)/`gain_error`, z of
the score the same with `value` and `error`; the true gain is against the generator that is best in truth. Root mean
square z is 1 where errors are right, more where they are too small. Cells: root mean square z (mean z), and how often
the interval of 95 % has the true gain. "gap" is how often the true excess of the weights named is larger than
`gap_bound` at the z of the stopping rule with δ = 0.05; "excess" is the mean of that excess, as a share of the least
loss.

`--stopping` runs the policy "ogd" with a
tolerance of 5 % and 1 % until it stops.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from mixture_problems import CLOSED, OF_DATA, REAL, Floats, Problem, problem_named
from mixture_truth import METRICS, Truth
from optimist import Evaluation
from optimist.estimates.mixture import Mixture
from optimist.estimates.pairing import COMMON
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.threads import limit_threads
from optimist.policies import Stopping
from optimist.references.real_data import RealData
from optimist_client.metrics import FID, MMD, RKE, Gaussian, Metric, Vendi

COUNTS = (25, 50, 100, 200, 500)
BATCH = 5
DELTA = 0.05
TOLERANCES = ("5%", "1%")
STOPPING_BATCH = 20


def declared(problem: Problem, metric: str) -> Metric:
    """A metric, one of `METRICS`, with the kernel of the problem and real data still to be prepared."""
    kernel = Gaussian(problem.sigma, features=problem.features)
    if metric == "rke":
        return RKE(kernel=kernel)
    if metric == "mmd":
        return MMD(kernel=kernel, reference=real_data(problem))
    if metric == "fid":
        return FID(reference=real_data(problem))
    return Vendi(kernel=kernel, order=float(metric.partition("-")[2] or 1))


def real_data(problem: Problem) -> RealData:
    """The real rows with their moments."""
    rows = problem.real_rows
    return RealData(rows.mean(0), np.cov(rows, rowvar=False), rows)


def score_of(problem: Problem, metric: str) -> Any:
    """What computes the metric on a problem."""
    made = declared(problem, metric)
    if made.setting("reference") is not None:
        made = made.model_copy(update={"reference": make_reference(made, made.setting("reference"))})
    return make_metric(made, Setting({"features": problem.dimension}))


def mixture_of(score: Any, problem: Problem, rows: Sequence[Any], paired: bool) -> Mixture:
    """The mixture of these rows (n, d) of each generator."""
    statistics: list[Any] = []
    for own in rows:
        statistic = score.statistic()
        for part in torch.from_numpy(own).split(50):
            statistic.update(part)
        statistics.append(statistic)
    common = [{"features": torch.from_numpy(own[:COMMON])} for own in rows] if paired else ()
    return cross_fitted(score, statistics, problem.generators, common)


@dataclass(frozen=True)
class Judged:
    """One mixture beside the truth."""

    z_gain: float
    z_value: float
    gain: float
    true_gain: float
    gain_error: float
    excess: float
    share: float
    gap_bound: float


def judged(mixture: Mixture, truth: Truth) -> Judged:
    """A mixture beside the truth."""
    weights = np.array(mixture.weights)
    sign = 1.0 if mixture.lower_is_better else -1.0
    loss, true_gain = truth.loss(weights)[0], truth.gain(weights)
    z = Stopping(DELTA).threshold(len(weights), mixture.total // BATCH)
    return Judged(
        z_gain=_ratio(mixture.gain - true_gain, mixture.gain_error),
        z_value=_ratio(sign * mixture.value - loss, mixture.error),
        gain=mixture.gain,
        true_gain=true_gain,
        gain_error=mixture.gain_error,
        excess=loss - truth.least,
        share=truth.share(weights),
        gap_bound=mixture.gap_bound(z),
    )


def _ratio(apart: float, error: float) -> float:
    """z. A mixture that is a single generator gains nothing, without error."""
    if error > 0.0:
        return apart / error
    return 0.0 if abs(apart) < 1e-9 else math.copysign(math.inf, apart)


def repeats_of(
    problem: Problem, metric: str, paired: bool, repeats: int, counts: Sequence[int]
) -> dict[int, list[Judged]]:
    """Mixtures of growing samples, from `repeats` draws."""
    truth, score = Truth.of(problem, metric), score_of(problem, metric)
    found: dict[int, list[Judged]] = {n: [] for n in counts}
    for seed in range(repeats):
        rows = [problem.sample(place, max(counts), seed, paired) for place in range(len(problem.generators))]
        for n in counts:
            found[n].append(judged(mixture_of(score, problem, [own[:n] for own in rows], paired), truth))
    return found


def rms(values: Sequence[float]) -> float:
    """Root mean square."""
    return math.sqrt(float(np.square(values).mean()))


def cells(name: str, found: dict[int, list[Judged]]) -> Iterator[list[str]]:
    """Rows of the table, a row for each count."""
    for n, each in found.items():
        gains, values = [one.z_gain for one in each], [one.z_value for one in each]
        held = np.mean([abs(z) <= 1.96 for z in gains])
        beyond = sum(one.excess > one.gap_bound for one in each)
        yield [
            name,
            f"{n}",
            f"{rms(gains):.2f} ({np.mean(gains):+.2f})",
            f"{held:.0%}",
            f"{rms(values):.2f} ({np.mean(values):+.2f})",
            f"{np.mean([one.gain for one in each]):.3f} ± {np.mean([one.gain_error for one in each]):.3f}",
            f"{np.mean([one.true_gain for one in each]):.3f}",
            f"{100 * np.mean([one.share for one in each]):.2f} %",
            f"{beyond} of {len(each)}",
            f"{np.mean([one.gap_bound for one in each]):.3g}",
        ]


def calibration(options: argparse.Namespace) -> None:
    """Print the table of each metric, a benchmark problem at a time."""
    heads = (
        "problem",
        "n",
        "z of the gain",
        "holds",
        "z of the score",
        "gain",
        "true gain",
        "excess",
        "beyond the gap",
        "gap bound",
    )
    for metric in options.metrics:
        for name in options.problems:
            table = Table(*heads, title=f"{metric}: {options.repeats} repeats", box=box.MARKDOWN)
            problem = problem_named(name, options.data)
            for paired in options.paired:
                begun = time.perf_counter()
                found = repeats_of(problem, metric, paired, options.repeats, options.counts)
                for row in cells(f"{problem.name}{', paired' * paired}", found):
                    table.add_row(*row)
                Console(stderr=True).print(f"{metric}, {name}, paired {paired}: {time.perf_counter() - begun:.0f} s")
            Console(width=220).print(table)


def stopping(options: argparse.Namespace) -> None:
    """Print when the policy stops, and whether the weights are then within the tolerance."""
    heads = ("problem", "metric", "tolerance", "stopped", "samples, median", "excess, mean", "beyond the tolerance")
    for name in options.problems:
        table = Table(*heads, title=f"{options.runs} runs, at most {options.cap:,} samples", box=box.MARKDOWN)
        problem = problem_named(name, options.data)
        for metric in options.metrics:
            truth = Truth.of(problem, metric)
            for tolerance in TOLERANCES:
                runs = [stopped(problem, metric, tolerance, seed, options.cap) for seed in range(options.runs)]
                ended = [weights for weights, _, is_decided in runs if is_decided]
                shares = [truth.share(weights) for weights in ended]
                wrong = sum(share > float(tolerance.rstrip("%")) / 100.0 for share in shares)
                samples = np.median([drawn for _, drawn, _ in runs])
                excess = f"{100 * np.mean(shares):.2g} %" if shares else "—"
                row = (f"{len(ended)} of {len(runs)}", f"{samples:,.0f}", excess, f"{wrong} of {len(ended)}")
                table.add_row(problem.name, metric, tolerance, *row)
        Console(width=200).print(table)


def stopped(problem: Problem, metric: str, tolerance: str, seed: int, cap: int) -> tuple[Floats, int, bool]:
    """The weights named when the policy "ogd" stops, the samples by then, and whether it was before the cap."""
    settings: dict[str, Any] = {"metric": declared(problem, metric), "goal": "mixture", "tolerance": tolerance}
    evaluation = Evaluation(
        problem.generators, **settings, batch_size=STOPPING_BATCH, seed=seed, delta=DELTA, paired=False
    )
    streams = {name: problem.stream(place, seed) for place, name in enumerate(problem.generators)}
    judged_last: Mixture | None = None
    is_decided, drawn = False, 0
    while drawn < cap and not is_decided:
        name = evaluation.ask()
        evaluation.tell(name, problem.laws[name].sample(STOPPING_BATCH, streams[name]))
        drawn += STOPPING_BATCH
        newest = evaluation.latest_mixture
        if newest is not None and newest is not judged_last:
            judged_last, is_decided = newest, evaluation.decision(explain=False).decided
    assert judged_last is not None
    return np.array(judged_last.weights), drawn, is_decided


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=["rke"])
    parser.add_argument("--problems", nargs="+", choices=[*CLOSED, *REAL, *OF_DATA], default=list(CLOSED))
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="samples of each generator")
    parser.add_argument("--paired", type=int, nargs="+", default=[0, 1], help="0: independent samples, 1: same seeds")
    parser.add_argument("--data", type=Path, help="directory with mnist_lenet_generators.npz and llmfao_minilm.npz")
    parser.add_argument("--stopping", action="store_true", help="run until the stopping rule decides")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cap", type=int, default=8_000, help="samples of all generators at which a run ends")
    options = parser.parse_args()
    limit_threads(1)
    (stopping if options.stopping else calibration)(options)


if __name__ == "__main__":
    main()
