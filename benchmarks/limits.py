"""The goal "cheapest": wrong statements where generators are at a limit, and what the answer costs elsewhere.

    python benchmarks/limits.py [--runs N] [--only PATTERN] [--save FILE]
    python benchmarks/limits.py --real FOLDER [--runs N] [--save FILE]

Every run is an `Evaluation` that is told batches of ten samples, which grow to a tenth of a generator's samples.
At the limit a run ends at a cap, and is wrong if a verdict was wrong at any look, or the name at the end. Off it the
cost of the samples until the decision is compared: with uniform sampling, with an oracle that knows the true scores and
samples what these make open, and with the goal "best" and the same tolerance. Brackets: one-sided 95 % limits.

FOLDER is `pareto_bandit/data/examples` of the wheel paretobandit 0.1.1 (Apache-2.0): rewards and dollars of three
language models on 3,609 prompts, which are shuffled anew in each run. The truth is what all prompts say.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, norm

from optimist import Evaluation
from optimist.experiments.goals.cheapest import ForCheapest
from optimist.policies.arms import Arm, rivals
from optimist.policies.cheapest import Cheapest, LimitTable
from optimist.policies.limits import Margins, MarginSide
from optimist_client.metrics import FID, Mean

Array = NDArray[np.float64]
ALLOWED = {"normal": 0.25, "pass/fail": 0.1, "likert": 0.25, "fid": 0.1}
"""How much worse than the best a good generator may be."""
STEPS = np.array([-1.5, -0.5, 0.5, 1.5])
"""Where the five grades of a Likert scale end."""
BATCH = 10


def losses(kind: str, generators: int) -> Array:
    """How much worse than the best each generator is, in what is allowed, the cheapest first."""
    half, found = generators // 2, np.zeros(generators)
    if kind == "far":
        found[:half], found[half] = np.linspace(3, 2, half), 0.3
        found[half + 1 :] = np.linspace(0, 0.3, generators - half - 1)[::-1]
    elif kind == "near":
        found[:half], found[half] = 1.4, 0.6
        found[half + 1 :] = np.linspace(0, 0.5, generators - half - 1)[::-1]
    elif kind == "first":
        found[0], found[1:] = 0.5, np.linspace(0.8, 0, generators - 1)
    elif kind == "last":
        found[:-1] = np.linspace(3, 1.6, generators - 1)
    elif kind == "at":  # half of them at the limit of several best ones
        found[:half] = 1.0
    elif kind == "over":  # all but one just beyond it
        found[:-1] = 1.0 + 1e-6
    elif kind == "mix":
        found[:half], found[half] = 1.0 + 1e-6, 1.0
    return found


def shifts(law: str, loss: Array) -> Array:
    """The means of the normal numbers behind values whose means are these losses below the best one's."""
    if law == "normal":
        return -loss
    if law == "pass/fail":
        return norm.ppf(0.75 - loss)
    low, high = np.full(len(loss), -6.0), np.full(len(loss), 6.0)
    middle = 0.5 * (low + high)
    for _ in range(60):
        below = norm.cdf(middle[:, None] - STEPS).sum(1) < norm.cdf(0.6 - STEPS).sum() - loss
        low, high = np.where(below, middle, low), np.where(below, high, middle)
        middle = 0.5 * (low + high)
    return middle


