"""The problem document of the service."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Problem(BaseModel):
    """An error as RFC 9457 problem details; `action` says whether to fix the request, retry it, or stop."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = ""
    action: Literal["fix", "retry", "stop"] = "fix"
