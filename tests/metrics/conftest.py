from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
import torch

from optimist.metrics.devices import find_device
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.score import FrechetDistance
from tests.support.stand_in import stand_in


@pytest.fixture
def fid_of() -> Callable[[Mapping[str, np.ndarray]], FrechetDistance]:
    """The Fréchet distance to the reference of a file of stored numbers."""
    return lambda file: FrechetDistance(FrechetReference(file["mean_reference"], file["covariance_reference"]))


@pytest.fixture(params=["cuda", "stand-in"])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device to compare with the CPU."""
    if request.param == "stand-in":
        with stand_in() as place:
            yield place
        return
    if not torch.cuda.is_available():
        pytest.skip(f"no CUDA GPU here (torch {torch.__version__}); the stand-in only finds tensors out of place")
    yield find_device(request.param)
