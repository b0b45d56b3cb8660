"""Defines access keys, their roles and their callers. It does no I/O.

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

from optimist_client.models import Role
from optimist_client.wire import Identifier

ROLES: tuple[Role, ...] = get_args(Role)
"""In ascending order: each role includes the permissions of those before it."""
_KEY = re.compile(r"optimist_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


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


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is the id of the access key, "" if the service needs none."""

    key: str
    namespace: str
    role: Role
    experiments: frozenset[str] = frozenset()

    def may(self, role: Role) -> bool:
        """Whether the caller has at least this role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: str) -> bool:
        """Whether the key gives access to this experiment of its namespace."""
        return not self.experiments or experiment in self.experiments


def make_key(
    role: Role, namespace: str, experiments: tuple[str, ...] = (), note: str = ""
) -> tuple[str, str, KeyRecord]:
    """Create a key. Returns its id, the key itself, and its record. Raises FixError for an invalid name."""
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    record = KeyRecord(
        digest=_digest(secret),
        role=role,
        namespace=namespace,
        experiments=experiments,
        note=note,
        created=time.time(),
    )
    return id_, f"optimist_{id_}_{secret}", record


def split_key(key: str) -> tuple[str, str] | None:
    """The id and secret of a key; None if the text does not have the form of a key."""
    found = _KEY.fullmatch(key)
    return None if found is None else (found[1], found[2])


def caller_of(id_: str, secret: str, record: KeyRecord) -> Caller | None:
    """The caller for a key with this secret; None if the secret is wrong. Takes the same time either way."""
    if not hmac.compare_digest(_digest(secret), record.digest):
        return None
    return Caller(id_, record.namespace, record.role, frozenset(record.experiments))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
