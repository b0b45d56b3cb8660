"""Means on lists of prompts, on prompts like these, and in batches that are alike: how often is the answer wrong?

    python benchmarks/lists.py [--runs 200] [--only list sample batch]

Two models are scored by the service's own estimators and stopping rule, in lockstep, at every growth of 4 %; on lists
at the end of each pass, too. "independent" takes samples as independent draws, without prompts or clusters.

list: which model is better on this very list of M prompts, within 12 passes through it?
sample: both are equal on the population that the M prompts are drawn from; runs that stop within 1,500 samples.
batch: both are equal, and samples of a batch have an intraclass correlation; runs that stop within 1,000 samples.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import prompt_order
from optimist.policies import Arm, Stopping
from optimist_client.metrics import Mean

Array = NDArray[np.float64]
BATCH, GROWTH, PASSES = 5, 0.04, 12
OF_SAMPLE, OF_BATCHES = 1500, 1000
"""Samples of each model after which runs on a sample of prompts, and in batches, end."""
LISTS = (
    (100, "0/1, repeatable"),
    (164, "0/1, repeatable"),
    (500, "0/1, repeatable"),
    (1319, "0/1, repeatable"),
    (164, "0/1, sampled"),
    (500, "0/1, sampled"),
    (164, "ratings, sampled"),
)
SAMPLES = ((30, 0.5), (50, 0.5), (164, 0.0), (164, 0.5), (500, 0.5), (5000, 0.5))
"""Prompts, and the noise of each answer where the models' effects on a prompt have deviation 1."""
BATCHES = ((5, 0.0), (5, 0.1), (20, 0.1), (5, 0.3))
"""Samples of a batch, and their intraclass correlation."""


class Run(NamedTuple):
    """The end of a run: the model that is named, 0 or 1, None for none; and its samples, below 0 if it is undecided."""

    named: int | None
    samples: int


def looks(end: int, length: int | None, batch: int = BATCH) -> Iterator[int]:
    """The sample counts of one model at which the rule looks."""
    last = 0
    for step in range(batch, end + batch, batch):
        count = min(step, end)
        passed = length is not None and count // length > last // length
        if count >= 20 and (passed or count >= (1.0 + GROWTH) * last):
            yield count if not passed or length is None else count // length * length
            last = count


