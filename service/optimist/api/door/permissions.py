"""What each route needs of its caller: one table, by which everything that is not named is for admins."""

from __future__ import annotations

import re

from optimist.api.door.keys import Caller
from optimist.api.problems import ApiError
from optimist.store import DEFAULT_NAMESPACE
from optimist_client.models import Role

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
SESSION = "/v1/session"
METRICS = "/metrics"
LISTS = ("/v1/experiments", "/v1/overview")
"""What a key that is bound to experiments may read beside them: it shows those alone."""

_PUBLIC = re.compile(r"/|/healthz|/readyz|/docs|/docs/oauth2-redirect|/redoc|/openapi\.json|/dashboard/[^/]+")
_EXPERIMENT = re.compile(r"/v1/experiments/([^/]+)(/.*)?", re.DOTALL)
_WORK = re.compile(r"/picks(/.*)?|/generators/.+/batches", re.DOTALL)


def is_public(path: str) -> bool:
    """Whether anybody may ask for this: health, the dashboard's files and the description of the API hold no data."""
    return _PUBLIC.fullmatch(path) is not None


def check(caller: Caller, method: str, path: str) -> None:
    """Raise `ApiError` 403 where the caller may not do this, 404 for an experiment that its key is not good for."""
    if path == SESSION:
        return
    found = _EXPERIMENT.fullmatch(path)
    experiment, part = (found[1], found[2] or "") if found else (None, "")
    role = _role(method, part)
    if not caller.may(role):
        raise _forbidden(f"expected a key of role {role}, this one is of role {caller.role}")
    if path == METRICS and (caller.namespace != DEFAULT_NAMESPACE or caller.experiments):
        raise _forbidden(f"expected a key of namespace {DEFAULT_NAMESPACE!r} that is not bound to experiments")
    if experiment is None:
        if caller.experiments and not (method == "GET" and path in LISTS):
            raise _forbidden("this key is bound to experiments, and good for nothing else")
    elif not caller.sees(experiment):
        # As of one that is not there: whether it is, is not for this caller to know.
        raise ApiError(404, "not-found", "Not found", f"no experiment is called {experiment!r}")


def _role(method: str, part: str) -> Role:
    """The least role that a method needs on this part of an experiment, or elsewhere."""
    if method in SAFE:
        # Every sample told, in full.
        return "admin" if part == "/export" else "viewer"
    return "worker" if method in ("POST", "DELETE") and _WORK.fullmatch(part) else "admin"


def _forbidden(detail: str) -> ApiError:
    return ApiError(403, "forbidden", "Not allowed", detail)
