"""Another namespace of the service, to import into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimist_client import Optimist
from tests.support.keys import new_key
from tests.support.processes import Service


@pytest.fixture
def other(service: Service) -> Iterator[Optimist]:
    """A client of another namespace, which knows nothing of the experiments and references of the first."""
    with Optimist(service.url, api_key=new_key(service.directory, "admin", "elsewhere")) as connected:
        yield connected
