"""What samples cost: accounts in the report, a limit on the cost of all, and what changes of it while workers run."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Experiment, FixError, Optimist
from tests.support.processes import Service, append_batch
from tests.support.replay import replay

COSTS = {"cheap": 0.5, "dear": 3.0}


def priced(client: Optimist, name: str, reference: object, **config: object) -> Experiment:
    known = {"policy": "uniform", "stop": False, "max_wait": 0.0, "costs": COSTS, **config}
    return client.create_experiment(name, list(COSTS), reference=reference, **known)


def rows(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4))


def work(experiment: Experiment, samples: int | None = None) -> None:
    for pick in experiment.picks(samples):
        pick.tell(rows(pick.size, pick.seed))


def spent(experiment: Experiment) -> dict[str, float | None]:
    return {row.generator: row.cost for row in experiment.report().standings}


def test_the_report_says_what_was_spent_on_each_and_in_all(client: Optimist, service: Service, name: str, reference):
    experiment = priced(client, name, reference, costs={"dear": 3.0})
    assert (experiment.report().cost, spent(experiment)) == (0.0, {"cheap": None, "dear": 0.0})
    work(experiment, 20)
    report = experiment.report()
    assert (report.cost, report.max_cost, spent(experiment)) == (30.0, None, {"cheap": None, "dear": 30.0})
    assert [row.cost_per_sample for row in report.standings] == [None, 3.0]
    bare = client.create_experiment(f"{name}-bare", ["a", "b"], reference=reference)
    paths = ("", "/report", "/report?after=0")
    assert not any("cost" in httpx.get(f"{service.url}/v1/experiments/{bare.name}{path}").text for path in paths)
    assert bare.report().cost is None


def test_asks_end_when_the_limit_is_spent_and_wait_while_it_is_on_its_way(
    client: Optimist, service: Service, name: str, reference
):
    experiment = priced(client, name, reference, max_cost=40.0)
    with httpx.Client(base_url=service.url) as http:
        answers = [http.post(f"/v1/experiments/{name}/picks", json={"worker": f"w{n}"}).json() for n in range(20)]
    picks = [pick for answer in answers for pick in answer["picks"]]
    on_its_way = sum(COSTS[pick["generator"]] * pick["size"] for pick in picks)
    assert 40.0 <= on_its_way < 43.0, "passed by less than one sample"
    assert answers[-1]["picks"] == []
    assert (answers[-1]["ended"], answers[-1]["retry_after"]) == (False, 0.5)
    for number in range(len(picks)):
        pick = experiment.ask(worker=f"w{number}")
        pick.tell(rows(pick.size, pick.seed))
    assert experiment.ask() is None
    report = experiment.report()
    assert (report.state, report.ended, report.cost) == ("out of budget", True, on_its_way)
    report = experiment.resume(max_cost=80.0)
    assert report.state != "out of budget"
    work(experiment)
    assert 80.0 <= (experiment.report().cost or 0) < 83.0


def test_sums_of_tenths_reach_their_limit(client: Optimist, name: str, reference):
    experiment = priced(client, name, reference, costs={"cheap": 0.1, "dear": 0.7}, max_cost=8.0, batch_size=10)
    work(experiment)
    assert (experiment.report().samples, experiment.report().cost) == (20, pytest.approx(8.0))


def test_a_changed_cost_counts_for_every_sample(client: Optimist, name: str, reference):
    experiment = priced(client, name, reference, max_cost=100.0)
    work(experiment, 20)
    assert spent(experiment) == {"cheap": 5.0, "dear": 30.0}
    assert experiment.set_cost("cheap", 7.0).cost == 100.0
    assert experiment.ask() is None
    assert experiment.set_cost("cheap", 0.0).cost == 30.0
    left = experiment.ask()
    left.give_up()
    experiment.set_state("dear", "retired")
    report = experiment.report()
    assert ([row.generator for row in report.standings], report.cost) == (["cheap"], 30.0), "it was spent all the same"
    assert experiment.set_cost("dear", 1.0).cost == 10.0


def test_a_limit_needs_every_cost(client: Optimist, name: str, reference):
    experiment = priced(client, name, reference, costs={"cheap": 1.0})
    for refused, said in (
        (lambda: priced(client, f"{name}-1", reference, costs={"cheap": 1.0}, max_cost=10.0), "dear have none"),
        (lambda: priced(client, f"{name}-1", reference, costs={"dear": float("inf")}), r"costs\.dear"),
        (lambda: experiment.resume(max_cost=10.0), "dear have none"),
        (lambda: experiment.run(dict.fromkeys(COSTS, rows), max_cost=1.0), "every generator needs a cost; dear have"),
        (lambda: experiment.set_cost("dear", -1.0), "expected at least 0"),
    ):
        with pytest.raises((FixError, ValueError), match=said):
            refused()
    experiment.set_cost("dear", 2.0)
    assert experiment.resume(max_cost=10.0).max_cost == 10.0
    with pytest.raises(FixError, match="an experiment with `max_cost` needs it"):
        experiment.add_generator("newcomer")
    report = experiment.add_generator("newcomer", cost=4.0)
    assert [row.cost_per_sample for row in report.standings] == [1.0, 2.0, 4.0]
    assert experiment.add_generator("newcomer", cost=5.0) == report, "one that is there stays as it is"
    assert experiment.add_generator("newcomer") == report


def test_a_run_keeps_to_its_own_limit(client: Optimist, name: str, reference):
    experiment = priced(client, name, reference)
    report = experiment.run(dict.fromkeys(COSTS, rows), max_cost=50.0, workers=2)
    assert report.open_picks == 0
    assert 32.5 <= (report.cost or 0) <= 50.0


def test_costs_and_their_limit_come_along(client: Optimist, name: str, reference, tmp_path: Path):
    experiment = priced(client, name, reference, max_cost=200.0)
    experiment.add_generator("newcomer", cost=4.0)
    experiment.set_cost("cheap", 1.0)
    experiment.resume(max_cost=150.0)
    work(experiment, 30)
    experiment.export(tmp_path / "file")
    imported = client.import_experiment(tmp_path / "file", f"{name}-again")
    before, after = experiment.report(), imported.report()
    assert (after.cost, after.max_cost, spent(imported)) == (80.0, 150.0, spent(experiment))
    assert [row.cost_per_sample for row in after.standings] == [row.cost_per_sample for row in before.standings]


def test_a_report_with_costs_says_so(client: Optimist, name: str, reference):
    experiment = priced(client, name, reference, max_cost=100.0)
    work(experiment, 10)
    report = experiment.report()
    assert "cost" in report.to_dict()
    assert [cell for cell in str(report).splitlines()[1].split("  ") if cell.strip()][-1].strip() == "cost"
    assert ", 10 samples, cost 17.5 of 100, " in str(report)
    assert list(report.to_pandas()["cost"]) == [row.cost for row in report.in_order]


def test_a_decision_keeps_what_had_been_told_and_its_cost_follows_the_prices(
    client: Optimist, service: Service, name: str, reference, tmp_path: Path
):
    experiment = priced(client, name, reference, stop=True, max_wait=10.0)
    for pick in experiment.picks(400):
        pick.tell(rows(pick.size, pick.seed) + (8.0 if pick.generator == "dear" else 0.0))
    decided = experiment.report()
    assert decided.state == "decided"
    assert decided.decision_cost == decided.cost
    append_batch(service.url, name, "dear", {"features": rows(10, 1)}).raise_for_status()
    later = experiment.report()
    assert (later.decision_cost, later.cost) == (decided.cost, (decided.cost or 0.0) + 30.0)
    experiments = httpx.get(f"{service.url}/v1/experiments?limit=200").json()["experiments"]
    line = next(one for one in experiments if one["name"] == name)
    assert (line["cost"], line["decision_cost"]) == (later.cost, later.decision_cost)
    dearer = experiment.set_cost("dear", 6.0)
    dear = next(row for row in decided.standings if row.generator == "dear")
    assert dearer.decision_cost == (decided.cost or 0.0) + 3.0 * dear.samples
    experiment.export(tmp_path / "file")
    imported = client.import_experiment(tmp_path / "file", f"{name}-again")
    assert imported.report().decision_cost == dearer.decision_cost
    assert experiment.resume(stop=False).decision_cost is None


@pytest.mark.long
def test_top_two_samples_the_cheap_one_more_unless_it_is_told_not_to(client: Optimist, name: str, reference):
    settings = {"policy": "top-two", "max_wait": 30.0, "paired": False, "costs": {"cheap": 0.01, "dear": 4.0}}
    counts = []
    for weigh in (True, False):
        experiment = priced(client, f"{name}-{weigh}", reference, **settings, weigh_costs=weigh)
        work(experiment, 150)
        counts.append([row.samples for row in experiment.report().standings])
    (cheap, dear), (plain, other) = counts
    assert cheap > 4 * dear
    assert plain < 2 * other


@pytest.mark.long
def test_a_pick_records_the_costs_that_it_was_made_with(client: Optimist, name: str, reference, tmp_path: Path):
    experiment = priced(client, name, reference, policy="top-two", max_wait=30.0, keep_log=True)
    work(experiment, 60)
    experiment.set_cost("cheap", 100.0)
    work(experiment, 60)
    experiment.export(tmp_path / "file")
    found = replay(tmp_path / "file").picks
    assert [one.pick.costs for one in found] == [[0.5, 3.0]] * 12 + [[100.0, 3.0]] * 12
    assert all(one.is_reproduced for one in found)
    assert len({one.generator for one in found[4:]}) == 2
