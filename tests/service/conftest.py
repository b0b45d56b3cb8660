"""Services for the tests that only talk to them; each test makes experiments of its own names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from processes import Service, serving

from optimist_client import Optimist

_numbers = itertools.count()


@pytest.fixture(scope="session")
def service(shared: Service) -> Service:
    return shared


@pytest.fixture(scope="session")
def not_scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has no scorer."""
    with serving(tmp_path_factory.mktemp("not-scoring"), "--no-scoring") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Optimist]:
    with Optimist(service.url) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"experiment-{next(_numbers)}"


@pytest.fixture
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Moments of a standard normal in 4 dimensions."""
    return np.zeros(4), np.eye(4)
