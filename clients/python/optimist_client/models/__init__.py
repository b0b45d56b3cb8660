"""The models of what the service and the SDK send each other as JSON. The service imports them from here.

They are loaded when the first one is used: making them takes longer than importing the rest of the SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist_client.models.exports import *  # noqa: F403  it has `__all__`


def __getattr__(name: str) -> Any:
    exported = vars(import_module(f"{__name__}.exports"))
    if name != "__all__" and name not in exported["__all__"]:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update({each: exported[each] for each in ("__all__", *exported["__all__"])})
    return exported[name]


def __dir__() -> list[str]:
    return __getattr__("__all__")
