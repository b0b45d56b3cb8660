"""Services for the tests that only talk to them; each test makes experiments of its own names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from optimist_client import Optimist
from tests.support.processes import Service

_numbers = itertools.count()


@pytest.fixture(scope="session")
def service(shared: Service) -> Service:
    return shared


@pytest.fixture
def client(service: Service) -> Iterator[Optimist]:
    with Optimist(service.url) as connected:
        yield connected


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"experiment-{next(_numbers)}"


@pytest.fixture
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Moments of a standard normal in 4 dimensions."""
    return np.zeros(4), np.eye(4)
