
from optimist_client.chat.asking import Chat
from optimist_client.chat.calls import Call, Reply
from optimist_client.chat.endpoint import Endpoint, Price
from optimist_client.chat.errors import FailedCall, LateCall, RefusedCall, UnusableEndpoint
from optimist_client.chat.pace import Pace

__all__ = [
    "Call",
    "Chat",
    "Endpoint",
    "FailedCall",
    "LateCall",
    "Pace",
    "Price",
    "RefusedCall",
    "Reply",
    "UnusableEndpoint",
]
