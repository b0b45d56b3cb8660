"""An experiment, its generators and its reference, what may change of them, and its decision."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from optimist_client.config import ExperimentConfig
from optimist_client.wire import Answer, Cost, CostLimit, EmbeddingName, GeneratorName, Identifier, Wire, optional

State = Literal["warming up", "running", "decided", "out of budget", "stopped"]
GeneratorState = Literal["active", "paused", "retired"]
"""A paused generator is not picked but may be named best; a retired one is out of the contest for good."""


class ReferenceInfo(Answer):
    """A reference that is stored: real-data moments that experiments compare with."""

    name: Identifier
    dimension: int
    samples: int | None = None
    """How many real samples the moments come from, where the uploader said or sent the features."""
    embedding: EmbeddingName | None = None
    """What made the features, where the uploader said."""
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = optional()
    """Root mean square of the real features' entries; None where the reference was uploaded to an earlier service."""
    digest: str
    created: float


class Experiment(Answer):
    """An experiment as the service keeps it: its config and what was pinned when it was created."""

    config: ExperimentConfig
    dimension: int
    """Width of the feature vectors that tells must have, or number of classes."""
    reference_digest: str | None = None
    reference_scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = optional()
    """`ReferenceInfo.scale` of its reference."""
    created: float
    instance: str
    """Tells it from an earlier or later experiment of its name."""
    rules: Annotated[int, Field(ge=1)] = 1
    """Which defaults and formulas hold (`config.RULES`): those of the time when it was created, for good."""
    bandwidths: dict[str, float] = Field(default_factory=dict)
    """The σ of each kernel that was "median", by its field, once the first samples have fixed it."""

    @field_validator("config", mode="before")
    @classmethod
    def _known_fields(cls, config: Any) -> Any:
        """A later service's config may have fields that are not known here; a request's may not."""
        if not isinstance(config, dict):
            return config
        return {name: value for name, value in config.items() if name in ExperimentConfig.model_fields}

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each array that a batch must hold."""
        first, *others = self.config.kind.arrays.items()
        return {first[0]: self.dimension} | {array: self.config.setting(field) for array, field in others}


class GeneratorRequest(Wire):
    """A generator to be added."""

    name: GeneratorName
    cost: Cost | None = optional()
    """What a sample of it costs; an experiment with `max_cost` needs it."""


class GeneratorChange(Wire):
    """What becomes of a generator: paused, active again, or retired for good; or what its samples cost."""

    state: GeneratorState | None = None
    cost: Cost | None = None
    """Cost of a sample: of every one, those already told included."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.state is None and self.cost is None:
            raise ValueError("expected a state, a cost, or both")
        return self


class ExperimentChange(Wire):
    """What may change of an experiment; fields that are left out stay as they are."""

    state: Literal["running", "stopped"] | None = None
    """"stopped": no more picks; "running": picks again, after a decision without stopping at the next."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Samples in all; no less than now is of use."""
    max_cost: CostLimit | None = None
    """Cost of all samples; every generator needs a cost."""
    stop: bool | None = None
    max_wait: Annotated[float, Field(ge=0, le=60)] | None = None


class DecisionInfo(Answer):
    """Which generator is best, how sure that is, and whether picks have ended."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str
    warnings: Annotated[tuple[str, ...], Field(exclude_if=lambda value: not value)] = ()
    """Why it may not be what it seems: batches that repeat earlier ones, generators that look identical."""
