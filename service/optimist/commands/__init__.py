"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from optimist import __version__
from optimist.commands import keys
from optimist.commands.bandwidth import bandwidth
from optimist.commands.compare import compare
from optimist.commands.contrast import contrast
from optimist.commands.demo import demo
from optimist.commands.experiments import accept, export_experiment, import_experiment, retract, suspects
from optimist.commands.route import route
from optimist.commands.score import score
from optimist.commands.serve import scorer, serve
from optimist.commands.simulate import simulate

app = typer.Typer(
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
    """Find the best of several generative models with as few generated samples as possible."""


for command in (serve, scorer, score, compare, contrast, bandwidth, route, simulate, demo):
    app.command()(command)
app.command("export")(export_experiment)
app.command("import")(import_experiment)
for command in (suspects, retract, accept):
    app.command()(command)
app.add_typer(keys.app, name="keys")
