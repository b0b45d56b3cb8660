"""reference/sdk.md from the docstrings of the exports of the SDK and of the library."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from notes import cell
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import optimist
import optimist_client
import optimist_client.chat
import optimist_client.embedders
import optimist_client.metrics
from optimist.commands.options import field_notes
from optimist_client.metrics import Metric

INTRODUCTION = """# SDK reference

This page has the docstrings of everything that `optimist_client`, its metrics, embedders and chats, and `optimist`
(scores and evaluations in memory) export. Guides with examples: [the Python SDK](../sdk.md),
[metrics, bounds and policies](../metrics.md), [embedders](../embedders.md), [simulation](../simulate.md).
"""


def page() -> str:
    """The whole page, one section per module."""
    parts = [INTRODUCTION]
    for module in (optimist_client, optimist_client.metrics, optimist_client.embedders, optimist_client.chat, optimist):
        parts.append(f"## {module.__name__}\n")
        parts += [_exported(module, name) for name in sorted(module.__all__) if not name.startswith("_")]
    return "\n".join(parts)


def _exported(module: ModuleType, name: str) -> str:
    what = getattr(module, name)
    if get_origin(what) is Literal:
        return f"### {name}\n\nOne of {', '.join(f'`{value!r}`' for value in get_args(what))}.\n"
    if not isinstance(what, type):
        return f"### {name}\n\n{_code(name, what)}\n{_said(what)}\n"
    lines = [f"### {name}\n"]
    if issubclass(what, BaseModel):
        lines += [_said(what), *_fields(what), *_facts(what)]
    elif issubclass(what, BaseException):
        lines += [f"Subclass of `{what.__base__.__name__}`.\n" if what.__base__ else "", _said(what)]
    else:
        lines += [_code(name, what), _said(what)]
    elsewhere = _documented_elsewhere(module, what)
    for member, function in _members(what):
        if member in elsewhere:
            continue
        lines.append(f"#### {name}.{member}\n")
        if isinstance(function, property):
            lines.append(_said(function))
        else:
            lines += [_code(member, function), _said(function)]
    return "\n".join(lines)


def _documented_elsewhere(module: ModuleType, cls: type) -> set[str]:
    """The members that the asyncio class shares with its twin, or that a metric inherits from `Metric` unchanged."""
    twin = getattr(module, cls.__name__.removeprefix("Async"))
    if twin is not cls:
        return {member for member, _ in _members(twin)}
    if cls is Metric or not issubclass(cls, Metric):
        return set()
    return {
        member
        for member, _ in _members(Metric)
        if inspect.getattr_static(cls, member) is inspect.getattr_static(Metric, member)
    }


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
    text = re.sub(r"""(: |-> )(["'])(.*?)\2""", r"\1\3", text)
    return f"```text\n{text}\n```\n"


def _said(what: Any) -> str:
    return (inspect.getdoc(what) or "").strip() + "\n"


def _fields(model: type[BaseModel]) -> list[str]:
    """A table of the fields with their defaults and docstrings; nothing without fields."""
    if not model.model_fields:
        return []
    notes = field_notes(model)
    lines = ["| field | default | |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        default = "required" if field.default is PydanticUndefined and field.default_factory is None else ""
        if not default:
            default = f"`{field.get_default(call_default_factory=True)!r}`"
        lines.append(f"| `{name}` | {cell(default)} | {cell(notes.get(name, ''))} |")
    return ["\n".join(lines) + "\n"]


def _facts(model: type[BaseModel]) -> list[str]:
    """A table of the class variables that the class itself annotates; nothing without any."""
    notes = field_notes(model)
    names = [name for name in inspect.get_annotations(model) if name in model.__class_vars__ and name in notes]
    if not names:
        return []
    rows = [f"| `{name}` | {cell(notes[name])} |" for name in names]
    return ["\n".join(["| class variable | |", "| --- | --- |", *rows]) + "\n"]
