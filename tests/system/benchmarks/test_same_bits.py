"""The comparison of two checkouts' numbers, of this one with itself and with a record that was changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

SCRIPT = ROOT / "benchmarks" / "same_bits.py"


def compared(*given: str | Path) -> tuple[int, str]:
    """The exit code and what was printed."""
    done = subprocess.run([sys.executable, SCRIPT, *given], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bits") / "record.json"
    code, said = compared("--save", file, "--only", "*rke past*")
    assert code == 0, said
    return file


def test_the_same_checkout_has_the_same_bits(record: Path):
    code, said = compared(record, "--only", "*rke past*")
    assert code == 0, said
    assert "Equal to the last bit: 1 experiments" in said


def test_a_last_bit_that_differs_is_named(record: Path):
    changed = json.loads(record.read_text())
    step, fields = next(one for one in changed["rke past its width"][40:] if one[0].startswith("estimate"))
    digits, _, power = fields["upper"].rpartition("p")
    before, fields["upper"] = fields["upper"], f"{digits[:-1]}{int(digits[-1], 16) ^ 1:x}p{power}"
    record.with_name("changed.json").write_text(json.dumps(changed))
    code, said = compared(record.with_name("changed.json"), "--only", "*rke past*")
    assert code == 1, said
    assert f"rke past its width: {step}, upper\n" in said
    assert f"the other one: {fields['upper']} = {float.fromhex(fields['upper'])!r}" in said
    assert f"this checkout: {before} = {float.fromhex(before)!r}" in said
    assert "Different: 1 of 1 experiments" in said


@pytest.mark.long
def test_what_a_service_does_is_the_same_in_two_runs():
    code, said = compared(SCRIPT.parents[1], "--only", "given up")
    assert code == 0, said
    assert "Equal to the last bit: 1 experiments" in said
