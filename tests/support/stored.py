"""The experiments of the fixture, and how they go on: the same steps for who makes it and for who opens it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from optimist_client import Experiment, Optimist
from optimist_client.models import Mixture, Report, Routes, Standing

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
    "watching": {"metric": "fid", "watch": [{"name": "rke", "kernel": KERNEL}, {"name": "is", "dimension": 4}]},
    "blending": {"metric": "rke", "dimension": 4, "kernel": KERNEL, "goal": "mixture", "stop": False},
    "audited": {"metric": {"name": "mean", "reads": "human", "proxy": "judge"}, "stop": False},
    # The model is made at 66 samples, which fix the columns of contexts, and next at 132: which one a pick is
    # made from does not depend on how fast a scorer is.
    "routing": {"metric": "mean", "goal": "route", "context": 4, "context_features": 8, "rescore_growth": 1.0},
}
GENERATORS = {"good": 0.0, "bad": 1.5, "worse": 2.5}


def make(client: Optimist) -> None:
    """All of them, some rounds in: one decided, one with snapshots, one with a generator out, one with an open pick."""
    client.create_reference("standard", mean=np.zeros(4), covariance=np.eye(4), samples=1000)
    for name, config in QUESTIONS.items():
        given = {**config, "reference": "standard"} if config["metric"] == "fid" else config
        # Picks wait for every estimate, so that they do not depend on how fast a scorer is.
        given = given | ({} if name in ("blending", "routing") else {"rescore_growth": 0.0})
        generators = list(GENERATORS)[: 2 if name == "trimmed" else None]
        experiment = client.create_experiment(name, generators, seed=7, max_wait=30.0, **given)
        play(experiment, {"trimmed": 60, "routing": 66, "audited": 15}.get(name, 30))
    client.experiment("classes").set_state("worse", "paused")
    client.experiment("kernel").ask(worker="on-its-way")
    routing = client.experiment("routing")
    while (pick := routing.ask(context=np.zeros(4))) is not None and pick.info.model is None:
        pick.give_up("too early")
        time.sleep(0.2)
    play(routing, 9)


def play(experiment: Experiment, rounds: int) -> list[tuple[int, str, int]]:
    """So many rounds by one worker, each batch a function of its pick; the picks as (number, generator, seed)."""
    config = experiment.info.config
    picked = []
    if config.goal == "route":
        told = experiment.report().samples
        return [route(experiment, number) for number in range(told, told + rounds)]
    for _ in range(rounds):
        # An ask would not wait for all that is due.
        settled(experiment)
        pick = experiment.ask()
        if pick is None:
            break
        picked.append((pick.number, pick.generator, pick.seed))
        rng = np.random.default_rng(pick.seed)
        rows = rng.normal(GENERATORS[pick.generator], 1.0, (pick.size, 5 if config.metric.name == "is" else 4))
        if config.watch:
            odds = np.exp(rows)
            pick.tell({"features": rows, "probabilities": odds / odds.sum(axis=1, keepdims=True)})
        elif config.metric.name == "is":
            odds = np.exp(rows)
            pick.tell(odds / odds.sum(axis=1, keepdims=True))
        elif config.metric.setting("proxy") is not None:
            pick.tell({"judge": rows[:, :1]})
            answered(experiment)
        elif config.prompts is not None:
            pick.tell(rows, prompts=rng.normal(size=(pick.size, 4)))
        else:
            pick.tell(rows, ids=[f"{pick.number}/{row}" for row in range(pick.size)])
    return picked


def answered(experiment: Experiment) -> None:
    """Answer two audits by their indices."""
    for audit in experiment.audits(2):
        assert audit.index is not None
        experiment.answer(audit, {name: mean + audit.index % 5 / 8 for name, mean in GENERATORS.items()})


def route(experiment: Experiment, number: int) -> tuple[int, str, int]:
    """One round of an experiment that routes prompts, with the prompt of this number."""
    context = np.random.default_rng(number).normal(size=4)
    pick = experiment.ask(context=context, prompt=f"prompt {number}")
    assert pick is not None
    # Each generator is the best one for some prompts.
    pick.tell(float(context[list(GENERATORS).index(pick.generator)] + GENERATORS[pick.generator] / 4))
    return pick.number, pick.generator, pick.seed


def standing(experiment: Experiment, seconds: float = 60.0) -> dict[str, Any]:
    """What must be the same in every later version, once every estimate that is due is made."""
    deadline = time.monotonic() + seconds
    report = settled(experiment, deadline)
    routes = None
    if experiment.info.config.goal == "route":
        routes = table_of(fresh_table(experiment, deadline))
        report = experiment.report()  # the best one is that of the table
    return {
        "state": report.state,
        "rounds": report.rounds,
        "samples": report.samples,
        "best": report.decision.best,
        "decided": report.decision.decided,
        "generators": rows_of(report.standings),
        "watched": {label: rows_of(by.standings) for label, by in report.watched.items()},
        **({} if report.mixture is None else {"mixture": mixture_of_sets(report.mixture)}),
        **({} if routes is None else {"routes": routes}),
    }


def settled(experiment: Experiment, deadline: float = math.inf) -> Report:
    """The report, once every estimate that is due is made."""
    while not ((report := experiment.report()).scored and all(by.scored for by in report.watched.values())):
        assert time.monotonic() < deadline, "estimates that are due are not made"
        time.sleep(0.02)
    return report


def mixture_of_sets(mixture: Mixture) -> list[float]:
    """Its weights, score and gain with their errors, and duality gap."""
    numbers = mixture.score, mixture.standard_error, mixture.gain, mixture.gain_standard_error, mixture.gap
    return [*(one.weight for one in mixture.weights), *numbers]


def fresh_table(experiment: Experiment, deadline: float) -> Routes:
    """The table of routes by all samples: on a busy machine the service may answer with an older one first."""
    while (routes := experiment.route_table()).stale:
        assert time.monotonic() < deadline, "the table of routes is not made"
    return routes


def table_of(routes: Routes) -> list[float]:
    """Scores, gain and error (0 while they are not known) of a table, and what its model would give each generator."""
    gain = routes.gain or 0.0, routes.standard_error or 0.0
    return [routes.best_score, routes.score, *gain, *(one.routed for one in routes.shares)]


def rows_of(standings: list[Standing]) -> dict[str, list[Any]]:
    """Of each generator its state, its samples, and its score with error and bounds."""
    return {
        row.generator: [row.state, row.samples, row.score, row.standard_error, row.lower, row.upper]
        for row in standings
    }
