from collections.abc import Callable, Mapping

import numpy as np
import pytest

from optimist.metrics.fid.reference import Reference
from optimist.metrics.fid.score import FrechetDistance


@pytest.fixture
def fid_of() -> Callable[[Mapping[str, np.ndarray]], FrechetDistance]:
    """The Fréchet distance to the reference of a file of stored numbers."""
    return lambda file: FrechetDistance(Reference(file["mean_reference"], file["covariance_reference"]))
