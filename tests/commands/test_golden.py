"""Every help and every table as printed, compared with files; and the rules that all of them keep."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from optimist_client.layout import PIPED
from tests.commands import golden
from tests.support.places import ROOT

TABLES = [*golden.pages(), *golden.OFFLINE]
HELPS = {" ".join(("optimist", *path)): one for path, one in golden.commands().items()}


def file_of(command: str) -> str:
    """The file of a command's help."""
    return f"help/{command.replace(' ', '-')}"


@cache
def printed() -> dict[str, str]:
    """What is printed now, by a process of its own: here other tests may have registered metrics."""
    program = [sys.executable, "-m", "tests.commands.golden", "--print"]
    # Without `env` it would get the COLUMNS that readline, which pytest imports, sets behind the back of `os.environ`.
    done = subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.PIPE, env={**os.environ})
    return json.loads(done.stdout)


def test_what_is_printed_is_as_in_the_files():
    kept = {str(file.relative_to(golden.FOLDER).with_suffix("")): file for file in golden.FOLDER.rglob("*.txt")}
    again = "write them anew, and read the difference: python -m tests.commands.golden"
    assert sorted(kept) == sorted(printed()), again
    assert {name: file.read_text() for name, file in kept.items()} == printed(), again


@pytest.mark.parametrize("name", [*map(file_of, HELPS), *(f"{name}-80" for name in TABLES)])
def test_no_line_is_wider_than_the_terminal(name: str):
    assert max(map(len, printed()[name].splitlines())) <= 80


@pytest.mark.parametrize("name", TABLES)
def test_piped_text_has_no_frames_and_short_sentences(name: str):
    text = printed()[f"{name}-piped"]
    assert not set(text) & set("│─━┃╭╮╰╯\x1b\t")
    sentences = [line for line in text.splitlines() if "  " not in line]
    assert max(map(len, sentences), default=0) <= PIPED


@pytest.mark.parametrize("command", HELPS)
def test_each_help_has_an_example_and_names_what_may_be_given(command: str):
    text = printed()[file_of(command)]
    assert f"\nExample:\n  {command}" in text
    assert not re.search(r"<(bool|str|int|float|path|list)|\[default|\[required|None\b|repeatable", text)
    parameters = [one for one in HELPS[command].params if not getattr(one, "hidden", False)]
    said = " ".join(text.split())
    for parameter in parameters:
        assert parameter.help, parameter.name
        # Metrics that other tests have registered in this process come last.
        if choices := [*map(str, parameter.type_descriptor.choices or ())]:
            assert any(f"One of {', '.join(choices[: len(choices) - brought])}." in said for brought in range(3))
        default = parameter.default
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert f"Default: {default:g}." in said


@pytest.mark.parametrize("command", HELPS)
def test_each_example_is_a_command_that_is_understood(command: str):
    (example,) = re.findall(r"Example:\n  optimist (.*)", printed()[file_of(command)])
    words = shlex.split(example)
    path: tuple[str, ...] = ()
    found: Any = HELPS["optimist"]
    while hasattr(found, "commands"):
        path, found = (*path, words[len(path)]), found.commands[words[len(path)]]
    found.make_context(" ".join(("optimist", *path)), words[len(path) :])


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("examples/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_names_exist(page: str):
    text = page.read_text()
    for said in re.findall(r"(?:`|^|\$ )(optimist [a-z][^`\n|&#;]*)", text, re.MULTILINE):
        words = said.rstrip("\\").split()
        name = " ".join(words[:3]) if " ".join(words[:3]) in HELPS else " ".join(words[:2])
        assert name in HELPS, said
        known = {option for one in HELPS[name].params for option in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
        given = {word.split("=")[0].rstrip(".,)") for word in words if word.startswith("--")}
        assert given <= known, said
