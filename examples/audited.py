"""A judge and a few people, on real rewards that nobody here wrote: how few labels decide which model is best?

The wheel `paretobandit` (Apache-2.0) carries 3,609 prompts, and for each of them the rewards of three models. The
rewards stand for what people say. A judge scores every answer: it is the reward with noise, on a scale of its own, and
it likes one model more than people do. People score the prompts that the evaluation asks for, until they decide.
Nothing is called and nothing is paid. In a clone of the repository:

    pip install -c constraints.txt '.[demo,notebook]'
    pip install --no-deps paretobandit
    python examples/audited.py
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optimist import Evaluation
from optimist_client.metrics import Mean

NOISE, LIKED = 0.35, 1.0
"""The judge's noise, and how much more it likes the worst model, in standard deviations of the rewards."""


def rewards() -> dict[str, NDArray[np.float64]]:
    """The rewards of each model that the wheel carries, in a fixed random order of the prompts."""
    found = find_spec("pareto_bandit")
    if found is None or found.origin is None:
        raise SystemExit("the rewards are not installed: pip install --no-deps paretobandit")
    files = sorted((Path(found.origin).parent / "data" / "examples").glob("*.jsonl"))
    arms = [json.loads(line)["arms"] for file in files for line in file.read_text().split("\n") if line]
    order = np.random.default_rng(0).permutation(len(arms))
    return {
        model.rpartition("/")[2]: np.array([arms[place][model]["reward"] for place in order])
        for model in sorted(arms[0])
    }


def main() -> None:
    """Let a judge score all answers, and people a few, until the best model is sure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--labels", type=int, default=1_000, help="the most prompts that people score (default 1,000)")
    chosen = parser.parse_args()
    people, random = rewards(), np.random.default_rng(1)
    scale = np.std(np.concatenate([*people.values()]))
    worst = min(people, key=lambda name: float(people[name].mean()))
    evaluation = Evaluation([*people], metric=Mean(reads="human", proxy="judge", range=(0, 1)), tolerance=0.01)
    for name, each in people.items():
        judge = 100.0 * (each + NOISE * scale * random.standard_normal(len(each)) + LIKED * scale * (name == worst))
        evaluation.tell(name, {"judge": judge[:, None]})
    labels = 0
    while labels < chosen.labels and not evaluation.decision(explain=False).decided:
        for audit in evaluation.audits(5):
            evaluation.answer(audit, {name: float(each[audit]) for name, each in people.items()})
            labels += 1
    print(evaluation.report())
    print(f"People scored {labels:,} of {len(people[worst]):,} prompts.")
    for said in evaluation.judge:
        print(said)


if __name__ == "__main__":
    main()
