"""The SDK's exceptions. Their base classes say what the caller should do: retry, fix the request, or stop.

OptimistError
├── RetryError             the call did not succeed in time and can be repeated; acknowledged data is safe
│   ├── UnreachableError   no connection to the service within `patience` seconds
│   └── BusyError          the service was overloaded or unavailable for `patience` seconds
├── FixError               what was given is wrong, and nothing was changed; says what was expected
│   ├── NotFoundError      no such experiment, reference, generator or pick: fix the name
│   ├── ConflictError      the name or pick is already used with other values, or the batch cannot be retracted
│   └── GeneratorError     a function given to `run` raised: fix the function; its pick was given up
└── StopError              the pick or experiment is no longer available, or its batch was retracted: go on with another

`action` is "retry", "fix" or "stop". `FixError` is the one error for wrong input, also of `Evaluation`, `compare` and
all else that needs no service; it is a ValueError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from optimist_client.problem import Problem

__all__ = [
    "BusyError",
    "ConflictError",
    "FixError",
    "GeneratorError",
    "NotFoundError",
    "OptimistError",
    "RetryError",
    "StopError",
    "UnreachableError",
]
BEING_MADE = "being-made"
"""The last part of the type of a problem that says that a scorer is at work on what was asked for."""


class OptimistError(Exception):
    """Base class of all errors of the SDK. `problem` is the service's problem document, if it sent one."""

    action: ClassVar[Literal["retry", "fix", "stop"]]

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class RetryError(OptimistError):
    """The call did not succeed in time. It may succeed later; data that was acknowledged before is safe."""

    action = "retry"


class UnreachableError(RetryError):
    """The service could not be reached, or the connection was lost, in all attempts within `patience` seconds."""


class BusyError(RetryError):
    """The service responded that it is overloaded or unavailable in all attempts within `patience` seconds."""


class FixError(OptimistError, ValueError):
    """Wrong input, which changed nothing: the caller can fix it. The message says what was expected."""

    action = "fix"


class NotFoundError(FixError):
    """The experiment, reference, generator or pick does not exist."""


class ConflictError(FixError):
    """The name or pick is already used with other values, or the batch cannot be retracted: the message says why."""


class GeneratorError(FixError):
    """A function that was given to `run` raised an error (`__cause__`). The pick was given up.

    `generator` is the name of the pick's generator.
    """

    def __init__(self, message: str, generator: str) -> None:
        super().__init__(message)
        self.generator = generator


class StopError(OptimistError):
    """The pick or experiment is no longer available, for example a pick that is too old: continue with a new one.

    Telling a pick whose batch was retracted also raises it.
    """

    action = "stop"


def reason(error: Exception) -> str:
    """The message of an error; of any but a ValueError with its class, as the message alone may say too little."""
    return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def from_problem(problem: Problem) -> OptimistError:
    """The exception for a problem document of the service."""
    by_status = {404: NotFoundError, 409: ConflictError, 410: StopError}
    by_action = {"retry": RetryError, "stop": StopError, "fix": FixError}
    kind = StopError if problem.action == "stop" else by_status.get(problem.status) or by_action[problem.action]
    return kind(f"{problem.title}: {problem.detail}" if problem.detail else problem.title, problem)
