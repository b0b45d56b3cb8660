"""reference/cli.md from the help of the commands."""

from __future__ import annotations

import typer
from typer.cli import get_docs_for_click

from optimist.commands import app


def page() -> str:
    """The whole page, as typer writes it."""
    command = typer.main.get_command(app)
    with command.make_context("optimist", [], resilient_parsing=True) as context:
        text = get_docs_for_click(obj=command, ctx=context, name="optimist", title="The command `optimist`")
    return text.replace("```console", "```text")
