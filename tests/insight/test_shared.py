"""Directories of metrics: those of services that were killed go when another one starts."""

from __future__ import annotations

import os
from pathlib import Path

from optimist.insight.shared import PREFIX, remove_left, sharing


def test_what_killed_services_have_left_is_removed_and_nothing_else(tmp_path: Path):
    left, young, other = (tmp_path / name for name in (f"{PREFIX}left", f"{PREFIX}young", "other"))
    for path in (left, young, other):
        path.mkdir()
        (path / "api-1.pid").write_text("1")
    for path in (left, other):
        os.utime(path, (0.0, 0.0))
    remove_left(tmp_path)
    assert not left.exists()
    assert young.exists()
    assert other.exists()


def test_the_directory_of_a_service_that_runs_stays():
    with sharing("api-1"):
        directory = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
        os.utime(directory, (0.0, 0.0))
        remove_left(directory.parent)
        assert directory.exists()
    assert not directory.exists()
