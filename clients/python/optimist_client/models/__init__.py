"""The models of what the service and the SDK send each other as JSON. The service imports them from here.

They are loaded when the first one is used: making them takes longer than importing the rest of the SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist_client.models.exports import *  # noqa: F403  each name of it


def __getattr__(name: str) -> Any:
    names = {each: value for each, value in vars(import_module(f"{__name__}.exports")).items() if each[0] != "_"}
    names["__all__"] = sorted(names)
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(names)
    return names[name]


def __dir__() -> list[str]:
    return __getattr__("__all__")
