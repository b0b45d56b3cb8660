"""The workers without the SDK that docs/workers.md shows come to a decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_snippets import run_bash

from optimist_client import Optimist
from tests.support.places import ROOT
from tests.support.processes import serving
from tests.support.snippets import run_python, snippets

PAGE = ROOT / "docs" / "workers.md"


@pytest.mark.long
def test_workers_without_the_sdk_come_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    *_, in_curl, in_python = (one for one in snippets(PAGE) if one.language in ("bash", "python"))
    with serving(tmp_path / "data") as service, Optimist(service.url) as client:
        run_bash(in_curl, PAGE, service.port)
        made: dict[str, Any] = {}
        run_python(in_python, PAGE, in_python.code.replace("127.0.0.1:8000", f"127.0.0.1:{service.port}"), made)
        made["api"].close()
        for name in ("by-curl", "by-hand"):
            decision = client.experiment(name).report().decision
            assert (decision.decided, decision.best) == (True, "new")
