"""Options of commands that are fields of a model: their names, types, limits, defaults and docstrings."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from optimist.commands import usage

Command = Callable[..., None]


def takes(model: type[BaseModel], *fields: str) -> Callable[[Command], Command]:
    """A decorator of a command that has options for these fields of a model, in the place of its parameter `settings`.

    The command gets those that were given, by name. A model checks them; here only what click must know is checked.
    """
    notes = field_notes(model)
    options = {name: _option(name, model.model_fields[name], notes.get(name, "")) for name in fields}

    def decorate(command: Command) -> Command:
        def called(**given: Any) -> None:
            settings = {name: value for name in fields if (value := given.pop(name)) is not None}
            command(
                **given, settings={name: _value(value, model.model_fields[name]) for name, value in settings.items()}
            )

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "settings":
                keyword = inspect.Parameter.KEYWORD_ONLY
                parameters += [
                    inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in options.items()
                ]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _option(name: str, field: FieldInfo, note: str) -> Any:
    kinds, limits = _kinds(field), [*field.metadata]
    kind = str if len(kinds) > 1 else kinds[0]
    if get_origin(kind) is Annotated:
        kind, *limits = get_args(kind)
    least = next((limit.ge for limit in _spread(limits) if isinstance(limit, Ge)), None)
    flag = f"--{'' if field.default else 'no-'}{name.replace('_', '-')}"
    shown = flag if kind is bool else usage.shown(field.default)
    shown = False if field.default in (None, PydanticUndefined) else shown
    option = typer.Option(help=note, min=least, show_default=shown)  # pyright: ignore[reportArgumentType]
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
    return [found for one in get_args(kind) for found in _alternatives(one)]


def _spread(limits: Iterable[Any]) -> Iterator[Any]:
    """The limits of a type, those of pydantic's fields in it, too."""
    for limit in limits:
        yield from limit.metadata if isinstance(limit, FieldInfo) else (limit,)


def _value(value: Any, field: FieldInfo) -> Any:
    """A text for a field that may also be a number as that number."""
    if not {float, str} <= set(_kinds(field)):
        return value
    try:
        return float(value)
    except ValueError:
        return value


@cache  # reading the source takes tens of milliseconds, at each start of any command
def field_notes(kind: type) -> dict[str, str]:
    """For each field of a class of this project, and of its base classes, the docstring below it, on one line."""
    found: dict[str, str] = {}
    for home in reversed([one for one in kind.__mro__ if one.__module__.startswith("optimist")]):
        body = _classes(home.__module__)[home.__name__]
        for field, following in pairwise(body.body):
            match field, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
                case _:
                    pass
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
