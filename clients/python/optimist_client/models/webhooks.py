"""Webhooks: the receivers of messages about an experiment, and what became of the messages."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from optimist_client.errors import FixError
from optimist_client.wire import Answer, Wire, optional

MessageFormat = Literal["json", "slack"]
"""`json`: signed, as of Standard Webhooks. `slack`: a line of text, for an incoming webhook of Slack."""
SHORTEST_KEY, LONGEST_KEY = 24, 64
"""Bytes of a secret, as Standard Webhooks wants them."""


def _url(url: str) -> str:
    """Refuse what no message can be sent to. The refusal does not repeat the URL, which may hold a secret."""
    expected = "expected an ASCII URL (http or https, at most 2,048 characters) without user or fragment"
    if len(url) > 2048 or not re.fullmatch(r"https?://[\x21-\x7e]+", url):
        raise FixError(expected)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise FixError(expected) from None
    if not parts.hostname or "@" in parts.netloc or "\\" in url or "#" in url:
        raise FixError(expected)
    return url


def signing_key(secret: str) -> bytes:
    """The bytes that messages are signed with. Raises FixError, which does not repeat the secret."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise FixError(f"expected {SHORTEST_KEY} to {LONGEST_KEY} bytes in base64: openssl rand -base64 32")
    return key


def _secret(secret: str) -> str:
    signing_key(secret)
    return secret


WebhookUrl = Annotated[str, AfterValidator(_url)]
WebhookSecret = Annotated[str, AfterValidator(_secret)]


class WebhookRequest(Wire):
    """The wanted receiver of the messages about an experiment."""

    url: WebhookUrl
    format: MessageFormat = "json"
    secret: WebhookSecret | None = optional()
    """Secret that signs messages: 24 to 64 bytes in base64, perhaps after "whsec_". None: the service makes one."""


class MessageInfo(Answer):
    """The newest message of one kind."""

    event: Literal["decided", "provisional", "out of budget", "idle"]
    id: str
    outcome: Literal["waits", "sent", "failed"]
    attempts: int
    note: str
    """Outcome of the last attempt, such as "answered 500"."""


class WebhookInfo(Answer):
    """The receiver of the messages about an experiment. The URL is not shown, as it may hold a secret."""

    host: str
    format: MessageFormat
    secret: str | None = optional()
    """The secret that the service made, in the answer that made it alone."""
    messages: Annotated[list[MessageInfo], Field(max_length=4)]
