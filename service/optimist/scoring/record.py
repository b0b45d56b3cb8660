"""What a scorer knows of one generator that it has worked on, or is to work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optimist.scoring.warm import WarmGenerator

if TYPE_CHECKING:
    from optimist.scoring.experiments import ScoredExperiment

Key = tuple[str, int]
"""The full name of an experiment and the ordinal of a generator."""
LONGEST_TAIL = 8 * 2**20
"""Bytes that a log may have beyond the snapshot while the size of the statistic is not known."""


@dataclass(slots=True, eq=False)
class GeneratorRecord:
    """One generator: idle until something is to be done, then waiting for a thread, then working, then idle again.

    From its first turn on the scorer may hold the generator: it has a claim, and what is derived under it. `release`
    ends that. Times are monotonic seconds.
    """

    name: str
    """The full name of the experiment."""
    ordinal: int
    state: Literal["idle", "waiting", "working"] = "idle"
    queued: float = 0.0
    """When it last began to wait."""
    worked: float = 0.0
    """When its last turn ended."""
    again: bool = False
    """Whether something came while it was working, so that it gets another turn."""
    problem: Literal["", "broken off", "failed"] = ""
    """How its last turn went wrong: it is tried again at the next sweep, or once failed, when an estimate is due."""
    wants_modes: bool = False
    due: int = 0
    """The newest log position at which an estimate is known to be due; 0 for none."""
    samples: int = 0
    """Samples when the generators were last swept."""
    seconds: float | None = None
    """Processor time that its last estimate took, or a guess of the first; None while there is neither."""
    modes_seconds: float = 0.0
    """The same of its modes; 0 before the first."""

    token: str = ""
    """Of the claim that results are published under; "" while the scorer does not hold the generator."""
    experiment: ScoredExperiment | None = None
    warm: WarmGenerator | None = None
    """The statistic at some position of the log; None before the first turn and after `cool`."""
    published: int = 0
    """Position of the newest estimate that was published under this claim."""
    room: int = LONGEST_TAIL
    """Bytes that the log may have beyond the snapshot before the next snapshot is taken."""
    bytes: int = 0
    """Memory of the warm statistic."""

    @property
    def key(self) -> Key:
        """Experiment and ordinal."""
        return self.name, self.ordinal

    @property
    def expected_seconds(self) -> float:
        """What its next turn is expected to take; 0 while nothing is known."""
        return (self.seconds or 0.0) + (self.modes_seconds if self.wants_modes else 0.0)

    @property
    def is_held(self) -> bool:
        """Whether the scorer has a claim on the generator."""
        return bool(self.token)

    def cool(self) -> None:
        """Drop the statistic: snapshot and log lead to it again, bit for bit, when there is something to do."""
        self.warm, self.bytes = None, 0

    def start(self, experiment: ScoredExperiment) -> None:
        """Begin with the snapshot of this experiment; the claim stays."""
        self.cool()
        self.experiment, self.published, self.room = experiment, 0, LONGEST_TAIL

    def release(self) -> None:
        """Drop the claim and all that was derived under it."""
        self.cool()
        self.token, self.experiment, self.published, self.room, self.due = "", None, 0, LONGEST_TAIL, 0
