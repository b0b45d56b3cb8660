"""The modes of a generator: what it produces, by the modes of its kernel."""

from __future__ import annotations

from pydantic import Field

from optimist_client.wire import Answer, GeneratorName


class Shown(Answer):
    """A sample, and its weight in the mode or type of prompt that it represents."""

    id: str
    """The `ids` it was told with; otherwise "<pick>:<row>", or "@<log position>:<row>" if no pick asked for it."""
    weight: float


class ModeInfo(Answer):
    """A kind of sample that a generator produces: its share of the kernel's spectrum, and samples that represent it."""

    share: float
    samples: list[Shown]


class PromptGroupInfo(Answer):
    """A type of prompt: its share of the prompts' spectrum, the diversity of its outputs, and samples of it."""

    share: float
    score: float
    log_score: float
    prompts: list[Shown]


class Modes(Answer):
    """The modes of a generator's kernel covariance (FKEA) after `samples` samples."""

    generator: GeneratorName
    samples: int
    position: int
    """The log position of the newest batch it includes."""
    stale: bool = False
    """True if the log has grown since, and no scorer responded in time."""
    modes: list[ModeInfo]
    prompt_groups: list[PromptGroupInfo] = Field(default_factory=list[PromptGroupInfo])
    """The score by type of prompt, for the scores of pairs."""
