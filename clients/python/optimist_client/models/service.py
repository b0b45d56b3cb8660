"""What the service says of a caller, and of a request that it refuses."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from optimist_client.wire import Answer, Identifier

Role = Literal["viewer", "worker", "admin"]
"""What the holder of an access key may do: read; sample as well; everything in its namespace."""


class Session(Answer):
    """Whom the service takes a caller for."""

    namespace: Identifier
    role: Role
    experiments: list[Identifier]
    """The only ones that the key is good for; none: every one of its namespace."""
    key: str | None
    """Id of the key, None where the service is open."""
    image_hosts: list[str] = Field(default_factory=list)
    """Hosts whose images the dashboard loads without being asked."""


class Problem(BaseModel):
    """An error as RFC 9457 problem details; `action` says whether to fix the request, retry it, or stop."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = ""
    action: Literal["fix", "retry", "stop"] = "fix"
