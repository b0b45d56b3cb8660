"""Errors of calls that bring no answer. The class says whether the call, or any call, may succeed later."""

from __future__ import annotations

from optimist_client.errors import FixError, RetryError

__all__ = ["FailedCall", "LateCall", "RefusedCall", "UnusableEndpoint"]


class FailedCall(RetryError):
    """The endpoint brought no answer, however often it was asked: no connection, an error of its own, no valid JSON."""


class LateCall(FailedCall):
    """The endpoint brought no answer before the deadline. `seconds` is how long it was waited for."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedCall(FixError):
    """The endpoint refused this prompt, and would refuse it again: it is too long, or a filter stops it."""


class UnusableEndpoint(FixError):
    """No call will succeed before something is put right: the key, the address, the name of the model."""
