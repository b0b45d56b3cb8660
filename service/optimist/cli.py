"""Entry point of the `optimist` command."""

from __future__ import annotations

import os
import sys

from optimist_client.errors import FixError
from optimist_client.installed import install_hint


def main() -> None:
    """Run the command line. If a required package is missing, exit with a message that says what to install."""
    try:
        from optimist.numerics.registry import load
        from optimist.settings import split

        # Before the commands are made: their options list the metrics there are.
        try:
            load(split(os.environ.get("OPTIMIST_METRICS", "")))
        except FixError as error:
            sys.exit(str(error))
        from optimist.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        sys.exit(f"the optimist command needs {error.name}: {install_hint('server,scoring')}")
    app()


if __name__ == "__main__":
    main()
