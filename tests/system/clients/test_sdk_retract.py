"""Retractions as users make them: by the SDK and on the command line, over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optimist_client import ConflictError, Experiment, FixError, NotFoundError, Optimist, StopError
from tests.support.commands import invoked
from tests.support.processes import Service

NAMES = ["x", "y/z"]


def rows(seed: int, size: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 8))


def made(client: Optimist, name: str) -> Experiment:
    """With three batches of `x`, of which pick 2 is far too large, and two of `y/z`."""
    experiment = client.create_experiment(
        name, NAMES, reference=(np.zeros(8), np.eye(8)), policy="uniform", batch_size=20, max_wait=0.0, stop=False
    )
    for number, generator in enumerate(("x", "x", "x", "y/z", "y/z"), start=1):
        pick = experiment.ask(generators=[generator])
        pick.tell(rows(number) * (5e3 if number == 2 else 1.0))
    return experiment


def test_a_batch_a_whole_generator_and_what_cannot_be_retracted(client: Optimist, name: str):
    experiment = made(client, name)
    first = experiment.retract(pick=2, reason="an embedder that overflowed")
    found = [(one.generator, one.position, one.pick, one.samples) for one in first.retracted]
    assert (found, first.already, first.decision_reopened) == ([("x", 2, 2, 20)], False, False)
    again = experiment.retract(generator="x", position=2, reason="another reason")
    assert (again.retracted, again.already) == (first.retracted, True)
    said = "Retracted: batch 2 of x (pick 2, 20 samples): an embedder that overflowed."
    assert said in str(experiment.report())
    reply = experiment.retract(generator="y/z")
    assert [(one.generator, one.position, one.samples) for one in reply.retracted] == [("y/z", None, 40)]
    assert experiment.report().standings[1].samples == 0
    experiment.add_generator("new")
    assert experiment.retract(generator="new").retracted == []
    for wrong in ({}, {"position": 1}, {"pick": 1, "generator": "x"}, {"pick": 1, "position": 1}):
        with pytest.raises(ValueError, match="expected a pick"):
            experiment.retract(**wrong)
    for unknown, said in (
        ({"pick": 99}, "pick 99 was never made"),
        ({"generator": "x", "position": 99}, "has no batch at position 99"),
        ({"generator": "nobody"}, "has no generator 'nobody'"),
    ):
        with pytest.raises(NotFoundError, match=said):
            experiment.retract(**unknown)
    with pytest.raises(FixError, match="reason"):
        experiment.retract(generator="x", reason="x" * 1025)
    pick = experiment.ask()
    with pytest.raises(ConflictError, match=f"pick {pick.number} has no batch yet") as refused:
        experiment.retract(pick=pick.number)
    assert refused.value.problem.type.endswith(":not-retractable")
    pick.tell(rows(9))
    experiment.retract(pick=pick.number)
    for batch in (rows(9), rows(9) + 1.0):
        with pytest.raises(StopError, match="retracted since") as stopped:
            pick.tell(batch)
        assert stopped.value.problem.type.endswith(":retracted")


def test_the_commands_list_and_retract(client: Optimist, service: Service, name: str):
    made(client, name)

    def run(*arguments: str, answer: str = "") -> tuple[int, str]:
        done = invoked(*arguments, "--url", service.url, input=answer, env={"COLUMNS": "200"})
        return done.exit_code, done.output

    code, listed = run("anomalies", name)
    assert code == 0
    assert "times larger than its others" in listed
    (anomaly,) = json.loads(run("anomalies", name, "--json")[1])
    assert (anomaly["pick"], anomaly["retracted"]) == (2, False)
    assert run("retract", name, "--pick", "2", "--reason", "overflow") == (0, "retracted: batch 2 of x, 20 samples\n")
    assert run("retract", name, "--pick", "2")[1] == "retracted before: batch 2 of x, 20 samples\n"
    code, refused = run("retract", name, "--generator", "y/z", answer="n\n")
    assert code == 1
    assert "Retract all batches of 'y/z'?" in refused
    assert run("retract", name, "--generator", "y/z", "--yes")[1] == "retracted: all batches of y/z, 40 samples\n"
    code, missing = run("retract", name)
    assert code == 1
    assert "expected a pick, or a generator" in missing
    assert json.loads(run("anomalies", name, "--json")[1]) == []
