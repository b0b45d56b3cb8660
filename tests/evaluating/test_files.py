"""Files of `optimist evaluate`: mistakes are said in a line with their place, and hostile files do no harm."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimist.evaluating.examples import QUESTIONS, TEMPLATE
from optimist.evaluating.files import read_plan, read_questions
from optimist.evaluating.spec import EvaluationPlan
from optimist_client import FixError
from optimist_client.config import MAX_PROMPTS
from tests.support.commands import invoked

SECRET = "sk-0123456789abcdef"
GOOD = """\
models:
  a: {base_url: http://127.0.0.1:1/v1, model: a}
  b: {base_url: http://127.0.0.1:1/v1, model: b}
prompts: questions.jsonl
score: exact
"""


def refused(tmp_path: Path, text: str | bytes) -> str:
    """What is said of a file, without its path."""
    file = tmp_path / "eval.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(FixError) as found:
        read_plan(file)
    assert SECRET not in str(found.value)
    return str(found.value).replace(f"{file}", "eval.yaml")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("model: b}", "model: b, temprature: 1}"), "eval.yaml:3: models.b.temprature: unknown field, did you mean"),
        (("model: b}", f"model: b, api_key: {SECRET}}}"), "eval.yaml:3: models.b.api_key: expected env:NAME or file:"),
        (("http://127.0.0.1:1/v1, model: b", f"http://me:{SECRET}@x/v1, model: b"), "eval.yaml:3: models.b.base_url: "),
        (("  b:", "  a:"), "eval.yaml:3: a: given twice"),
        (("score: exact", "score: {exact: true, contains: true}"), "eval.yaml:5: score: expected one of"),
        (("score: exact", "score: {pairwise: {baseline: a}, exact: true}"), "eval.yaml:5: score: pairwise: expected"),
        (("score: exact", "score: {python: os}"), "eval.yaml:5: score.python: expected"),
        (("score: exact", "timeout: -1\nscore: exact"), "eval.yaml:5: timeout: expected a number above 0, got -1"),
        (("score: exact", ""), "eval.yaml:1: score: expected a value, got none"),
        (("score: exact", "score: exact\ngood_enough: 2%"), "eval.yaml:1: good_enough, limits: the cheapest one is"),
        (("score: exact", "score: [exact"), "eval.yaml:6: "),
        (("score: exact", "score: !!python/object/apply:os.system [true]"), "eval.yaml:5: score: expected"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, changed: tuple[str, str], said: str):
    found = refused(tmp_path, GOOD.replace(*changed))
    assert found.startswith(said)
    assert "\n" not in found


def test_several_mistakes_have_a_line_each(tmp_path: Path):
    found = refused(tmp_path, GOOD.replace("score: exact", "score: exact\ntimeout: no\ndelta: 7")).split("\n")
    assert [line.split(" ")[0] for line in found] == ["eval.yaml:6:", "eval.yaml:7:"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "eval.yaml:2: expected no aliases"),
        ("models: " + "[" * 5000, "eval.yaml:1: expected at most 30 mappings and lists within each other"),
        ("models: " + "{a: " * 5000, "eval.yaml:1: expected at most 30 mappings and lists within each other"),
        (b"\xff\xfe\x00", "eval.yaml: expected UTF-8"),
        ("# " + "x" * 2**20, "eval.yaml: expected at most 1,048,576 bytes"),
        ("", "eval.yaml:1: expected fields"),
        ("{[a]: 1}", "eval.yaml:1: expected a name"),
        (f"models: [{{api_key: {SECRET}}}]", "eval.yaml:1: models: expected"),
    ],
)
def test_hostile_files_are_refused_at_once(tmp_path: Path, text: str | bytes, said: str):
    since = time.process_time()
    assert refused(tmp_path, text).startswith(said)
    assert time.process_time() - since < 2.0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"prompt": "a"}\n{"prompt": 1}', ":2: prompt: expected text"),
        ('{"prompt": "a", "messages": []}', ":1: expected prompt or messages"),
        ('{"messages": [{"role": "user"}]}', ":1: messages: expected a list of objects"),
        ('{"prompt": "a", "id": "x"}\n\n{"prompt": "b", "id": "x"}', ":3: id 'x' is there twice"),
        ('{"prompt": "a", "answer": [1]}', ":1: answer: expected text or a number"),
        ("[" * 100_000, ":1: expected a JSON object"),
        ('{"prompt": "' + "x" * 2**20 + '"}', ":1: expected a line of at most 1,048,576 bytes"),
        ("\n", ": expected prompts, found none"),
    ],
)
def test_prompts_are_refused_with_their_line(tmp_path: Path, lines: str, said: str):
    file = tmp_path / "questions.jsonl"
    file.write_text(lines)
    with pytest.raises(FixError) as found:
        read_questions(file)
    assert str(found.value).startswith(f"{file}{said}")


def test_no_more_prompts_are_read_than_an_experiment_has(tmp_path: Path):
    file = tmp_path / "questions.jsonl"
    file.write_text('{"prompt": "a"}\n' * (MAX_PROMPTS + 2))
    with pytest.raises(FixError, match=f":{MAX_PROMPTS + 1}: expected at most 20,000 prompts"):
        read_questions(file)


def test_what_init_writes_is_valid_and_nothing_is_overwritten(tmp_path: Path):
    file = tmp_path / "my.yaml"
    assert invoked("evaluate", file, "--init", code=0).stdout.split() == [f"{file}", f"{tmp_path / 'questions.jsonl'}"]
    assert [*read_plan(file).models] == ["small", "large"]
    assert len(read_questions(tmp_path / "questions.jsonl")) == len(QUESTIONS)
    assert "is there already" in invoked("evaluate", file, "--init", code=1).stderr
    for line in TEMPLATE.read_text().splitlines():  # what is commented out is valid, too
        if line.startswith("# score: {") or line.startswith(("# good_enough", "# limits")):
            data: Any = yaml.safe_load(file.read_text()) | yaml.safe_load(line.removeprefix("# "))
            EvaluationPlan.model_validate(data)


def test_a_key_that_is_not_there_is_said_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EXAMPLE_KEY", raising=False)
    file = tmp_path / "my.yaml"
    invoked("evaluate", file, "--init", code=0)
    said = invoked("evaluate", file, code=1).stderr.replace("\n", " ")
    assert f"{file}:13: models.large.api_key: env:EXAMPLE_KEY: expected a key, found none" in said


@pytest.mark.parametrize(("option", "ending"), [("--page", ".html"), ("--records", ".jsonl")])
def test_files_to_write_have_their_ending(tmp_path: Path, option: str, ending: str):
    said = invoked("evaluate", tmp_path / "eval.yaml", option, tmp_path / "out.txt", code=2).stderr
    assert f"ending in {ending}" in " ".join(said.replace("│", " ").split())


def test_editors_get_a_schema_of_the_file():
    schema = json.loads(invoked("evaluate", "--schema", code=0).stdout)
    assert {"models", "prompts", "score", "budget"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False
    assert "json" in schema["$defs"]["ScoreSpec"]["properties"]
