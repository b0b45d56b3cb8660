from pathlib import Path

import pytest

from optimist.simulation.digits.world import Digits, load


@pytest.fixture(scope="session")
def digits(digits_cache: Path) -> Digits:
    return load(digits_cache, progress=False)
