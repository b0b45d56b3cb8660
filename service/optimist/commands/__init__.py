"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from optimist import __version__
from optimist.commands import (
    archive,
    bandwidth,
    batches,
    compare,
    contrast,
    demo,
    keys,
    route,
    score,
    scorer,
    serve,
    simulate,
)

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


for command in (
    serve.serve,
    scorer.scorer,
    score.score,
    compare.compare,
    contrast.contrast,
    bandwidth.bandwidth,
    route.route,
    simulate.simulate,
    demo.demo,
):
    app.command()(command)
app.command("export")(archive.export_experiment)
app.command("import")(archive.import_experiment)
app.command()(batches.suspects)
app.command()(batches.retract)
app.command()(batches.accept)
app.add_typer(keys.app, name="keys")
