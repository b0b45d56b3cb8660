"""The SDK's exceptions, each named by what the caller should do.

OptimistError
├── Retry       the service could not be reached or was busy until the time allowed ran out: try again later
├── Fix         the request was refused; `detail` says what was expected: correct it
│   ├── NotFound    no such experiment, reference or pick
│   └── Conflict    other bytes for a settled pick, or another config under the same name
└── Stop        the pick or experiment is over: drop it and go on
"""

from __future__ import annotations

from optimist_client.models import Problem

__all__ = ["Conflict", "Fix", "NotFound", "OptimistError", "Retry", "Stop"]


class OptimistError(Exception):
    """Base of all errors of the SDK; `problem` holds the service's own words where it answered."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class Retry(OptimistError):
    """Nothing was decided: the same call may work later. What was acknowledged before is safe."""


class Fix(OptimistError):
    """The service refused the request and stored nothing; the message says what it expected."""


class NotFound(Fix):
    """No such experiment, reference or pick."""


class Conflict(Fix):
    """The name or pick is already bound to something else."""


class Stop(OptimistError):
    """The pick is too old to be told: go on with a new one."""


def from_problem(problem: Problem) -> OptimistError:
    """The exception that stands for a problem the service answered with."""
    by_status = {404: NotFound, 409: Conflict, 410: Stop}
    by_action = {"retry": Retry, "stop": Stop, "fix": Fix}
    kind = by_status.get(problem.status) or by_action[problem.action]
    return kind(f"{problem.title}: {problem.detail}" if problem.detail else problem.title, problem)
