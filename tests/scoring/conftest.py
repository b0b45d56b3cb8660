"""Experiments as the API makes them, for the scorer's tests."""

from __future__ import annotations

import pytest
import torch

from optimist.store import Store
from tests.support.made import making


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make(store: Store):
    return making(store)
