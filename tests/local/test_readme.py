"""The README's first program prints what the README says that it prints."""

from __future__ import annotations

import pytest

from tests.support.places import ROOT
from tests.support.snippets import run_python, snippets

README = ROOT / "README.md"


def test_the_first_program_prints_the_block_below_it(capsys: pytest.CaptureFixture[str]):
    program, shown, *_ = snippets(README)
    run_python(program, README, program.code, {})
    assert capsys.readouterr().out == shown.code
