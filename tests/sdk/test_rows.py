"""Rows of .jsonl and .csv files: fields, ids, prompts and costs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist_client import FixError
from optimist_client.files import read_arrays
from optimist_client.rows import Fields, Rows

ANSWERS = [
    {"id": 7, "prompt": 'say, "a"', "answer": "a\nb", "judge": 0.5},
    {"id": 9, "prompt": "b", "answer": "c", "judge": 1},
]


def written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def test_json_and_csv_say_the_same(tmp_path: Path):
    lines = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, ANSWERS)) + "\n\n")
    cells = written(tmp_path / "a.csv", 'id,prompt,answer,judge\n7,"say, ""a""","a\nb",0.5\n9,b,c,1\n')
    marked = written(tmp_path / "b.csv", "\ufeff" + cells.read_text())
    for file in (lines, cells, marked):
        rows = Rows.from_file(file)
        assert rows.names == ["id", "prompt", "answer", "judge"]
        assert (rows.ids(), rows.prompts()) == (["7", "9"], ['say, "a"', "b"])
        assert rows.texts(rows.sample_field(("text", "answer"), "text")) == ["a\nb", "c"]
        (array,) = read_arrays(file, Fields(field="judge")).values()
        np.testing.assert_array_equal(array, [[0.5], [1.0]])


def test_the_only_field_of_texts_is_that_of_the_samples(tmp_path: Path):
    rows = Rows.from_file(written(tmp_path / "a.csv", "id,said,score\n1,yes,0.5\n2,no,1\n"))
    assert rows.sample_field(("text", "answer"), "text") == "said"


def test_lists_are_rows_and_each_generator_has_its_own(tmp_path: Path):
    rows = [{"generator": name, "embedding": [place, 1.5], "id": place} for place in range(3) for name in "ab"]
    file = written(tmp_path / "log.jsonl", "\n".join(map(json.dumps, rows)))
    arrays = read_arrays(file)
    assert list(arrays) == ["a/features", "b/features"]
    np.testing.assert_array_equal(arrays["a/features"], [[0, 1.5], [1, 1.5], [2, 1.5]])
    assert Rows.from_file(file).by_generator()["b"].ids() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "text", "fields", "expected"),
    [
        ("a.jsonl", "", {}, "expected at least one row, found none"),
        ("a.csv", "x,y\n", {}, "expected at least one row, found none"),
        ("a.jsonl", '{"x": 1}\n[1]', {}, r"line 2: expected a JSON object, found \[1\]"),
        ("a.jsonl", '{"x": 1}\n{"x"', {}, "line 2: expected a JSON object: Expecting"),
        ("a.csv", "x,y\n1,2\n3\n", {}, "line 3: expected 2 cells, found 1"),
        ("a.csv", "x,x\n1,2\n", {}, "line 1: expected distinct names of columns"),
        ("a.csv", "0.5,1e3\n1,2\n", {}, "line 1: expected names of columns, found only numbers: write names above"),
        ("a.csv", "x,y\n1,2\n,3\n", {"field": "x"}, "line 3: expected a number in the field 'x', found none"),
        ("a.csv", "x,y\n1,2\n", {"field": "z"}, r"no field 'z' \(number\); there are x, y"),
        ("a.csv", "x\n1\nnan\n", {}, "line 3: expected a number in the field 'x', found none: --missing drop"),
        ("a.csv", "x\n1\n2\nhalf\n", {}, "line 4: field 'x': expected a number or a list of numbers, found 'half'"),
        ("a.jsonl", '{"x": [1, 2]}\n{"x": [1]}', {}, "line 2: field 'x': expected 2 numbers, as in the first row"),
        ("a.csv", "answer\nhello\n", {}, ".*found answer; texts are embedded by `optimist compare --embed text`"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, fields: dict[str, Any], expected: str
):
    with pytest.raises(FixError, match=rf"{name}: {expected}"):
        read_arrays(written(tmp_path / name, text), Fields(**fields))


def test_ids_are_distinct_and_fields_are_of_rows(tmp_path: Path):
    with pytest.raises(FixError, match=r"line 4: the id '1' is that of line 2, too \(3 rows, 2 of them distinct\)"):
        Rows.from_file(written(tmp_path / "a.csv", "id,x\n1,2\n2,3\n1,4\n")).ids()
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    with pytest.raises(FixError, match=r"a\.npy: --field and --id: only files ending in .* have fields"):
        read_arrays(tmp_path / "a.npy", Fields(field="x", id="y"))
    with pytest.raises(FixError, match="which field is the text"):
        Rows.from_file(written(tmp_path / "b.csv", "x,y\na,b\n")).sample_field(("text",), "text")
