"""A judge's scores of all rows and people's of some, in tables and in memory: `contrast`, and which rows come next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist.estimates.audited import audited
from optimist.experiments.admission import columns_of
from optimist_client.errors import FixError
from optimist_client.metrics import Mean, WinRate
from optimist_client.models import ExperimentConfig
from tests.support.commands import invoked

N, LABELLED = 400, 60
rng = np.random.default_rng(3)
HARD = rng.standard_normal(N)
PEOPLE = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.4), ("bob", 0.0))}
JUDGE = {name: 0.8 * each + 0.4 * rng.standard_normal(N) for name, each in PEOPLE.items()}
DOUBT = rng.uniform(size=N)
ORDER = rng.permutation(N)
AUDITED = sorted(ORDER[:LABELLED].tolist())
METRIC = Mean(reads="human", proxy="judge")


def table(folder: Path, labelled: list[int] | None = None, bob: list[int] | None = None) -> Path:
    """The rows of both, bob's in another order; labels of these places."""
    own = AUDITED if labelled is None else labelled
    rows: list[dict[str, Any]] = []
    for name, places, known in (("ada", range(N), own), ("bob", ORDER, own if bob is None else bob)):
        for place in map(int, places):
            row = {"id": f"q{place}", "model": name, "judge": JUDGE[name][place], "doubt": DOUBT[place]}
            rows.append(row | ({"human": PEOPLE[name][place]} if place in known else {}))
    file = folder / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = invoked("contrast", *arguments, code=code)
    return done.stdout, " ".join(done.stderr.split())


HOW = ("--field", "judge", "--id", "id", "--labels", "human")


def in_memory(**more: Any) -> dict[str, dict[str, Any]]:
    known = np.full(N, np.nan)
    return {
        name: {"judge": JUDGE[name], "human": np.where(np.isin(np.arange(N), AUDITED), PEOPLE[name], known), **more}
        for name in PEOPLE
    }


def test_a_table_is_compared_by_the_people_and_says_what_the_judge_is_worth(tmp_path: Path):
    found = json.loads(run(table(tmp_path), *HOW, "--json")[0])
    (apart,) = found["contrasts"]
    f = JUDGE["ada"] - JUDGE["bob"]
    h = (PEOPLE["ada"] - PEOPLE["bob"])[AUDITED]
    expected = audited(h, f[AUDITED], np.ones(LABELLED), float(f.mean()), float(f.var()) / N)
    assert (apart["generator"], apart["common"]) == ("bob", LABELLED)
    assert apart["difference"] == pytest.approx(expected.value, rel=1e-9)
    assert apart["standard_error"] == pytest.approx(expected.variance**0.5, rel=1e-9)
    text = " ".join(run(table(tmp_path), *HOW)[0].split())
    assert "60 of 400" in text
    assert f"The judge saves {100 * expected.correlation**2 * (1 - LABELLED / N):.0f}% of" in text
    assert "60 labels of each, taken as chosen at random from all rows" in text


def test_arrays_in_memory_are_compared_alike(tmp_path: Path):
    found = optimist.contrast(in_memory(), METRIC, paired=True)
    (of_file,) = json.loads(run(table(tmp_path), *HOW, "--json")[0])["contrasts"]
    assert found.contrasts[0].difference == pytest.approx(of_file["difference"], rel=1e-9)
    assert found.contrasts[0].standard_error == pytest.approx(of_file["standard_error"], rel=1e-9)
    assert found.estimates["ada"].units == (LABELLED, "audits")


def test_the_people_decide_whatever_a_judge_says_that_favours_one_and_it_is_named():
    liked = in_memory()
    liked["bob"]["judge"] = liked["bob"]["judge"] + 3.0
    fair, unfair = (optimist.contrast(sets, METRIC, paired=True) for sets in (in_memory(), liked))
    assert unfair.best == fair.best == "ada"
    assert unfair.contrasts[0].difference == pytest.approx(fair.contrasts[0].difference, abs=0.1)
    assert unfair.judge[1:] == ("the judge favours bob over ada, by more than people do",)
    assert fair.judge[1:] == ()


