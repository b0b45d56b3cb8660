"""The settings and the result of an experiment."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """`quick` only checks that it runs: two trials of few rounds on small samples."""

    quick: bool = False
    trials: int = 20
    jobs: int = 1
    progress: bool = True


@dataclass(frozen=True)
class Study:
    """The result of an experiment without policies: its numbers, for JSON, and its figure."""

    numbers: dict[str, Any]
    figure: Figure
