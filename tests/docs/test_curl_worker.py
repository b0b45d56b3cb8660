"""The workers in curl that docs/http.md shows come to a decision."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import serving
from snippets import snippets
from test_snippets import ROOT, run_bash

from optimist_client import Optimist

PAGE = ROOT / "docs" / "http.md"


@pytest.mark.long
def test_workers_in_curl_come_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    blocks = [one for one in snippets(PAGE) if one.language == "bash"]
    assert len(blocks) == 2
    with serving(tmp_path / "data") as service, Optimist(service.url) as client:
        for block, name in zip(blocks, ("by-curl", "by-npz"), strict=True):
            run_bash(block, PAGE, int(service.url.rpartition(":")[2]))
            decision = client.experiment(name).report().decision
            assert (decision.decided, decision.best) == (True, "new")
