"""reference/cli.md from the help of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from optimist.commands.app import app

INTRODUCTION = "# The command `optimist`\n\n`optimist COMMAND --help` prints these texts.\n"


def page() -> str:
    """The whole page, a section for each command."""
    command = typer.main.get_command(app)
    with command.make_context("optimist", [], resilient_parsing=True) as context:
        return "\n".join([INTRODUCTION, *_sections(command, context)])


def _sections(command: Any, context: Any) -> Iterator[str]:
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    for name in getattr(command, "commands", {}):
        subcommand = command.get_command(context, name)
        yield from _sections(subcommand, typer.Context(subcommand, parent=context, info_name=name))