def test_win_rates_are_audited_and_votes_that_are_all_equal_have_an_error():
    votes = {
        name: {"judge": (each > 0) * 1.0, "human": np.where(np.arange(N) < 30, 1.0, np.nan)}
        for name, each in JUDGE.items()
    }
    found = optimist.contrast(votes, WinRate(reads="human", proxy="judge"), paired=True)
    assert all(estimate.value == 1.0 and estimate.stopping_error == 1 / 30 for estimate in found.estimates.values())


def test_rows_that_are_labelled_in_part_come_next_and_then_others_at_random(tmp_path: Path):
    file = table(tmp_path, AUDITED, AUDITED[5:])
    out, said = run(file, *HOW, "--next", "12")
    rows = out.split()
    assert rows[:5] == [f"q{place}" for place in AUDITED[:5]]
    assert len({*rows}) == 12
    assert not {*rows[5:]} & {f"q{place}" for place in AUDITED}
    assert "55 of 400 rows have labels of all generators" in said
    assert run(file, *HOW, "--next", "12")[0] == out
    assert len(run(table(tmp_path, []), *HOW, "--next", "500")[0].split()) == N


def test_doubt_chooses_rows_and_the_estimate_is_by_fifths_of_it(tmp_path: Path):
    sure = np.argsort(DOUBT)
    labelled = [*sure[:20].tolist(), *sure[200:220].tolist(), *sure[-60:].tolist()]
    weighty = table(tmp_path, labelled)
    with_all = [*labelled, *sure[100:110].tolist(), *sure[280:290].tolist()]
    rows = run(table(tmp_path, with_all), *HOW, "--doubt", "doubt", "--next", "100")[0].split()
    assert len({*rows}) == 100
    aimed = json.loads(run(table(tmp_path, with_all), *HOW, "--doubt", "doubt", "--json")[0])
    places = np.array(sorted(with_all))
    fifth = np.searchsorted(np.quantile(DOUBT, [0.2, 0.4, 0.6, 0.8]), DOUBT, side="right")
    f, h = JUDGE["ada"] - JUDGE["bob"], PEOPLE["ada"] - PEOPLE["bob"]
    weights = 0.2 / (np.bincount(fifth[places])[fifth[places]] / len(places))
    expected = audited(h[places], f[places], weights, float(f.mean()), float(f.var()) / N)
    assert aimed["contrasts"][0]["difference"] == pytest.approx(expected.value, rel=1e-9)
    assert "within each fifth of the judge's doubt" in run(weighty, *HOW, "--doubt", "doubt")[0]


def test_several_judges_are_their_mean_and_doubt_where_they_differ(tmp_path: Path):
    file, both = table(tmp_path), tmp_path / "both.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    apart = rng.standard_normal(N)
    for row in rows:
        own, judge = apart[int(row["id"][1:])], row.pop("judge")
        row |= {"large": judge + own, "small": judge - own, "far": abs(own)}
    both.write_text("\n".join(map(json.dumps, rows)))
    by_two = json.loads(run(both, "--field", "large,small", *HOW[2:], "--json")[0])["contrasts"]
    aimed = json.loads(run(both, "--field", "large,small", *HOW[2:], "--doubt", "far", "--json")[0])["contrasts"]
    assert by_two == aimed
    expected = optimist.contrast(
        {name: {**each, "far": np.abs(apart)} for name, each in in_memory().items()},
        Mean(reads="human", proxy="judge", doubt="far"),
        paired=True,
    )
    assert by_two[0]["difference"] == pytest.approx(expected.contrasts[0].difference, rel=1e-9)
    sets = {
        name: {"human": each["human"], "large": each["judge"] + apart, "small": each["judge"] - apart}
        for name, each in in_memory().items()
    }
    found = optimist.contrast(sets, Mean(reads="human", proxy=["large", "small"]), paired=True)
    assert by_two[0]["difference"] == pytest.approx(found.contrasts[0].difference, rel=1e-12)
    assert by_two[0]["standard_error"] == pytest.approx(found.contrasts[0].standard_error, rel=1e-12)


