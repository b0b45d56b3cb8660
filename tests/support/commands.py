"""The command line in this process."""

from __future__ import annotations

from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from optimist.commands.app import app


def invoked(*arguments: object, code: int | None = None, **options: Any) -> Result:
    """What comes of `optimist ARGUMENTS`, which must end with this exit code if one is given."""
    named = {"prog_name": "optimist", **options}
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], **named)
    assert code is None or done.exit_code == code, done.output
    return done
