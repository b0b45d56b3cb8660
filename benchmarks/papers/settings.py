"""What an experiment is told, and what it hands back."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """`quick` is a look at whether it runs: two trials of few rounds on small samples."""

    quick: bool = False
    trials: int = 20
    jobs: int = 1
    progress: bool = True


@dataclass(frozen=True)
class Study:
    """An experiment without policies: its numbers, as JSON takes them, and its figure."""

    numbers: dict[str, Any]
    figure: Figure
