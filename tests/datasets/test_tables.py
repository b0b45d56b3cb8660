"""Tables of scores as harnesses, judges and pandas write them: which field is what, what a row counts, what is said."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist_client import FixError
from optimist_client.embedders import Sentences
from optimist_client.files import read_arrays
from optimist_client.rows import Fields, Rows
from tests.support.commands import invoked

MEAN = {"values": 1}


def lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def scored(*arguments: object) -> dict[str, float]:
    found = json.loads(invoked("score", *arguments, "--json", code=0).stdout)
    return {one["name"]: one["score"] for one in found}


def refused(command: str, *arguments: object) -> str:
    return invoked(command, *arguments, code=1).stderr


@pytest.fixture
def judged(tmp_path: Path) -> tuple[Path, list[Path]]:
    """The scores of a judge as it exports them: all models in one file, and one file for each."""
    draw = random.Random(0)
    head = "id,model,prompt,judge_score,latency_ms,cost_usd\n"
    rows = {
        model: [f'{i},{model},"say, {i}",{draw.randint(low, 9)},{draw.random() * 900:.1f},0.002\n' for i in range(40)]
        for model, low in {"alpha": 3, "beta": 5, "gamma": 1}.items()
    }
    (tmp_path / "scores.csv").write_text(
        head + "".join(line for own in zip(*rows.values(), strict=True) for line in own)
    )
    files = [tmp_path / f"{model}.csv" for model in rows]
    for file in files:
        file.write_text(head + "".join(rows[file.stem]))
    return tmp_path / "scores.csv", files


def test_a_judge_s_csv_answers_in_one_command(judged: tuple[Path, list[Path]]):
    table, files = judged
    found = scored(table)
    assert list(found) == ["beta", "alpha", "gamma"]
    assert scored(table, "--metric=mean") == scored(*files) == found
    for arguments in ((table,), files):
        out = invoked("contrast", *arguments, code=0).stdout
        assert out.startswith("Mean, independent samples")
        assert "40 rows each, scored by judge_score" in out
        assert "--paired compares row with row, by id" in out
        assert "paired by id (40 in common)" in invoked("contrast", *arguments, "--paired", code=0).stdout
    assert "generators by the field model" in invoked("score", table, code=0).stdout


def test_several_numbers_are_asked_about(tmp_path: Path):
    file = lines(tmp_path / "a.jsonl", [{"id": i, "f1": 0.5, "recall": i % 2, "latency_s": i} for i in range(9)])
    assert "which field is the score? Name one by --field: f1, recall" in refused("score", file, "--metric=mean")
    assert scored(file, "--field=recall") == {"a": pytest.approx(4 / 9)}
    assert {*scored(file, "--field=f1,recall")} == {"f1", "recall"}


def test_the_first_row_decides_nothing(tmp_path: Path):
    rows = [{"id": i, "tokens": 100 + i, "score": None if i == 0 else i % 2} for i in range(60)]
    file = lines(tmp_path / "tuned.jsonl", rows)
    assert "line 1: expected a number in the field 'score', found none: --missing drop" in refused("score", file)
    assert scored(file, "--missing=drop") == {"tuned": pytest.approx(30 / 59)}
    assert scored(file, "--missing=zero") == {"tuned": 0.5}
    assert "1 of tuned without a score" in invoked("score", file, "--missing=drop", code=0).stdout
    mixed = [{"score": "failed" if i == 0 else 1.0, "tokens": i} for i in range(9)]
    assert "line 1: field 'score': expected a number" in refused("score", lines(tmp_path / "mixed.jsonl", mixed))


@pytest.mark.parametrize("missing", ["", "nan", "NaN", "N/A", "null", "None"])
def test_missing_numbers_are_written_in_several_ways(tmp_path: Path, missing: str):
    cells = tmp_path / "a.csv"
    cells.write_text("id,score\n" + "".join(f"{i},{missing if i == 3 else i % 2}\n" for i in range(10)))
    rows = lines(tmp_path / "b.jsonl", [{"id": i, "score": missing if i == 3 else i % 2} for i in range(10)])
    for file in (
        cells,
        rows,
        lines(tmp_path / "c.jsonl", [{"score": float("nan") if i == 3 else i % 2} for i in range(10)]),
    ):
        assert "found none: --missing drop" in refused("score", file)
        assert scored(file, "--missing=drop") == {file.stem: pytest.approx(4 / 9)}


def test_samples_of_a_harness_are_paired_by_their_questions(tmp_path: Path):
    draw = random.Random(1)
    luck = [draw.random() for _ in range(200)]
    files: list[Path] = []
    for name, skill in (("large", 0.78), ("small", 0.70)):
        rows = [{"doc_id": i, "target": f"{2 * i}", "exact_match": float(u < skill)} for i, u in enumerate(luck)]
        if name == "small":
            draw.shuffle(rows)
        files.append(lines(tmp_path / f"{name}.jsonl", rows))
    assert {*scored(*files)} == {"large", "small"}
    (between,) = json.loads(invoked("contrast", *files, "--paired", "--json", code=0).stdout)["contrasts"]
    assert (between["correlation"] > 0.5, between["common"]) == (True, 200)
    # A row for each filter of an answer: the questions are 200, not 400.
    rows = [
        {"doc_id": i, "filter": one, "exact_match": float(u < 0.5)}
        for one in ("strict", "flexible")
        for i, u in enumerate(luck)
    ]
    file = lines(tmp_path / "gsm8k.jsonl", rows)
    said = refused("score", file)
    assert (
        "the doc_id '0' is that of line 1, too (400 rows, 200 of them distinct): choose by --where filter=strict"
        in said
    )
    found = json.loads(invoked("score", file, "--where=filter=strict", "--json", code=0).stdout)
    assert (found[0]["samples"], found[0]["basis"]["unselected"]) == (200, {"gsm8k": 200})
    assert "no row is left; filter has strict, flexible" in refused("score", file, "--where=filter=loose")
    assert {*scored(file, "--by=filter")} == {"strict", "flexible"}


def test_a_value_alone_below_all_others_is_pointed_out(tmp_path: Path):
    file = lines(tmp_path / "minus.jsonl", [{"id": i, "score": -1 if i % 6 == 3 else 8 + i % 2} for i in range(60)])
    assert "-1 in 10 of 60 rows is alone below all others (8 to 9)" in invoked("score", file, code=0).stdout
    out = invoked("score", file, "--where=score!=-1", code=0).stdout
    assert "alone" not in out
    assert "10 not selected" in out
    for scores in ([0, 1], [-1, 0, 1], [0.5, 1, 2, 3]):
        plain = lines(tmp_path / "plain.jsonl", [{"score": scores[i % len(scores)]} for i in range(60)])
        assert "alone" not in invoked("score", plain, code=0).stdout


def test_booleans_are_numbers_and_text_is_none(tmp_path: Path):
    cells = tmp_path / "a.csv"
    cells.write_text("id,passed,answer\n" + "".join(f"{i},{i % 3 > 0},00{i}\n" for i in range(30)))
    rows = lines(tmp_path / "b.jsonl", [{"id": i, "passed": i % 3 > 0, "answer": f"{i}"} for i in range(30)])
    assert scored(cells, rows) == {"a": pytest.approx(2 / 3), "b": pytest.approx(2 / 3)}
    texts = lines(tmp_path / "c.jsonl", [{"id": i, "score": f"{i % 2}"} for i in range(30)])
    assert "expected a field of numbers" in refused("score", texts)
    assert scored(texts, "--field=score") == {"c": 0.5}  # named, it is what it says


def test_fields_within_others_and_other_cases_of_letters(tmp_path: Path):
    file = lines(tmp_path / "a.jsonl", [{"ID": i, "metrics": {"acc": i % 2, "n": {"x": 1}}} for i in range(20)])
    assert scored(file, "--field=metrics.acc") == scored(file, "--field=Metrics.Acc") == {"a": 0.5}
    assert Rows.from_file(file).id == "ID"


@pytest.mark.parametrize(
    ("name", "text", "mean"),
    [
        ("pandas.csv", ",score\n0,1\n1,0\n", 0.5),
        ("saved.csv", "Unnamed: 0,score\n0,1\n1,0\n", 0.5),
        ("semicolon.csv", "id;score\n0;1\n1;0\n", 0.5),
        ("comma.csv", "id;score\n0;0,5\n1;1,5\n", 1.0),
        ("bar.csv", "id|score\n0|1\n1|0\n", 0.5),
        ("tabs.tsv", "id\tscore\n0\t1,0\n1\t0,0\n", 0.5),
        ("alone.csv", "score\n1\n0\n", 0.5),
        ("marked.csv", "\ufeffid,score\n0,1\n1,0\n", 0.5),
        ("array.json", '[{"id": 0, "score": 1}, {"id": 1, "score": 0}]', 0.5),
        ("within.json", '{"model": "x", "samples": [{"id": 0, "score": 1}, {"id": 1, "score": 0}]}', 0.5),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_dialects(tmp_path: Path, name: str, text: str, mean: float, encoding: str):
    file = tmp_path / name
    file.write_text(text.removeprefix("\ufeff") if encoding == "utf-16" else text, encoding=encoding)
    (values,) = read_arrays(file, wanted=MEAN).values()
    assert values.mean() == mean


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "decimals.csv",
            "id,score\n0,0,5\n",
            "cells are separated by ',': with decimal commas separate them by ';'",
        ),
        ("thousands.csv", 'id;score\n0;"1,234"\n1;"5,678"\n', "expected a field of numbers"),
        ("packed.csv.gz", "", "unpack it first"),
        ("empty.json", "[]", "expected at least one row, found none"),
        ("columns.json", '{"score": {"0": 1}}', "expected an array of objects"),
        ("nothing.csv", "id,score\n0,\n1,\n", "expected a field of numbers"),
        ("latin.csv", "id,name\n0,\xe9\n", "expected text in UTF-8, or in UTF-16 with its mark"),
    ],
)
def test_what_is_refused_says_what_to_do(tmp_path: Path, name: str, text: str, said: str):
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(FixError) as error:
        read_arrays(tmp_path / name, wanted=MEAN)
    assert said in f"{error.value}"


def test_ids_of_all_kinds_belong_together(tmp_path: Path):
    one = lines(tmp_path / "a.jsonl", [{"id": i, "score": i % 2} for i in range(20)])
    other = lines(tmp_path / "b.jsonl", [{"id": f"{i}", "score": i % 3} for i in reversed(range(20))])
    cells = tmp_path / "c.csv"
    cells.write_text("id,score\n" + "".join(f"{i}.0,{i % 4}\n" for i in range(20)))
    found = json.loads(invoked("contrast", one, other, cells, "--paired", "--json", code=0).stdout)
    assert (found["basis"]["paired_by"], found["basis"]["common"]) == ("id", 20)


def test_tables_given_by_name_are_paired_by_their_ids(tmp_path: Path):
    luck = np.random.default_rng(0).standard_normal(60)
    rows = {
        "a": [{"id": i, "score": luck[i]} for i in range(60)],
        "b": [{"id": i, "score": luck[i]} for i in range(60)],
    }
    sets = {name: lines(tmp_path / f"{name}.jsonl", own[:: 1 if name == "a" else -1]) for name, own in rows.items()}
    found = optimist.contrast(sets, "mean", paired=True)
    assert (found.basis.paired_by, found.basis.common, found.contrasts[0].correlation > 0.99) == ("id", 60, True)
    both = lines(tmp_path / "both.jsonl", [{"model": name, **row} for name, own in rows.items() for row in own])
    with pytest.raises(FixError, match=r"both\.jsonl: expected the rows of one generator, found a, b"):
        optimist.contrast({"a": sets["a"], "both": both}, "mean")


def test_columns_of_features_are_matched_by_name_and_an_index_is_none(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = np.random.default_rng(0).standard_normal((3, 300, 3)) * (1.0, 2.0, 3.0)
    columns = ["x", "y", "z"]
    for name, order, part in (("real", "xyz", 0), ("same", "xyz", 1), ("turned", "zyx", 1)):
        values = {column: rows[part][:, columns.index(column)] for column in order}
        table = pa.table({**values, "__index_level_0__": list(range(300)), "note": ["n"] * 300})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.parquet" for name in ("same", "turned")]
    found = scored(*files, "--reference", tmp_path / "real.parquet")
    assert found["same"] == pytest.approx(found["turned"], rel=1e-9)
    cells = tmp_path / "other.csv"
    cells.write_text("x,y,w\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows[1].tolist()))
    assert "expected the columns x to z by name; not in both: w, z" in refused(
        "score", cells, "--reference", tmp_path / "real.parquet"
    )


def test_missing_rows_keep_pairs_together(tmp_path: Path):
    luck = np.random.default_rng(0).standard_normal(60)
    for name, shift in (("a", 0.0), ("b", 0.1)):
        lacks = {5} if name == "b" else set[int]()
        lines(tmp_path / f"{name}.jsonl", [{"score": None if i in lacks else luck[i] + shift} for i in range(60)])
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    out = invoked("contrast", *files, "--paired", "--missing=drop", "--json", code=0)
    (between,) = json.loads(out.stdout)["contrasts"]
    assert (between["common"], between["correlation"] > 0.99) == (59, True)
    assert between["difference"] == pytest.approx(0.1, abs=0.01)


def test_conditions_are_of_fields(tmp_path: Path):
    file = lines(tmp_path / "a.jsonl", [{"score": 1}, {"score": 0}])
    with pytest.raises(FixError, match="--where score: expected FIELD=VALUE"):
        Rows.from_file(file, Fields(where=("score",)))
    with pytest.raises(FixError, match="no field 'x'"):
        Rows.from_file(file, Fields(where=("x=1",)))


def test_a_table_of_texts_has_a_source_for_each_model(tmp_path: Path):
    answers = {"short": 3, "long": 9, "longer": 12}
    rows = [
        {"question_id": i, "model": name, "answer": "x" * (1 + i % most)}
        for i in range(60)
        for name, most in answers.items()
    ]
    source = {"embed": _Lengths(), "reference": np.random.default_rng(1).random((90, 2)) + 1.0, "progress": False}
    found = optimist.compare([lines(tmp_path / "answers.jsonl", rows)], cache=tmp_path / "cache", **source)
    assert {row.generator for row in found.report.standings} == {*answers}
    assert (found.best, found.common) == ("short", 60)


class _Lengths(Sentences):
    name = "lengths"

    def __init__(self) -> None:
        pass

    def embed(self, batch: Any) -> np.ndarray:
        return np.array([[len(text), len(text) % 2] for text in batch], np.float32)
