"""How many picks one worker, and one access key, may have open; and how many rows a pick takes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import FixError, Optimist
from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import Service

LIMITS = {"OPTIMIST_MAX_WORKER_PICKS": "3", "OPTIMIST_MAX_KEY_PICKS": "8"}
CONFIG = {"name": "x", "generators": ["a", "b"], "metric": {"name": "is", "dimension": 3}}
BATCH = np.random.default_rng(0).normal(size=(5, 4))


def picks(http: httpx.Client, count: int, worker: str | None = None) -> list[int]:
    reply = http.post("/v1/experiments/x/picks", json={"count": count, "worker": worker}).raise_for_status().json()
    assert bool(reply["picks"]) != (reply["retry_after"] is not None)
    return [pick["number"] for pick in reply["picks"]]


@pytest.mark.long
def test_one_worker_and_one_key_leave_picks_for_others(tmp_path: Path):
    with ExitStack() as stack:
        service, admin = stack.enter_context(guarded(tmp_path, "--no-scoring", environment=LIMITS))
        keys = [admin, new_key(tmp_path, "worker"), new_key(tmp_path, "worker")]
        owner, one, other = (stack.enter_context(client_of(service, key)) for key in keys)
        owner.post("/v1/experiments", json=CONFIG).raise_for_status()
        first = picks(one, 10, "w")
        assert len(first) == 3
        assert picks(one, 10, "w") == first, "its open ones again"
        assert [len(picks(one, 10)) for _ in range(3)] == [3, 2, 0], "what the key has left"
        assert picks(one, 1, "another name") == []
        assert len(picks(other, 10, "w2")) == 3
        one.delete(f"/v1/experiments/x/picks/{first[0]}").raise_for_status()
        assert len(picks(one, 10)) == 1


def test_a_batch_has_no_more_rows_than_were_asked_for(service: Service, client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, budget=100)
    pick = experiment.ask()
    with pytest.raises(FixError, match=f"at most 5 rows for pick {pick.number}, got 60000"):
        pick.tell(np.zeros((60_000, 4)))
    assert (experiment.report().samples, experiment.report().open_picks) == (0, 1)
    assert pick.tell(BATCH[:4]).samples == 4, "fewer are taken"


def test_a_pick_with_prompts_takes_a_row_for_each(client: Optimist, name: str):
    kernel = {"sigma": 2.0, "features": 8}
    pairs = {"dimension": 4, "prompt_dimension": 4, "kernel": kernel, "prompt_kernel": {**kernel, "seed": 1}}
    prompts = [f"prompt {number}" for number in range(20)]
    experiment = client.create_experiment(name, ["a", "b"], metric="conditional-vendi", prompts=prompts, **pairs)
    pick = experiment.ask()
    for rows in (4, 6):
        with pytest.raises(FixError, match=f"expected 5 rows for pick {pick.number}, got {rows}"):
            pick.tell(np.ones((rows, 4)), prompts=np.ones((rows, 4)))
    assert pick.tell(BATCH, prompts=BATCH).samples == 5


def test_a_worker_hands_in_only_so_many_batches(client: Optimist, name: str, tmp_path: Path):
    experiment = client.create_experiment(name, ["a", "b"], metric="is", dimension=4, max_batches_per_worker=2)
    scores = np.full((5, 4), 0.25)
    told = [experiment.ask(worker="w").tell(scores) for _ in range(2)]
    assert experiment.ask(worker="w") is None, "it may end"
    with pytest.raises(FixError, match="worker: expected a name, as the experiment limits batches by worker"):
        experiment.ask()
    experiment.retract(pick=told[0].pick)
    experiment.ask(worker="u")
    experiment.export(tmp_path / "x.optimist")
    again = client.import_experiment(tmp_path / "x.optimist", name=f"{name}-again")
    for one in (experiment, again):
        assert one.ask(worker="w") is None, "what was retracted was handed in"
    assert len(again.ask_all(worker="u", count=3)) == 2, "open picks are not exported"
