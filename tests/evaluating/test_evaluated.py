"""`optimist evaluate` against a server of canned models: answers, scores, budgets, faults, pages, and costs."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optimist.evaluating import told
from optimist.evaluating.asked import amounts
from optimist.evaluating.canned import CannedModel, CannedServer, Say
from optimist.evaluating.examples import adding, judging, sums
from optimist.evaluating.ledger import Ledger
from optimist.evaluating.page import differing, page_of
from optimist.evaluating.play import EvaluationResult, Job
from optimist_client import FixError
from tests.support.commands import invoked

SECRET = "sk-0123456789abcdef"
ASKED = "at_once: 1\ntolerance: 0.01"
canned = partial(CannedModel, input=1.0, output=4.0)
MODELS = {"good": canned(adding(0.95)), "bad": canned(adding(0.4)), "judge": canned(judging)}


def write(
    folder: Path, url: str, models: str = "good bad", score: str = "contains", prompts: int = 60, more: str = ""
) -> Path:
    lines = "".join(
        f"  {name}: {{base_url: {url}, model: {name}, price: {{input: 1, output: 4}}}}\n" for name in models.split()
    )
    file = folder / "eval.yaml"
    file.write_text(f"models:\n{lines}prompts: questions.jsonl\nscore: {score}\n{more}\n")
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in sums(prompts)))
    return file


def judge(url: str) -> str:
    return f"{{judge: {{base_url: {url}, model: judge, price: {{input: 1, output: 4}}}}}}"


def played(file: Path, **how: Any) -> EvaluationResult:
    return Job(file).run(progress=False, **how)


def adds_up(found: EvaluationResult, server: CannedServer) -> None:
    calls, dollars = told.spent(found)
    assert calls == len(server.served)
    assert dollars == pytest.approx(server.dollars)


def test_it_names_the_best_and_stops_early(tmp_path: Path):
    with CannedServer(MODELS) as server:
        found = played(write(tmp_path, server.url))
        adds_up(found, server)
    assert found.report.decision.best == "good"
    assert found.report.decision.decided
    assert len(server.served) < 120
    text = f"{told.shown(found)}"
    assert f"Spent: {len(server.served)} of 120 calls, $0.0" in text
    assert text.startswith("Best: good with ")


@pytest.mark.long
def test_a_second_run_and_a_further_model_pay_only_their_own_calls(tmp_path: Path):
    with CannedServer({**MODELS, "new": canned(adding(0.9))}) as server:
        first = played(write(tmp_path, server.url, score=judge(server.url)))
        before = len(server.served)
        again = played(write(tmp_path, server.url, score=judge(server.url)))
        assert len(server.served) == before
        assert again.report.samples == first.report.samples
        wider = played(write(tmp_path, server.url, "good bad new", judge(server.url)))
        models = Counter(one.model for one in [*server.served.values()][before:])
        assert models["new"] > 0
        assert 0 < models["judge"] <= models.total() - models["judge"], "equal answers are judged once"
        adds_up(wider, server)
    keys = {f"{mode:o}" for mode in (stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "eval.answers").iterdir())}
    assert keys == {"600"}
    assert stat.S_IMODE((tmp_path / "eval.answers").stat().st_mode) == 0o700


@pytest.mark.long
def test_runs_that_go_on_say_what_one_run_says(tmp_path: Path):
    with CannedServer({**MODELS, "bad": canned(adding(0.7))}) as server:

        def said(folder: str, stops: list[int]) -> Any:
            (tmp_path / folder).mkdir()
            files = (
                write(tmp_path / folder, server.url, prompts=200, more=f"{ASKED}\nbudget: {{calls: {calls}}}")
                for calls in (*stops, 400)
            )
            *_, report = (played(file).report for file in files)
            return report.decision, report.standings, report.answer

        whole = said("whole", [])
        assert whole[0].decided
        for stops in ([30], [7, 41, 60], [400]):
            assert said(f"stops{stops}", stops) == whole


@pytest.mark.parametrize(
    ("score", "say", "right"),
    [
        ("exact", "42", True),
        ("exact", "It is 42", False),
        ("{exact: true, ignore_case: true}", " 42\n", True),
        ("contains", "It is 42.", True),
        ("{regex: 'is (\\d+)'}", "It is 42.", True),
        ("{regex: 'is (\\d+)'}", "It is 43.", False),
        ("{json: sum}", 'Here: {"sum": 42}', True),
        ("{json: sum}", '{"sum": "41"}', False),
        ("{json: sum}", "42", False),
        ("{python: 'own_score:score', scale: [0, 2]}", "42", True),
    ],
)
def test_scores(tmp_path: Path, score: str, say: str, right: bool):
    (tmp_path / "own_score.py").write_text(
        "def score(answer, prompt):\n    return 1 if answer == prompt['answer'] else 0\n"
    )
    models = {name: canned(lambda prompt, seed: say) for name in ("good", "bad")}
    with CannedServer(models) as server:
        file = write(tmp_path, server.url, score=score)
        (tmp_path / "questions.jsonl").write_text('{"prompt": "17 + 25", "answer": 42}\n')
        found = played(file)
    assert [row.value for row in found.rows.values()] == [float(right)] * 2


def test_pairwise_compares_with_the_baseline_both_ways_round(tmp_path: Path):
    def longer(prompt: str, seed: int) -> str:
        a, b = (prompt.split(f"<answer_{side}>\n")[1].split("\n</answer")[0] for side in "AB")
        return json.dumps(
            {"reason": "longer", "winner": "tie" if len(a) == len(b) else "A" if len(a) > len(b) else "B"}
        )

    def says(text: str) -> Say:
        return lambda prompt, seed: text

    models = {"long": canned(says("a long answer")), "short": canned(says("no")), "judge": canned(longer)}
    with CannedServer(models) as server:
        score = judge(server.url)[:-1] + ", pairwise: {baseline: short}}"
        found = played(write(tmp_path, server.url, "long short", score, prompts=20))
        asked = Counter(one.model for one in server.served.values())
        adds_up(found, server)
    assert found.report.decision.best == "long"
    assert {row.value for (model, _), row in found.rows.items() if model == "long"} == {1.0}
    assert asked["judge"] == 2 * asked["long"]
    assert asked["short"] <= 20, "the baseline is asked once for each prompt"


def test_failures_are_said_first_and_asked_again(tmp_path: Path):
    models = {"good": canned(adding(0.95), fails=0.1, broken=0.05, busy=0.3, pause=0.02), "bad": canned(adding(0.4))}
    with CannedServer(models) as server:
        found = played(write(tmp_path, server.url, prompts=200, more="tries: 2"))
        adds_up(found, server)
    assert found.report.decision.best == "good"
    warnings = told.warnings_of(found)
    assert warnings[0].startswith("good: ")
    assert "requests brought no answer" in warnings[0]
    assert told.shown(found).parts[1] == warnings[0]
    busy = sum(one.status == 429 for one in server.served.values())
    assert f" {busy} calls were told to wait (HTTP 429), and sent again." in told.spent_of(found)


@pytest.mark.long
def test_a_model_that_hangs_has_the_worst_score_and_at_least_the_time_out(tmp_path: Path):
    models = {"good": canned(adding(0.9)), "stuck": canned(adding(1.0), hangs=1.0)}
    with CannedServer(models) as server:
        found = played(write(tmp_path, server.url, "good stuck", prompts=100, more="timeout: 1"))
        before = len(server.served)
        assert played(write(tmp_path, server.url, "good stuck", prompts=100, more="timeout: 1")).report.samples
        assert len(server.served) == before, "nothing that was late is asked again"
        adds_up(found, server)
    assert found.report.decision.best == "good"
    text = f"{told.shown(found)}"
    assert "seconds of stuck are at least what is shown" in text
    assert ">= 1" in text
    assert "requests brought no answer (100%)" in text
    assert differing(found, 50) == [], "no answer says nothing of a prompt"
    assert "<h1>good: the best</h1>" in page_of(found)


def test_a_model_that_always_fails_ends_it_with_its_error(tmp_path: Path):
    models = {"good": canned(adding(0.9)), "broken": canned(adding(1.0), broken=1.0)}
    with CannedServer(models) as server, pytest.raises(FixError, match=r"broken: .*no valid JSON"):
        played(write(tmp_path, server.url, "good broken", more="tries: 1"))


@pytest.mark.long
def test_the_cheapest_within_a_limit_of_seconds(tmp_path: Path):
    models = {"slow": canned(adding(0.9), delay=1.0), "fast": canned(adding(0.9)), "poor": canned(adding(0.3))}
    with CannedServer(models) as server:
        more = 'limits: {seconds: "< 0.5", score: "> 0.6"}'
        file = write(tmp_path, server.url, "slow fast poor", prompts=120, more=more)
        file.write_text(file.read_text().replace("fast, price: {input: 1", "fast, price: {input: 9"))
        found = played(file)
    assert found.report.decision.best == "fast", "the cheaper ones are too slow, or too poor"
    assert found.report.decision.decided
    assert "slow" in told.answer_of(found).partition("cheapest")[2]


@pytest.mark.long
def test_a_budget_ends_it_before_it_is_spent(tmp_path: Path):
    with CannedServer(MODELS) as server:
        file = write(tmp_path, server.url, prompts=400, more="budget: {dollars: 0.002}\nat_once: 4\ntolerance: 0.0001")
        file.write_text(file.read_text().replace("model: bad", "model: good"))
        found = played(file)
        adds_up(found, server)
        assert 0.0016 < server.dollars < 0.0022
    assert found.stopped.startswith("the budget is spent: $0.00")
    assert told.answer_of(found).startswith("The budget is spent")


def test_a_judge_without_scores_is_counted(tmp_path: Path):
    def hesitant(prompt: str, seed: int) -> str:
        return "I would rather not." if "What is 1" in prompt else judging(prompt, seed)

    with CannedServer({**MODELS, "judge": canned(hesitant)}) as server:
        found = played(write(tmp_path, server.url, score=judge(server.url)))
    refused = [row for row in found.rows.values() if row.refusals]
    assert refused
    assert {(row.value, row.refusals) for row in refused} == {(1.0, 2)}
    assert f"The judge gave no score in {2 * len(refused):,} replies" in f"{told.shown(found)}"


def test_the_page_escapes_and_nothing_repeats_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAT_KEY", SECRET)
    attack = "<script>alert(1)</script>"

    def sly(prompt: str, seed: int) -> str:
        return f"{attack} {SECRET} {adding(0.9)(prompt, seed)}"

    with CannedServer({"good": canned(sly), "bad": canned(adding(0.3))}) as server:
        file = write(tmp_path, server.url)
        file.write_text(file.read_text().replace("model: good", "model: good, api_key: env:CHAT_KEY"))
        page, records = tmp_path / "page.html", tmp_path / "records.jsonl"
        shown = invoked("evaluate", file, "--page", page, "--records", records, code=0)
        assert {one.key for one in server.served.values() if one.model == "good"} == {SECRET}
        assert {one.key for one in server.served.values() if one.model == "bad"} == {""}
    html = page.read_text()
    assert attack not in html
    assert "&lt;script&gt;" in html
    assert "Prompts on which models differ most" in html
    kept = b"".join(one.read_bytes() for one in (tmp_path / "eval.answers").iterdir())
    for text in (html, records.read_text(), shown.output, kept.decode(errors="replace")):
        assert SECRET not in text
    one = json.loads(records.read_text().splitlines()[0])
    assert {"model", "id", "prompt", "answer", "score", "reasons", "seconds", "dollars", "error"} <= one.keys()


def test_a_damaged_file_of_answers_is_left_as_it_is(tmp_path: Path):
    with CannedServer(MODELS) as server:
        file = write(tmp_path, server.url)
        played(file)
        kept = tmp_path / "eval.answers" / "answers.sqlite"
        kept.write_bytes(b"x" * 5000)
        for suffix in ("-wal", "-shm"):
            kept.with_name(kept.name + suffix).unlink(missing_ok=True)
        with pytest.raises(FixError, match="cannot be read"):
            played(file)
        assert kept.read_bytes() == b"x" * 5000


@pytest.mark.long
def test_an_answer_that_cannot_be_read_is_asked_again(tmp_path: Path):
    with CannedServer(MODELS) as server:
        found = played(write(tmp_path, server.url))
        before = len(server.served)
        with sqlite3.connect(tmp_path / "eval.answers" / "answers.sqlite") as base:
            base.execute("UPDATE answers SET value = substr(value, 1, 9) WHERE key IN (SELECT min(key) FROM answers)")
        base.close()
        again = played(write(tmp_path, server.url))
        assert len(server.served) - before <= 20
    assert again.report.decision.best == found.report.decision.best


def test_two_commands_on_one_file_are_not_both_at_work(tmp_path: Path):
    with (
        CannedServer(MODELS) as server,
        Ledger(tmp_path / "eval.answers"),
        pytest.raises(FixError, match="another command is at work on it"),
    ):
        played(write(tmp_path, server.url))


@pytest.mark.parametrize(
    ("dollars", "all", "said"),
    [
        (0.1, 0.1, "$0.10 of $0.10"),
        (0.42, 5.9, "$0.42 of $5.90"),
        (0.0012, 0.002, "$0.0012 of $0.0020"),
        (0, 0, "$0.00 of $0.00"),
    ],
)
def test_amounts_have_the_decimals_that_they_need(dollars: float, all: float, said: str):
    assert amounts(dollars, all) == said


def test_page_of_no_differences_has_none(tmp_path: Path):
    same = {name: canned(lambda prompt, seed: "no") for name in ("good", "bad")}
    with CannedServer(same) as server:
        assert "differ most" not in page_of(played(write(tmp_path, server.url, prompts=5)))
