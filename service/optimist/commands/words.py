"""`optimist help`: help of a command, and the words that reports, pages and errors use."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from optimist.commands.usage import text_width
from optimist_client.models.decisions import BELOW_NOISE_MEANING

_LINES = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").splitlines()
WORDS: dict[str, str] = dict(line.split(": ", 1) for line in _LINES) | {"below noise": BELOW_NOISE_MEANING}
"""Every word with its meaning, in the order in which a reader meets them."""


def help_(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The name of a command, or `words`.", show_default=False)] = None,
) -> None:
    """Explain a command, or the words that reports and pages use: `optimist help words`.

    Example: optimist help words
    """
    parent = context.find_root()
    if topic == "words":
        width = text_width()
        for word, meaning in WORDS.items():
            typer.echo(textwrap.fill(f"{word}: {meaning}", width, subsequent_indent="    "))
        return
    group: Any = parent.command
    command = group if topic is None else group.get_command(parent, topic)
    if command is None:
        raise typer.BadParameter(f"expected `words` or a command, got {topic!r}", param_hint="topic")
    typer.echo(command.get_help(parent if topic is None else typer.Context(command, parent=parent, info_name=topic)))
