"""Reads what an endpoint answered: one JSON document, or a stream of events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import httpx

from optimist_client.chat.errors import FailedCall
from optimist_client.validation import is_list, is_mapping


class ParsedReply(NamedTuple):
    """The content of an answer. `tokens` counts prompt and answer; None where the endpoint did not count them."""

    text: str
    finish: str
    tokens: tuple[int, int] | None


class Unreadable(FailedCall):
    """The answer is none of OpenAI's chat route."""


def read(reply: httpx.Response, check: Callable[[], None], largest: int = 2**26) -> bytes:
    """The body of an answer. check: is called for each piece, and may raise.

    Raises Unreadable beyond so many bytes: an answer without an end would fill the memory.
    """
    body = bytearray()
    for piece in reply.iter_bytes():
        check()
        body += piece
        if len(body) > largest:
            raise Unreadable(f"an answer of more than {largest:,} bytes")
    return bytes(body)


def parsed(body: bytes, media_type: str) -> ParsedReply:
    """The content of the body of an answer. Raises Unreadable."""
    try:
        if media_type.startswith("text/event-stream"):
            return _streamed(line[5:].strip() for line in body.decode().splitlines() if line.startswith("data:"))
        return _whole(json.loads(body))
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        raise Unreadable(f"no valid JSON in an answer of {len(body):,} bytes") from None


def _whole(document: Any) -> ParsedReply:
    choice = _choice(document)
    message = choice.get("message") if choice else None
    if not choice or not is_mapping(message):
        raise Unreadable("an answer without choices[0].message")
    text = _text(message.get("content")) or _text(message.get("refusal"))
    return ParsedReply(text, str(choice.get("finish_reason") or ""), _tokens(document))


def _streamed(events: Iterable[str]) -> ParsedReply:
    text, finish, tokens = "", "", None
    for event in events:
        if event == "[DONE]":
            finish = finish or "stop"
            break
        document = json.loads(event)
        tokens = _tokens(document) or tokens
        choice = _choice(document) or {}
        delta = choice.get("delta")
        text += _text(delta.get("content")) or _text(delta.get("refusal")) if is_mapping(delta) else ""
        finish = str(choice.get("finish_reason") or finish)
    if not finish:
        raise Unreadable("a stream that ended before the answer did")
    return ParsedReply(text, finish, tokens)


def _choice(document: Any) -> dict[str, Any] | None:
    choices = document.get("choices") if is_mapping(document) else None
    first = choices[0] if is_list(choices) and choices else None
    return dict(first) if is_mapping(first) else None


def _text(content: Any) -> str:
    """The text of a content, which may be a list of parts."""
    if is_list(content):
        return "".join(_text(part.get("text")) for part in content if is_mapping(part))
    return content if isinstance(content, str) else ""


def _tokens(document: Any) -> tuple[int, int] | None:
    usage = document.get("usage") if is_mapping(document) else None
    if not is_mapping(usage):
        return None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, answer = (one if isinstance(one, int) and 0 <= one < 2**50 else None for one in counts)
    return None if prompt is None else (prompt, answer or 0)
