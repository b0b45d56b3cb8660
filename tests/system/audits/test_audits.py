"""Samples that people score where a judge scores all of them: by HTTP, with estimates of the service's scorer."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from optimist.local.evaluation import Evaluation
from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.processes import until

N = 120
rng = np.random.default_rng(11)
HARD = rng.standard_normal(N)
PEOPLE = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.1), ("bob", 0.0))}
JUDGE = {name: 0.8 * each + 0.4 * rng.standard_normal(N) for name, each in PEOPLE.items()}
METRIC = Mean(reads="human", proxy="judge", range=(-9, 9))
STEP = 20


def begun(client: Optimist, name: str, **settings: Any):
    """An experiment whose judge has scored `N` samples of each generator."""
    experiment = client.create_experiment(name, list(JUDGE), metric=METRIC, batch_size=STEP, **settings)
    for start in range(0, N, STEP):
        for each, judge in JUDGE.items():
            experiment.append(each, {"judge": judge[start : start + STEP, None]}, start=start)
    return experiment


def asked(http: httpx.Client, name: str, rater: str, count: int = 50) -> dict[str, Any]:
    answer = http.post(f"/v1/experiments/{name}/audits", json={"rater": rater, "count": count})
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(http: httpx.Client, name: str, audit: dict[str, Any], rater: str, **more: Any) -> dict[str, Any]:
    scores = {each: float(PEOPLE[each][audit["index"]]) for each in PEOPLE}
    body = {"rater": rater, "scores": scores, **more}
    answer = http.put(f"/v1/experiments/{name}/audits/{audit['audit']}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_estimates_are_those_of_memory_to_the_last_bit(client: Optimist, http: httpx.Client, name: str):
    experiment = begun(client, name, stop=False)
    evaluation = Evaluation(list(JUDGE), metric=METRIC, batch_size=STEP, stop=False)
    for start in range(0, N, STEP):
        for each, judge in JUDGE.items():
            evaluation.tell(each, {"judge": judge[start : start + STEP, None]})
    audits = asked(http, name, "anna", 40)
    assert [one["index"] for one in audits["audits"]] == evaluation.audits(40)
    assert (audits["answered"], audits["open"], audits["wanted"], audits["done"]) == (0, 40, 20, False)
    for one in audits["audits"]:
        said(http, name, one, "anna")
        evaluation.answer(one["index"], {each: PEOPLE[each][one["index"]] for each in PEOPLE})
    until(lambda: experiment.report().scored)
    theirs, own = experiment.report(), evaluation.report()
    for standing, other in zip(theirs.standings, own.standings, strict=True):
        assert standing.generator == other.generator
        assert (standing.score, standing.standard_error) == (other.score, other.standard_error)
        assert (standing.lower, standing.upper) == (other.lower, other.upper)
    assert theirs.judge == list(evaluation.judge)
    assert theirs.contrasts == own.contrasts
