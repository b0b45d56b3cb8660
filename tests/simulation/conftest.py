import pytest

from optimist.simulation.digits.world import Digits, load


@pytest.fixture(scope="session")
def digits_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="session")
def digits(digits_cache) -> Digits:
    """The demo's own fit, made once for all tests."""
    return load(digits_cache, progress=False)
