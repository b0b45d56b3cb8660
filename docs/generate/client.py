"""docs/sdk-reference.md from the docstrings of the exports of the SDK and of the library."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

from notes import cell, field_notes
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import optimist
import optimist_client
import optimist_client.embedders

INTRODUCTION = """# SDK reference

This page has the docstrings of everything that `optimist_client`, its embedders, and `optimist` (scores and evaluations
in memory) export. Guides with examples: [sdk.md](sdk.md), [embedders.md](embedders.md), [simulate.md](simulate.md).
"""


def page() -> str:
    """The whole page, one section per module."""
    parts = [INTRODUCTION]
    for module in (optimist_client, optimist_client.embedders, optimist):
        parts.append(f"## {module.__name__}\n")
        parts += [_exported(module, name) for name in sorted(module.__all__) if not name.startswith("_")]
    return "\n".join(parts)


def _exported(module: ModuleType, name: str) -> str:
    what = getattr(module, name)
    if not isinstance(what, type):
        return f"### {name}\n\n{_code(name, what)}\n{_said(what)}\n"
    lines = [f"### {name}\n"]
    if issubclass(what, BaseModel):
        lines += [_said(what), _fields(what)]
    elif issubclass(what, BaseException):
        lines += [f"Subclass of `{what.__base__.__name__}`.\n" if what.__base__ else "", _said(what)]
    else:
        lines += [_code(name, what), _said(what)]
    # The asyncio class has the same methods, so they are documented once.
    twin = getattr(module, name.removeprefix("Async"))
    same = set() if twin is what else {member for member, _ in _members(twin)}
    for member, function in _members(what):
        if member in same:
            continue
        lines.append(f"#### {name}.{member}\n")
        if isinstance(function, property):
            lines.append(_said(function))
        else:
            lines += [_code(member, function), _said(function)]
    return "\n".join(lines)


def _members(cls: type) -> list[tuple[str, Any]]:
    """Public methods and properties from this project's classes that have a docstring, in alphabetical order."""
    found: dict[str, Any] = {}
    for home in cls.__mro__:
        if not home.__module__.startswith("optimist"):
            continue
        for name, member in vars(home).items():
            if name.startswith("_") or name in found or name == "model_config":
                continue
            if isinstance(member, property):
                found[name] = member
            elif callable(resolved := inspect.getattr_static(cls, name)) or hasattr(resolved, "__get__"):
                found[name] = getattr(cls, name)
    documented = {name: member for name, member in found.items() if inspect.getdoc(member) and not _is_value(member)}
    return sorted(documented.items())


def _is_value(member: Any) -> bool:
    return not isinstance(member, property) and not callable(member)


def _code(name: str, what: Any) -> str:
    try:
        signature = str(inspect.signature(what))
    except (TypeError, ValueError):
        signature = "(…)"
    # Addresses of objects differ between runs.
    text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}{signature}")
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return f"```text\n{text}\n```\n"


def _said(what: Any) -> str:
    return (inspect.getdoc(what) or "").strip() + "\n"


def _fields(model: type[BaseModel]) -> str:
    notes = field_notes(model)
    lines = ["| field | default | |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        default = "required" if field.default is PydanticUndefined and field.default_factory is None else ""
        if not default:
            default = f"`{field.get_default(call_default_factory=True)!r}`"
        lines.append(f"| `{name}` | {cell(default)} | {cell(notes.get(name, ''))} |")
    return "\n".join(lines) + "\n"
