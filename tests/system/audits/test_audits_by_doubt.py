"""Audits that the judge's doubt chooses in a service: those of memory, with recorded weights, replayed bit by bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from optimist.archive.file import Archive
from optimist.local.evaluation import Evaluation
from optimist.records import Said
from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean
from tests.support.audited import heard_of
from tests.support.processes import until

N, STEP = 400, 100
rng = np.random.default_rng(21)
HARD, DOUBT = rng.standard_normal(N), rng.uniform(size=N)
PEOPLE = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.2), ("bob", 0.0))}
JUDGE = {name: each + np.where(DOUBT > 0.8, 2.0, 0.2) * rng.standard_normal(N) for name, each in PEOPLE.items()}
METRIC = Mean(reads="human", proxy="judge", doubt="unsure", range=(-9, 9))


def batches() -> list[tuple[str, int, dict[str, Any]]]:
    return [
        (name, start, {"judge": judge[start : start + STEP, None], "unsure": DOUBT[start : start + STEP, None]})
        for start in range(0, N, STEP)
        for name, judge in JUDGE.items()
    ]


def begun(client: Optimist, name: str) -> Experiment:
    settings: dict[str, Any] = {"batch_size": STEP, "stop": False, "keep_log": True}
    experiment = client.create_experiment(name, list(JUDGE), metric=METRIC, **settings)
    for each, start, batch in batches():
        experiment.append(each, batch, start=start)
    return experiment


def scores(index: int) -> dict[str, float]:
    return {name: float(each[index]) for name, each in PEOPLE.items()}


def rate(experiment: Experiment, rater: str, count: int) -> list[int]:
    """The indices that a rater was asked for, all of which are answered; estimates follow each five."""
    found: list[int] = []
    for audit in experiment.audits(count, rater=rater):
        assert audit.index is not None
        experiment.answer(audit, scores(audit.index), rater=rater)
        found.append(audit.index)
    until(lambda: experiment.report().scored)
    return found


def test_they_are_those_of_memory_and_their_weights_are_in_the_log(client: Optimist, name: str, tmp_path: Path):
    experiment = begun(client, name)
    evaluation: Any = Evaluation(list(JUDGE), metric=METRIC, batch_size=STEP, stop=False)
    for each, start, batch in batches():
        evaluation.tell(each, batch, start=start)
    asked: list[int] = []
    for step in (40, *12 * [5]):
        wanted = evaluation.audits(step)
        assert rate(experiment, "anna", step) == wanted
        for index in wanted:
            evaluation.answer(index, scores(index))
        asked += wanted
    assert len({*asked}) == 100
    assert np.mean(DOUBT[asked[40:]] > 0.8) > 0.4, "a fifth would be asked at random"
    theirs, own = experiment.report(), evaluation.report()
    assert theirs.contrasts == own.contrasts
    assert [(one.score, one.standard_error) for one in theirs.standings] == [
        (one.score, one.standard_error) for one in own.standings
    ]
    heard = heard_of(experiment, tmp_path / "file.zip")
    weights = [{one.index: one.weight for one in each.said} for each in heard.values()]
    assert weights[0] == weights[1] == {index: evaluation._weights[index] for index in asked}
    assert {weights[0][index] for index in asked[:40]} == {1.0}
    assert all(weights[0][index] != 1.0 for index in asked[40:])
    for each in heard.values():
        assert dict(zip(each.mean.audits.tolist(), each.mean.weights.tolist(), strict=True)) == weights[0]


def test_raters_at_once_share_no_draw_and_an_import_keeps_the_weights(client: Optimist, name: str, tmp_path: Path):
    experiment = begun(client, name)
    rate(experiment, "anna", 50)
    raters = ["ben", "cleo", "dora", "eve"]
    with ThreadPoolExecutor(len(raters)) as pool:
        found = list(pool.map(lambda rater: experiment.audits(10, rater=rater), raters))
    assert [len(each) for each in found] == 4 * [10]
    assert len({audit.audit for each in found for audit in each}) == 40
    for rater in raters:
        rate(experiment, rater, 10)
    experiment.export(tmp_path / "file.zip")
    again = client.import_experiment(tmp_path / "file.zip", name=f"{name}-again")
    again.export(tmp_path / "again.zip")
    said = [said_in(tmp_path / file) for file in ("file.zip", "again.zip")]
    assert said[0] == said[1]
    assert len({one.weight for one in said[0]}) > 1


def test_raters_who_keep_asking_at_once_all_get_what_they_ask_for(client: Optimist, name: str):
    experiment = begun(client, name)
    rate(experiment, "anna", 45)
    raters = [f"rater {number}" for number in range(12)]

    def sizes(rater: str) -> list[int]:
        return [len(experiment.audits(count, rater=rater)) for count in (2, 4, 6, 8)]

    with ThreadPoolExecutor(len(raters)) as pool:
        assert list(pool.map(sizes, raters)) == 12 * [[2, 4, 6, 8]]


def test_a_retraction_takes_doubt_and_answers_and_weights_stay(client: Optimist, name: str, tmp_path: Path):
    experiment = begun(client, name)
    asked = [*rate(experiment, "anna", 45), *rate(experiment, "anna", 10)]
    experiment.export(tmp_path / "file.zip")
    assert experiment.retract(generator="ada", position=2).retracted
    until(lambda: experiment.report().scored)
    expected: Any = Evaluation(list(JUDGE), metric=METRIC, batch_size=STEP, stop=False)
    for each, start, batch in batches():
        if (each, start) != ("ada", STEP):
            expected.tell(each, batch, start=start)
    expected._weights = {one.index: one.weight for one in said_in(tmp_path / "file.zip")}
    for index in asked:
        is_gone = STEP <= index < 2 * STEP
        expected.answer(index, {each: score for each, score in scores(index).items() if each == "bob" or not is_gone})
    # An estimate is made at the retraction, whatever the number of answers that are left.
    expected._primary.score_all("ada")
    expected._follow()
    shown = [[(one.score, one.standard_error) for one in of.report().standings] for of in (experiment, expected)]
    assert shown[0] == shown[1]
    assert not {*rate(experiment, "anna", 20)} & {*range(STEP, 2 * STEP), *asked}


def said_in(path: Path) -> list[Said]:
    with path.open("rb") as opened:
        return list(Archive(opened).said)
