"""Experiments written into the store as they would be after a long time."""

from __future__ import annotations

import json
import time
import uuid
from itertools import product

import numpy as np
from redis import Redis

from optimist.estimates.estimate import Estimate
from optimist.records import HISTORY, ExperimentState
from optimist.store import open_store
from optimist.store.keys import experiment_key
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator

BATCH = 5


def generators(count: int) -> list[str]:
    return [f"model-{g:02d}" for g in range(count)]


def estimate(g: int, samples: int) -> Estimate:
    """As of an Inception Score that falls from generator to generator."""
    value, error = np.log(8.0 - 0.4 * g / (1 + 0.05 * g)), 1.5 / np.sqrt(samples)
    return Estimate(
        float(value + error * np.sin(samples) / 3),
        float(value),
        samples,
        float(value - 2 * error),
        float(value + 2 * error),
        float(value + 2 * error),
        error,
        error,
        "log",
        lower_is_better=False,
    )


async def write_long_experiment(redis_url: str, name: str, rounds: int, count: int) -> np.ndarray:
    """An experiment of so many batches told; returns its history. Nobody may score it: it has no log."""
    rng = np.random.default_rng(0)
    # The best one gets more and more of the batches.
    shares = np.linspace(0, 1, rounds)[:, None] * [0.7, *np.full(count - 1, 0.3 / (count - 1))]
    shares += np.linspace(1, 0, rounds)[:, None] / count
    history = np.zeros(rounds, HISTORY)
    history["generator"] = (shares.cumsum(axis=1) < rng.random((rounds, 1))).sum(axis=1)
    history["rows"] = BATCH
    batches = np.bincount(history["generator"], minlength=count).tolist()
    states = [
        generator(g, model, BATCH * batches[g], {"is": estimate(g, BATCH * batches[g])})
        for g, model in enumerate(generators(count))
    ]
    config = config_of(name=name, generators=generators(count), metric="is", dimension=10, stop=False)
    made = experiment_of(config, created=time.time(), instance=uuid.uuid4().hex)
    stored = ExperimentState(rounds, rounds, states, instance=made.instance, labels=("is",))
    async with open_store(redis_url) as store, store.restoring(name) as restoration:
        await restoration.commit(made.model_dump_json(), config.rescore_growth, stored, history.tobytes(), {})
    _write_curves(redis_url, name, history, count)
    return history


WATCHED = {"rke": False, "spread": True}
"""The watched metrics by label, and whether they order the generators the other way round than the deciding one."""
KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 8}


async def write_watched_experiment(redis_url: str, name: str, count: int) -> None:
    """An experiment with costs that was decided after 100 batches of each generator, and has had 20 more since.

    Its watched metrics are those of `WATCHED`. Nobody may score it: it has no log.
    """
    names, rounds = generators(count), 120 * count
    history = np.zeros(rounds, HISTORY)
    history["generator"] = np.arange(rounds) % count
    history["rows"] = BATCH
    states = []
    for g, model in enumerate(names):
        ranks = {"is": g, **{label: count - g if is_reversed else g for label, is_reversed in WATCHED.items()}}
        made_of = {label: estimate(rank, BATCH * 120) for label, rank in ranks.items()}
        states.append(generator(g, model, BATCH * 120, made_of))
    rke = {"name": "rke", "kernel": KERNEL, "dimension": 10, "reads": "features"}
    config = config_of(
        **{
            "name": name,
            "generators": names,
            "metric": {"name": "is", "dimension": 10},
            "watch": [{**rke, "label": label} for label in WATCHED],
            "costs": {generator: 1.0 + g for g, generator in enumerate(names)},
        }
    )
    columns = {"probabilities": 10, "features": 10}
    made = experiment_of(config, columns=columns, created=time.time(), instance=uuid.uuid4().hex)
    latched = {"best": names[0], "confidence": 0.97, "decided": True, "reason": "so", "samples": [BATCH * 100] * count}
    stored = ExperimentState(
        rounds, rounds, states, instance=made.instance, decision=json.dumps(latched), labels=("is", *WATCHED)
    )
    async with open_store(redis_url) as store, store.restoring(name) as restoration:
        parts = made.model_dump_json(), config.rescore_growth, stored, history.tobytes(), {}
        await restoration.commit(*parts)
    _write_curves(redis_url, name, history, count)
    with Redis(unix_socket_path=redis_url.removeprefix("unix://")) as redis:
        for g, label in product(range(count), WATCHED):
            points = [(seq, estimate(g, BATCH * seq).point) for seq in (20, 60, 120)]
            entries = [f"{seq * count} {seq} {json.dumps(point)}" for seq, point in points]
            redis.rpush(experiment_key(name, f"curve:{g}:{label}"), *entries)


def _write_curves(redis_url: str, name: str, history: np.ndarray, count: int) -> None:
    with Redis(unix_socket_path=redis_url.removeprefix("unix://")) as redis:
        for g in range(count):
            told = np.flatnonzero(history["generator"] == g) + 1
            steps = 1.04 ** np.arange(np.log(len(told)) / np.log(1.04))
            seqs = sorted({*map(int, steps), len(told)})
            points = [json.dumps(estimate(g, BATCH * seq).point) for seq in seqs]
            entries = [f"{told[seq - 1]} {seq} {point}" for seq, point in zip(seqs, points, strict=True)]
            redis.rpush(experiment_key(name, f"curve:{g}:is"), *entries)
