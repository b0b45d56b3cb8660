"""`optimist evaluate` on real rewards: calls and dollars to the decision against asking everything, and wrong answers.

    python benchmarks/evaluating.py FOLDER [--shuffles N] [--prompts N] [--save FILE]

FOLDER is `pareto_bandit/data/examples` of the wheel paretobandit 0.1.1 (Apache-2.0): rewards and dollars of three
language models on 3,609 prompts. Canned endpoints on 127.0.0.1 answer each prompt with its reward; a call costs what
the model's calls cost on average. Each shuffle is a run of the command's own engine with another order of the prompts
(`seed`). The truth is what all prompts say.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from optimist.evaluating import told
from optimist.evaluating.canned import CannedModel, CannedServer, Say
from optimist.evaluating.play import Job

ASKED = {"best, 1% does not matter": "tolerance: 1%", "cheapest within 2%": "good_enough: 2%"}


class World(NamedTuple):
    """Rewards (n, G) and dollars (G,) of models."""

    names: list[str]
    rewards: np.ndarray[Any, Any]
    dollars: np.ndarray[Any, Any]

    def right(self, question: str) -> set[str]:
        """The answers that are right."""
        means = self.rewards.mean(0)
        share = 0.01 if "best" in question else 0.02
        good = [name for name, mean in zip(self.names, means, strict=True) if mean >= (1 - share) * means.max()]
        if "best" in question:
            return {*good}
        return {min(good, key=lambda name: self.dollars[self.names.index(name)])}


def world_of(folder: Path, prompts: int | None) -> World:
    """The rewards of the wheel's files, or of so many prompts of them."""
    lines = [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().split("\n") if line
    ]
    names = [*lines[0]["arms"]]
    rewards = np.array([[line["arms"][name]["reward"] for name in names] for line in lines])
    dollars = np.array([[line["arms"][name]["cost"] for name in names] for line in lines])
    chosen = np.random.default_rng(0).permutation(len(lines))[:prompts]
    return World([name.rpartition("/")[2] for name in names], rewards[chosen], dollars[chosen].mean(0))


def saying(rewards: np.ndarray[Any, Any]) -> Say:
    """A model that answers prompt i with its reward."""
    return lambda prompt, seed: repr(float(rewards[int(prompt)]))


def write(folder: Path, world: World, url: str, asked: str, seed: int) -> Path:
    """The file of one run."""
    models = "".join(
        f"  {name}: {{base_url: {url}, model: {name}, price: {{call: {dollars:.9f}}}}}\n"
        for name, dollars in zip(world.names, world.dollars, strict=True)
    )
    lines = (json.dumps({"prompt": f"{place}"}) for place in range(len(world.rewards)))
    (folder / "questions.jsonl").write_text("\n".join(lines))
    (folder / "reward_of.py").write_text("def reward(answer, prompt):\n    return float(answer)\n")
    score = "score: {python: 'reward_of:reward', scale: [0, 1]}"
    file = folder / "eval.yaml"
    file.write_text(f"models:\n{models}prompts: questions.jsonl\n{score}\n{asked}\nseed: {seed}\n")
    return file


def row_of(world: World, question: str, shuffles: int) -> str:
    """The line of a table."""
    calls, dollars, wrong, decided = list[int](), list[float](), 0, 0
    models = {name: CannedModel(saying(world.rewards[:, place])) for place, name in enumerate(world.names)}
    for seed in range(shuffles):
        with tempfile.TemporaryDirectory() as folder, CannedServer(models) as server:
            found = Job(write(Path(folder), world, server.url, ASKED[question], seed)).run(progress=False)
            made, spent = told.spent(found)
            assert made == len(server.served), "each request is told once"
        calls.append(made)
        dollars.append(spent)
        decided += found.report.decision.decided
        wrong += found.report.decision.decided and found.report.decision.best not in world.right(question)
    every, paid = world.rewards.size, float(len(world.rewards) * world.dollars.sum())
    return (
        f"| {question} | {len(world.rewards):,} | {shuffles} | {decided} | {wrong} | {median(calls):,.0f} of {every:,} "
        f"({median(calls) / every:.0%}) | ${median(dollars):.3f} of ${paid:.3f} ({median(dollars) / paid:.0%}) |"
    )


def main() -> None:
    """Print the table, or write it to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shuffles", type=int, default=50)
    parser.add_argument("--prompts", type=int, help="of the wheel's prompts, at random (default: all)")
    parser.add_argument("--save", type=Path, help="write the table here")
    given = parser.parse_args()
    world, since = world_of(given.folder, given.prompts), time.process_time()
    lines = [
        "| question | prompts | shuffles | decided | wrong | calls, median | dollars, median |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        print(line, flush=True)
    for question in ASKED:
        lines.append(row_of(world, question, given.shuffles))
        print(lines[-1], flush=True)
    print(f"{time.process_time() - since:.0f} s of processor time")
    if given.save is not None:
        given.save.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
