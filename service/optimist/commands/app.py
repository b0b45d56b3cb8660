"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs.

A subcommand's module is imported when that is called: all of them take ten times as long as the command itself.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from optimist import __version__
from optimist.commands.usage import WRONG_USE, Command, Group
from optimist.experiments.goals.commands import COMMANDS
from optimist_client.errors import FixError
from optimist_client.installed import missing

_LOCATIONS = {
    **{name: f"{name}:{name}" for name in ("backup", "bandwidth", "compare", "contrast", "demo", "docs", "evaluate")},
    **{name: f"{name}:{name}" for name in ("plan", "score", "simulate", "worker")},
    **{name: f"{name}:app" for name in ("gate", "keys")},
    **{name: f"serve:{name}" for name in ("scorer", "serve")},
    **{name: f"experiments:{name}" for name in ("accept", "annotate", "anomalies", "delete", "records", "retract")},
    **{name: f"experiments:{name}_experiment" for name in ("export", "import")},
    **{name: f"browse:{name}_" for name in ("list", "open")},
    "show": "browse:show",
    "help": "words:help_",
}
"""The module of each subcommand, and its function, or the app that has a function of the subcommand's name."""


def locations() -> dict[str, str]:
    """The module and the function of each subcommand, also of goals' subcommands, in alphabetical order."""
    of_goals = {location.partition(":")[2]: location for location in COMMANDS}
    here = {name: f"{__package__}.{location}" for name, location in _LOCATIONS.items()}
    return dict(sorted({**here, **of_goals}.items()))


def _load_brought() -> None:
    """Import the modules of OPTIMIST_METRICS: options list the metrics there are, and such a module may bring commands.

    Ends the process where one is missing.
    """
    if brought := os.environ.get("OPTIMIST_METRICS", ""):
        try:
            from optimist.settings import load, split

            load(split(brought))
        except FixError as error:
            sys.exit(f"{error}")
        except ModuleNotFoundError as error:
            sys.exit(missing(error))


def _made(name: str, location: str) -> Any:
    """The command of this name. Ends the process where a package is missing."""
    module, attribute = location.split(":")
    try:
        command = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        sys.exit(missing(error))
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=Command)(command)
        command = alone
    made = typer.main.get_command(command)
    made.name = name
    return made


def _explained(name: str, location: str) -> str:
    module, attribute = location.split(":")
    spec, function = find_spec(module), name if attribute == "app" else attribute
    assert spec is not None
    assert spec.origin is not None
    match = re.search(rf'^def {function}\(.*?"""(.+?)"""', Path(spec.origin).read_text(), re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


class LazyGroup(Group):
    """Commands that are imported when they are called, and whose wrong use is said in one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        _load_brought()
        self._locations = locations()
        self.commands: dict[str, Any] = dict.fromkeys(self._locations)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, imported and made now; None if there is none."""
        if self.commands.get(cmd_name, self) is None:
            self.commands[cmd_name] = _made(cmd_name, self._locations[cmd_name])
        return self.commands.get(cmd_name)

    def explained(self) -> dict[str, str]:
        """The docstring of each subcommand, which is read without importing it."""
        return {name: _explained(name, location) for name, location in self._locations.items()}

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
    cls=LazyGroup,
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
