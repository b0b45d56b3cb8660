"""`optimist help` explains words and commands."""

from __future__ import annotations

from optimist.commands.words import WORDS
from tests.support.commands import invoked


def test_words_fit_the_terminal():
    shown = invoked("help", "words", code=0, env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"{word}: " in shown for word in WORDS)


def test_a_command_is_explained_as_by_its_own_option():
    assert invoked("help", "backup", code=0).output.strip() == invoked("backup", "--help", code=0).output.strip()
    assert "help" in invoked("help", code=0).output


def test_another_topic_is_refused():
    refused = invoked("help", "nothing", code=2, standalone_mode=True)
    assert "expected `words` or a command, got 'nothing'" in refused.output
