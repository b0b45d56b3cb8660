"""The experiments of the fixture, and how they go on: the same steps for who makes it and for who opens it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from optimist_client import Experiment, Optimist
from optimist_client.models import Mixture, Standing

KERNEL = {"name": "gaussian", "sigma": 2.0, "features": 8}
QUESTIONS: dict[str, dict[str, Any]] = {
    "fid": {"metric": "fid", "stop": False},
    "trimmed": {"metric": "fid", "stop": False, "policy": "uniform", "batch_size": 80},
    "classes": {"metric": "is", "dimension": 5, "policy": "ucb"},
    "kernel": {"metric": "rke", "dimension": 4, "kernel": KERNEL, "keep_log": True, "lease": 10.0},
    "prompts": {
        "metric": "conditional-vendi",
        "dimension": 4,
        "prompt_dimension": 4,
        "kernel": KERNEL,
        "prompt_kernel": {**KERNEL, "seed": 1},
        "prompts": [f"prompt {number}" for number in range(12)],
    },
    "decided": {"metric": "fid", "tolerance": 50.0},
    # From format 4 on.
    "watching": {"metric": "fid", "watch": [{"name": "rke", "kernel": KERNEL}, {"name": "is", "dimension": 4}]},
    # From format 5 on.
    "blending": {"metric": "rke", "dimension": 4, "kernel": KERNEL, "goal": "mixture", "stop": False},
}
GENERATORS = {"good": 0.0, "bad": 1.5, "worse": 2.5}


def make(client: Optimist) -> None:
    """All of them, some rounds in: one decided, one with snapshots, one with a generator out, one with an open pick."""
    client.create_reference("standard", mean=np.zeros(4), covariance=np.eye(4), samples=1000)
    for name, config in QUESTIONS.items():
        given = {**config, "reference": "standard"} if config["metric"] == "fid" else config
        generators = list(GENERATORS)[: 2 if name == "trimmed" else None]
        experiment = client.create_experiment(name, generators, seed=7, max_wait=30.0, **given)
        play(experiment, 60 if name == "trimmed" else 30)
    client.experiment("classes").set_state("worse", "paused")
    client.experiment("kernel").ask(worker="on-its-way")


def play(experiment: Experiment, rounds: int) -> list[tuple[int, str, int]]:
    """So many rounds by one worker, each batch a function of its pick; the picks as (number, generator, seed)."""
    config = experiment.info.config
    picked = []
    for _ in range(rounds):
        pick = experiment.ask()
        if pick is None:
            break
        picked.append((pick.number, pick.generator, pick.seed))
        rng = np.random.default_rng(pick.seed)
        rows = rng.normal(GENERATORS[pick.generator], 1.0, (pick.size, 5 if config.metric == "is" else 4))
        if config.watch:
            odds = np.exp(rows)
            pick.tell({"features": rows, "probabilities": odds / odds.sum(axis=1, keepdims=True)})
        elif config.metric == "is":
            odds = np.exp(rows)
            pick.tell(odds / odds.sum(axis=1, keepdims=True))
        elif config.prompts is not None:
            pick.tell(rows, prompts=rng.normal(size=(pick.size, 4)))
        else:
            pick.tell(rows, ids=[f"{pick.number}/{row}" for row in range(pick.size)])
    return picked


def standing(experiment: Experiment, seconds: float = 60.0) -> dict[str, Any]:
    """What must be the same in every later version, once every estimate that is due is made."""
    deadline = time.monotonic() + seconds
    while not ((report := experiment.report()).scored and all(by.scored for by in report.watched.values())):
        assert time.monotonic() < deadline, "estimates that are due are not made"
        time.sleep(0.05)
    return {
        "state": report.state,
        "rounds": report.rounds,
        "samples": report.samples,
        "best": report.decision.best,
        "decided": report.decision.decided,
        "generators": rows_of(report.standings),
        "watched": {label: rows_of(by.standings) for label, by in report.watched.items()},
        **({} if report.mixture is None else {"mixture": blend_of(report.mixture)}),
    }


def blend_of(mixture: Mixture) -> list[float]:
    """Its weights, score and gain with their errors, and duality gap."""
    numbers = mixture.score, mixture.error, mixture.gain, mixture.gain_error, mixture.gap
    return [*(one.weight for one in mixture.weights), *numbers]


def rows_of(standings: list[Standing]) -> dict[str, list[Any]]:
    """Of each generator its state, its samples, and its score with error and bounds."""
    return {row.generator: [row.state, row.samples, row.score, row.error, row.lower, row.upper] for row in standings}
