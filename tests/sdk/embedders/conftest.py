from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Where a module keeps checkpoints of hundreds of megabytes: gone afterwards, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture(scope="session")
def pictures() -> np.ndarray:
    """Handwritten digits as grey pictures (4, 40, 32), uint8; higher than they are wide."""
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits().images[:4]
    return np.kron(digits * 15.9, np.ones((5, 4))).astype(np.uint8)


@pytest.fixture(scope="session")
def torchvision():
    """Skips where it is missing, or was built for another torch, in which case it cannot be imported."""
    try:
        import torchvision
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    return torchvision
