"""Options of commands that are fields of a class: their names, types, limits, defaults and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from optimist.commands import usage

CommandFunction = Callable[..., None]


def takes(kind: type, *names: str, into: str = "settings") -> Callable[[CommandFunction], CommandFunction]:
    """A decorator of a command that has options for these fields of a class, in the place of its parameter `into`.

    Of a pydantic model the command gets the given values by name, which the model checks; of a dataclass an object.
    """
    fields, notes = _fields_of(kind), field_notes(kind)
    options = {name: _option(name, fields[name], notes.get(name, "")) for name in names}

    def decorate(command: CommandFunction) -> CommandFunction:
        def called(**given: Any) -> None:
            values = {name: _value(value, fields[name]) for name in names if (value := given.pop(name)) is not None}
            command(**given, **{into: kind(**values) if dataclasses.is_dataclass(kind) else values})

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == into:
                keyword = inspect.Parameter.KEYWORD_ONLY
                parameters += [
                    inspect.Parameter(name, keyword, default=None, annotation=option)
                    for name, option in options.items()
                ]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _fields_of(kind: type) -> dict[str, FieldInfo]:
    """The fields of a pydantic model or a dataclass, by name."""
    if issubclass(kind, BaseModel):
        return kind.model_fields
    hints = get_type_hints(kind)
    return {
        field.name: FieldInfo.from_annotated_attribute(hints[field.name], field.default)
        for field in dataclasses.fields(kind)
    }


def _option(name: str, field: FieldInfo, note: str) -> Any:
    kinds, limits = _kinds(field), [*field.metadata]
    kind = str if len(kinds) > 1 else kinds[0]
    kind = list[str] if get_origin(kind) is tuple else kind
    if get_origin(kind) is Annotated:
        kind, *limits = get_args(kind)
    low = next((limit.ge for limit in _spread(limits) if isinstance(limit, Ge)), None)
    flag = f"--{'' if field.default else 'no-'}{name.replace('_', '-')}"
    shown = flag if kind is bool else usage.shown(field.default)
    shown = False if field.default in (None, PydanticUndefined, ()) else shown
    option = typer.Option(help=note, min=low, show_default=shown)  # pyright: ignore[reportArgumentType]
    return Annotated[kind | None, option]


def _kinds(field: FieldInfo) -> list[Any]:
    """The types that a field may have, but for None."""
    return [kind for kind in _alternatives(field.annotation) if kind is not type(None)]


def _alternatives(kind: Any) -> list[Any]:
    """The types of a union, and of those in it; else the type itself."""
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in (Union, UnionType):
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return [kind]
    return [alternative for member in get_args(kind) for alternative in _alternatives(member)]


def _spread(limits: Iterable[Any]) -> Iterator[Any]:
    """The limits of a type, also of pydantic's fields in it."""
    for limit in limits:
        yield from limit.metadata if isinstance(limit, FieldInfo) else (limit,)


def _value(value: Any, field: FieldInfo) -> Any:
    """A text for a field that may also be a number as that number, several texts as a tuple."""
    if isinstance(value, list):
        return (*value,)
    if not {float, str} <= set(_kinds(field)):
        return value
    try:
        return float(value)
    except ValueError:
        return value


@cache  # reading the source takes tens of milliseconds, at each start of any command
def field_notes(kind: type) -> dict[str, str]:
    """For each field of a class of this project, and of its base classes, the docstring below it, on one line."""
    notes: dict[str, str] = {}
    for home in reversed([base for base in kind.__mro__ if base.__module__.startswith("optimist")]):
        body = _classes(home.__module__)[home.__name__]
        for field, following in pairwise(body.body):
            match field, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    notes[name] = " ".join(text.split())
                case _:
                    pass
    return notes


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
