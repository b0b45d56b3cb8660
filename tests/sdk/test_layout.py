"""Tables and sentences as lines: what a narrow terminal leaves out and breaks, and that nothing else does."""

from __future__ import annotations

import io
import os
import pty
import termios
from importlib import import_module

import pytest

from optimist_client.layout import PIPED, Page, Table, width_of, wrapped

HEAD = ("experiment", "state", "best of all so far", "tags")
ROWS = [
    ("a-name-of-28-letters-in-all", "running", "step-40k leads", "nightly, digits"),
    ("b", "decided", "step-20k 99.9%", ""),
]
TABLE = Table(HEAD, ROWS, title="Two experiments", first_to_go=("tags", "best of all so far"), left=HEAD)


def test_elsewhere_than_in_a_terminal_each_row_is_one_line_and_whole():
    assert TABLE.lines(None) == [
        "Two experiments",
        "experiment                   state    best of all so far  tags",
        "a-name-of-28-letters-in-all  running  step-40k leads      nightly, digits",
        "b                            decided  step-20k 99.9%",
    ]


def test_a_terminal_breaks_heads_first_and_then_leaves_columns_out():
    assert TABLE.lines(80)[1:3] == [
        "experiment                   state    best of all so far  tags",
        "─" * len("experiment                   state    best of all so far  nightly, digits"),
    ]
    assert TABLE.lines(70)[1:] == [
        "experiment                   state    best of all so  tags",
        "                                      far",
        "─" * 69,
        "a-name-of-28-letters-in-all  running  step-40k leads  nightly, digits",
        "b                            decided  step-20k 99.9%",
    ]
    narrow = TABLE.lines(40)
    assert narrow[3] == "a-name-of-28-letters-in-all  running"
    assert narrow[-2:] == ["Not shown for want of room: tags, best", "of all so far."]
    assert all(len(line) <= 40 for line in narrow)


def test_what_may_not_be_left_out_continues_below():
    lines = Table(("model", *"abcdef"), [("large", *["0.123 ± 0.045"] * 6)]).lines(40)
    assert [line for line in lines if "large" in line] == ["large  0.123 ± 0.045  0.123 ± 0.045"] * 3
    assert [line.split() for line in lines if "model" in line] == [
        ["model", "a", "b"],
        ["model", "c", "d"],
        ["model", "e", "f"],
    ]


def test_only_a_name_that_leaves_no_room_is_broken():
    name = "a-generator-with-a-name-that-is-longer-than-a-line"
    lines = Table(("generator", "worse by"), [(name, "16.6 (9.8 to 23.5)"), ("b", "best")]).lines(60)
    assert lines[2:] == [
        "a-generator-with-a-name-that-is-longer-t  16.6 (9.8 to 23.5)",
        "han-a-line",
        "b                                                       best",
    ]


def test_sentences_in_a_column_are_broken_between_words():
    table = Table(("batch", "finding"), [("7", "it is about 255 times larger than its others")], sentences="finding")
    assert table.lines(40)[2:] == ["7      it is about 255 times larger than", "       its others"]
    assert table.lines(None)[1] == "7      it is about 255 times larger than its others"


def test_characters_of_a_cell_keep_its_place_and_move_no_cursor():
    lines = Table(("name", "n"), [("模型", "1"), ("a\x1b[2J\nb", "2")]).lines(None)
    assert lines == ["name     n", "模型     1", "a�[2J b  2"]


def test_sentences_end_at_the_width_and_keep_their_words():
    said = "word " * 60 + "/a/path/" + "x" * 130
    assert max(map(len, wrapped(said, None)[:-1])) <= PIPED
    assert " ".join(wrapped(said, 50)).split() == said.split()
    assert Page(["", "one\ntwo"]).text(80) == "\none\ntwo"


def test_elsewhere_than_in_a_terminal_sentences_end_where_columns_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "50")
    page = Page([TABLE, "word " * 60])
    assert max(map(len, page.text(None).splitlines()[4:])) <= 50
    assert page.text(None).splitlines()[:4] == TABLE.lines(None)
    monkeypatch.setenv("COLUMNS", "none")
    assert max(map(len, wrapped("word " * 60, None))) > 100


def test_the_width_is_of_the_terminal_that_is_written_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width_of(io.StringIO()) is None
    parent, child = pty.openpty()
    try:
        termios.tcsetwinsize(child, (24, 97))
        with os.fdopen(os.dup(child), "w") as terminal:
            assert width_of(terminal) == 97
            monkeypatch.setenv("COLUMNS", "63")
            assert width_of(terminal) == 63
    finally:
        os.close(parent)
        os.close(child)


@pytest.mark.parametrize(("terminal", "width"), [(True, 70), (False, None)])
def test_rich_shows_the_same_lines(terminal: bool, width: int | None):
    pytest.importorskip("rich")
    page = Page([TABLE, "[not markup] " * 12])
    console = import_module("rich.console").Console(
        file=io.StringIO(), width=70, force_terminal=terminal, color_system=None
    )
    console.print(page, soft_wrap=True)
    assert console.file.getvalue() == f"{page.text(width)}\n"