def test_what_asks_no_people_refuses_a_judge(tmp_path: Path):
    """A score, a run, a gate, and a metric that is only watched, have nobody to ask."""
    arrays = {name: each["judge"][:, None] for name, each in in_memory().items()}
    with pytest.raises(FixError, match="a score asks no people"):
        optimist.score({"judge": arrays["ada"]}, METRIC)
    with pytest.raises(FixError, match="a run asks no people"):
        optimist.run({name: lambda size, seed: np.zeros((size, 1)) for name in arrays}, metric=METRIC)
    with pytest.raises(FixError, match="expected what people say of some rows"):
        optimist.gate({name: {"judge": each} for name, each in arrays.items()}, 0.1, metric=METRIC, paired=True)
    watched = ExperimentConfig(name="judged", generators=["a", "b"], metric=Mean(reads="cost"), watch=[METRIC])
    with pytest.raises(FixError, match="a watched metric asks no people"):
        columns_of(watched, {})
    with pytest.raises(FixError, match="people audit samples by their indices"):
        columns_of(ExperimentConfig(name="judged", generators=["a", "b"], metric=METRIC, seeds=False), {})


def test_what_makes_no_sense_is_refused(tmp_path: Path):
    file = table(tmp_path)
    assert "expected --labels" in run(file, "--field", "judge", "--next", "3", code=1)[1]
    assert (
        "expected rows that belong together"
        in run(file, "--field", "judge", "--labels", "human", "--next", "3", code=1)[1]
    )
    nobody = run(file, *HOW[:-1], "nobody", code=1)[1]
    assert "expected what people say of two rows or more of 'ada', got 0" in nobody
    assert "expected no clusters" in run(file, *HOW, "--cluster", "id", code=1)[1]
    assert "--doubt: expected --field" in run(file, *HOW[2:], "--doubt", "doubt", code=1)[1]
    assert "expected a mean or a win rate" in run(file, *HOW, "--metric", "rke", code=1)[1]
    wrong = {name: {**arrays, "human": np.array(["good"] * N)} for name, arrays in in_memory().items()}
    with pytest.raises(FixError, match="human: expected a number or NaN for each row"):
        optimist.contrast(wrong, METRIC, paired=True)
    beyond = {name: {**arrays, "human": np.full(N, 7.0)} for name, arrays in in_memory().items()}
    with pytest.raises(FixError, match="expected a score from 1 to 5, got 7"):
        optimist.contrast(beyond, Mean(reads="human", proxy="judge", range=(1, 5)), paired=True)
    with pytest.raises(FixError, match="doubt: expected a proxy"):
        Mean(doubt="unsure")
    for proxy, doubt in (
        (["large", "large"], None),
        (["large", "small"], "small"),
        ("human", None),
        ("judge", "human"),
    ):
        with pytest.raises(FixError, match="doubt: expected names of their own, got human, "):
            Mean(reads="human", proxy=proxy, doubt=doubt)
    for fields in (("judge,judge",), ("judge", "--doubt", "judge"), ("judge,human",), ("judge", "--doubt", "human")):
        said = run(file, "--field", *fields, *HOW[2:], code=1)[1]
        assert "doubt: expected names of their own, got human, judge, " in said
    votes = {name: {"human": np.full(N, 0.5), "large": np.full(N, 0.5), "small": np.full(N, 1.5)} for name in PEOPLE}
    with pytest.raises(FixError, match="small: expected numbers from 0 to 1"):
        optimist.contrast(votes, WinRate(reads="human", proxy=["large", "small"]), paired=True)
    with pytest.raises(FixError, match="proxy: expected the bound 'influence'"):
        optimist.Evaluation(["ada", "bob"], metric=Mean(proxy="judge", range=(0, 1)), bound="betting")
