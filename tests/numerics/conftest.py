"""What the numerics' tests share: the stored reference numbers, and metrics made of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.score import FrechetDistance

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def stored() -> Callable[[str], Mapping[str, np.ndarray]]:
    """Loads a file of reference numbers by its name without suffix."""

    def load(name: str) -> Mapping[str, np.ndarray]:
        with np.load(DATA / f"{name}.npz") as file:
            return dict(file)

    return load


@pytest.fixture
def fid_of() -> Callable[[Mapping[str, np.ndarray]], FrechetDistance]:
    """The Fréchet distance to a file's reference."""
    return lambda file: FrechetDistance(Reference(file["mean_reference"], file["covariance_reference"]))
