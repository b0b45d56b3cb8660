"""Batches that can hardly be right: absurd values are refused, copies are named, by the service.

What rests on a batch on another scale is provisional until it is accepted, or retracted.
"""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Experiment, FixError, NotFoundError, Optimist, Pick, StopError
from optimist_client.models import Report, Standing
from tests.support.commands import invoked
from tests.support.processes import Service, append_batch, serving, until
from tests.support.reports import unwrapped

PAIRS = {"metric": "conditional-vendi", "dimension": 3, "prompt_dimension": 2, "prompt_kernel": {"sigma": 1.0}}


def rows(seed: int, size: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 8))


def made(client: Optimist, name: str, reference: object = None, **config: object) -> Experiment:
    """By Vendi without a reference, whose features have no known scale before there are samples."""
    metric = {"metric": "vendi", "dimension": 8, "kernel": {"sigma": 2.0, "features": 32}} if reference is None else {}
    known = {"reference": reference, "policy": "uniform", "batch_size": 20, "max_wait": 0.0, "stop": False}
    return client.create_experiment(name, ["x", "y"], **{**known, **metric, **config})


def append(service: Service, name: str, generator: str, key: str, batch: np.ndarray) -> httpx.Response:
    return append_batch(service.url, name, generator, {"features": batch}, key)


def standing(report: Report, generator: str) -> Standing:
    return next(row for row in report.standings if row.generator == generator)


def test_absurd_rows_after_sane_ones_are_refused_and_change_nothing(client: Optimist, name: str):
    experiment = made(client, name, (np.zeros(8), np.eye(8)))
    for seed in (1, 2):
        experiment.ask(generators=["x"]).tell(rows(seed))
    pick = experiment.ask(generators=["x"])
    absurd = rows(3)
    absurd[7, 2] = -1e30
    with pytest.raises(FixError, match=r"features: row 7 holds a value of size 1e\+30, .*reference.*1 generator"):
        pick.tell(absurd)
    assert experiment.report().samples == 40
    assert pick.tell(rows(3)).position == 3


@pytest.mark.long
def test_odd_batches_are_logged_a_few_a_minute(tmp_path: Path):
    with serving(tmp_path, "--no-scoring") as service, Optimist(service.url) as client:
        experiment = made(client, "odd")
        for seed, factor in enumerate((*[1] * 12, 255, 1)):
            reply = experiment.ask(generators=["y"]).tell(factor * rows(seed))
            assert bool(reply.findings) == (factor > 1)
        for number in range(12):
            append(service, "odd", "y", f"{number}", rows(99))
    lines = [line for line in service.log().splitlines() if "odd/y" in line]
    assert "batch 13 of odd/y is about 2" in lines[0]
    assert "times larger than its others: pixels 0–255 instead of 0–1?" in lines[0]
    assert "batch 16 of odd/y repeats the batch at position 15" in lines[1]
    assert len(lines) == 10, "a few a minute"


def test_odd_batches_are_listed_newest_first(client: Optimist, service: Service, name: str):
    experiment = made(client, name)
    began = time.time()
    for seed, factor in enumerate((*[1] * 12, 255)):
        pick = experiment.ask(generators=["y"])
        pick.tell(factor * rows(seed))
    assert pick.tell(factor * rows(seed)).findings == []  # told again, it is still one anomaly
    append(service, name, "y", "copy", rows(0))
    copy, large = experiment.anomalies()
    assert experiment.report().anomalies == [copy, large]
    assert (copy.generator, copy.position, copy.pick, copy.samples) == ("y", 14, None, 20)
    assert copy.findings == ["repeats the batch at position 1"]
    assert (large.position, large.pick, large.samples, large.retracted) == (13, pick.number, 20, False)
    assert large.findings[0].startswith("is about 2")
    assert began - 60 < large.told <= copy.told < time.time() + 60
    experiment.set_state("y", "retired")
    assert experiment.anomalies() == []


def test_rows_that_repeat_within_a_batch_are_told(client: Optimist, name: str):
    experiment = made(client, name)
    several = experiment.ask(generators=["y"]).tell(np.tile(rows(0)[:5], (4, 1)))
    assert several.findings == ["has 15 of 20 rows that repeat others of it"]
    assert experiment.ask(generators=["y"]).tell(rows(1)).findings == []


