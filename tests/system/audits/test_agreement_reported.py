"""How well raters agree, and who answers at random, in the report of a service."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from optimist.policies.agreement import agreement_among
from optimist.records import Rating
from optimist_client import Optimist
from optimist_client.metrics import Mean

N = 120
METRIC = Mean(reads="human", proxy="judge", range=(-9, 9))
DELTA = 0.05


def test_raters_agree_and_one_answers_at_random(client: Optimist, http: httpx.Client, name: str):
    rng = np.random.default_rng(3)
    truth = {each: rng.standard_normal(N) for each in ("ada", "bob")}
    settings: dict[str, Any] = {"batch_size": N, "stop": False, "audit_overlap": 1.0, "delta": DELTA}
    experiment = client.create_experiment(name, list(truth), metric=METRIC, **settings)
    for each, values in truth.items():
        experiment.append(each, {"judge": values[:, None]}, start=0)
    assert experiment.report().judge == []
    path, ratings = f"/v1/experiments/{name}/audits", list[Rating]()
    turns = [rater for _ in range(12) for rater in rng.permutation(["anna", "ben", "cleo"]).tolist()]
    for rater in turns:
        for audit in http.post(path, json={"rater": rater, "count": 8}).json()["audits"]:
            shown = [float(values[audit["index"]]) for values in truth.values()]
            scores = rng.standard_normal(2).tolist() if rater == "ben" else [s + rng.normal(0, 0.3) for s in shown]
            http.put(f"{path}/{audit['audit']}", json={"rater": rater, "scores": scores}).raise_for_status()
            ratings += [Rating(audit["audit"], rater, place, score) for place, score in enumerate(scores)]
    alpha, ben = agreement_among(ratings, DELTA).sentences
    assert ben == "rater ben answers as if at random"
    report = experiment.report()
    assert [one for one in report.judge if one in (alpha, ben)] == [alpha, ben]
    assert "Rater ben answers as if at random." in f"{report}"
