"""Samples that people score where a judge scores all of them: by HTTP, with estimates of the service's scorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.local.evaluation import Evaluation
from optimist_client import AsyncOptimist, Experiment, FixError, Optimist
from optimist_client.metrics import Mean
from tests.support.edited import Edit, changed
from tests.support.keys import bearer, new_key
from tests.support.lapsed import let_lapse
from tests.support.processes import Service, until

N = 120
rng = np.random.default_rng(11)
HARD = rng.standard_normal(N)
PEOPLE = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.1), ("bob", 0.0))}
JUDGE = {name: 0.8 * each + 0.4 * rng.standard_normal(N) for name, each in PEOPLE.items()}
METRIC = Mean(reads="human", proxy="judge", range=(-9, 9))
STEP = 20


def begun(client: Optimist, name: str, **settings: Any) -> Experiment:
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
    evaluation = in_memory([])
    audits = asked(http, name, "anna", 40)
    assert [one["index"] for one in audits["audits"]] == evaluation.audits(40)
    assert (audits["answered"], audits["open"], audits["wanted"], audits["done"]) == (0, 40, 20, False)
    for one in audits["audits"]:
        said(http, name, one, "anna")
        evaluation.answer(one["index"], {each: float(PEOPLE[each][one["index"]]) for each in PEOPLE})
    until(lambda: experiment.report().scored)
    theirs, own = experiment.report(), evaluation.report()
    for standing, other in zip(theirs.standings, own.standings, strict=True):
        assert standing.generator == other.generator
        assert (standing.score, standing.standard_error) == (other.score, other.standard_error)
        assert (standing.lower, standing.upper) == (other.lower, other.upper)
    assert theirs.judge == list(evaluation.judge)
    assert theirs.contrasts == own.contrasts


def in_memory(audits: list[int], people: dict[str, np.ndarray] = PEOPLE, *, without: int | None = None) -> Evaluation:
    """An evaluation with these audits answered. without: the index at which a batch of ada that counts not began."""
    evaluation = Evaluation(list(JUDGE), metric=METRIC, batch_size=STEP, stop=False)
    for start in range(0, N, STEP):
        for each, judge in JUDGE.items():
            if (each, start) != ("ada", without):
                evaluation.tell(each, {"judge": judge[start : start + STEP, None]}, start=start)
    for index in audits:
        evaluation.answer(index, {each: float(of[index]) for each, of in people.items()})
    return evaluation


def same_numbers(experiment: Experiment, evaluation: Evaluation) -> bool:
    until(lambda: experiment.report().scored)
    shown = [
        [(one.score, one.standard_error, one.lower, one.upper) for one in report.standings]
        for report in (experiment.report(), evaluation.report())
    ]
    return shown[0] == shown[1]


def test_several_judges_are_told_by_an_array_each(client: Optimist, name: str):
    metric = Mean(reads="human", proxy=["large", "small"], range=(-9, 9))
    experiment = client.create_experiment(name, list(JUDGE), metric=metric, batch_size=N, stop=False)
    evaluation = Evaluation(list(JUDGE), metric=metric, batch_size=N, stop=False)
    for each, judge in JUDGE.items():
        batch = {"large": judge[:, None] + 1.0, "small": judge[:, None] - 0.5}
        experiment.append(each, batch, start=0)
        evaluation.tell(each, batch, start=0)
    audits = experiment.audits(25, rater="anna")
    assert [one.index for one in audits] == evaluation.audits(25)
    for one in audits:
        assert one.index is not None
        scores = {each: float(of[one.index]) for each, of in PEOPLE.items()}
        experiment.answer(one, scores, rater="anna")
        evaluation.answer(one.index, scores)
    assert same_numbers(experiment, evaluation)
    assert client.experiment(name).info.config.metric == metric


def test_an_answer_counts_once_is_corrected_and_taken_back(client: Optimist, http: httpx.Client, name: str):
    experiment = begun(client, name, stop=False)
    audits = asked(http, name, "anna", 30)["audits"]
    path = f"/v1/experiments/{name}/audits/{audits[0]['audit']}"
    wrong = {"rater": "anna", "scores": dict.fromkeys(PEOPLE, 5.0)}
    assert [http.put(path, json=wrong).json() for _ in range(3)] == 3 * [{"answered": 1, "counted": True}]
    for one in audits[:25]:
        said(http, name, one, "anna")
    last = {"rater": "anna", "scores": list(map(float, range(len(PEOPLE))))}
    extra = f"/v1/experiments/{name}/audits/{audits[25]['audit']}"
    assert http.put(extra, json=last).json()["answered"] == 26
    assert http.delete(extra, params={"rater": "anna"}).json()["answered"] == 25
    assert http.delete(extra, params={"rater": "anna"}).json()["answered"] == 25
    assert same_numbers(experiment, in_memory([one["index"] for one in audits[:25]]))
    # What was taken back is asked again, of the same people first.
    assert asked(http, name, "anna")["audits"][0]["audit"] in {one["audit"] for one in audits[25:]}


def test_a_rater_keeps_audits_that_nobody_else_gets(client: Optimist, http: httpx.Client, name: str):
    begun(client, name, stop=False)
    anna, ben = (asked(http, name, rater, 10) for rater in ("anna", "ben"))
    ids = [[one["audit"] for one in found["audits"]] for found in (anna, ben)]
    assert len({*ids[0], *ids[1]}) == 20
    assert [one["audit"] for one in asked(http, name, "anna", 10)["audits"]] == ids[0]
    assert all([each["generator"] for each in one["samples"]] == list(JUDGE) for one in anna["audits"])
    said(http, name, anna["audits"][3], "anna", comment="both are odd")
    counts = http.get(f"/v1/experiments/{name}/audits").json()
    assert counts["raters"] == [
        {"rater": "anna", "answered": 1, "open": 9},
        {"rater": "ben", "answered": 0, "open": 10},
    ]
    (comment,) = counts["comments"]
    assert (comment["comment"], comment["index"]) == ("both are odd", anna["audits"][3]["index"])
    body = {"rater": "ben", "scores": [0.0, 0.0]}
    answer = http.put(f"/v1/experiments/{name}/audits/{ids[0][0]}", json=body)
    assert (answer.status_code, "never given to this rater" in answer.text) == (404, True)


def test_raters_get_only_what_can_be_shown(client: Optimist, http: httpx.Client, name: str, service: Service):
    """Of both generators, and of a pick 16 are kept; whoever is no rater may have the samples from elsewhere."""
    experiment = client.create_experiment(
        name, list(JUDGE), metric=METRIC, batch_size=STEP, previews=40, policy="uniform"
    )
    for pick in experiment.picks(max_samples=4 * STEP):
        assert pick.start is not None
        shown = (
            [f"{pick.start + place}" for place in range(STEP)] if (pick.generator, pick.start) != ("bob", 0) else None
        )
        pick.tell({"judge": np.zeros((STEP, 1))}, previews=shown)
    as_rater = bearer(new_key(service.directory, "rater", "default", name))
    answer = http.post(f"/v1/experiments/{name}/audits", json={"rater": "anna", "count": 50}, headers=as_rater)
    audits = answer.json()["audits"]
    assert [len({sample["text"] for sample in one["samples"]}) for one in audits] == 16 * [1]
    assert http.get(f"/v1/experiments/{name}/audits").json()["open"] == 16
    assert len(asked(http, name, "ben")["audits"]) == 2 * STEP - 16


def test_two_raters_score_the_share_that_overlaps_and_their_mean_counts(
    client: Optimist, http: httpx.Client, name: str
):
    experiment = begun(client, name, stop=False, audit_overlap=1.0, label_cost=0.5)
    first = asked(http, name, "anna", 25)["audits"]
    assert [one["audit"] for one in asked(http, name, "ben", 25)["audits"]] == [one["audit"] for one in first]
    assert not {one["audit"] for one in asked(http, name, "cleo", 25)["audits"]} & {one["audit"] for one in first}
    for one in first:
        for rater, shift in (("anna", 0.5), ("ben", -0.25)):
            scores = {each: float(PEOPLE[each][one["index"]]) + shift for each in PEOPLE}
            body = {"rater": rater, "scores": scores}
            http.put(f"/v1/experiments/{name}/audits/{one['audit']}", json=body).raise_for_status()
    means = {each: ((of + 0.5) + (of - 0.25)) / 2 for each, of in PEOPLE.items()}
    assert same_numbers(experiment, in_memory([one["index"] for one in first], means))
    said = experiment.report().judge
    assert any(one.startswith("raters agree (Krippendorff's alpha 0.") for one in said), said
    assert any(one.startswith("people gave 100 scores for 50; without the judge") for one in said), said


def test_an_audit_that_was_taken_back_and_has_two_raters_counts_once(client: Optimist, http: httpx.Client, name: str):
    experiment = begun(client, name, stop=False)
    audits = asked(http, name, "anna", 25)["audits"]
    first = audits[0]
    path = f"/v1/experiments/{name}/audits/{first['audit']}"
    for one in audits:
        said(http, name, one, "anna")
    http.delete(path, params={"rater": "anna"}).raise_for_status()
    (again,) = [one for one in asked(http, name, "ben")["audits"] if one["audit"] == first["audit"]]
    for rater, score in (("ben", 2.0), ("anna", -1.0)):
        body = {"rater": rater, "scores": dict.fromkeys(PEOPLE, score)}
        assert http.put(path, json=body).json()["answered"] == 25
    means = {each: np.where(np.arange(N) == again["index"], 0.5, of) for each, of in PEOPLE.items()}
    until(lambda: experiment.report().scored)
    standings = {one.generator: one.score for one in experiment.report().standings}
    expected = in_memory([one["index"] for one in audits], means)
    assert standings == {one.generator: one.score for one in expected.report().standings}


@pytest.mark.parametrize("keeps", [False, True])
def test_answers_to_a_retracted_sample_leave_with_it(client: Optimist, http: httpx.Client, name: str, keeps: bool):
    experiment = begun(client, name, stop=False, keep_log=keeps)
    audits = asked(http, name, "anna", 40)["audits"]
    for one in audits[:30]:
        said(http, name, one, "anna")
    start, stop = N - STEP, N
    gone = [one for one in audits if start <= one["index"] < stop]
    assert 0 < len([one for one in audits[:30] if one in gone]) < 20
    position = N // STEP
    assert experiment.retract(generator="ada", position=position).retracted
    for scores in ({"ada": 1.0}, [1.0, 2.0]):
        body = {"rater": "anna", "scores": scores}
        answer = http.put(f"/v1/experiments/{name}/audits/{gone[0]['audit']}", json=body)
        assert answer.status_code == 409, answer.text
        assert "was retracted: ask for audits again" in answer.text
    expected: Any = in_memory([], without=start)
    for one in audits[:30]:
        scores = {each: of[one["index"]] for each, of in PEOPLE.items() if one not in gone or each != "ada"}
        expected.answer(one["index"], scores)
    until(lambda: experiment.report().scored)
    # An estimate is made at the retraction, whatever the number of answers that are left.
    expected._primary.score_all("ada")
    expected._follow()
    assert same_numbers(experiment, expected)
    open_now = {one["index"] for one in asked(http, name, "anna", 50)["audits"]}
    assert not open_now & {one["index"] for one in gone}
    # The sample comes again, as another one that is to be scored anew.
    experiment.append("ada", {"judge": JUDGE["ada"][start:stop, None]}, start=start)
    again = {one["index"] for one in asked(http, name, "ben", 50)["audits"]}
    assert again & {one["index"] for one in gone}


def test_what_nobody_may_say_changes_nothing(client: Optimist, http: httpx.Client, name: str):
    begun(client, name, stop=False)
    (audit,) = asked(http, name, "anna", 1)["audits"]
    path = f"/v1/experiments/{name}/audits/{audit['audit']}"
    for scores, expected in (
        ({"ada": 10.0}, "expected numbers from -9 to 9"),
        ([1.0], "expected 2, one for each sample that was shown, got 1"),
        ({"eve": 1.0}, "no generator 'eve'"),
        ([1e400, 1.0], ""),
        ([], ""),
        ("x", ""),
    ):
        text = json.dumps({"rater": "anna", "scores": scores})
        answer = http.put(path, content=text, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 404, 422), answer.text
        assert expected in answer.json()["detail"]
    both = dict.fromkeys(JUDGE, 0.0)
    assert http.put(path, json={"rater": "anna", "scores": both, "comment": 2001 * "x"}).status_code == 422
    assert http.put(path, json={"rater": "an\tna", "scores": both}).status_code == 422
    assert http.put(path[:-16] + 16 * "0", json={"rater": "anna", "scores": both}).status_code == 404
    assert http.post(path.rpartition("/")[0], json={"rater": "anna", "count": 51}).status_code == 422
    counts = http.get(f"/v1/experiments/{name}/audits").json()
    assert (counts["answered"], counts["open"]) == (0, 1)
    with pytest.raises(FixError, match="expected a metric with a proxy"):
        client.create_experiment(f"{name}-plain", ["a", "b"], metric=Mean(reads="human"), max_audits=20)
    client.create_experiment(f"{name}-plain", ["a", "b"], metric=Mean(reads="human"))
    answer = http.post(f"/v1/experiments/{name}-plain/audits", json={"rater": "anna"})
    assert (answer.status_code, "a judge that people audit" in answer.text) == (422, True)


def test_people_decide_and_later_answers_change_nothing(client: Optimist, http: httpx.Client, name: str):
    people = {"ada": PEOPLE["ada"] + 1.0, "bob": PEOPLE["bob"]}
    experiment = begun(client, name)
    audits = experiment.audits(50)
    for one in audits[:45]:
        assert one.index is not None
        experiment.answer(one, {each: float(of[one.index]) for each, of in people.items()})
    until(lambda: experiment.report().decision.decided)
    report = experiment.report()
    assert (report.decision.best, report.state) == ("ada", "decided")
    assert report.judge[0].startswith("the judge saves ")
    reply = experiment.answer(audits[45], dict.fromkeys(people, 0.0))
    assert (reply.answered, reply.counted) == (46, False)
    assert experiment.audits() == []
    until(lambda: experiment.report().scored)
    assert experiment.report().decision == report.decision
    assert asked(http, name, "anna")["done"]


def test_a_budget_of_audits_ends_picks_and_questions(client: Optimist, http: httpx.Client, name: str):
    experiment = begun(client, name, max_audits=20, stop=False)
    anna, ben, cleo = (asked(http, name, rater, 15) for rater in ("anna", "ben", "cleo"))
    assert [len(one["audits"]) for one in (anna, ben, cleo)] == [15, 5, 0]
    assert (cleo["wanted"], cleo["done"]) == (20, False)
    for found, rater in ((anna, "anna"), (ben, "ben")):
        for one in found["audits"]:
            said(http, name, one, rater)
    until(lambda: experiment.report().scored)
    last = asked(http, name, "cleo", 15)
    assert (last["audits"], last["wanted"], last["done"]) == ([], 0, True)
    report = experiment.report()
    assert (report.state, report.spent) == ("out of budget", "20 audits")
    assert report.answer.startswith("Not decided within the budget of 20 audits: ")
    assert experiment.ask() is None


def test_audits_without_an_answer_are_named(client: Optimist, http: httpx.Client, name: str, service: Service):
    experiment = begun(client, name, stop=False)
    for one in asked(http, name, "anna", 23)["audits"][:20]:
        said(http, name, one, "anna")
    assert let_lapse(service.directory, name) == 3
    assert asked(http, name, "ben", 1)["unanswered"] == 2
    assert "2 audits have no answer; if these differ from the others, so does the truth" in experiment.report().judge
    assert "2 audits have no answer" in f"{experiment.report()}"


async def test_the_asyncio_client_asks_and_answers_alike(service: Service, client: Optimist, name: str):
    begun(client, name, stop=False)
    async with AsyncOptimist(service.url) as connected:
        experiment = await connected.experiment(name)
        (audit,) = await experiment.audits(1, rater="anna")
        assert (await experiment.answer(audit, [1.0, 2.0], rater="anna")).answered == 1
        assert (await experiment.take_back(audit, rater="anna")).answered == 0


def test_an_archive_carries_what_people_said(client: Optimist, http: httpx.Client, name: str, tmp_path: Path):
    experiment = begun(client, name, stop=False)
    audits = asked(http, name, "anna", 40)["audits"]
    for one in audits[:33]:
        said(http, name, one, "anna", comment=f"number {one['index']}")
    http.delete(f"/v1/experiments/{name}/audits/{audits[32]['audit']}", params={"rater": "anna"}).raise_for_status()
    until(lambda: experiment.report().scored)
    experiment.export(tmp_path / "file.zip")
    copy = client.import_experiment(tmp_path / "file.zip", name=f"{name}-copy")
    before, after = (http.get(f"/v1/experiments/{each}/audits").json() for each in (name, copy.name))
    assert after["answered"] == before["answered"] == 32
    assert after["comments"] == before["comments"]
    assert same_numbers(copy, in_memory([one["index"] for one in audits[:30]]))
    for one in audits[32:35]:
        again = {each["audit"]: each for each in asked(http, copy.name, "anna", 50)["audits"]}
        said(http, copy.name, again[one["audit"]], "anna")
    assert same_numbers(copy, in_memory([one["index"] for one in audits[:35]]))
    # Its log has all of that: a scorer that begins anew comes to the same numbers.
    copy.export(tmp_path / "again.zip")
    third = client.import_experiment(tmp_path / "again.zip", name=f"{name}-third")
    assert same_numbers(third, in_memory([one["index"] for one in audits[:35]]))


def test_what_people_never_said_is_refused(client: Optimist, http: httpx.Client, name: str, tmp_path: Path):
    experiment = begun(client, name, stop=False)
    for one in asked(http, name, "anna", 3)["audits"]:
        said(http, name, one, "anna")
    experiment.export(tmp_path / "file.zip")
    whole = (tmp_path / "file.zip").read_bytes()

    def first(**fields: Any) -> Edit:
        return lambda found: found[0].update(fields)

    for edit, expected in (
        (first(rater="an\tna"), "rater"),
        (first(rater="an\nna"), "rater"),
        (first(score="nan"), "score"),
        (first(score="1 2=3"), "score"),
        (first(weight=0), "weight"),
        (first(audit="x"), "audit"),
        (first(generator=7), "generator"),
        (first(seq=99), "do not match the history"),
        (first(seq=9), "an entry twice"),
        (first(kind="comment"), "match"),
        (lambda found: found.pop(), "match"),
    ):
        (tmp_path / "edited.zip").write_bytes(changed(whole, {"said/1.json": edit}))
        with pytest.raises(FixError, match=expected):
            client.import_experiment(tmp_path / "edited.zip", name=f"{name}-edited")
    (tmp_path / "edited.zip").write_bytes(changed(whole, {}, without="said/1.json"))
    with pytest.raises(FixError, match="match"):
        client.import_experiment(tmp_path / "edited.zip", name=f"{name}-edited")


def test_raters_see_what_was_sampled(client: Optimist, http: httpx.Client, name: str):
    experiment = client.create_experiment(
        name, list(JUDGE), metric=METRIC, batch_size=4, prompts=["sing", "dance"], previews=64
    )
    sound = b"RIFF\x24\0\0\0WAVEfmt "
    for pick in experiment.picks(max_samples=32):
        assert pick.start is not None
        made = [
            f"{pick.generator} {index}" if index % 2 else sound for index in range(pick.start, pick.start + pick.size)
        ]
        pick.tell({"judge": rng.random((pick.size, 1))}, previews=made)
    audits = asked(http, name, "anna", 8)["audits"]
    assert len(audits) == 8
    for one in audits:
        assert one["prompt"]["text"] in ("sing", "dance")
        for sample in one["samples"]:
            body = http.get(sample["url"])
            if one["index"] % 2:
                assert (sample["kind"], sample["text"]) == ("text", f"{sample['generator']} {one['index']}")
                assert body.text == sample["text"]
            else:
                assert (sample["kind"], sample["text"]) == ("audio", None)
                assert (body.content, body.headers["content-type"]) == (sound, "audio/wav")
            assert "sandbox" in body.headers["content-security-policy"]
