"""The subcommands of the `optimist` command. They need the `server` extra; each module names further ones it needs.

A subcommand's module is imported when that is called: all of them take ten times as long as the command itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, MutableMapping
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

FIRST = {
    "serve": "serve:serve",
    "scorer": "serve:scorer",
    **{name: f"{name}:{name}" for name in ("worker", "score", "compare", "contrast", "plan", "bandwidth", "simulate")},
    **{name: f"{name}:{name}" for name in ("demo", "evaluate", "docs")},
}
"""Where each subcommand is: the module, and its function, or the app that has a function of the subcommand's name."""
LAST = {
    "gate": "gate:app",
    "help": "words:help_",
    "list": "browse:list_",
    "show": "browse:show",
    "open": "browse:open_",
    "annotate": "experiments:annotate",
    "delete": "experiments:delete",
    "export": "experiments:export_experiment",
    "import": "experiments:import_experiment",
    "backup": "backup:backup",
    **{name: f"experiments:{name}" for name in ("records", "anomalies", "retract", "accept")},
    "keys": "keys:app",
}
"""Those that are listed behind the ones that goals bring."""


def places() -> dict[str, str]:
    """Where each subcommand is, those that goals bring included."""
    first, last = ({name: f"{__name__}.{place}" for name, place in part.items()} for part in (FIRST, LAST))
    return {**first, **{place.partition(":")[2]: place for place in COMMANDS}, **last}


class Lazily(MutableMapping[str, Any]):
    """The subcommands by name, each imported and made when it is asked for.

    Ends the process where a module of OPTIMIST_METRICS is missing: options list the metrics there are, and such a
    module may bring commands.
    """

    def __init__(self) -> None:
        if brought := os.environ.get("OPTIMIST_METRICS", ""):
            try:
                from optimist.numerics.registry import load
                from optimist.settings import split

                load(split(brought))
            except FixError as error:
                sys.exit(f"{error}")
            except ModuleNotFoundError as error:
                sys.exit(missing(error))
        self._places = places()
        self._made: dict[str, Any] = dict.fromkeys(self._places)

    def __getitem__(self, name: str) -> Any:
        self._made[name] = self._made[name] or _made(name, self._places[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def explained(self) -> dict[str, str]:
        """The docstring of each, which is read without importing it."""
        return {name: _explained(name, place) for name, place in self._places.items()}


def _made(name: str, place: str) -> Any:
    """The command of this name. Ends the process where a package is missing."""
    module, attribute = place.split(":")
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


def _explained(name: str, place: str) -> str:
    module, attribute = place.split(":")
    spec, function = find_spec(module), name if attribute == "app" else attribute
    assert spec is not None
    assert spec.origin is not None
    match = re.search(rf'^def {function}\(.*?"""(.+?)"""', Path(spec.origin).read_text(), re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


class InOneLine(Group):
    """Commands whose wrong use is said in one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = self._lazily = Lazily()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the subcommands."""
        return [*self.commands]

    def explained(self) -> dict[str, str]:
        """The help of each subcommand."""
        return self._lazily.explained()

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
