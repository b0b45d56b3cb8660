"""Samples that no pick asked for, and early stopping in inspect_ai, against a real service and in memory."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import optimist
from optimist_client import ConflictError, FixError, NotFoundError, Optimist
from optimist_client.inspect import OptimistStopping
from optimist_client.metrics import Mean
from tests.support.commands import invoked
from tests.support.processes import until

QUESTIONS = 40
SKILLS = {"large": 0.9, "small": 0.5}


def scored(value: float | str) -> dict[str, Any]:
    """The scores of a sample, as inspect_ai gives them."""
    return {"match": SimpleNamespace(score=SimpleNamespace(value=value))}


async def played(stopping: OptimistStopping, values: Sequence[Sequence[float | str]]) -> dict[str, Any]:
    """All samples of a task, of these scores by epoch and question, in an order of chance."""
    samples = [SimpleNamespace(id=f"q{number:02}") for number in range(QUESTIONS)]
    assert await stopping.start_task(None, samples[::-1], len(values)) == "optimist"
    order = [(epoch, place) for epoch in range(len(values)) for place in range(QUESTIONS)]
    random.Random(stopping.generator).shuffle(order)
    for epoch, place in order:
        await stopping.complete_sample(f"q{place:02}", epoch + 1, scored(values[epoch][place]))
    return await stopping.complete_task()


def test_samples_without_a_pick_are_compared_by_their_indices_and_count_once(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a", "b"], metric=Mean(), delta=0.05)
    rows = np.random.default_rng(0).standard_normal((40, 1))
    experiment.append("a", rows, start=0, key="first")
    again = experiment.append("a", rows, start=0, key="first")
    with pytest.raises(ConflictError):
        experiment.append("a", rows + 1.0, start=0, key="first")
    experiment.append("b", {"values": rows[:, 0] + 0.1}, start=0)
    assert again.generator == "a"
    until(lambda: bool(experiment.report().contrasts))
    report = experiment.report()
    assert [row.samples for row in report.standings] == [40, 40]
    assert (report.contrasts[0].common, report.contrasts[0].correlation) == (40, pytest.approx(1.0, abs=0.02))


def test_scores_of_a_harness_reach_a_service_as_they_reach_an_evaluation(client: Optimist, name: str):
    """By question, in whichever order answers come."""
    draw = random.Random(1)
    hard = [draw.random() for _ in range(QUESTIONS)]
    values = {
        model: [["C" if draw.random() * 0.4 + 0.6 * one < skill else "I" for one in hard] for _ in range(1)]
        for model, skill in SKILLS.items()
    }
    how: dict[str, Any] = {"metric": Mean(range=(0, 1)), "rescore_growth": 0.0}
    there = client.create_experiment(name, list(SKILLS), **how)
    here = optimist.Evaluation(list(SKILLS), **how)

    async def play() -> list[dict[str, Any]]:
        return [await played(OptimistStopping(one, model), values[model]) for model in SKILLS for one in (there, here)]

    said = asyncio.run(play())
    assert [one["told"] for one in said] == [QUESTIONS] * 4
    counts = QUESTIONS
    until(lambda: all(row.scored_samples == counts for row in there.report().standings))
    report, expected = there.report(), here.report()
    for row, other in zip(report.standings, expected.standings, strict=True):
        assert (row.score, row.standard_error) == (pytest.approx(other.score), pytest.approx(other.standard_error))
    assert report.contrasts[0].common == expected.contrasts[0].common == counts
    assert report.contrasts[0].standard_error == pytest.approx(expected.contrasts[0].standard_error)


def test_epochs_of_a_question_count_as_one_prompt_of_an_evaluation():
    """A service cannot know that they are of one question, and refuses them."""
    draw = random.Random(1)
    once = {model: ["C" if draw.random() < skill else "I" for _ in range(QUESTIONS)] for model, skill in SKILLS.items()}
    prompts = [f"question {number}" for number in range(QUESTIONS)]
    errors: list[float | None] = []
    for epochs in (1, 3):
        evaluation = optimist.Evaluation(list(SKILLS), metric=Mean(range=(0, 1)), prompts=prompts, rescore_growth=0.0)
        for model, values in once.items():
            asyncio.run(played(OptimistStopping(evaluation, model), [values] * epochs))
        errors.append(evaluation.report().contrasts[0].standard_error)
    once_error, thrice_error = errors
    assert once_error is not None
    assert thrice_error is not None
    # Independent samples would have 1/√3 of the error.
    assert thrice_error > 0.85 * once_error


def test_what_does_not_fit_the_task_is_refused_when_it_starts():
    samples = [SimpleNamespace(id=number) for number in range(4)]
    plain = optimist.Evaluation(["a", "b"], metric=Mean())
    with pytest.raises(FixError, match="2 epochs need one for each of 4 samples, found 0"):
        asyncio.run(OptimistStopping(plain, "a").start_task(None, samples, 2))
    with pytest.raises(NotFoundError, match="no such generator"):
        asyncio.run(OptimistStopping(plain, "c").start_task(None, samples, 1))
    stopping = OptimistStopping(plain, "a", scorer="judge")
    asyncio.run(stopping.start_task(None, samples, 1))
    with pytest.raises(FixError, match="scorer 'judge': expected one of match"):
        asyncio.run(stopping.complete_sample(0, 1, scored(1.0)))


PROGRAM = """
import json, random, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import match
from inspect_ai.solver import generate
import optimist
from optimist_client.inspect import OptimistStopping
from optimist_client.metrics import Mean

draw, skills = random.Random(0), {"large": 0.9, "small": 0.5}
samples = [Sample(id=number, input=f"Question {number}?", target="yes") for number in range(200)]
experiment = optimist.Evaluation(list(skills), metric=Mean(range=(0, 1)), seed=1)

class Canned(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        is_right = draw.random() < skills[self.model_name]
        return ModelOutput.from_content(self.model_name, "yes" if is_right else "no")

modelapi(name="canned")(lambda: Canned)

def task(name):
    stopping = OptimistStopping(experiment, generator=name)
    return Task(dataset=samples, solver=generate(), scorer=match(location="exact"), name="yes", model=f"canned/{name}",
        early_stopping=stopping)

logs = eval([*map(task, skills)], max_tasks=2, max_samples=4, log_dir=sys.argv[1], display="none")
print(json.dumps([
    {"status": log.status, "samples": len(log.samples), **log.results.early_stopping.model_dump()} for log in logs
]))
"""


@pytest.mark.long
def test_tasks_of_inspect_end_once_it_is_decided_and_their_logs_say_why(tmp_path: Path):
    pytest.importorskip("inspect_ai")
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for log in json.loads(done.stdout.splitlines()[-1]):
        assert (log["status"], log["manager"]) == ("success", "optimist")
        assert log["early_stops"][0]["reason"].startswith("Best: large with 9")
        assert log["metadata"]["stopped"] == len(log["early_stops"]) > 100
        assert log["metadata"]["told"] == log["samples"] < 100
        assert log["metadata"]["answer"].startswith("Best: large")
    # Samples that were skipped are not missing ones.
    board = json.loads(invoked("contrast", tmp_path, "--json", code=0).stdout)
    assert [one["missing"] for one in board["scores"]] == [0] * 4
