"""Callers, and what each route requires of its caller: an attribute of the route's function, without which no route can
be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from optimist.api.problems import ApiError
from optimist.store import DEFAULT_NAMESPACE
from optimist_client.models import Role

_EXPERIMENT = "/v1/experiments/{name}"
_ATTRIBUTE = "__permission__"
RouteFunction = TypeVar("RouteFunction", bound=Callable[..., Any])
ROLES: tuple[Role, ...] = get_args(Role)
"""In ascending order: each role includes the permissions of those before it, except that viewers change nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is the id of the access key, "" if the service needs none."""

    key: str
    namespace: str
    role: Role
    experiments: frozenset[str] = frozenset()
    previews: bool = True

    def may(self, role: Role) -> bool:
        """True if the caller has at least this role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: str) -> bool:
        """True if the key gives access to this experiment of its namespace."""
        return not self.experiments or experiment in self.experiments


@dataclass(frozen=True, slots=True)
class Permission:
    """The requirements of a route. A route below an experiment also requires a key that gives access to it."""

    role: Role | None
    """The lowest role; None: anybody, also without a key."""
    takes_raters: bool = False
    """True if the key of a rater is sufficient, too."""
    shows_samples: bool = False
    """True if a key must give access to samples."""
    takes_restricted: bool = False
    """True if a key that is restricted to some experiments may use a route that is not below one of them."""
    is_of_service: bool = False
    """True if the answer is about all namespaces: only an unrestricted key of the namespace `default` may see it."""

    def check(self, caller: Caller, experiment: str | None) -> None:
        """Raise `ApiError` 403 if the caller lacks this permission, 404 for an experiment that its key does not show.

        experiment: the one that the route is below, if any.
        """
        is_rater = self.takes_raters and caller.role == "rater"
        if self.role is not None and not (is_rater or caller.may(self.role)):
            raise _forbidden(f"expected a key with role {self.role} or higher, this key has role {caller.role}")
        if self.is_of_service and (caller.namespace != DEFAULT_NAMESPACE or caller.experiments):
            raise _forbidden(f"expected a key of namespace {DEFAULT_NAMESPACE!r} that is not restricted to experiments")
        if experiment is None:
            if caller.experiments and not self.takes_restricted:
                raise _forbidden("this key is restricted to some experiments and gives no access to anything else")
        elif not caller.sees(experiment):
            # The same answer as for a missing experiment, so that the caller cannot find out whether it exists.
            raise ApiError(404, "not-found", "Not found", f"no experiment is called {experiment!r}")
        if self.shows_samples and not caller.previews:
            raise _forbidden("this key gives access to no samples")


PUBLIC = Permission(None)
"""Health, the dashboard's files and the API description hold no user data."""
IDENTIFY = Permission("viewer", takes_raters=True, takes_restricted=True)
"""Every key may ask who it is."""
READ_OWN = Permission("viewer", takes_restricted=True)
"""A key that shows some experiments may list them."""
READ = Permission("viewer")
READ_SAMPLES = Permission("viewer", shows_samples=True)
MONITOR = Permission("viewer", is_of_service=True)
WORK = Permission("worker")
RATE = Permission("worker", takes_raters=True)
"""Permission to get audits and to answer them. Viewers, and so shares, change nothing."""
ADMINISTER = Permission("admin")
UNLISTED = ADMINISTER
"""Of a path, or a method, that no route has: who may do everything is told that it does not exist."""


def permits(permission: Permission) -> Callable[[RouteFunction], RouteFunction]:
    """A decorator of a route's function: what its caller needs."""

    def mark(function: RouteFunction) -> RouteFunction:
        setattr(function, _ATTRIBUTE, permission)
        return function

    return mark


def permission_of(endpoint: Callable[..., Any]) -> Permission:
    """The permission of a route's function. Raises TypeError where `permits` gave it none."""
    permission = getattr(endpoint, _ATTRIBUTE, None)
    if not isinstance(permission, Permission):
        raise TypeError(f"{endpoint!r} has no permission: decorate it by @permits(…)")
    return permission


class GuardedRoute(APIRoute):
    """A route whose function says what its caller needs. Raises TypeError where it does not."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        permission_of(endpoint)
        super().__init__(path, endpoint, **options)


def match(routes: Iterable[BaseRoute], scope: Scope) -> tuple[Permission, str | None]:
    """The permission that a request needs, and the experiment that it is about, if any.

    The route is the one that Starlette's router takes: the first that matches path and method. The scope then names it.
    """
    permission = UNLISTED
    for route in routes:
        matching, matched = route.matches(scope)
        if matching is Match.NONE:
            continue
        assert isinstance(route, Route)
        needed = permission_of(route.endpoint)
        if matching is Match.FULL:
            scope.update(matched, route=route)
            return needed, scope["path_params"]["name"] if route.path.startswith(_EXPERIMENT) else None
        if needed is PUBLIC:  # with another method: the router says which ones there are
            permission = PUBLIC
    return permission, None


def _forbidden(detail: str) -> ApiError:
    return ApiError(403, "forbidden", "Not permitted", detail)
