"""Batches on another scale, by a service: what rests on one is provisional until it is accepted, or retracted."""

from __future__ import annotations

import numpy as np
import pytest

from optimist_client import Experiment, NotFoundError, Optimist, Pick, StopError
from optimist_client.models import Report
from tests.support.commands import invoked
from tests.support.processes import Service, until

NAMES = ["good", "b/ad"]


def made(client: Optimist, name: str, **more: object) -> Experiment:
    how: dict[str, object] = {"reference": (np.zeros(8), np.eye(8)), "batch_size": 10, "seed": 1}
    return client.create_experiment(name, NAMES, **(how | more))


def run(experiment: Experiment) -> tuple[Report, list[str]]:
    """Five batches of each, one of `b/ad` on the scale of pixels, and more until it is decided.

    Returns the report, and what the tells said.
    """
    said: list[str] = []

    def told(pick: Pick, factor: float = 1.0) -> None:
        rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 8))
        said.extend(pick.tell(factor * (rows + 0.3 if pick.generator == "b/ad" else rows)).findings)

    experiment.resume(stop=False)
    for batch in range(1, 6):
        for generator in NAMES:
            pick = experiment.ask(generators=[generator])
            told(pick, 255.0 if (generator, batch) == ("b/ad", 3) else 1.0)
    experiment.resume(stop=True)
    for pick in experiment.picks():
        told(pick)
    until(lambda: experiment.report().decision.decided)
    return experiment.report(), said


def test_a_decision_that_rests_on_one_is_provisional_until_it_is_accepted(client: Optimist, name: str):
    experiment = made(client, name)
    report, said = run(experiment)
    [finding] = said
    assert finding.startswith("is about 2")
    assert finding.endswith(": pixels 0–255 instead of 0–1?")
    assert (report.state, report.decision.best, report.ended) == ("decided", "good", True)
    [odd] = report.decision.anomalies
    assert (odd.generator, odd.positions, odd.whole) == ("b/ad", (3,), False)
    unless = "unless batch 3 of b/ad is wrong: retract or accept it"
    assert report.decision.unless == unless
    assert f", {unless}." in str(report)
    assert "Warning: batch 3 of b/ad is about 2" in str(report)
    assert experiment.ask() is None
    [anomaly] = experiment.anomalies()
    assert (anomaly.position, anomaly.findings[0][:10]) == (3, "is about 2")
    reply = experiment.accept(pick=anomaly.pick, reason="it is so")
    assert (reply.accepted.generator, reply.accepted.position, reply.already) == ("b/ad", 3, False)
    again = experiment.accept(generator="b/ad", position=3)
    assert (again.accepted, again.already) == (reply.accepted, True)
    report = experiment.report()
    assert (report.state, report.decision.anomalies, report.decision.unless) == ("decided", (), "")
    assert experiment.anomalies() == []
    assert report.acceptances == [reply.accepted]
    assert "Accepted: batch 3 of b/ad: it is so." in str(report)


def test_a_generator_on_another_scale_is_accepted_as_a_whole(client: Optimist, name: str):
    experiment = made(client, name, stop=False)
    for seed, generator in enumerate(NAMES * 3):
        rows = np.random.default_rng(seed).standard_normal((10, 8)) * (255.0 if generator == "b/ad" else 1.0)
        experiment.ask(generators=[generator]).tell(rows)
    [odd] = experiment.report().decision.anomalies
    assert (odd.generator, odd.positions, odd.whole) == ("b/ad", (1, 2, 3), True)
    assert odd.text.startswith("every batch of b/ad is about 2")
    assert "times larger than the reference" in odd.text
    assert experiment.report().standings[1].warnings[-1] == odd.text
    reply = experiment.accept(generator="b/ad")
    assert (reply.accepted.position, reply.accepted.until) == (None, 3)
    experiment.ask(generators=["b/ad"]).tell(255 * np.random.default_rng(9).standard_normal((10, 8)))
    assert experiment.report().decision.anomalies == ()


def test_who_wants_none_gets_none(client: Optimist, name: str):
    report, said = run(made(client, name, on_anomaly="ignore"))
    assert (report.decision.best, report.decision.unless, said, report.anomalies) == ("good", "", [], [])


def test_what_cannot_be_accepted(client: Optimist, name: str):
    experiment = made(client, name)
    experiment.ask(generators=["good"]).tell(np.ones((10, 8)))
    for wrong in ({}, {"position": 1}, {"pick": 1, "generator": "good"}):
        with pytest.raises(ValueError, match="expected a pick"):
            experiment.accept(**wrong)
    for unknown in ({"pick": 99}, {"generator": "good", "position": 99}, {"generator": "nobody"}):
        with pytest.raises(NotFoundError):
            experiment.accept(**unknown)
    experiment.retract(generator="good", position=1)
    with pytest.raises(StopError, match="was retracted"):
        experiment.accept(generator="good", position=1)


def test_the_command_line_accepts(service: Service, client: Optimist, name: str):
    made(client, name).ask(generators=["good"]).tell(np.ones((10, 8)))
    accept = ("accept", name, "--url", service.url, "--generator")
    assert invoked(*accept, "good", "--position=1", "--reason=so", code=0).output == "accepted: batch 1 of good\n"
    assert invoked(*accept, "good", "--position=1").output == "accepted before: batch 1 of good\n"
    assert invoked(*accept, "good", "--yes").output == "accepted: all batches of good up to 1\n"
    invoked(*accept, "nobody", "--yes", code=1)
