"""Whether the gain that `optimist evaluate --route` says holds, where the answers are of a run that stopped early.

    OMP_NUM_THREADS=1 python benchmarks/evaluated_routing.py [--runs N]

Three models of known chances on two types of prompts, 200 prompts, one answer at a time, as the command asks for them:
in one world models are good at one type each, in the other one model is the best at both. The truth of a gain is what
the routed prompts are expected to score beyond the best single model. It is outside of its interval in at most δ = 5 %.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from optimist import Evaluation
from optimist.experiments.slices import prompt_order
from optimist.routing.gain.reports import route_arrays
from optimist_client import FixError
from optimist_client.metrics import Mean

NAMES = ("a", "b", "c")
WORLDS = {
    "models are good at one type each": np.array([[0.95, 0.55], [0.60, 0.90], [0.5, 0.5]]),
    "one model is the best at both": np.array([[0.80, 0.80], [0.70, 0.70], [0.5, 0.5]]),
}
"""Chances (models, types) of a right answer."""
PROMPTS = 200


class Said(NamedTuple):
    """What was said of a run, and what is true."""

    answers: int
    lower: float
    upper: float
    truth: float


def answered(scores: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """The scores (prompts, models) that a run asks for until it is decided; NaN where it asked for none."""
    metric = Mean(label="score", range=(0, 1), repeatable=True, higher_is_better=True)
    listed: dict[str, Any] = {"prompts": [f"{place}" for place in range(PROMPTS)], "prompts_are": "list"}
    run = Evaluation(NAMES, metric=metric, batch_size=1, seed=seed, tolerance=0.01, **listed)
    order = prompt_order(PROMPTS, seed, 0, PROMPTS, passes=True)
    found = np.full((PROMPTS, len(NAMES)), np.nan)
    while max(run.next_start(name) for name in NAMES) < PROMPTS and not run.decision(explain=False).decided:
        name = run.ask()
        model, start = NAMES.index(name), run.next_start(name)
        place = order[start]
        found[place, model] = scores[place, model]
        run.tell(name, [[scores[place, model]]], prompt_indices=[place], start=start)
    return found


def said(chances: np.ndarray[Any, Any], seed: int) -> Said | None:
    """What is said of the gain after a run; None where it is not known."""
    rng = np.random.default_rng(seed)
    kinds = (rng.random(PROMPTS) < 0.5).astype(int)
    contexts = np.eye(2)[kinds] @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(PROMPTS, 8))
    scores = answered((rng.random((len(NAMES), PROMPTS)) < chances[:, kinds]).astype(float).T, seed)
    try:
        arrays = {"contexts": contexts, "scores": scores, "names": np.array(NAMES)}
        gain = route_arrays(arrays, Path("answers")).gain
    except FixError:
        return None
    assert gain.lower is not None
    assert gain.upper is not None
    expected = chances[:, kinds]
    truth = expected[gain.routed, np.arange(PROMPTS)].mean() - expected.mean(1).max()
    return Said(int((~np.isnan(scores)).sum()), gain.lower, gain.upper, float(truth))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    print(
        "| world | runs | answers, mean | gain known | truth below | truth above | said to be better | width, median |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for world, chances in WORLDS.items():
        found = [one for one in (said(chances, seed) for seed in range(runs)) if one is not None]
        low = sum(one.truth < one.lower - 1e-9 for one in found)
        high = sum(one.truth > one.upper + 1e-9 for one in found)
        better = sum(one.lower > 0.0 for one in found)
        width, answers = np.median([one.upper - one.lower for one in found]), np.mean([one.answers for one in found])
        cells = (world, runs, f"{answers:.0f} of {3 * PROMPTS}", len(found), low, high, better, f"{width:.2f}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
