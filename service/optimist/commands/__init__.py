"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from optimist import __version__
from optimist.commands import (
    backup,
    bandwidth,
    browse,
    compare,
    contrast,
    demo,
    docs,
    evaluate,
    experiments,
    gate,
    keys,
    plan,
    score,
    serve,
    simulate,
    words,
    worker,
)
from optimist.commands.shared import WRONG_USE
from optimist.commands.usage import Command, Group
from optimist.experiments.goals.commands import COMMANDS


class InOneLine(Group):
    """Commands whose wrong use is said in one line."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line, and end the process unless that is left to the caller."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except typer.Abort:
            typer.echo("Aborted.", err=True)
            sys.exit(1)
        except WRONG_USE as error:
            command = getattr(getattr(error, "ctx", None), "command_path", "optimist")
            said = error.format_message().rstrip(".")
            typer.echo(f"{command}: {said}. See {command} --help", err=True)
            sys.exit(error.exit_code)
        sys.exit(status if isinstance(status, int) else 0)


app = typer.Typer(
    cls=InOneLine,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def optimist(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Find the best of several generative models with as few generated samples as possible.

    Example: optimist demo
    """


for command in (
    serve.serve,
    serve.scorer,
    worker.worker,
    score.score,
    compare.compare,
    contrast.contrast,
    plan.plan,
    bandwidth.bandwidth,
    simulate.simulate,
    demo.demo,
    evaluate.evaluate,
    docs.docs,
):
    app.command(cls=Command)(command)
for path in COMMANDS:
    module, _, name = path.partition(":")
    app.command(cls=Command)(getattr(import_module(module), name))
app.command(cls=gate.GateCommand)(gate.gate)
for name, command in {
    "help": words.help_,
    "list": browse.list_,
    "show": browse.show,
    "open": browse.open_,
    "annotate": experiments.annotate,
    "delete": experiments.delete,
    "export": experiments.export_experiment,
    "import": experiments.import_experiment,
    "backup": backup.backup,
    "records": experiments.records,
    "anomalies": experiments.anomalies,
    "retract": experiments.retract,
    "accept": experiments.accept,
}.items():
    app.command(name, cls=Command)(command)
app.add_typer(keys.app, name="keys")
