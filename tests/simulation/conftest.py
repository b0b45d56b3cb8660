from collections.abc import Callable
from pathlib import Path

import pytest

from optimist.simulation.digits.world import Digits, load


@pytest.fixture(scope="session")
def digits(digits_cache: Path) -> Digits:
    return load(digits_cache, progress=False)


@pytest.fixture
def draw_only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves only the named figures to be drawn, because each takes a quarter of a second in either format."""

    def leave(*names: str) -> None:
        from optimist.simulation import plots

        every = plots.figures_of
        monkeypatch.setattr(plots, "figures_of", lambda result: {name: every(result)[name] for name in names})

    return leave
