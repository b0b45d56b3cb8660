"""The help of every command, in one form: its use, what it does, an example, its arguments, options and commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from optimist_client.layout import wrapped

WRONG_USE: Any = typer.BadParameter.__bases__[0].__bases__[0]
"""The class of errors about wrong use and files, of which typer exports one subclass."""
_INDENT = "  "
_EXAMPLE = "Example: "
"""The start of a paragraph that is an example, and is not broken."""


class Command(TyperCommand):
    """A command with help in the form of all commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write("\n".join(_lines(self, ctx)) + "\n")


class Group(TyperGroup):
    """A group of commands with help in the form of all commands."""

    def explained(self) -> dict[str, str]:
        """The help of each command."""
        return {name: command.help or "" for name, command in self.commands.items()}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write("\n".join(_lines(self, ctx)) + "\n")


def _lines(command: Any, context: Any) -> Iterator[str]:
    width = text_width()
    parameters = [parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    commands = command.explained() if isinstance(command, Group) else {}
    pieces = [context.command_path, "[OPTIONS]", *map(_in_use, arguments), *(["COMMAND …"] if commands else [])]
    yield f"Usage: {' '.join(pieces)}"
    paragraphs = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    examples = [paragraph.removeprefix(_EXAMPLE) for paragraph in paragraphs if paragraph.startswith(_EXAMPLE)]
    for paragraph in paragraphs:
        if not paragraph.startswith(_EXAMPLE):
            yield ""
            yield from wrapped(paragraph, width)
    if examples:
        yield from ("", "Example:", *(f"{_INDENT}{example}" for example in examples))
    for title, parameters in (("Arguments", arguments), ("Options", options)):
        yield from _section(title, ((_named(each), _explained(each, context)) for each in parameters), width)
    yield from _section("Commands", ((name, summary(text)) for name, text in commands.items()), width)


def text_width() -> int:
    """The columns of text, at most 100, as longer lines are hard to read."""
    return min(shutil.get_terminal_size().columns, 100)


def summary(text: str) -> str:
    """The first sentence of a help."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return _ended(paragraph.split(". ")[0])


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "…")) else f"{sentence}."


def _section(title: str, entries: Iterable[tuple[str, str]], width: int, at: int = 24) -> Iterator[str]:
    """The lines of a section, whose explanations begin at the column `at`; none without entries."""
    for number, (name, text) in enumerate(entries):
        if not number:
            yield from ("", f"{title}:")
        first, *others = wrapped(text, width - at)
        begin = f"{_INDENT}{name}"
        if len(begin) > at - len(_INDENT):
            yield begin
            begin = ""
        yield f"{begin:{at}}{first}"
        yield from (f"{'':{at}}{line}" for line in others)


def _in_use(argument: Any) -> str:
    return _named(argument) if argument.required else f"[{_named(argument)}]"


def _named(parameter: Any) -> str:
    """A parameter as it is given: "FILES…", "-h, --help" or "--delta NUMBER"."""
    if parameter.param_type_name == "argument":
        return f"{parameter.metavar or parameter.name.upper()}{'…' if parameter.nargs != 1 else ''}"
    names = ", ".join(sorted(parameter.opts, key=len))
    if parameter.is_flag:
        return " / ".join([names, *parameter.secondary_opts])
    return f"{names} {parameter.metavar or _kind(parameter.type_descriptor)}"


def _kind(described: Any) -> str:
    """The value that an option takes, as a word."""
    if described.is_choice:
        return "NAME"
    kind = get_args(described.annotation)[0] if described.is_list else described.annotation
    return {Path: "PATH", int: "NUMBER", float: "NUMBER"}.get(kind, "TEXT")


def _explained(parameter: Any, context: Any) -> str:
    """The meaning of a parameter, its limits, and its default."""
    described = parameter.type_descriptor
    said = [_ended(parameter.help or "")]
    if described.is_choice:
        said.append(f"One of {', '.join(map(str, described.choices))}.")
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None:
        said.append(f"At least {low:g}." if high is None else f"From {low:g} to {high:g}.")
    if described.is_list and parameter.param_type_name == "option":
        said.append("May be given several times.")
    if parameter.required and parameter.param_type_name == "option":
        said.append("Required.")
    if parameter.envvar:
        said.append(f"Read from {parameter.envvar} where it is not given.")
    if default := _default(parameter, context):
        said.append(f"Default: {default}.")
    return " ".join(said)


def _default(parameter: Any, context: Any) -> str:
    """The default as a text; "" where there is none, or the explanation says it."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.get_default(context, call=False)
    if not parameter.show_default or value is None or value is False or value in ("", (), []):
        return ""
    return parameter.opts[0] if value is True else shown(value)


def shown(value: Any) -> str:
    """A default as it would be given."""
    return f"{value:g}" if isinstance(value, float) else f"{value}"
