"""Readers of logs: what the harnesses themselves wrote, and older formats of the same."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from optimist.datasets.logs.reading import Answers, answers_in, logs_in, named
from optimist.datasets.logs.rows import LogRow
from optimist_client.errors import FixError
from optimist_client.installed import install_hint
from optimist_client.rows import NO_FIELDS, Fields
from tests.support.places import DATA

LOGS = DATA / "logs"


def read(*paths: Path, fields: Fields = NO_FIELDS, with_tables: bool = False) -> dict[str, list[Answers]]:
    return named(answers_in(logs_in(paths, fields, with_tables=with_tables)))


def rows(*paths: Path) -> list[LogRow]:
    return [row for log in logs_in(paths) for row in log.rows(True)]


def written(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def sample(number: int, score: float, **others: Any) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"q": "?"},
        "target": "1",
        "arguments": [["?", {}]],
        "resps": [["1"]],
        **others,
    } | {"exact_match": score}


def test_the_results_of_lm_eval_say_what_the_samples_beside_them_are():
    found = read(LOGS / "lm-eval")
    assert [*found] == ["large-7b", "small-1b"]
    parts = {(one.task, one.filter): one for one in found["small-1b"]}
    assert {*parts} == {("cities", ""), ("sums", "strict-match"), ("sums", "flexible-extract")}
    for file in (LOGS / "lm-eval/acme__small-1b").glob("results*.json"):
        means = json.loads(file.read_text())["results"]
        for (task, of), one in parts.items():
            for metric, values in one.scores.items():
                assert sum(values) / 24 == pytest.approx(means[task][f"{metric},{of or 'none'}"], abs=1e-12)


def test_texts_of_lm_eval_are_the_prompt_and_the_answer_or_the_likeliest_choice():
    texts = {(row.task, row.filter, row.id): (row.prompt, row.answer) for row in rows(LOGS / "lm-eval/acme__large-7b")}
    assert texts["sums", "strict-match", "1"] == ("Q: 1 + 3?", "That is 4.")
    assert texts["cities", "", "1"] == ("City 1 of three?", "Oslo")


def test_samples_of_lm_eval_until_0_4_2_are_an_array_that_names_no_metrics(tmp_path: Path):
    name = "pretrained__acme__tiny"
    (tmp_path / "results.json").write_text(
        json.dumps(
            {
                "results": {"sums": {"exact_match,none": 0.5, "alias": "sums"}},
                "configs": {"sums": {"task": "sums"}},
                "config": {"model": "hf", "model_args": "pretrained=acme/tiny,dtype=float32"},
            }
        )
    )
    (tmp_path / f"{name}_sums.jsonl").write_text(json.dumps([sample(0, 1.0), sample(1, 0.0)], indent=2))
    ((name, (one,)),) = read(tmp_path).items()
    assert (name, one.task, one.ids, [*one.scores["exact_match"]]) == ("tiny", "sums", ["0", "1"], [1.0, 0.0])


def test_runs_of_one_model_are_called_by_what_differs(tmp_path: Path):
    for number, (org, shots) in enumerate([("acme", 0), ("acme", 5), ("other", 0)]):
        stamp = f"2026-01-0{number + 1}T00-00-00.000000"
        results = {
            "results": {"sums": {}},
            "configs": {"sums": {}},
            "n-shot": {"sums": shots},
            "config": {"model": "hf", "model_args": {"pretrained": f"{org}/tiny"}},
            "model_name": f"{org}/tiny",
        }
        written(tmp_path / f"{number}/results_{stamp}.json", [results])
        written(tmp_path / f"{number}/samples_sums_{stamp}.jsonl", [sample(0, 1.0)])
    assert [*read(tmp_path)] == ["acme/tiny shots=0", "acme/tiny shots=5", "other/tiny"]
    assert [*read(tmp_path / "0", tmp_path / "1")] == ["tiny shots=0", "tiny shots=5"]


def test_runs_that_differ_in_nothing_are_called_by_their_times(tmp_path: Path):
    """Without arguments that name the model, lm-eval calls it by chance."""
    for number, date in enumerate((1795911129.6, 1795911167.2)):
        results = {"results": {}, "configs": {"sums": {}}, "model_name": f"qdp{number}", "date": date}
        written(tmp_path / f"{number}/results_{number}.json", [results | {"config": {"model": "dummy"}}])
        written(tmp_path / f"{number}/samples_sums_{number}.jsonl", [sample(0, 1.0)])
    assert [*read(tmp_path)] == ["dummy 00:12:09", "dummy 00:12:47"]


def test_results_of_lm_eval_without_samples_say_what_to_do():
    (file,) = (LOGS / "lm-eval/acme__small-1b").glob("results*.json")
    with pytest.raises(FixError, match="run lm-eval with --log_samples"):
        logs_in([file])


def test_repeated_calls_of_promptfoo_are_epochs_and_failed_ones_have_no_score():
    found = read(LOGS / "promptfoo")
    assert [*found] == ["large", "small"]
    (small,) = found["small"]
    assert (small.task, len(small.ids), len({*small.ids}), {*small.epochs}) == ("doubles", 20, 10, {1, 2})
    assert {*small.scores} == {"pass", "score", "brevity"}
    failed = [id for id, value in zip(small.ids, small.scores["pass"], strict=True) if value != value]
    assert failed == ["7, 14", "7, 14"]
    assert sum(found["large"][0].costs) == pytest.approx(0.02)
    texts = {row.id: (row.prompt, row.answer) for row in rows(LOGS / "promptfoo") if row.model == "large"}
    assert texts["3, 6"] == ("Twice 3?", "6")


def test_version_2_of_promptfoo_has_its_results_at_the_top(tmp_path: Path):
    whole = json.loads((LOGS / "promptfoo/results.json").read_text())["results"]["results"]
    old = [{**one, "provider": f"acme:{one['provider']['label']}"} for one in whole]
    for one in old:
        del one["failureReason"], one["testIdx"]
    summary = {"version": 2, "timestamp": "2024-05-01T00:00:00.000Z", "results": old, "stats": {}, "table": {}}
    file = tmp_path / "output.json"
    file.write_text(json.dumps({"results": summary, "config": {"description": "doubles"}}, indent=2))
    new, before = read(LOGS / "promptfoo"), read(file)
    assert [*before["large"][0].scores["score"]] == [*new["large"][0].scores["score"]]


@pytest.mark.long
@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai is not installed")
def test_epochs_of_inspect_are_read_and_errors_kept():
    found = read(LOGS / "inspect")
    assert [*found] == ["large", "small"]
    (large,), (small,) = found.values()
    assert (large.task, len(large.ids), {*large.epochs}) == ("doubles", 36, {1, 2, 3})
    assert {*large.scores} == {"match", "brevity"}
    failed = [id for id, value in zip(small.ids, small.scores["match"], strict=True) if value != value]
    assert failed == ["double-7"] * 3
    assert all(second > 0.0 for second in large.seconds)
    assert any((row.prompt, row.answer) == ("Twice 3?", "6") for row in rows(LOGS / "inspect"))


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect_ai is installed")
def test_logs_of_inspect_say_what_to_install():
    with pytest.raises(FixError, match=re.escape(install_hint("inspect"))):
        logs_in([LOGS / "inspect"])


def test_tables_with_a_field_task_are_logs_and_others_where_that_is_asked(tmp_path: Path):
    lines = [
        {"model": model, "task": task, "id": i, "epoch": epoch, "score": (i % 2) if i else None, "cost": 0.5}
        for model in ("a", "b")
        for task in ("x", "y")
        for i in range(4)
        for epoch in (1, 2)
    ]
    file = written(tmp_path / "all.jsonl", lines)
    found = read(file)
    assert {name: [one.task for one in own] for name, own in found.items()} == {"a": ["x", "y"], "b": ["x", "y"]}
    (one, _) = found["a"]
    assert ([*one.epochs][:4], one.ids[:3], sum(one.costs)) == ([1, 2, 1, 2], ["0", "0", "1"], 4.0)
    assert sum(value != value for value in one.scores["score"]) == 2
    plain = [{name: value for name, value in line.items() if name not in ("task", "epoch")} for line in lines[:16:2]]
    other = written(tmp_path / "plain.jsonl", plain)
    assert logs_in([other]) == []
    assert [*read(other, with_tables=True)] == ["a"]


def test_fields_of_tables_are_named_alike_in_lines_of_json_and_in_cells(tmp_path: Path):
    lines = [
        {"llm": name, "task": "x", "key": i, "scores.acc": i % 2, "passage": i // 2, "cost": 0.5}
        for name in ("a", "b")
        for i in range(6)
    ]
    nested = [
        {"llm": one["llm"], "task": "x", "key": one["key"], "scores": {"acc": one["scores.acc"]}} for one in lines
    ]
    nested = [{**one, "passage": line["passage"], "cost": 0.5} for one, line in zip(nested, lines, strict=True)]
    cells = [",".join(lines[0]), *(",".join(f"{value}" for value in line.values()) for line in lines)]
    (tmp_path / "cells.csv").write_text("\n".join(cells))
    fields = Fields(by="llm", id="key", cluster="passage")
    for file in (tmp_path / "cells.csv", written(tmp_path / "lines.jsonl", nested)):
        for chosen in (fields, replace(fields, field="scores.acc")):
            found = read(file, fields=chosen)
            assert [*found] == ["a", "b"]
            ((one,), _) = found.values()
            assert (one.ids, one.clusters[:3]) == ([f"{i}" for i in range(6)], ["0", "0", "1"])
            assert {name: [*values] for name, values in one.scores.items()} == {"scores.acc": [0, 1, 0, 1, 0, 1]}
            assert sum(one.costs) == 3.0
        with pytest.raises(FixError, match="no field 'nope'"):
            read(file, fields=replace(fields, cluster="nope"))
    with pytest.raises(FixError, match="line 1: expected an id"):
        read(tmp_path / "lines.jsonl", fields=Fields(by="llm"))
    with pytest.raises(FixError, match="--missing: logs are compared"):
        read(tmp_path / "lines.jsonl", fields=Fields(missing="zero"))


def test_what_is_no_log_is_named(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("nothing")
    (samples,) = (LOGS / "lm-eval/acme__small-1b").glob("samples_sums*")
    with pytest.raises(FixError, match=r"notes\.txt: expected a log of lm-eval, inspect_ai or promptfoo"):
        logs_in([samples, tmp_path / "notes.txt"])
    with pytest.raises(FixError, match="--where: only files ending in"):
        logs_in([samples], Fields(where=("filter=strict-match",)))
    broken = tmp_path / "samples_sums_2026-01-01T00-00-00.000000.jsonl"
    broken.write_text(samples.read_text()[:-40])
    with pytest.raises(FixError, match="line 48: expected a JSON object"):
        answers_in(logs_in([broken]))


def test_questions_that_are_alike_are_clusters_by_a_field_of_the_question(tmp_path: Path):
    lines = [sample(i, i % 2, doc={"passage": i // 3}) for i in range(6)]
    ((one,),) = read(written(tmp_path / "samples_x.jsonl", lines), fields=Fields(cluster="passage")).values()
    assert one.clusters == ["0", "0", "0", "1", "1", "1"]
