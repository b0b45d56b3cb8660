"""The SDK's exceptions, each named by what the caller should do.

OptimistError
├── Retry               nothing was decided; try again later, what was acknowledged before is safe
│   ├── Unreachable     retry: no connection, or none that lasted, until `patience` ran out
│   └── Busy            retry: the service answered "too busy" or "not now" until `patience` ran out
├── Fix                 the request was refused and nothing was stored; the message says what was expected
│   ├── NotFound        fix the name: no such experiment, reference, generator or pick
│   ├── Conflict        fix the name or the values: the pick or name is already bound to something else
│   └── GeneratorError  fix your function: it raised in `run`; its pick was given back
└── Stop                the pick or experiment is over: drop it and go on

`action` is "retry", "fix" or "stop". Arrays that cannot be sent at all raise ValueError, before anything is.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from optimist_client.models import Problem

__all__ = ["Busy", "Conflict", "Fix", "GeneratorError", "NotFound", "OptimistError", "Retry", "Stop", "Unreachable"]


class OptimistError(Exception):
    """Base of all errors of the SDK; `problem` holds the service's own words where it answered."""

    action: ClassVar[Literal["retry", "fix", "stop"]]

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class Retry(OptimistError):
    """Nothing was decided: the same call may work later. What was acknowledged before is safe."""

    action = "retry"


class Unreachable(Retry):
    """No connection to the service, or none that lasted for an answer, in the time allowed."""


class Busy(Retry):
    """The service is there, but put every try off in the time allowed."""


class Fix(OptimistError):
    """The service refused the request and stored nothing; the message says what it expected."""

    action = "fix"


class NotFound(Fix):
    """No such experiment, reference, generator or pick."""


class Conflict(Fix):
    """The name or pick is already bound to something else."""


class GeneratorError(Fix):
    """A function that was given to `run` raised, which is the cause of this; the pick was given back.

    `generator` names the generator whose samples were being made.
    """

    def __init__(self, message: str, generator: str) -> None:
        super().__init__(message)
        self.generator = generator


class Stop(OptimistError):
    """The pick is too old to be told: go on with a new one."""

    action = "stop"


def from_problem(problem: Problem) -> OptimistError:
    """The exception that stands for a problem the service answered with."""
    by_status = {404: NotFound, 409: Conflict, 410: Stop}
    by_action = {"retry": Retry, "stop": Stop, "fix": Fix}
    kind = by_status.get(problem.status) or by_action[problem.action]
    return kind(f"{problem.title}: {problem.detail}" if problem.detail else problem.title, problem)
