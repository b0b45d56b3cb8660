"""`optimist evaluate --route`: which prompts need which model, by the answers of the same calls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optimist.evaluating import told
from optimist.evaluating.canned import CannedModel, CannedServer, Say
from optimist.evaluating.examples import adding
from optimist.evaluating.page import page_of
from optimist.evaluating.play import EvaluationResult, Job
from optimist.evaluating.routing import routed
from optimist.routing.gain.reports import RouteReport
from optimist_client import FixError
from tests.support.commands import invoked

KINDS = ("What is {} + {}?", "Write a poem about {} ships and {} storms at sea.")


def by_kind(sums: float, poems: float) -> Say:
    """A model that is right on these shares of both kinds of prompts."""
    says = adding(sums), adding(poems)
    return lambda prompt, seed: says["poem" in prompt](prompt, seed)


MODELS = {
    "dear": CannedModel(by_kind(0.95, 0.9)),
    "cheap": CannedModel(by_kind(0.4, 0.9)),
    "mean": CannedModel(by_kind(0.5, 0.5)),
}


def write(folder: Path, url: str, prompts: int, more: str = "", models: str = "dear cheap mean") -> Path:
    prices = {"dear": 1, "cheap": 0.01, "mean": 0.1}
    lines = "".join(
        f"  {name}: {{base_url: {url}, model: {name}, price: {{call: {prices[name]}}}}}\n" for name in models.split()
    )
    file = folder / "eval.yaml"
    file.write_text(f"models:\n{lines}prompts: questions.jsonl\nscore: contains\n{more}\n")
    rows = [
        {"prompt": KINDS[at % 2].format(100 + at, 200 + 3 * at), "answer": f"{300 + 4 * at}"} for at in range(prompts)
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def contexts(found: EvaluationResult) -> np.ndarray:
    is_poem = np.array([["poem" in str(one.prompt)] for one in found.questions.values()], dtype=float)
    return np.hstack([is_poem, 1.0 - is_poem]) + 0.01 * np.random.default_rng(0).standard_normal((len(is_poem), 2))


@pytest.mark.long
def test_it_says_which_prompts_need_the_dear_model(tmp_path: Path):
    with CannedServer(MODELS) as server:
        found = Job(write(tmp_path, server.url, 120, "good_enough: 5%\nstop: false")).run(progress=False)
        assert len(server.served) == 360, "every model is asked every prompt"
    report = routed(found, contexts(found))
    assert isinstance(report, RouteReport)
    is_poem = contexts(found)[:, 0] > 0.5
    assert (report.gain.routed[is_poem] == 1).mean() > 0.95, "they go to the cheap one, which is as good on them"
    assert report.gain.value >= 0.94 * report.gain.single_value
    assert report.gain.cost is not None
    assert report.gain.cost < 0.55
    text = " ".join(f"{told.shown(found, report)}".split())
    assert "Prompts would go to: " in text
    assert "By the answers to 120 of 120 prompts" in text
    assert f"1,000 prompts would cost ${1000 * report.gain.cost:.3g} routed" in text
    assert "stop: false" not in text
    page = page_of(found, report)
    assert "Each prompt to the right model" in page
    assert "Write a poem about" in page


@pytest.mark.long
def test_a_gain_that_is_open_or_not_known_is_called_so(tmp_path: Path):
    with CannedServer({"dear": CannedModel(by_kind(0.75, 0.7)), "cheap": CannedModel(by_kind(0.7, 0.75))}) as server:
        job = Job(write(tmp_path, server.url, 40, models="dear cheap"))
        found = job.run(progress=False)
        few = Job(write(tmp_path, server.url, 6, models="dear cheap")).run(progress=False)
    report = routed(found, contexts(found))
    assert isinstance(report, RouteReport)
    assert report.gain.lower is not None
    assert report.gain.upper is not None
    assert report.gain.lower < 0.0 < report.gain.upper
    assert " is open: " in told.routing_of(found, report)[0]
    assert "With `stop: false` in the file every model is asked every prompt." in told.routing_of(found, report)[0]
    unknown = routed(few, contexts(few))
    assert isinstance(unknown, FixError)
    assert told.routing_of(few, unknown)[0].startswith("What routing would gain is not known: ")
    assert told.to_dict(few, unknown)["routing"] == {"error": f"{unknown}"}


@pytest.mark.long
def test_the_command_embeds_the_prompts(tmp_path: Path):
    with CannedServer(MODELS) as server:
        file = write(tmp_path, server.url, 60, "stop: false")
        said = json.loads(invoked("evaluate", file, "--route", "--json", code=0).stdout)
        assert len(server.served) == 180
    routing = said["routing"]
    assert (routing["prompts"], routing["generators"]) == (60, ["dear", "cheap", "mean"])
    assert {kind["winner"] for kind in routing["types"]} <= {"dear", "cheap"}
    assert (
        "not with --service" in invoked("evaluate", file, "--route", "--service", "http://127.0.0.1:1", code=2).output
    )
