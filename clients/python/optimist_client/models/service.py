"""The session of a caller, and the problem document of a refused request."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from optimist_client.wire import Answer, Identifier

Role = Literal["viewer", "worker", "admin"]
"""The permissions of an access key: to read; also to sample; everything in its namespace."""


class Session(Answer):
    """The caller's identity and permissions."""

    namespace: Identifier
    role: Role
    experiments: list[Identifier]
    """The experiments that the key is limited to; empty: all experiments of its namespace."""
    key: str | None
    """Id of the key; None if the service needs no keys."""
    image_hosts: list[str] = Field(default_factory=list)
    """Hosts whose images the dashboard loads without asking."""


class Problem(BaseModel):
    """An error as RFC 9457 problem details; `action` says whether to fix the request, retry it, or stop."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = ""
    action: Literal["fix", "retry", "stop"] = "fix"