def play(
    question: Question, values: Array, order: NDArray[np.int64] | None, ends: Iterator[int], batch: int | None = None
) -> Run:
    """Two models, values (2, n), of prompts (n,), until the rule stops or the looks end. batch: None: told at looks."""
    bound = question.bound_for({"values": 1})
    models = [StreamingEstimator(bound, 0.0, question.is_paired) for _ in range(2)]
    told = 0
    for end in ends:
        estimates: list[Estimate] = []
        for model, rows in zip(models, values, strict=True):
            for start in range(told, end, batch or end):
                part = slice(start, min(start + (batch or end), end))
                listed = None if order is None else torch.from_numpy(order[part])
                rest = torch.from_numpy(rows[part, None].copy())
                model.add({"values": rest}, [""] * len(rest), listed, (start, len(rest)))
            estimates.append(model.estimate())
        told = end
        arms = [Arm(f"{at}", one, told, told // BATCH) for at, one in enumerate(estimates)]
        decision = Stopping().decide(arms, 2 * told // (batch or BATCH))
        if decision.decided:
            # Equal on the list: there is no better one.
            return Run(None if "equal" in decision.reason else int(decision.best or 0), told)
    return Run(None, -told)


def of_list(length: int, kind: str, seed: int, is_known: bool) -> tuple[Run, float]:
    """A run on a list, and how much better the first model is on it."""
    rng, end = np.random.default_rng((length, len(kind), seed)), PASSES * length
    hard = rng.standard_normal(length)
    logits = 1.0 + 1.6 * hard + 0.8 * rng.standard_normal((2, length)) + np.array([[0.15], [0.0]])
    chances = 1.0 / (1.0 + np.exp(-logits))
    order = np.array(prompt_order(length, seed, 0, end, passes=is_known))
    if "repeatable" in kind:
        scores = (rng.random((2, length)) < chances) * 1.0
        values, truth = scores[:, order], scores.mean(1)
    elif "0/1" in kind:
        values, truth = (rng.random((2, end)) < chances[:, order]) * 1.0, chances.mean(1)
    else:
        values, truth = logits[:, order] + 0.5 * rng.standard_normal((2, end)), logits.mean(1)
    metric = Mean(repeatable=is_known and "repeatable" in kind, range=(0, 1) if "0/1" in kind else None)
    question = Question(metric, prompts=length if is_known else None, are_list=is_known)
    ends = looks(length if metric.repeatable else end, length if is_known else None)
    return play(question, np.asarray(values, np.float64), order if is_known else None, ends), float(truth[0] - truth[1])


def of_sample(length: int, noise: float, seed: int, is_known: bool) -> Run:
    """A run on prompts like these, of models that are equal."""
    rng = np.random.default_rng((length, int(10 * noise), seed, 3))
    order = np.array(prompt_order(length, seed, 0, OF_SAMPLE))
    hard, effects = rng.standard_normal(length), rng.standard_normal((2, length))
    values = (hard + effects)[:, order] + noise * rng.standard_normal((2, OF_SAMPLE))
    question = Question(Mean(), prompts=length if is_known else None)
    return play(question, values, order if is_known else None, looks(OF_SAMPLE, None))


def of_batches(size: int, correlation: float, seed: int, is_known: bool) -> Run:
    """A run of independent models that are equal, whose batches are alike."""
    rng = np.random.default_rng((size, int(100 * correlation), seed))
    effects = np.repeat(rng.standard_normal((2, -(-OF_BATCHES // size))), size, axis=1)[:, :OF_BATCHES]
    values = math.sqrt(correlation) * effects + math.sqrt(1.0 - correlation) * rng.standard_normal((2, OF_BATCHES))
    question = Question(Mean(), clusters="batch" if is_known else None)
    return play(question, values, None, looks(OF_BATCHES, None, size), size)


def lists(runs: int) -> Iterator[tuple[str, ...]]:
    """The rows of `list`."""
    yield "prompts", "independent: samples; wrong; open", "as a list: samples; wrong; open"
    for length, kind in LISTS:
        cells: list[str] = []
        for is_known in (False, True):
            found = [of_list(length, kind, seed, is_known) for seed in range(runs)]
            wrong = sum(run.named is not None and (run.named == 0) != (lead > 0) for run, lead in found)
            wrong += sum(run.named is None and run.samples > 0 and lead != 0 for run, lead in found)
            unsure = sum(run.samples < 0 for run, _ in found)
            median = np.median([abs(run.samples) for run, _ in found])
            cells.append(f"{median:,.0f}; {100 * wrong / runs:.1f} %; {100 * unsure / runs:.0f} %")
        yield f"{length:,}, {kind}", *cells


def ties(rows: dict[str, Callable[[int, bool], Run]], runs: int, counted: str) -> Iterator[tuple[str, ...]]:
    """How many runs of equal models stop."""
    yield "", "independent: stop", f"{counted}: stop", "95 % limits"
    for name, one in rows.items():
        stopped = [sum(one(seed, known).named is not None for seed in range(runs)) for known in (False, True)]
        low, high = (100.0 * end for end in wilson(stopped[1], runs))
        yield name, *(f"{100 * each / runs:.1f} %" for each in stopped), f"{low:.1f} to {high:.1f} %"


def wilson(count: int, runs: int) -> tuple[float, float]:
    """One-sided 95 % limits of a share."""
    z = 1.645
    p, more = count / runs, z * z / runs
    half = z * math.sqrt(p * (1.0 - p) / runs + more / (4.0 * runs))
    return (p + more / 2.0 - half) / (1.0 + more), (p + more / 2.0 + half) / (1.0 + more)


def main() -> None:
    """Run the simulations and print their tables, each row once it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="number of runs per row")
    parser.add_argument("--only", choices=("list", "sample", "batch"), nargs="+", default=["list", "sample", "batch"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = {f"{m:,} prompts, noise {e:g}": partial(of_sample, m, e) for m, e in SAMPLES}
    batches = {f"batches of {size}, correlation {c:g}": partial(of_batches, size, c) for size, c in BATCHES}
    tables = {
        "sample": ties(samples, options.runs, "by prompts"),
        "batch": ties(batches, options.runs, "by batches"),
        "list": lists(options.runs),
    }
    for name in options.only:
        for place, row in enumerate(tables[name]):
            print(f"| {' | '.join(row)} |", flush=True)
            if place == 0:
                print(f"|{' --- |' * len(row)}", flush=True)


if __name__ == "__main__":
    main()
