"""Asks language models, and judges their answers: any server with OpenAI's chat route, by httpx alone."""

from optimist_client.chat.asking import Chat
from optimist_client.chat.calls import Call, Reply
from optimist_client.chat.endpoint import Endpoint, Price
from optimist_client.chat.errors import FailedCall, LateCall, RefusedCall, UnusableEndpoint
from optimist_client.chat.judge import Judge, Judgement
from optimist_client.chat.pace import Pace

__all__ = [
    "Call",
    "Chat",
    "Endpoint",
    "FailedCall",
    "Judge",
    "Judgement",
    "LateCall",
    "Pace",
    "Price",
    "RefusedCall",
    "Reply",
    "UnusableEndpoint",
]
