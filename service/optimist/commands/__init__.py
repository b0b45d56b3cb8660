"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs."""

from __future__ import annotations

import typer

from optimist.commands import archive, bandwidth, batches, demo, keys, score, scorer, serve, simulate

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    serve.version,
    serve.serve,
    scorer.scorer,
    score.score,
    bandwidth.bandwidth,
    simulate.simulate,
    demo.demo,
):
    app.command()(command)
app.command("export")(archive.export_experiment)
app.command("import")(archive.import_experiment)
app.command()(batches.suspects)
app.command()(batches.retract)
app.add_typer(keys.app, name="keys")
