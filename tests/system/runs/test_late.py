"""Picks that outlast their lease, whose slices other workers sample, too: no index counts twice. Real processes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import ConflictError, Experiment, Optimist, Pick
from optimist_client.metrics import Mean
from optimist_client.models import TellReply
from tests.support.processes import Service, append_batch, scored, until

CONFIG: dict[str, Any] = {
    "metric": "mean",
    "range": (0, 1),
    "policy": "uniform",
    "lease": 1.0,
    "stop": False,
    "rescore_growth": 0.0,
    "max_wait": 30.0,
}


def rows_of(pick: Pick, count: int | None = None) -> np.ndarray:
    """The samples of a pick, which its seeds determine (n, 1)."""
    seeds = pick.seeds[:count]
    return np.array([[np.random.default_rng(seed).random()] for seed in seeds])


def asked(experiment: Experiment, worker: str) -> Pick:
    pick = experiment.ask(worker=worker)
    assert pick is not None
    return pick


def outlasted(experiment: Experiment, worker: str) -> Pick:
    """A pick whose lease has run out."""
    pick = asked(experiment, worker)
    until(lambda: not experiment.report().open_picks)
    return pick


def append(service: Service, experiment: Experiment, generator: str, rows: Any, start: int | None = None) -> TellReply:
    """Tell rows (n, 1) without a pick."""
    at = {} if start is None else {"start": start}
    answer = append_batch(service.url, experiment.name, generator, {Mean().first_name: rows}, **at)
    return TellReply.model_validate(answer.raise_for_status().json())


def check_score(experiment: Experiment, rows: np.ndarray) -> None:
    """The experiment's score is that of these rows, each once, and its error, too."""
    evaluation = Evaluation(["a"], metric=Mean(range=(0.0, 1.0)), rescore_growth=0.0)
    evaluation.tell("a", rows)
    expected = evaluation.estimates()["a"]
    report = scored(experiment)
    [row] = report.standings
    assert (row.samples, row.scored_samples) == (len(rows), len(rows))
    assert (row.score, row.standard_error) == (
        pytest.approx(expected.score, rel=1e-12),
        pytest.approx(expected.standard_error, rel=1e-9),
    )


@pytest.mark.parametrize(("order", "refuse_copies"), [("late first", False), ("late last", True)])
def test_a_slice_that_two_workers_tell_counts_once(
    client: Optimist, service: Service, name: str, order: str, refuse_copies: bool
):
    experiment = client.create_experiment(name, ["a"], **CONFIG, refuse_copies=refuse_copies)
    late = outlasted(experiment, "slow")
    other = asked(experiment, "fast")
    assert (late.start, late.seeds) == (other.start, other.seeds)
    rows = rows_of(late)
    first, second = (late, other) if order == "late first" else (other, late)
    told = first.tell(rows)
    assert (told.position, told.duplicate, told.uncounted, told.late) == (1, False, 0, first is late)
    for _ in range(2):
        repeated = second.tell(rows)
        assert (repeated.position, repeated.duplicate, repeated.uncounted) == (None, True, 5)
        assert (repeated.samples, repeated.batches, repeated.late) == (5, 1, second is late)
    with pytest.raises(ConflictError):
        second.tell(1.0 - rows)
    assert append(service, experiment, "a", np.full((4, 1), 0.5), start=1).uncounted == 4
    following = asked(experiment, "fast")
    assert following.start == 5
    following.tell(rows_of(following))
    check_score(experiment, np.vstack([rows, rows_of(following)]))
    with pytest.raises(ConflictError, match="nothing of the batch of pick"):
        experiment.retract(pick=second.number)


def test_a_batch_that_shares_some_indices_counts_without_them(client: Optimist, service: Service, name: str):
    """A late batch of three rows, then all five; then a batch that begins in the next slice's middle."""
    experiment = client.create_experiment(name, ["a"], **CONFIG, previews=8)
    late = outlasted(experiment, "slow")
    other = asked(experiment, "fast")
    assert late.tell(rows_of(late, 3)).samples == 3
    told = other.tell(rows_of(other), previews=[f"text {row}" for row in range(5)])
    assert (told.samples, told.uncounted, told.duplicate, told.position) == (5, 3, False, 2)
    middle = asked(experiment, "fast")
    assert middle.start == 5
    around = rows_of(middle)
    assert append(service, experiment, "a", around[1:3], start=6).uncounted == 0
    told = middle.tell(around)
    assert (told.samples, told.uncounted) == (10, 2)
    kept = httpx.get(f"{service.url}/v1/experiments/{name}/previews").json()["previews"]
    assert sorted((one["pick"], one["index"]) for one in kept) == [(other.number, 3), (other.number, 4)]
    check_score(experiment, np.vstack([rows_of(other), around]))
    assert experiment.retract(pick=middle.number).retracted[0].samples == 3
    again = [asked(experiment, worker) for worker in ("one", "two")]
    assert [(pick.start, pick.size) for pick in again] == [(5, 1), (8, 2)]


def test_generators_that_ignore_seeds_count_whole(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(name, ["a", "api"], **CONFIG, seeds={"api": False})
    slow = {pick.generator: pick for pick in (asked(experiment, f"slow {n}") for n in range(2))}
    until(lambda: not experiment.report().open_picks)
    fast = {pick.generator: pick for pick in (asked(experiment, f"fast {n}") for n in range(2))}
    rng = np.random.default_rng(0)
    replies = {
        (generator, kind): pick.tell(rng.random((5, 1)))
        for kind, picks in (("slow", slow), ("fast", fast))
        for generator, pick in picks.items()
    }
    assert replies["api", "fast"].samples == 10
    assert replies["a", "fast"].samples == 5
    assert replies["a", "fast"].duplicate
    experiment.add_generator("other api", seeds=False)
    for _ in range(2):
        assert not append(service, experiment, "other api", rng.random((3, 1))).duplicate
    with pytest.raises(httpx.HTTPStatusError, match="422"):
        append(service, experiment, "other api", rng.random((3, 1)), start=0)
    assert {row.generator: row.samples for row in experiment.report().standings}["other api"] == 6


@pytest.mark.long
def test_a_run_whose_batches_outlast_their_leases_counts_each_index_once(client: Optimist, name: str):
    """Every third batch takes longer than the lease. What all batches of an index say is the same."""
    experiment = client.create_experiment(name, ["a"], **CONFIG, budget=60)
    first, calls = experiment.ask(worker="first"), 0
    first.give_up()

    def sample(size: int, seed: int) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls % 3 == 1:
            time.sleep(1.5)
        return np.array([[np.random.default_rng((seed + row) % 2**32).random()] for row in range(size)])

    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(experiment.run, {"a": sample}, progress=False) for _ in range(2)]:
            run.result()
    report = experiment.report()
    assert (report.samples, report.open_picks) == (60, 0)
    assert calls > 12, "some slices were sampled twice"
    check_score(experiment, np.array([[np.random.default_rng(first.seed + index).random()] for index in range(60)]))
