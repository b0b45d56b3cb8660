"""The record of a request to an endpoint, and of the answer that it brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Outcome = Literal["begun", "answered", "failed", "late", "refused", "paused"]
"""The outcome of a request: "paused", the endpoint asked to wait; "refused", it will not answer this prompt; "late",
the deadline came first."""
ChatMessages = Sequence[Mapping[str, Any]]
"""Messages as OpenAI's chat route takes them, each with `role` and `content`."""
ChatPrompt = str | ChatMessages
"""A prompt: its text, or messages."""


@dataclass(frozen=True)
class Call:
    """One request to an endpoint. It is noted twice under one `id`: when it begins, and with what became of it."""

    id: str
    """Also sent, as the header `X-Client-Request-Id`."""
    outcome: Outcome = "begun"
    seconds: float = 0.0
    """From when it was sent until its answer, or error, was there."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """Dollars, by the tokens that the endpoint counted; 0 where it brought no answer that counts them."""
    error: str = ""


@dataclass(frozen=True)
class Reply:
    """The answer to a prompt, and what it took."""

    text: str
    input_tokens: int
    output_tokens: int
    seconds: float
    """Of the request that was answered: pauses and requests that failed before it are not in it."""
    cost: float
    """Dollars."""
    finish: str = ""
    """Why the model stopped, in the endpoint's words: "length" where the answer was cut."""


class Answerer(Protocol):
    """Answers prompts, as `Chat` does."""

    def ask(self, prompt: ChatPrompt, *, seed: int | None = None, schema: Mapping[str, Any] | None = None) -> Reply:
        """The answer to a prompt."""
        ...


def messages_of(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """The messages of a prompt."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(one) for one in prompt]


def text_of(prompt: ChatPrompt) -> str:
    """The text of a prompt: of messages, each one's role and content."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1 and isinstance(prompt[0].get("content"), str):
        return str(prompt[0]["content"])
    return "\n\n".join(f"{one.get('role', '')}: {one.get('content', '')}" for one in prompt)
