"""The comparison of two checkouts' numbers: of this one with a record of it in which one bit was changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

SCRIPT = ROOT / "benchmarks" / "same_bits.py"
pytestmark = pytest.mark.long


def compared(*given: str | Path) -> tuple[int, str]:
    """The exit code and what was printed."""
    done = subprocess.run([sys.executable, SCRIPT, *given], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def test_only_the_experiment_with_another_last_bit_is_named(tmp_path: Path):
    file, some = tmp_path / "record.json", ("--only", "rke [pb]*s width")
    code, said = compared("--save", file, *some)
    assert code == 0, said
    record = json.loads(file.read_text())
    step, fields = next(one for one in record["rke past its width"][40:] if one[0].startswith("estimate"))
    digits, _, power = fields["upper"].rpartition("p")
    before, fields["upper"] = fields["upper"], f"{digits[:-1]}{int(digits[-1], 16) ^ 1:x}p{power}"
    file.write_text(json.dumps(record))
    code, said = compared(file, *some)
    assert code == 1, said
    assert f"rke past its width: {step}, upper\n" in said
    assert f"the other one: {fields['upper']} = {float.fromhex(fields['upper'])!r}" in said
    assert f"this checkout: {before} = {float.fromhex(before)!r}" in said
    assert "Different: 1 of 2 experiments" in said


def test_an_experiment_is_played_on_a_service(tmp_path: Path):
    file = tmp_path / "record.json"
    code, said = compared("--save", file, "--only", "given up")
    assert code == 0, said
    steps = json.loads(file.read_text())["given up"]
    told = [step for step, _ in steps if step.startswith("reply to ")]
    asked = [step for step, _ in steps if step.startswith("pick ")]
    assert len(asked) - len(told) == 8 + 3 + 1  # those that `given_up` gives up
    (totals,) = (fields for step, fields in steps[-1:] if step.startswith("totals in report "))
    assert totals["batches"] == len(told)
