"""The command line in this process."""

from __future__ import annotations

from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from optimist.commands import app


def invoked(*arguments: object, code: int | None = None, **options: Any) -> Result:
    """What comes of `optimist ARGUMENTS`, which must end with this exit code if one is given."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    assert code is None or done.exit_code == code, done.output
    return done
