"""Settings that say where numbers live and how much memory they may keep."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from optimist.commands import app
from optimist.settings import Settings


def test_a_scorer_keeps_a_quarter_of_the_memory_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPTIMIST_WARM_BYTES", raising=False)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2**20 < Settings().warm_bytes <= memory // 4
    monkeypatch.setenv("OPTIMIST_WARM_BYTES", "123456")
    assert Settings().warm_bytes == 123456


@pytest.mark.parametrize(
    ("command", "given"),
    [(command, given) for command in ("score files", "scorer") for given in ("option", "variable")]
    + [("serve", "option")],  # it starts a scorer, which takes 4 s of a processor
)
def test_a_gpu_that_is_not_here_is_said_plainly(
    command: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "a.npy"
    np.save(file, np.full((5, 2), 0.5))
    arguments = {
        "serve": ["serve", f"--data-dir={tmp_path / 'data'}"],
        "score files": ["score", f"{file}", "--metric=is"],
        "scorer": ["scorer", "--redis-url=unix:///nowhere"],
    }[command]
    if given == "variable":
        monkeypatch.setenv("OPTIMIST_DEVICE", "cuda:99")
    else:
        arguments.append("--device=cuda:99")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "device 'cuda:99' is not here" in result.stderr
