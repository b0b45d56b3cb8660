"""Access keys, their roles and their callers; and which role a route requires: admin, where it is not listed here.

A key is `optimist_<id>_<secret>`. The secret has 256 random bits, and only its SHA-256 is stored. A fast hash is safe
here because, unlike a password, the secret cannot be guessed, and it keeps the check of every request cheap.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Annotated, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints

from optimist.api.problems import ApiError
from optimist.store import DEFAULT_NAMESPACE
from optimist_client.errors import FixError
from optimist_client.models import Role
from optimist_client.wire import Identifier

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
SESSION = "/v1/session"
METRICS = "/metrics"
LIST = "/v1/experiments"
"""The list that a key restricted to some experiments may also read: it shows only those experiments."""

PUBLIC = re.compile(r"/|/healthz|/readyz|/docs|/openapi\.json|/dashboard/[^/]+/[^/]+")
"""Paths that need no access key: health, the dashboard's files and the API description hold no user data."""
_EXPERIMENT = re.compile(r"/v1/experiments/([^/]+)(/.*)?", re.DOTALL)
_SAMPLES = re.compile(r"/previews(/.*)?|/generators/.+/(modes|records)", re.DOTALL)
"""The parts of an experiment that show samples."""
_WORK = {
    "POST": re.compile(r"/picks(/.*)?|/blend|/generators/.+/batches", re.DOTALL),
    "PUT": re.compile(r"/picks/[^/]+/previews"),
    "DELETE": re.compile(r"/picks/[^/]+"),
}
"""What workers may change, by method: they tell batches and bring previews of them, give up picks, and are shared out
what the mixture consists of; they cannot retract anything."""
ROLES: tuple[Role, ...] = get_args(Role)
"""In ascending order: each role includes the permissions of those before it."""
_KEY = re.compile(r"optimist_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def check_permission(caller: Caller, method: str, path: str) -> None:
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
    elif _SAMPLES.fullmatch(part) and not caller.previews:
        raise _forbidden("this key gives access to no samples")


def _role(method: str, part: str) -> Role:
    """The lowest role that may use a method on this part of an experiment, or on a path outside of experiments."""
    if method in SAFE:
        # An export contains every sample in full, and shares are keys.
        return "admin" if part in ("/export", "/shares") else "viewer"
    return "worker" if method in _WORK and _WORK[method].fullmatch(part) else "admin"


def _forbidden(detail: str) -> ApiError:
    return ApiError(403, "forbidden", "Not permitted", detail)


class KeyRecord(BaseModel):
    """The stored record of a key: its owner and permissions, but not the key itself."""

    model_config = ConfigDict(frozen=True)

    digest: str
    """SHA-256 of the secret, in hex."""
    role: Role
    namespace: Identifier
    experiments: tuple[Identifier, ...] = ()
    """The experiments that the key gives access to; empty for all experiments of the namespace."""
    note: Annotated[str, StringConstraints(max_length=200)] = ""
    created: float
    expires: float | None = None
    """When it ends, in Unix time; None: when it is revoked."""
    previews: bool = True
    """Whether it may look at samples."""
    maker: str | None = None
    """The id of the key that made it, with which it ends; "" if the maker needed none; None: `optimist keys`."""

    @property
    def has_expired(self) -> bool:
        """Whether it has ended by itself."""
        return self.expires is not None and time.time() >= self.expires


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is the id of the access key, "" if the service needs none."""

    key: str
    namespace: str
    role: Role
    experiments: frozenset[str] = frozenset()
    previews: bool = True

    def may(self, role: Role) -> bool:
        """Whether the caller has at least this role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: str) -> bool:
        """Whether the key gives access to this experiment of its namespace."""
        return not self.experiments or experiment in self.experiments


def make_key(
    role: Role,
    namespace: str,
    experiments: tuple[str, ...] = (),
    note: str = "",
    *,
    lasts: float | None = None,
    previews: bool = True,
    maker: str | None = None,
    known: str | None = None,
) -> tuple[str, str, KeyRecord]:
    """Create a key. Returns its id, the key itself, and its record. Raises FixError for an invalid name or known key.

    lasts: seconds until it expires. known: a key that another service made, instead of a new one.
    """
    now = time.time()
    parts = (secrets.token_hex(6), secrets.token_urlsafe(32)) if known is None else split_key(known)
    if parts is None:
        raise FixError("expected a key as `optimist keys create` prints it")  # the text may be most of a secret
    id_, secret = parts
    record = KeyRecord(
        digest=_digest(secret),
        role=role,
        namespace=namespace,
        experiments=experiments,
        note=note,
        created=now,
        expires=None if lasts is None else now + lasts,
        previews=previews,
        maker=maker,
    )
    return id_, f"optimist_{id_}_{secret}", record


def split_key(key: str) -> tuple[str, str] | None:
    """The id and secret of a key; None if the text does not have the form of a key."""
    found = _KEY.fullmatch(key)
    return None if found is None else (found[1], found[2])


def caller_of(id_: str, secret: str, record: KeyRecord) -> Caller | None:
    """The caller for a key with this secret; None if the secret is wrong, which takes the same time, or the key has
    expired."""
    if not hmac.compare_digest(_digest(secret), record.digest) or record.has_expired:
        return None
    return Caller(id_, record.namespace, record.role, frozenset(record.experiments), record.previews)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
