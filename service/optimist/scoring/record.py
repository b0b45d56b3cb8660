"""The state of one generator, by one metric, in a scorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optimist.scoring.warm import WarmGenerator

if TYPE_CHECKING:
    from optimist.scoring.experiments import ScoredExperiment

Subject = tuple[str, str]
"""The full name of an experiment, and the label of a metric that it watches, "" for the one that decides."""
Key = tuple[str, int, str]
"""The full name of an experiment, the ordinal of a generator, and the label as of `Subject`."""
LONGEST_TAIL = 8 * 2**20
"""Bytes that a log may have beyond the snapshot while the size of the statistic is not known."""


@dataclass(slots=True, eq=False)
class GeneratorRecord:
    """One generator by one metric: idle until something is to be done, then waiting for a thread, then working, then
    idle again.

    From its first turn on the scorer may hold the generator: it has a claim, and what is derived under it. `release`
    ends that. Times are monotonic seconds.
    """

    name: str
    """The full name of the experiment."""
    ordinal: int
    label: str = ""
    """Of the watched metric; "" for the one that decides."""
    state: Literal["idle", "waiting", "working"] = "idle"
    queued: float = 0.0
    """When it last began to wait."""
    worked: float = 0.0
    """When its last turn ended."""
    again: bool = False
    """Whether it gets another turn after this one, because something was announced or left meanwhile."""
    problem: Literal["", "broken off", "failed"] = ""
    """How its last turn went wrong. "broken off" is retried at the next sweep, "failed" at the next announcement."""
    wants_modes: bool = False
    due: int = 0
    """The newest known log position at which an estimate is due; 0: none."""
    samples: int = 0
    """Number of samples at the last sweep."""
    seconds: float | None = None
    """Processor time of its last estimate, or an expected one before the first; None: not known yet."""
    modes_seconds: float = 0.0
    """The same of its modes; 0 before the first."""

    token: str = ""
    """Token of the claim under which results are published; "" while the scorer has no claim."""
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
        """Experiment, ordinal and label."""
        return self.name, self.ordinal, self.label

    @property
    def place(self) -> tuple[str, int]:
        """Experiment and ordinal."""
        return self.name, self.ordinal

    @property
    def subject(self) -> Subject:
        """Experiment and label, which determine the bound."""
        return self.name, self.label

    def __str__(self) -> str:
        """How log lines call it."""
        return f"{self.name}/{self.ordinal}{self.label and f' by {self.label}'}"

    @property
    def expected_seconds(self) -> float:
        """What its next turn is expected to take; 0 while nothing is known."""
        return (self.seconds or 0.0) + (self.modes_seconds if self.wants_modes else 0.0)

    @property
    def is_held(self) -> bool:
        """Whether the scorer has a claim on the generator."""
        return bool(self.token)

    def cool(self) -> None:
        """Drop the statistic. It is computed again from snapshot and log, bit for bit, when it is needed."""
        self.warm, self.bytes = None, 0

    def start(self, experiment: ScoredExperiment) -> None:
        """Start again from the snapshot, with this experiment; keep the claim."""
        self.cool()
        self.experiment, self.published, self.room = experiment, 0, LONGEST_TAIL

    def release(self) -> None:
        """Forget the claim, and everything derived under it."""
        self.cool()
        self.token, self.experiment, self.published, self.room, self.due = "", None, 0, LONGEST_TAIL, 0
