"""What a generator produces, by the modes of its kernel."""

from __future__ import annotations

from pydantic import Field

from optimist_client.wire import Answer, GeneratorName


class Shown(Answer):
    """A sample and how much it shows of what it stands under."""

    id: str
    """What it was told with; otherwise "<pick>:<row>", or "@<log position>:<row>" where no pick asked for it."""
    weight: float


class ModeInfo(Answer):
    """A kind of sample that a generator makes: its share of the kernel's spectrum, and samples that show it."""

    share: float
    samples: list[Shown]


class PromptGroupInfo(Answer):
    """A type of prompt: its share of the prompts' spectrum, how many kinds of output it gets, and such samples."""

    share: float
    score: float
    log_score: float
    prompts: list[Shown]


class Modes(Answer):
    """What a generator makes, as its kernel sees it (FKEA), after `samples` samples."""

    generator: GeneratorName
    samples: int
    position: int
    """The log position it was made at."""
    stale: bool = False
    """Whether the log has grown since, and no scorer answered in time."""
    modes: list[ModeInfo]
    prompt_groups: list[PromptGroupInfo] = Field(default_factory=list)
    """The score by type of prompt, for the scores of pairs."""
