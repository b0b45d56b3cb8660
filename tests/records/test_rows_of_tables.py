"""Rows and keys come back from their texts as they were."""

from __future__ import annotations

from typing import Any

import pytest

from optimist.records.tables import (
    CONTROLS,
    GENERATORS,
    LEVELS,
    LOG,
    LOG_START,
    PICKS,
    RETURNED,
    ROOT,
    SETTLED,
    TOLD,
    WHOLE,
    Change,
    EndRow,
    GeneratorRow,
    LevelRow,
    PickRow,
    RootRow,
    RunsRow,
    Table,
    rows_in,
    shown_as,
    text_of_row,
    unpacked,
)

ROWS: list[tuple[Table[Any, Any], Any, Any]] = [
    (ROOT, "", RootRow("one", "config", 0.04, ("fid", 'a "label"'), 5, decision="{}", decided=(1, 2))),
    (GENERATORS, 3, GeneratorRow("g", state="paused", chain="ab")),
    (PICKS, 7, PickRow(0, "nonce", "request\t", "w", "", None, 5, 1, 0, 1.5, 1e9 + 0.1)),
    (RETURNED, 0, RunsRow((0, 5, 10, 2))),
    (TOLD, (0, 10), 25),
    (CONTROLS, "note", 'with "quotes", [brackets] and ü'),
    (SETTLED, 7, EndRow("nonce", "digest", (7, 0, 5, 5, 1, 1, 0, 0, 0, 3))),
]


@pytest.mark.parametrize(("table", "key", "row"), ROWS)
def test_a_row_comes_back_from_its_text(table: Table[Any, Any], key: Any, row: Any):
    assert table.key_in(table.text_of(key)) == key
    assert table.row_in(text_of_row(row)) == row


def test_changes_come_back_from_their_entry():
    changes = [Change(*row) for row in ROWS] + [Change(PICKS, 8, None)]
    shown = [shown_as(table, key, None if row is None else text_of_row(row)) for table, key, row in changes]
    assert unpacked(f"[{','.join(shown)}]") == changes


def test_rows_gain_fields_with_defaults():
    assert GENERATORS.row_in('["g", false, "active", 5]') == GeneratorRow("g", samples=5)


def test_resident_tables_are_in_order_of_their_keys():
    stored = {GENERATORS.name: {str(g): text_of_row(GeneratorRow(f"g{g}")) for g in (10, 9, 2)}}
    assert [change.key for change in rows_in(stored)] == [2, 9, 10]


def test_the_first_number_of_a_divided_table_is_in_the_name_of_its_hash():
    assert (LEVELS.part((3, 0, 17)), LEVELS.text_of((3, 0, 17))) == ("levels:3", "0:17")
    row = LevelRow(0.5, 1, 5, 1.0, "w")
    assert LEVELS.value_in((3, WHOLE), {"0:17": text_of_row(row)}) == {(3, 0, 17): row}
    assert (LOG.part((3, 17)), LOG.text_of((3, 17))) == ("log:3", "17")
    assert (LOG_START.part(3), LOG_START.text_of(3)) == ("log:3", "")
