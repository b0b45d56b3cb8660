"""Base classes and common field types of the HTTP models: strict requests, tolerant responses, names for URLs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from optimist_client.errors import FixError
from optimist_client.validation import IDENTIFIER, NAME

Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER)]
"""A name that needs no escaping in a URL: letters, digits, dot, dash and underscore, at most 64 characters."""


def _no_step(name: str) -> str:
    """Refuse "." and "..": HTTP clients remove them from URLs, so that the generator could not be addressed."""
    if name in (".", ".."):
        raise FixError(f"{name!r} cannot be used in a URL: choose another name")
    return name


GeneratorName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=NAME), AfterValidator(_no_step)]
Prompt = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""A prompt's text, or an id that the workers understand."""
EmbeddingName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NAME)]
"""A name for how features (and prompt embeddings) are computed: a network with its weights and preprocessing."""
WorkerName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NAME)]
RequestId = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]
Cost = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
"""The cost of one sample in a unit of the user's choice, such as seconds or cents."""
CostLimit = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]


def optional(default: Any = None) -> Any:
    """A field that is sent only if it differs from its default: most answers are shorter without it."""
    return Field(default=default, exclude_if=lambda value: value == default)


def flag() -> Any:
    """A boolean field with default False that is sent only if it is True, see `optional`."""
    return Field(default=False, exclude_if=lambda value: not value)


class Wire(BaseModel):
    """Base class of all HTTP models. Unknown fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings", defer_build=True)


class Answer(Wire):
    """Base class of responses. Unknown fields, for example those of a later version of the service, are ignored."""

    model_config = ConfigDict(extra="ignore")


def build_models(base: type[Wire] = Wire) -> None:
    """Build all models that have been imported. Otherwise pydantic builds each when it is first used."""
    for model in base.__subclasses__():
        model.model_rebuild()
        build_models(model)
