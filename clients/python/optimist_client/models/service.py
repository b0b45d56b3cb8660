"""The session of a caller, and shares of an experiment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optimist_client.wire import Answer, Identifier, Wire

Role = Literal["rater", "viewer", "worker", "admin"]
"""The permissions of an access key: to score audits alone; to read; also to score and sample; everything there is."""


class Session(Answer):
    """The caller's identity and permissions."""

    namespace: Identifier
    role: Role
    experiments: list[Identifier]
    """The experiments that the key is limited to; empty: all experiments of its namespace."""
    key: str | None
    """Id of the key; None if the service needs no keys."""
    previews: bool = True
    """True if it may look at previews and other samples."""
    image_hosts: list[str] = Field(default_factory=list)
    """Hosts whose images the dashboard loads without asking."""


class ShareRequest(Wire):
    """The terms of a share."""

    seconds: Annotated[float, Field(gt=0, le=31_536_000)] = 604_800.0
    """Duration of the share, at most a year."""
    previews: bool = False
    """True if those who have it may look at previews of samples, and at the samples of modes."""
    note: Annotated[str, Field(max_length=200)] = ""


class Share(Answer):
    """A viewer key for one experiment."""

    id: str
    key: str | None
    """The key itself, in the answer that made it alone."""
    created: float
    expires: float
    previews: bool
    note: str


class Shares(Answer):
    """The shares of an experiment, the newest first."""

    shares: list[Share]
