"""Access keys: what they are, and what their holders may do. No I/O.

A key is `optimist_<id>_<secret>`. The secret has 256 random bits, and only its SHA-256 is kept: what makes a slow hash
right for passwords, that they can be guessed, is not so here, and every request is checked.
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
"""Each may do what those before it may."""
_KEY = re.compile(r"optimist_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class KeyRecord(BaseModel):
    """A key as it is kept: whose it is and what for, but not the key."""

    model_config = ConfigDict(frozen=True)

    digest: str
    """SHA-256 of the secret, in hex."""
    role: Role
    namespace: Identifier
    experiments: tuple[Identifier, ...] = ()
    """The only ones it is good for; none: every one of its namespace."""
    note: Annotated[str, StringConstraints(max_length=200)] = ""
    created: float


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a request comes from. `key` is the id of the key, "" where the service is open."""

    key: str
    namespace: str
    role: Role
    experiments: frozenset[str] = frozenset()

    def may(self, role: Role) -> bool:
        """Whether what this role is needed for is allowed."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: str) -> bool:
        """Whether an experiment of the namespace is one of those that the key is good for."""
        return not self.experiments or experiment in self.experiments


def make_key(
    role: Role, namespace: str, experiments: tuple[str, ...] = (), note: str = ""
) -> tuple[str, str, KeyRecord]:
    """A new key: its id, the key to be shown once, and its record. Raises ValueError for what cannot be a name."""
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
    """Id and secret of what may be a key; None for what is none."""
    found = _KEY.fullmatch(key)
    return None if found is None else (found[1], found[2])


def caller_of(id_: str, secret: str, record: KeyRecord) -> Caller | None:
    """Who holds this secret of the record's key; None for another secret, found in the same time."""
    if not hmac.compare_digest(_digest(secret), record.digest):
        return None
    return Caller(id_, record.namespace, record.role, frozenset(record.experiments))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
