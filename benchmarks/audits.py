"""How many labels does a judge save whom people audit, and is the answer right?

    python benchmarks/audits.py [--runs 200] [--only 0.8]

People are real: the rewards of two language models on 3,609 prompts that the wheel paretobandit 0.1.1 carries
(Apache-2.0), of which each run draws as many with replacement; the second model's rewards are moved so that the first
one is better by 0.15 standard deviations of the differences, or by nothing (a tie). The judge says the reward and
noise, as much as makes its differences have this correlation with the people's; "unfair" likes the second model by 0.3
deviations more than people do. "Knows its doubt" says on which prompts people see a large difference, with noise. Two
judges name a quarter of the prompts, with noise: "errs on a quarter" errs ten times as much there, and "mute on a
quarter" sees no difference.

Every tenth audit the rule of the service looks: labels of people only, audits at random, and audits by doubt. Nothing
was tuned here. A run is wrong if the rule names the worse model; of ties it counts how many stop within 600 labels.
Brackets are one-sided 95 % limits. z is of the difference, at 50 and at 200 audits of ties.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from optimist.estimates.audited import DOUBTED, AuditedMean, audited, drawn
from optimist.policies.audits import audits_as_batches, new_audits
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping

Array = NDArray[np.float64]
GAP, UNFAIR = 0.15, 0.3
STEP, LONGEST, TIES = 10, 3_000, 600
ZS = (50, 200)
JUDGES = {
    "0": 0.0,
    "0.3": 0.3,
    "0.6": 0.6,
    "0.8": 0.8,
    "0.95": 0.95,
    "0.8, unfair": 0.8,
    "knows its doubt": 0.6,
    "errs on a quarter": 0.5,
    "mute on a quarter": 0.95,
}
"""The correlation of each judge's differences with people's."""
UNSURE = 10.0
"""How many times as much a judge errs on its quarter."""
WAYS = ("people", "random", "doubt")


@dataclass
class Tally:
    """What the runs of one judge and one way came to."""

    labels: list[int] = field(default_factory=list[int])
    """Those of each run until it stops, or its end."""
    wrong: int = 0
    stopped: int = 0
    """Ties that stopped."""
    z: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in ZS})


def rewards() -> Array:
    """The rewards (prompts, 2) of the two models whose names come first. Raises SystemExit without the wheel."""
    found = find_spec("pareto_bandit")
    if found is None or found.origin is None:
        raise SystemExit("the rewards are not installed: pip install --no-deps paretobandit")
    files = sorted((Path(found.origin).parent / "data" / "examples").glob("*.jsonl"))
    arms = [json.loads(line)["arms"] for file in files for line in file.read_text().split("\n") if line]
    models = sorted({model for each in arms for model in each})[:2]
    return np.array([[each[model]["reward"] for model in models] for each in arms])


def problem(name: str, known: Array, gap: float, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """People's and the judge's differences on the prompts of a run (N,), in deviations, and the judge's doubt (N,)."""
    apart = known[:, 0] - known[:, 1]
    apart = (apart - apart.mean()) / apart.std()
    people = apart[random.integers(len(apart), size=len(apart))] + gap
    noise, doubt = random.standard_normal(len(people)), random.uniform(size=len(people))
    rho = JUDGES[name]
    if name == "knows its doubt":
        doubt = np.abs(people - gap) + 0.5 * np.abs(random.standard_normal(len(people)))
    is_unsure = np.zeros(len(people), bool)
    if name.endswith("on a quarter"):
        is_unsure = random.uniform(size=len(people)) < 0.25
        doubt = is_unsure + 0.3 * random.standard_normal(len(people))
    if name == "errs on a quarter":
        noise = np.where(is_unsure, UNSURE, 1.0) * noise / math.sqrt(0.25 * UNSURE**2 + 0.75)
    judge = noise if rho == 0.0 else people + math.sqrt(1.0 / rho**2 - 1.0) * noise
    if name == "mute on a quarter":
        judge = np.where(is_unsure, 0.0, judge)
    return people, judge - UNFAIR * (name == "0.8, unfair"), doubt


def play(
    people: Array, judge: Array, doubt: Array, way: str, cap: int, random: np.random.Generator
) -> Iterator[tuple[int, float, bool]]:
    """At each look up to `cap` labels: their number, the difference in its errors, and whether the rule stops."""
    n, stopping, seed = len(people), Stopping(0.05), int(random.integers(2**32))
    by_judge = np.zeros(n) if way == "people" else judge
    mean, of_mean = float(by_judge.mean()), float(by_judge.var()) / n
    free, places, weights = np.ones(n, bool), np.zeros(0, np.int64), np.zeros(0)
    while len(places) < cap:
        if way == "doubt":
            at = np.sort(places)
            own = AuditedMean(
                samples=n,
                mean=mean,
                variance=of_mean * n,
                judged=judge[:0],
                audits=at.astype(np.int32),
                people=people[at],
                scores=judge[at],
                weights=weights[places.argsort()],
                doubts=doubt[:DOUBTED],
            )
            new = new_audits(seed, np.ones(n, bool), free, [own], len(places), STEP)
            more, weight = np.array([index for index, _ in new], np.int64), np.array([weight for _, weight in new])
        else:
            more, weight = drawn(STEP, free, random)
        if len(more) < STEP:
            return
        free[more] = False
        places, weights = np.append(places, more), np.append(weights, weight)
        count = len(places)
        if count < FEWEST_SAMPLES:
            continue
        found = audited(people[places], by_judge[places], weights, mean, of_mean)
        z = found.value / math.sqrt(found.variance)
        yield count, z, abs(z) > stopping.threshold(2, audits_as_batches([count, count]))


def upper(count: int, runs: int) -> float:
    """The one-sided 95 % upper limit of a share."""
    return float(beta.ppf(0.95, count + 1, runs - count)) if count < runs else 1.0


def lower(count: int, runs: int) -> float:
    """The one-sided 95 % lower limit of a share."""
    return float(beta.ppf(0.05, count, runs - count + 1)) if count else 0.0


def share(count: int, runs: int) -> str:
    """A share with its limits."""
    return f"{100 * count / runs:.1f} % ({100 * lower(count, runs):.1f} to {100 * upper(count, runs):.1f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all judges in all ways, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="runs of each judge and way")
    parser.add_argument("--only", choices=JUDGES, nargs="+", default=list(JUDGES), help="names of judges")
    chosen = parser.parse_args(arguments)
    known = rewards()
    print("| judge | audits | median labels | of people only | wrong | ties that stop | rms z at 50 and 200 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in chosen.only:
        alone = 1.0
        for way in WAYS:
            tally = Tally()
            for run in range(chosen.runs):
                random = np.random.default_rng((run, list(JUDGES).index(name)))
                looks = play(*problem(name, known, GAP, random), way, LONGEST, random)
                count, z, _ = next((look for look in looks if look[2]), (LONGEST, 0.0, False))
                tally.labels.append(count)
                tally.wrong += z < 0.0
                tie = list(play(*problem(name, known, 0.0, random), way, TIES, random))
                tally.stopped += any(stops for *_, stops in tie)
                for count, z, _ in tie:
                    if count in tally.z:
                        tally.z[count].append(z)
            median = float(np.median(tally.labels))
            alone = median if way == "people" else alone
            zs = ", ".join(f"{np.sqrt(np.mean(np.square(each))):.2f}" for each in tally.z.values())
            shares = share(tally.wrong, chosen.runs), share(tally.stopped, chosen.runs)
            print(
                f"| {name} | {way} | {median:.0f} | {median / alone:.2f} | {shares[0]} | {shares[1]} | {zs} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
