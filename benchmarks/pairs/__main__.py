"""What are common seeds and prompts worth, and are the errors of differences right?

    python benchmarks/pairs [tables] [--problems NAME ...] [--streams 40] [--claims 200] [--samples 1000] [--texts FILE]

The tables are those below; all by default. Generators
draw rows from pools, with replacement: those of the same numbers in a *common* stream, of numbers of their own in
*independent* ones. Everything is scored as in `Evaluation`, with batches of 5 and the default settings; δ = 0.05.

- singles: the root-mean-square z = (score − truth)/error of single scores along streams, that of the worst generator in
  brackets, and how many are beyond three errors.
- errors: the correlation of influences [of neighbours], the variance of a difference (common/independent, n = 100), and
  the root-mean-square z = (difference − truth)/error along common streams: as if independent (least and largest), then
  by its contrast at equal counts and with 50 samples against 200. The worst pair is in brackets. A star marks values
  outside of 0.6 – 1.15.
- savings: `top-two` until it stops, `paired=False` on independent streams → `paired=True` on common ones. The median of
  the samples to stop, the ratio of the geometric means, the samples from which on 95 % of the runs name the best, wrong
  answers, and runs that were undecided when a generator had no samples left.
- eliminations: the samples to stop on common streams, of `top-two` and of an oracle that knows the best generator and
  samples every rival in lockstep with it until it is beyond the threshold: medians, and the ratio of geometric means.
- claims: the same streams under both analyses. Independent streams are what a false claim of `paired` looks like; of
  generators of unlike kinds the common ones are used.
- prices: the cost until `top-two` stops, with costs weighed / not weighed: the ratio of the medians over the streams
  [of samples], on independent streams and on common ones, where the best generator, or its hardest rival, costs 1, 3,
  10 or 100 times as much as each of the others.
- ties: two generators at a time, in lockstep, shifted to the same score: the share of runs that stop, independent and
  paired, with its one-sided 95 % lower limit. Half of these are wrong.
- gaps: the same as they are, independent and paired: wrong answers, the share that is undecided, and the median (the
  geometric mean) of the samples to stop.
- warnings: how many estimates say with 50, 100 and 300 samples that few rows decide, and in how many streams any does.

The last three tables, singles and errors are of streams that are scored at `streams.LOOKS` alone, where the rule looks,
up to `--samples` of each. The problems `… sizes (3)`, patches, measurements and copulas have rows of very unequal size,
and a metric each of fid, kid, mmd, cmmd, rke, vendi, is and mean.

`--texts` is a file of the answers of two language models (`human_eval_x_java2cpp` (2, tasks, answers, d), the tasks
`human_eval_x_java2cpp_prompt` (tasks, d), `models`); without it these problems are left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import lockstep
import misses
import outcomes
import prices
from check import check
from problems import PROBLEMS, TEXTS, problem_named
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table as Shown
from streams import LOOKS, Stream, Table

from optimist.metrics.threads import limit_threads

TABLES = {
    "singles": (misses.SINGLE_HEADS, misses.singles),
    "errors": (misses.HEADS, misses.errors),
    "savings": (["stop", "ratio", "95 % right", "wrong", "undecided"], outcomes.savings),
    "eliminations": (["top-two", "oracle", "ratio", "wrong", "undecided"], outcomes.eliminations),
    "claims": (["stop", "change", "wrong", "undecided"], outcomes.claims),
    "prices": (prices.HEADS, prices.costs),
    "ties": (["runs", "independent", "paired"], lockstep.ties),
    "gaps": (["independent", "paired"], lockstep.gaps),
    "warnings": ([*(f"n = {n}" for n in lockstep.WARNED_AT), "ever"], lockstep.warnings),
}
"""The columns of each table, and what makes its rows."""
LOCKSTEP = {"singles", "errors", "ties", "gaps", "warnings"}
"""The tables of streams in lockstep."""


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--problems", nargs="+", help="beginnings of their names")
    parser.add_argument("--streams", type=int, default=40, help="number of streams of each problem")
    parser.add_argument("--claims", type=int, default=200, help="number of streams for the table of claims")
    parser.add_argument("--samples", type=int, default=LOOKS[-1], help="samples of each generator in lockstep, at most")
    parser.add_argument("--texts", default="", help="file of the answers of language models")
    parser.add_argument("--keep", type=Path, help="folder where estimates are kept for later runs of the same code")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    options = parser.parse_args()
    chosen = [name for name in TABLES if name in (options.tables or TABLES)]
    shown = {name: Shown("problem", *TABLES[name][0], title=name, box=box.MARKDOWN) for name in chosen}
    for name in [*PROBLEMS, *(TEXTS if options.texts else ())]:
        if options.problems and not name.startswith(tuple(options.problems)):
            continue
        problem = problem_named(name, options.texts)
        truths = {generator: problem.truth(generator) for generator in problem.generators}
        for tables in (set(chosen) & LOCKSTEP, set(chosen) - LOCKSTEP):
            if not tables:
                continue
            in_lockstep = tables <= LOCKSTEP
            looks = tuple(look for look in LOOKS if look <= options.samples) if in_lockstep else ()
            seen = replace(problem, horizon=min(problem.horizon, options.samples)) if in_lockstep else problem
            needed = max(options.claims if table == "claims" else options.streams for table in tables)
            streams = streams_of(name, options.texts, needed, options.keep, options.jobs, looks)
            if not in_lockstep:
                check(problem, streams[0])
            for table in (each for each in chosen if each in tables):
                used = streams if table == "claims" else streams[: options.streams]
                cells = TABLES[table][1](seen, used, truths)
                shown[table].add_row(name, *cells)
                Console(stderr=True, width=200).print(table, name, *cells, sep=" | ")
    for table in shown.values():
        Console(width=200).print(table)


def streams_of(
    problem: str, file: str, count: int, keep: Path | None, jobs: int, looks: tuple[int, ...]
) -> list[Mapping[str, Table]]:
    """The tables of all streams of a problem, of generators that are scored at these looks; none: whenever due."""
    # One thread in each process: threads that share a core cost much more than they save.
    with ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=limit_threads, initargs=(1,)
    ) as pool:
        tasks = [pool.submit(Stream(problem, file, number, keep, looks)) for number in range(count)]
        return [task.result() for task in track(tasks, problem, console=Console(stderr=True))]


if __name__ == "__main__":
    main()
