"""`optimist help` explains words and commands."""

from __future__ import annotations

import re

from optimist.commands.words import WORDS
from tests.commands import golden
from tests.support.commands import invoked

PLAIN = {
    *("best", "by", "created (UTC)", "expires (UTC)", "experiments", "id", "its lead", "mean of tasks", "metric"),
    *("model", "models", "namespace", "note", "prompts", "prompts such as", "questions", "received (UTC)", "role"),
    *("samples", "score", "state", "tags", "verdict", "what is anomalous", "winner", "worse without it"),
}
"""Column heads that everybody understands."""
NAMES = {"large", "small", "large <i>", "cities", "sums", "less large-7b"}
"""Column heads of the samples' generators and tasks."""
SEVERAL_LINES = {"contrast-logs", "report-several-metrics", "simulate"}
"""Tables whose heads are broken: labels of metrics, and terms of simulations."""


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


def test_column_heads_are_explained():
    explained = {word for key in WORDS for word in re.split(r"[,()]\s*|\s\(", key)}
    for name in {*golden.pages(), *golden.OFFLINE} - SEVERAL_LINES:
        lines = (golden.FOLDER / f"{name}-80.txt").read_text().splitlines()
        heads = [lines[place - 1] for place, line in enumerate(lines) if line.startswith("──")]
        words = {word for head in heads for word in re.split(r"\s{2,}", head.strip())}
        unknown = [one for one in words - PLAIN - NAMES if not explained & {one, *re.split(r" of | many ", one)}]
        assert unknown == [], name
