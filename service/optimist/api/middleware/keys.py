"""Access keys and shares.

A key is `optimist_<id>_<secret>`. A share is `optimist_<id>_<secret>:<namespace>:<experiment>`: its record stands with
the experiment, and ends with it. The secret has 256 random bits, and only its SHA-256 is stored. A fast hash is safe
here because, unlike a password, the secret cannot be guessed, and it keeps the check of every request cheap.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints

from optimist.api.middleware.permissions import Caller
from optimist_client.errors import FixError
from optimist_client.models import Role
from optimist_client.wire import Identifier

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_KEY = re.compile(r"optimist_([0-9a-f]{12})_([A-Za-z0-9_-]{43})(?::([A-Za-z0-9._-]{1,64}):([A-Za-z0-9._-]{1,64}))?")


class KeyText(NamedTuple):
    """The parts of a key, as its text has them."""

    id: str
    secret: str
    namespace: str = ""
    experiment: str | None = None
    """Of a share, with its namespace; None for a key that `optimist keys` made."""

    def __str__(self) -> str:
        key = f"optimist_{self.id}_{self.secret}"
        return key if self.experiment is None else f"{key}:{self.namespace}:{self.experiment}"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)

    digest: str
    """SHA-256 of the secret, in hex."""
    note: Annotated[str, StringConstraints(max_length=200)] = ""
    created: float
    expires: float | None = None
    """Unix time of its end; None: it is valid until it is revoked. A share always has an end."""

    @property
    def has_expired(self) -> bool:
        """True if it has ended by itself."""
        return self.expires is not None and time.time() >= self.expires

    def fits(self, key: KeyText) -> bool:
        """True if this is the record of a key that has not expired. A wrong secret takes the same time."""
        return hmac.compare_digest(_digest(key.secret), self.digest) and not self.has_expired


class KeyRecord(_Record):
    """The stored record of a key: its owner and permissions, but not the key itself."""

    role: Role
    namespace: Identifier
    experiments: tuple[Identifier, ...] = ()
    """The experiments that the key gives access to; empty for all experiments of the namespace."""

    def caller(self, key: KeyText) -> Caller | None:
        """The caller with this key; None if the secret is wrong, or the key has expired."""
        return Caller(key.id, self.namespace, self.role, frozenset(self.experiments)) if self.fits(key) else None


class ShareRecord(_Record):
    """The stored record of a share: a viewer's key for one experiment."""

    previews: bool
    """True if it may look at samples."""
    maker: str
    """The id of the key that made it, with which it ends; "" if the maker needed none."""

    def caller(self, key: KeyText) -> Caller | None:
        """The caller with this share; None if the secret is wrong, or the share has expired."""
        if key.experiment is None or not self.fits(key):
            return None
        return Caller(key.id, key.namespace, "viewer", frozenset({key.experiment}), self.previews)


def make_key(
    role: Role,
    namespace: str,
    experiments: tuple[str, ...] = (),
    note: str = "",
    *,
    lasts: float | None = None,
    existing: str | None = None,
) -> tuple[str, str, KeyRecord]:
    """The id of a new key, the key itself, and its record.

    Raises FixError for an invalid name or known key, and for a rater's key that names no experiment.

    lasts: seconds until it expires. existing: a key that another service made, instead of a new one.
    """
    key = KeyText(*_random()) if existing is None else split_key(existing)
    if key is None or key.experiment is not None:
        raise FixError("expected a key as `optimist keys create` prints it")  # the text may be most of a secret
    if role == "rater" and not experiments:
        raise FixError("a rater's key opens the audits of the experiments that it names: expected --experiment NAME")
    now = time.time()
    record = KeyRecord(
        digest=_digest(key.secret),
        role=role,
        namespace=namespace,
        experiments=experiments,
        note=note,
        created=now,
        expires=None if lasts is None else now + lasts,
    )
    return key.id, str(key), record


def make_share(
    namespace: str, experiment: str, note: str, *, lasts: float, previews: bool, maker: str
) -> tuple[str, str, ShareRecord]:
    """The id of a new share of an experiment, its key, and its record.

    lasts: seconds until it expires. The other arguments are fields of the record.
    """
    key, now = KeyText(*_random(), namespace, experiment), time.time()
    digest = _digest(key.secret)
    return (
        key.id,
        str(key),
        ShareRecord(digest=digest, note=note, created=now, expires=now + lasts, previews=previews, maker=maker),
    )


def split_key(key: str) -> KeyText | None:
    """The parts of a key; None if the text does not have the form of a key."""
    matched = _KEY.fullmatch(key)
    return None if matched is None else KeyText(matched[1], matched[2], matched[3] or "", matched[4])


def _random() -> tuple[str, str]:
    return secrets.token_hex(6), secrets.token_urlsafe(32)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
