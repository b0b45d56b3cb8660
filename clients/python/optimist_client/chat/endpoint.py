"""The settings of a model behind OpenAI's chat route."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, field_validator

from optimist_client.chat.calls import ChatPrompt, messages_of
from optimist_client.errors import FixError
from optimist_client.transport import replicas
from optimist_client.wire import Wire


def _is_place(place: object) -> object:
    """Refuse what is no place of a secret, without repeating it: it may be the secret."""
    if not isinstance(place, str) or not re.fullmatch(_PLACE, place):
        raise FixError("expected env:NAME or file:PATH, where the key is, not the key itself")
    return place


_PLACE = r"(env|file):\S.*"
Secret = Annotated[str, BeforeValidator(_is_place), WithJsonSchema({"type": "string", "pattern": f"^{_PLACE}$"})]
"""Where a secret is: "env:NAME", a variable of the environment, or "file:PATH", a file."""
Dollars = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Price(Wire):
    """The prices of an endpoint, in dollars."""

    input: Dollars = 0.0
    """Of a million tokens of the prompt."""
    output: Dollars = 0.0
    """Of a million tokens of the answer."""
    call: Dollars = 0.0
    """Of each answer, whatever its length."""

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Dollars of an answer of so many tokens."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6 + self.call


class Endpoint(Wire):
    """A model behind OpenAI's chat route: where it is, what it costs, and how often it may be asked."""

    base_url: str
    """The address up to `/v1`, as `http://127.0.0.1:8000/v1`; `/chat/completions` is added."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The name of the model, as the endpoint knows it."""
    api_key: Secret | None = None
    """Where the key is: `env:NAME` or `file:PATH`. The key itself is never written here."""
    price: Price = Field(default_factory=Price)
    """Dollars for a million tokens, `input` and `output`, and for each answer, `call`."""
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    """The temperature of sampling; without it the endpoint's own."""
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """The most tokens of an answer; without it the endpoint's own limit."""
    seeds: bool = True
    """True: a seed is sent, so that an answer can be made again. Some endpoints refuse it."""
    stream: bool = False
    """True: the answer is sent piece by piece, as proxies want it that close quiet connections."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, as `{top_p: 0.9}`."""
    at_once: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Requests that may be on their way at once."""
    per_minute: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Requests that may begin within a minute; without it any number."""

    @field_validator("base_url")
    @classmethod
    def _is_plain(cls, url: str) -> str:
        """The address without the slash at its end. Refuses a user, a password and options in it."""
        try:
            [found] = replicas(url)
        except FixError as error:
            said = f"{error}".removeprefix("url: ").partition(": the access key")[0]
            raise FixError(said) from None
        return found.removesuffix("/chat/completions")

    @field_validator("options")
    @classmethod
    def _has_no_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(options.keys() & _OWN):
            raise FixError(f"{', '.join(own)}: expected beside options, not in it")
        return options

    @property
    def key(self) -> str:
        """The key; "" without one. Raises FixError where it is not there, or cannot be sent."""
        return "" if self.api_key is None else secret_of(self.api_key)

    def body(self, prompt: ChatPrompt, seed: int | None, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The fields of a request. schema: a JSON schema that the answer is to keep."""
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": seed if self.seeds else None}
        body: dict[str, Any] = {"model": self.model, "messages": messages_of(prompt), **self.options}
        body |= {name: value for name, value in given.items() if value is not None}
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if schema is not None:
            named = {"name": "answer", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body


_OWN = {"model", "messages", "temperature", "max_tokens", "seed", "stream", "stream_options", "response_format"}
"""The fields of a request that have settings of their own, or are made here."""


def secret_of(place: str) -> str:
    """The secret at a place, "env:NAME" or "file:PATH". Raises FixError, which never repeats a secret."""
    kind, _, where = place.partition(":")
    if kind == "env":
        found = os.environ.get(where, "")
    else:
        try:
            found = Path(where).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FixError(f"{place}: cannot be read: {type(error).__name__}") from None
    found = found.strip()
    if not found:
        raise FixError(f"{place}: expected a key, found none")
    if not all("!" <= character <= "~" for character in found):
        raise FixError(f"{place}: expected a key of ASCII characters without spaces")
    return found