def test_max_magnitude_raises_the_limit(client: Optimist, service: Service, name: str):
    experiment = made(client, name, max_magnitude=1e12)
    append(service, name, "x", "sane", rows(1))
    assert append(service, name, "x", "large", 1e9 * rows(2)).status_code == 200
    assert append(service, name, "x", "absurd", 1e15 * rows(3)).status_code == 422
    assert experiment.info.config.max_magnitude == 1e12


def test_a_decision_that_rests_on_copies_says_so(client: Optimist, name: str):
    experiment = made(client, name, batch_size=10, policy="top-two", stop=True, seed=1)
    shift = {"x": 1.0, "y": 8.0}
    for pick in experiment.picks(max_samples=400):
        # x ignores the seed of its picks.
        seed = 5 if pick.generator == "x" else pick.seed
        pick.tell(rows(seed, 10) * shift[pick.generator])
    until(lambda: experiment.report().decision.decided)
    report = experiment.report()
    copies = standing(report, "x").batches - 1
    at = ", ".join(str(position) for position in range(2, min(copies, 3) + 2))
    says = "1 batch repeats" if copies == 1 else f"{copies} batches repeat"
    assert f"{says} earlier ones, as at position {at}" in standing(report, "x").warnings
    assert not any("earlier" in warning for warning in standing(report, "y").warnings)
    part = f"{100 * copies / (copies + 1):.0f} %"
    warning = f"{part} of the batches of 'x' repeat earlier ones: the decision may rest on copies"
    assert report.decision.warnings == (warning,)
    assert f"Warning: {warning}." in unwrapped(report)
    assert warning in report._repr_html_().replace("&#x27;", "'")


def test_generators_that_agree_are_named(client: Optimist, name: str):
    experiment = made(client, name)
    for seed in (1, 2, 3):
        for generator in ("x", "y"):
            pick = experiment.ask(generators=[generator])
            pick.tell(rows(seed), ids=[f"{generator}/{seed}/{row}" for row in range(20)])
    report = experiment.report()
    assert report.decision.warnings == ("'x' and 'y' are identical so far (3 of their batches agree): stop?",)
    assert standing(report, "x").warnings[-1] == "identical to 'y' so far (3 batches agree): stop?"
    assert standing(report, "y").warnings[-1] == "identical to 'x' so far (3 batches agree): stop?"


def test_single_rows_may_repeat_now_and_then(client: Optimist, service: Service, name: str):
    experiment = made(client, name)
    for key, seed in enumerate((1, 2, 1, 2)):
        append(service, name, "x", f"{key}", rows(seed, 1))
    assert "earlier" not in " ".join(standing(experiment.report(), "x").warnings)
    assert experiment.anomalies() == []
    append(service, name, "x", "third", rows(1, 1))
    assert [anomaly.position for anomaly in experiment.anomalies()] == [5, 4, 3]
    assert "3 batches repeat earlier ones, as at position 3, 4, 5" in standing(experiment.report(), "x").warnings


def test_copies_are_refused_where_the_experiment_says_so(client: Optimist, service: Service, name: str):
    experiment = made(client, name, refuse_copies=True)
    experiment.ask(generators=["x"]).tell(rows(1), ids=[f"{row}" for row in range(20)])
    pick = experiment.ask(generators=["x"])
    with pytest.raises(FixError, match="repeats the one at position 1"):
        pick.tell(rows(1))
    assert append(service, name, "x", "copy", rows(1)).status_code == 422
    assert append(service, name, "y", "other", rows(1)).status_code == 200
    assert pick.tell(rows(2)).position == 2
    assert experiment.report().samples == 60


