"""What all wire models share: names that can stand in a URL, requests that are strict, and answers that are not."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A name that can stand in a URL: letters, digits, dot, dash and underscore, at most 64."""


def _no_step(name: str) -> str:
    """Refuse what clients resolve in a URL, so that no route of the generator could be reached."""
    if name in (".", ".."):
        raise ValueError(f"{name!r} cannot stand in a URL")
    return name


GeneratorName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_no_step)
]
Prompt = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""A prompt's text, or the id by which the workers know it."""
EmbeddingName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""What makes a batch of samples, and of prompts: a network with its weights and preprocessing, by any name."""
WorkerName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Cost = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
"""What one sample costs, in the user's unit: seconds, cents, anything that adds up."""
CostLimit = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]


def optional(default: Any = None) -> Any:
    """A field that is not on the wire unless it differs from its default: who does not know it need not refuse it."""
    return Field(default=default, exclude_if=lambda value: value == default)


def flag() -> Any:
    """A field that is False, and not on the wire, unless it is given: as `optional`."""
    return Field(default=False, exclude_if=lambda value: not value)


class Wire(BaseModel):
    """Base of all wire models: unknown fields are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings", defer_build=True)


class Answer(Wire):
    """Base of what the service answers: a client ignores the fields of a later service that it does not know."""

    model_config = ConfigDict(extra="ignore")