@dataclass(frozen=True)
class Cell:
    """Generators with true losses, and how they are sampled."""

    law: str
    rho: float
    generators: int
    kind: str
    cap: int = 2000
    """Samples of a generator after which a run ends."""
    delta: float = 0.05
    latency: float | None = None
    """σ of a lognormal latency, of which the cheapest is just over the limit of 1; None: there is none."""
    measures_costs: bool = False
    in_flight: int = 1
    """Picks that are open at a time."""

    @property
    def name(self) -> str:
        more = [f"δ {self.delta:g}"] * (self.delta != 0.05) + ["costs measured"] * self.measures_costs
        more += [] if self.latency is None else [f"latency σ {self.latency:g}"]
        more += [f"{self.in_flight} in flight"] * (self.in_flight > 1)
        return ", ".join([self.law, f"ρ {self.rho:g}", f"G {self.generators}", self.kind, *more])

    @property
    def is_at_limit(self) -> bool:
        return self.kind in ("at", "over", "mix") or self.latency is not None

    @property
    def allowed(self) -> float:
        return ALLOWED[self.law]

    @property
    def loss(self) -> Array:
        return losses(self.kind, self.generators) * self.allowed

    @property
    def costs(self) -> Array:
        return 30.0 ** (np.arange(self.generators) / (self.generators - 1))

    @property
    def latencies(self) -> Array:
        """The mean latencies: the cheapest is just over the limit, the others far below it."""
        return np.where(np.arange(self.generators) == 0, 1.0 + 1e-9, 0.6)

    @cached_property
    def good(self) -> NDArray[np.bool_]:
        """Which generators meet each limit (L, G)."""
        found = [self.loss <= self.allowed + 1e-12]
        return np.array(found if self.latency is None else [*found, self.latencies <= 1.0])

    def rows(self, rng: np.random.Generator) -> dict[str, Array]:
        """The samples of all generators (G, cap, d) by array."""
        width = 4 if self.law == "fid" else 1
        shape = self.generators, self.cap, width
        x = math.sqrt(1.0 - self.rho) * rng.standard_normal(shape)
        x += math.sqrt(self.rho) * rng.standard_normal(shape[1:])
        if self.law == "fid":  # the squared distance of the means is the score; all differ from the reference
            x[..., 0] += np.sqrt(0.5 + self.loss)[:, None]
            return {"features": x}
        x += shifts(self.law, self.loss)[:, None, None]
        if self.law == "pass/fail":
            x = (x > 0.0).astype(np.float64)
        elif self.law == "likert":
            x = 1.0 + (x > STEPS).sum(axis=2, keepdims=True)
        found = {"values": x}
        if self.latency is not None:
            spread = self.latency * rng.standard_normal(shape) - 0.5 * self.latency**2
            found["latency"] = np.exp(spread) * self.latencies[:, None, None]
        if self.measures_costs:
            found["dollars"] = self.costs[:, None, None] * np.exp(0.5 * rng.standard_normal(shape) - 0.125)
        return found

    def evaluation(self, policy: str) -> Evaluation:
        names = [f"g{place}" for place in range(self.generators)]
        spans: dict[str, Any] = {"pass/fail": {"range": (0, 1)}, "likert": {"range": (1, 5)}}
        lower: dict[str, Any] = {"higher_is_better": False}
        how: dict[str, Any] = {"delta": self.delta, "batch_size": BATCH, "paired": self.rho > 0.0, "watch": []}
        how["metric"] = (
            FID(reference=(np.zeros(4), np.eye(4))) if self.law == "fid" else Mean(**spans.get(self.law, {}))
        )
        if self.latency is not None:
            how["watch"] += [Mean(label="latency", reads="latency", **lower)]
            how["limits"] = {"latency": "< 1"}
        if self.measures_costs:
            how["watch"] += [Mean(label="dollars", reads="dollars", **lower)]
            how["cost_metric"] = "dollars"
        else:
            how["costs"] = dict(zip(names, self.costs.tolist(), strict=True))
        if policy == "best":
            return Evaluation(names, goal="best", tolerance=self.allowed, **how)
        given = "uniform" if policy == "uniform" else "top-two"
        return Evaluation(names, goal="cheapest", good_enough=self.allowed, policy=given, **how)


@dataclass(frozen=True, eq=False)
class TrueMargins(Margins):
    """Margins by which is sampled as the true ones (G, J) say, and decided as the estimates do."""

    truth: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def left(self, z: float, side: Literal["met", "missed"], costs: Array, open_: Array) -> Array:
        known = (MarginSide(self.truth, of.error) for of in (self.met, self.missed))
        return Margins.left(replace(self, **dict(zip(("met", "missed"), known, strict=True))), z, side, costs, open_)


class TrueTable(LimitTable):
    """A table of an oracle, which knows the answer."""

    def __init__(self, rule: Oracle, arms: Sequence[Arm], told: int) -> None:
        super().__init__(rule, arms, told)
        loss, known = np.array(rule.truth), self.margins[0]
        truth = loss[:, None] - loss[None] - known.allowed
        self._good = loss <= known.allowed[0] + 1e-12
        self.margins = [TrueMargins(**{one.name: getattr(known, one.name) for one in fields(Margins)}, truth=truth)]

    @cached_property
    def leader(self) -> int | None:
        return int(self._good.argmax())


@dataclass(frozen=True, slots=True)
class Oracle(Cheapest):
    """The rule that samples by the true losses (G,)."""

    truth: tuple[float, ...] = ()

    def table(self, arms: Sequence[Arm], told: int) -> LimitTable:
        return TrueTable(self, arms, told) if told > 1 else Cheapest.table(self, arms, told)


class Outcome(NamedTuple):
    """What a run has come to."""

    is_decided: bool
    is_wrong: bool
    """Whether it named another one than the cheapest good one."""
    is_table_wrong: bool
    """Whether a verdict was wrong at any look."""
    samples: int
    cost: float


