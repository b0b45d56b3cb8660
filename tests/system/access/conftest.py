"""A service that asks for keys; each test makes experiments and keys of its own names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.keys import guarded
from tests.support.processes import Service, stop_syncing


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="session")
def asking(directory: Path) -> Iterator[Service]:
    with guarded(directory, "--no-scoring") as (running, _):
        stop_syncing(running)
        yield running
