"""Defines which role each route requires. Every route that is not listed here requires the role admin."""

from __future__ import annotations

import re

from optimist.api.middleware.keys import Caller
from optimist.api.problems import ApiError
from optimist.store import DEFAULT_NAMESPACE
from optimist_client.models import Role

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
SESSION = "/v1/session"
METRICS = "/metrics"
LIST = "/v1/experiments"
"""The list that a key restricted to some experiments may also read: it shows only those experiments."""

_PUBLIC = re.compile(r"/|/healthz|/readyz|/docs|/openapi\.json|/dashboard/[^/]+")
_EXPERIMENT = re.compile(r"/v1/experiments/([^/]+)(/.*)?", re.DOTALL)
_WORK = {
    "POST": re.compile(r"/picks(/.*)?|/blend|/generators/.+/batches", re.DOTALL),
    "PUT": re.compile(r"/picks/[^/]+/previews"),
    "DELETE": re.compile(r"/picks/[^/]+"),
}
"""What workers may change, by method: they tell batches and bring previews of them, give up picks, and are shared out
what the blend consists of; they cannot retract anything."""


def is_public(path: str) -> bool:
    """Whether a path needs no access key: health, the dashboard's files and the API description hold no user data."""
    return _PUBLIC.fullmatch(path) is not None


def check(caller: Caller, method: str, path: str) -> None:
    """Raise `ApiError` 403 if the caller lacks permission, 404 for an experiment that its key has no access to."""
    if path == SESSION:
        return
    found = _EXPERIMENT.fullmatch(path)
    experiment, part = (found[1], found[2] or "") if found else (None, "")
    role = _role(method, part)
    if not caller.may(role):
        raise _forbidden(f"expected a key with role {role} or higher, this key has role {caller.role}")
    if path == METRICS and (caller.namespace != DEFAULT_NAMESPACE or caller.experiments):
        raise _forbidden(f"expected a key of namespace {DEFAULT_NAMESPACE!r} that is not restricted to experiments")
    if experiment is None:
        if caller.experiments and not (method == "GET" and path == LIST):
            raise _forbidden("this key is restricted to some experiments and gives no access to anything else")
    elif not caller.sees(experiment):
        # The same answer as for a missing experiment, so that the caller cannot find out whether it exists.
        raise ApiError(404, "not-found", "Not found", f"no experiment is called {experiment!r}")


def _role(method: str, part: str) -> Role:
    """The lowest role that may use a method on this part of an experiment, or on a path outside of experiments."""
    if method in SAFE:
        # An export contains every sample in full.
        return "admin" if part == "/export" else "viewer"
    return "worker" if method in _WORK and _WORK[method].fullmatch(part) else "admin"


def _forbidden(detail: str) -> ApiError:
    return ApiError(403, "forbidden", "Not permitted", detail)
