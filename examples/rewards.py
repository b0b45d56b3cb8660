"""Real rewards and dollars of three language models that nobody here wrote: which is best, and what would routing gain?

The wheel `paretobandit` (Apache-2.0) carries 3,609 prompts, and for each of them the reward and the cost of the answers
of three models. A pick looks up the answers to its prompts; nothing is called and nothing is paid. With the extra
`embed-offline` the prompts are embedded, and the example says what it would gain to send each prompt to the model that
is best for it. In a clone of the repository:

    pip install -c constraints.txt '.[demo,notebook]'
    pip install --no-deps paretobandit
    python examples/rewards.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import optimist
from optimist_client.embedders import Sentences
from optimist_client.errors import FixError
from optimist_client.metrics import Mean

LONGEST = 4096
"""Characters of a prompt that an experiment keeps."""

Answers = dict[str, dict[str, dict[str, float]]]
"""By prompt and model: `reward` and `cost`."""


def answers() -> Answers:
    """The rewards and costs that the wheel carries, in a fixed random order of the prompts."""
    found = find_spec("pareto_bandit")
    if found is None or found.origin is None:
        raise SystemExit("the rewards are not installed: pip install --no-deps paretobandit")
    lines = [
        json.loads(line)
        for file in sorted((Path(found.origin).parent / "data" / "examples").glob("*.jsonl"))
        for line in file.read_text().split("\n")
        if line
    ]
    order = np.random.default_rng(0).permutation(len(lines))
    return {lines[place]["prompt"][:LONGEST]: lines[place]["arms"] for place in order}


def routing_gain(known: Answers, models: Sequence[str]) -> str:
    """What `optimist route` says of these prompts; why not, where the network that embeds them is not installed."""
    try:
        embed = Sentences.shipped()
    except FixError as error:
        return f"What routing gains is left out: {error}"
    table = [[each[model] for model in models] for each in known.values()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rewards.npz"
        np.savez(
            file,
            contexts=embed(list(known)),
            scores=[[one["reward"] for one in row] for row in table],
            costs=np.mean([[one["cost"] for one in row] for row in table], axis=0),
            names=[model.rpartition("/")[2] for model in models],
            prompts=list(known),
        )
        command = [sys.executable, "-m", "optimist.cli", "route", str(file), "--types", "4"]
        wide = {**os.environ, "COLUMNS": "160"}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=wide).stdout


def main() -> None:
    """Decide between the models, with and without their costs, and say what routing would gain."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--budget", type=int, default=3_000, help="maximum number of answers (default 3,000)")
    parser.add_argument("--prompts", type=int, default=1_000, help="prompts for the gain of routing (default 1,000)")
    parser.add_argument("--picture", type=Path, help="write the scores and their intervals as a picture to this file")
    chosen = parser.parse_args()
    known = answers()
    models = sorted({model for each in known.values() for model in each})
    short = {model: model.rpartition("/")[2] for model in models}
    costs = {short[model]: float(np.mean([each[model]["cost"] for each in known.values()])) for model in models}

    def rewarded(model: str) -> Callable[[int, int, Sequence[str]], NDArray[np.float64]]:
        return lambda size, seed, prompts: np.array([known[prompt][model]["reward"] for prompt in prompts])

    report = optimist.run(
        {short[model]: rewarded(model) for model in models},
        metric=Mean(range=(0, 1)),
        prompts=list(known),
        costs=costs,
        tolerance=0.01,
        budget=chosen.budget,
    )
    print(report)
    print(routing_gain(dict(list(known.items())[: chosen.prompts]), models))
    if chosen.picture is not None:
        report.plot().figure.savefig(chosen.picture, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
