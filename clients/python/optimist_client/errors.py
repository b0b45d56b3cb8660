"""The SDK's exceptions. Their base classes say what the caller should do: retry, fix the request, or stop.

OptimistError
├── Retry               the call did not succeed in time and can be repeated; acknowledged data is safe
│   ├── Unreachable     no connection to the service within `patience` seconds
│   └── Busy            the service was overloaded or unavailable for `patience` seconds
├── Fix                 a config is wrong or the request was refused, and nothing was stored; says what was expected
│   ├── NotFound        no such experiment, reference, generator or pick: fix the name
│   ├── Conflict        the name or pick is already used with other values, or the batch cannot be retracted
│   └── GeneratorError  a function given to `run` raised: fix the function; its pick was given up
└── Stop                the pick or experiment is no longer available, or its batch was retracted: continue with another

`action` is "retry", "fix" or "stop". Invalid arrays raise ValueError before a request is sent.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from optimist_client.models import Problem

__all__ = ["Busy", "Conflict", "Fix", "GeneratorError", "NotFound", "OptimistError", "Retry", "Stop", "Unreachable"]


class OptimistError(Exception):
    """Base class of all errors of the SDK. `problem` is the service's problem document, if it sent one."""

    action: ClassVar[Literal["retry", "fix", "stop"]]

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class Retry(OptimistError):
    """The call did not succeed in time. It may succeed later; data that was acknowledged before is safe."""

    action = "retry"


class Unreachable(Retry):
    """The service could not be reached, or the connection was lost, in all attempts within `patience` seconds."""


class Busy(Retry):
    """The service responded that it is overloaded or unavailable in all attempts within `patience` seconds."""


class Fix(OptimistError):
    """A config is wrong, or the service refused the request. Nothing was stored. The message says what was expected."""

    action = "fix"


class NotFound(Fix):
    """The experiment, reference, generator or pick does not exist."""


class Conflict(Fix):
    """The name or pick is already used with other values, or the batch cannot be retracted: the message says why."""


class GeneratorError(Fix):
    """A function that was given to `run` raised an error (`__cause__`). The pick was given up.

    `generator` is the name of the pick's generator.
    """

    def __init__(self, message: str, generator: str) -> None:
        super().__init__(message)
        self.generator = generator


class Stop(OptimistError):
    """The pick or experiment is no longer available, for example a pick that is too old: continue with a new one.

    Telling a pick whose batch was retracted also raises it.
    """

    action = "stop"


def from_problem(problem: Problem) -> OptimistError:
    """The exception for a problem document of the service."""
    by_status = {404: NotFound, 409: Conflict, 410: Stop}
    by_action = {"retry": Retry, "stop": Stop, "fix": Fix}
    kind = Stop if problem.action == "stop" else by_status.get(problem.status) or by_action[problem.action]
    return kind(f"{problem.title}: {problem.detail}" if problem.detail else problem.title, problem)
