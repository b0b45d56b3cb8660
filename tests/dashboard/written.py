"""Experiments written into the store as they would be after a long time."""

from __future__ import annotations

import json
import time
import uuid

import numpy as np
from redis import Redis

from optimist.numerics.estimate import Estimate
from optimist.store import ExperimentState, GeneratorState, open_store
from optimist.store.formats import HISTORY
from optimist.store.keys import experiment_key
from optimist_client.models import Experiment, ExperimentConfig

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
        GeneratorState(
            ordinal=g,
            name=generator,
            samples=BATCH * batches[g],
            batches=batches[g],
            seq=batches[g],
            due_samples=BATCH * batches[g],
            due_seq=batches[g],
            estimate_seq=batches[g],
            estimate=json.dumps(estimate(g, BATCH * batches[g]).to_dict()),
        )
        for g, generator in enumerate(generators(count))
    ]
    config = ExperimentConfig(name=name, generators=generators(count), metric="is", dimension=10, stop=False)
    made = Experiment(config=config, dimension=10, created=time.time(), instance=uuid.uuid4().hex)
    stored = ExperimentState(rounds, rounds, states, instance=made.instance)
    async with open_store(redis_url) as store, store.restoring(name) as restoration:
        await restoration.commit(made.model_dump_json(), config.rescore_growth, stored, history.tobytes(), {})
    _write_curves(redis_url, name, history, count)
    return history


def _write_curves(redis_url: str, name: str, history: np.ndarray, count: int) -> None:
    with Redis(unix_socket_path=redis_url.removeprefix("unix://")) as redis:
        for g in range(count):
            told = np.flatnonzero(history["generator"] == g) + 1
            steps = 1.04 ** np.arange(np.log(len(told)) / np.log(1.04))
            seqs = sorted({*map(int, steps), len(told)})
            points = [json.dumps(estimate(g, BATCH * seq).point) for seq in seqs]
            entries = [f"{told[seq - 1]} {seq} {point}" for seq, point in zip(seqs, points, strict=True)]
            redis.rpush(experiment_key(name, f"curve:{g}"), *entries)
