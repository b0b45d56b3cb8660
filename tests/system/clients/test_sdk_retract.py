"""Retractions as users make them: by the SDK and on the command line, over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optimist_client import ConflictError, Experiment, FixError, NotFoundError, Optimist, StopError
from optimist_client.models import Report
from tests.support.commands import invoked
from tests.support.processes import Service, until

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


def scored(experiment: Experiment, samples: int) -> Report:
    """The report once the first generator's score is of so many samples."""
    until(lambda: experiment.report().standings[0].scored_samples == samples)
    return experiment.report()


def test_an_absurd_batch_is_found_and_retracted(client: Optimist, name: str):
    experiment = made(client, name)
    poisoned = scored(experiment, 60).standings[0]
    assert poisoned.score > 1e5
    assert poisoned.warnings[-1].startswith("batch 2 of x is about ")
    assert poisoned.warnings[-1].endswith(" times larger than its others")
    assert "1 anomalous batch counts: see `anomalies`, `retract` and `accept`." in str(experiment.report())
    (anomaly,) = experiment.anomalies()
    assert [one.endswith("times larger than its others") for one in anomaly.findings] == [True]
    reply = experiment.retract(pick=anomaly.pick, reason="an embedder that overflowed")
    found = [(one.generator, one.position, one.pick, one.samples) for one in reply.retracted]
    assert (found, reply.already, reply.decision_reopened) == ([("x", 2, 2, 20)], False, False)
    again = experiment.retract(generator="x", position=2, reason="another reason")
    assert (again.retracted, again.already) == (reply.retracted, True)

    report = scored(experiment, 40)
    mended = report.standings[0]
    assert mended.score < 10
    assert not any("times larger" in warning for warning in mended.warnings)
    (retraction,) = report.retractions
    assert (retraction.position, retraction.reason) == (2, "an embedder that overflowed")
    assert report.anomalies == []
    said = "Retracted: batch 2 of x (pick 2, 20 samples): an embedder that overflowed."
    assert said in str(report)
    assert "anomalous" not in str(report)
    assert said in report._repr_html_()


def test_a_whole_generator_and_what_cannot_be_retracted(client: Optimist, name: str):
    experiment = made(client, name)
    reply = experiment.retract(generator="y/z")
    assert [(one.generator, one.position, one.samples) for one in reply.retracted] == [("y/z", None, 40)]
    assert experiment.report().standings[1].samples == 0
    experiment.add_generator("new")
    assert experiment.retract(generator="new").retracted == []
    for wrong in ({}, {"position": 1}, {"pick": 1, "generator": "x"}, {"pick": 1, "position": 1}):
        with pytest.raises(ValueError, match="expected a pick"):
            experiment.retract(**wrong)
    for unknown in ({"pick": 99}, {"generator": "x", "position": 99}, {"generator": "nobody"}):
        with pytest.raises(NotFoundError):
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
