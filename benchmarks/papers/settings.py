"""How much of an experiment is run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`quick` is a look at whether it runs: two trials of few rounds on small samples."""

    quick: bool = False
    trials: int = 20
    jobs: int = 1
    progress: bool = True