def test_equal_answers_to_equal_prompts_are_lawful(client: Optimist, name: str):
    experiment = client.create_experiment(
        name,
        ["x"],
        prompts=["one", "two"],
        batch_size=1,
        max_wait=0.0,
        stop=False,
        refuse_copies=True,
        **PAIRS,
        kernel={"sigma": 1.0, "features": 16},
    )
    embedded, told = {"one": [1.0, 0.0], "two": [0.0, 1.0]}, set()
    for pick in experiment.picks(max_samples=12):
        # Always the same answer to a prompt, as at temperature 0.
        answer = np.full((1, 3), len(pick.prompts[0]) + float(pick.prompts[0] == "one"))
        pick.tell(answer, prompts=[embedded[pick.prompts[0]]])
        told.add(pick.prompts[0])
    assert told == {"one", "two"}
    assert "earlier" not in " ".join(experiment.report().standings[0].warnings)
    while (pick := experiment.ask()).prompts != ["two"]:
        pick.give_up()
    with pytest.raises(FixError, match="refuses copies"):
        pick.tell(np.full((1, 3), 4.0), prompts=[embedded["one"]])


def test_what_is_known_goes_along_with_an_archive(client: Optimist, service: Service, name: str, tmp_path: Path):
    experiment = made(client, name)
    for seed, factor in enumerate((*[1.0] * 12, 255.0)):
        append(service, name, "x", f"{seed}", factor * rows(seed))
    append(service, name, "x", "copy", rows(0))
    append(service, name, "y", "large", 255 * rows(90))
    experiment.accept(generator="y", position=1, reason="they are so")
    file = tmp_path / "x.optimist"
    experiment.export(file)
    copy = client.import_experiment(file, name=f"{name}-copy")
    said = {"1 batch repeats earlier ones, as at position 14"}
    assert copy.anomalies() == experiment.anomalies()
    assert len(copy.anomalies()) == 2
    (accepted,) = copy.report().acceptances
    assert (accepted.generator, accepted.position, accepted.reason) == ("y", 1, "they are so")
    for one in (experiment, copy):
        assert standing(one.report(), "x").warnings[-2].startswith("batch 13 of x is about 2")
        assert said <= set(standing(one.report(), "x").warnings)
    assert append(service, f"{name}-copy", "y", "absurd", 1e8 * rows(5)).status_code == 422


NAMES = ["good", "b/ad"]


def judged(client: Optimist, name: str, **more: object) -> Experiment:
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
    experiment = judged(client, name)
    report, said = run(experiment)
    [finding] = said
    assert finding.startswith("is about 2")
    assert finding.endswith(": pixels 0–255 instead of 0–1?")
    assert (report.state, report.decision.best, report.ended) == ("decided", "good", True)
    [odd] = report.decision.anomalies
    assert (odd.generator, odd.positions, odd.whole) == ("b/ad", (3,), False)
    unless = "unless batch 3 of b/ad is wrong: retract or accept it"
    assert report.decision.unless == unless
    assert f", {unless}." in unwrapped(report)
    assert str(report).splitlines()[0].endswith("samples, provisional")
    [listed] = client.list_experiments(search=name)
    assert (listed.info.state_text, f"{listed}") == ("provisional", f"<ListedExperiment {name!r}: provisional>")
    assert "Warning: batch 3 of b/ad is about 2" in unwrapped(report)
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
    assert "Accepted: batch 3 of b/ad: it is so." in unwrapped(report)


def test_a_generator_on_another_scale_is_accepted_as_a_whole(client: Optimist, name: str):
    experiment = judged(client, name, stop=False)
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
    report, said = run(judged(client, name, on_anomaly="ignore"))
    assert (report.decision.best, report.decision.unless, said, report.anomalies) == ("good", "", [], [])


def test_what_cannot_be_accepted(client: Optimist, name: str):
    experiment = judged(client, name)
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
    judged(client, name).ask(generators=["good"]).tell(np.ones((10, 8)))
    accept = ("accept", name, "--url", service.url, "--generator")
    assert invoked(*accept, "good", "--position=1", "--reason=so", code=0).output == "accepted: batch 1 of good\n"
    assert invoked(*accept, "good", "--position=1").output == "accepted before: batch 1 of good\n"
    assert invoked(*accept, "good", "--yes").output == "accepted: all batches of good up to 1\n"
    invoked(*accept, "nobody", "--yes", code=1)