def play(cell: Cell, policy: str, seed: int) -> Outcome:
    """One run; the samples of a seed are the same for every policy."""
    rng = np.random.default_rng((seed, cell.generators, int(10 * cell.rho), len(cell.kind)))
    rows, evaluation = cell.rows(rng), cell.evaluation(policy)
    names, goal, ends = evaluation.generators, evaluation.state.goal, [0] * cell.generators
    rule = goal.rule if isinstance(goal, ForCheapest) else None
    if policy == "oracle":
        assert isinstance(goal, ForCheapest)
        assert rule is not None
        oracle = Oracle(*(getattr(rule, one.name) for one in fields(Cheapest)), truth=tuple(cell.loss.tolist()))
        evaluation.state.put_goal(replace(goal, rule=oracle))
    open_: list[tuple[int, int, int]] = []
    is_table_wrong, decided, best = False, False, None
    while True:
        pending = {names[g]: sum(g == one for one, *_ in open_) for g in range(cell.generators)}
        decision = evaluation.decision(explain=False, pending=pending)
        if rule is not None and cell.is_at_limit and evaluation.told > 2 * cell.generators:
            table = rule.table(rivals(evaluation.state.arms), evaluation.told)
            wrong = (table.missed & cell.good) | (table.met & ~cell.good)
            is_table_wrong |= bool(wrong.any())
        if decision.decided:
            decided, best = True, decision.best
            break
        while len(open_) < cell.in_flight and not decision.awaited:
            g = names.index(evaluation.ask(pending=pending))
            start, size = ends[g], max(BATCH, ends[g] // 10)
            if start + size > cell.cap:
                break
            open_.append((g, start, size))
            ends[g] += size
            pending[names[g]] += 1
        if not open_:
            break
        g, start, size = open_.pop(int(rng.integers(len(open_))))
        evaluation.tell(names[g], {key: x[g, start : start + size] for key, x in rows.items()}, start=start)
    counts = np.array([evaluation.counts(name)[0] for name in names])
    good = cell.good.all(axis=0)
    right = names[int(good.argmax())] if good.any() else None
    return Outcome(decided, decided and best != right, is_table_wrong, int(counts.sum()), float(counts @ cell.costs))


def upper(wrong: int, runs: int) -> float:
    """The one-sided 95 % limit of a share, in per cent."""
    return 100.0 * float(beta.ppf(0.95, wrong + 1, runs - wrong)) if wrong < runs else 100.0


CELLS = [
    Cell("normal", 0.0, 3, "at"),
    Cell("normal", 0.0, 3, "mix"),
    Cell("normal", 0.9, 3, "mix"),
    Cell("pass/fail", 0.9, 3, "mix"),
    Cell("pass/fail", 0.0, 3, "mix"),
    Cell("likert", 0.5, 3, "mix"),
    Cell("normal", 0.0, 5, "mix"),
    Cell("normal", 0.0, 3, "mix", delta=0.2),
    Cell("normal", 0.0, 3, "mix", in_flight=8),
    Cell("normal", 0.0, 3, "mix", measures_costs=True),
    Cell("normal", 0.0, 3, "far", latency=1.0),
    Cell("fid", 0.0, 3, "mix", cap=1000),
    *(Cell("normal", rho, 3, kind, cap=20_000) for rho in (0.0, 0.9) for kind in ("far", "near", "first", "last")),
    Cell("normal", 0.0, 5, "near", cap=20_000),
    Cell("normal", 0.0, 3, "far", cap=20_000, measures_costs=True),
    Cell("normal", 0.0, 3, "far", cap=20_000, in_flight=8),
    Cell("fid", 0.0, 3, "far", cap=4_000),
]


def at_limit(cell: Cell, runs: int) -> str:
    """A row of the table of wrong statements."""
    found = [play(cell, "top-two", seed) for seed in range(runs)]
    table, named = (sum(each) for each in ([one.is_table_wrong for one in found], [one.is_wrong for one in found]))
    decided = sum(one.is_decided for one in found) / runs
    shown = (f"{100 * wrong / runs:.1f} [{upper(wrong, runs):.1f}]" for wrong in (table, named))
    return f"| {cell.name} | {runs} | {' | '.join(shown)} | {decided:.0%} |"


def off_limit(cell: Cell, runs: int) -> str:
    """A row of the table of costs."""
    policies = ["top-two", "uniform", "oracle", "best"] if not cell.measures_costs else ["top-two", "uniform"]
    found = {policy: [play(cell, policy, seed) for seed in range(runs)] for policy in policies}
    cost = {policy: float(np.mean([one.cost for one in played])) for policy, played in found.items()}
    own = found["top-two"]
    wrong = sum(one.is_wrong for one in own)
    ratios = [f"{cost['top-two'] / cost[other]:.2f}" if other in cost else "" for other in policies[1:]]
    ratios += [""] * (3 - len(ratios))
    not_named = f"{sum(one.is_wrong for one in found['best']) / runs:.0%}" if "best" in found else ""
    decided = sum(one.is_decided for one in own) / runs
    samples = f"{np.median([one.samples for one in own]):,.0f}"
    return (
        f"| {cell.name} | {runs} | {wrong} [{upper(wrong, runs):.1f}] | {decided:.0%} | {samples} | "
        f"{' | '.join(ratios)} | {not_named} |"
    )


def of_shuffles(folder: Path, runs: int) -> Iterator[str]:
    """The rows of a table of what is named on real rewards, by how much worse than the best a good model may be."""
    lines = [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().split("\n") if line
    ]
    names = sorted(lines[0]["arms"], key=lambda name: sum(line["arms"][name]["cost"] for line in lines))
    rewards, dollars = (
        np.array([[line["arms"][name][field] for name in names] for line in lines]) for field in ("reward", "cost")
    )
    costs = dict(zip(names, dollars.mean(axis=0).tolist(), strict=True))
    for allowed in REAL:
        means = rewards.mean(axis=0)
        worst = float(allowed.rstrip("%")) / 100.0 * means.max() if "%" in allowed else float(allowed)
        right = names[int((means >= means.max() - worst - 1e-12).argmax())]
        named, prompts, spent = list[str | None](), list[int](), list[float]()
        for seed in range(runs):
            order = np.random.default_rng(seed).permutation(len(lines))
            x, paid = rewards[order], np.cumsum(dollars[order], axis=0)
            how: dict[str, Any] = {"good_enough": allowed if "%" in allowed else float(allowed), "costs": costs}
            evaluation = Evaluation(names, metric=Mean(range=(0, 1)), goal="cheapest", batch_size=5, **how)
            while not (decision := evaluation.decision(explain=False)).decided:
                g = names.index(evaluation.ask())
                start = evaluation.next_start(names[g])
                if start >= len(lines):
                    break
                evaluation.tell(names[g], x[start : start + max(5, start // 20), g, None])
            counts = [evaluation.next_start(name) for name in names]
            named.append(decision.best if decision.decided else None)
            prompts.append(max(counts))
            spent.append(sum(float(paid[count - 1, g]) for g, count in enumerate(counts)))
        wrong = sum(name not in (None, right) for name in named)
        decided = sum(name is not None for name in named) / runs
        shown = f"{wrong} [{upper(wrong, runs):.1f}]"
        yield (
            f"| {allowed} | {right.partition('/')[2] or right} | {runs} | {decided:.0%} | {shown} | "
            f"{np.median(prompts):,.0f} | {np.median(spent):.2f} of {dollars.sum():.2f} |"
        )


REAL = ("0.05", "0.02", "2%")
"""How much worse than the best a good model may be."""
OF_REAL = (
    "| allowed | truth | shuffles | decided | wrong | prompts, median | dollars, median |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
HEADS = {
    True: "| cell | runs | table wrong % | name wrong % | decided |\n| --- | --- | --- | --- | --- |",
    False: "| cell | runs | name wrong | decided | samples, median | cost over uniform's | over an oracle's | "
    "over best's | best names another |\n" + "| --- " * 9 + "|",
}


def main() -> None:
    """Play the cells that were asked for, and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", default="*", help="pattern of the shell for the names of cells")
    parser.add_argument("--save", type=Path, help="a file to which rows are added")
    parser.add_argument("--real", type=Path, help="folder of real rewards, which are used instead of the cells")
    given = parser.parse_args()
    torch.set_num_threads(1)

    def show(*rows: str) -> None:
        print(*rows, sep="\n", flush=True)
        if given.save is not None:
            with given.save.open("a") as file:
                file.write("\n".join([*rows, ""]))

    if given.real is not None:
        show("", *OF_REAL.split("\n"))
        for row in of_shuffles(given.real, given.runs):
            show(row)
        return
    shown: bool | None = None
    for cell in CELLS:
        if not fnmatch(cell.name, given.only):
            continue
        began = time.time()
        row = (at_limit if cell.is_at_limit else off_limit)(cell, given.runs)
        head = [] if shown == cell.is_at_limit else ["", *HEADS[cell.is_at_limit].split("\n")]
        shown = cell.is_at_limit
        show(*head, row)
        print(f"  {time.time() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
