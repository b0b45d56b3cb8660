"""Entry point of the `optimist` command."""

from __future__ import annotations

import sys

from optimist_client.installed import missing


def main() -> None:
    """Run the command line. If a required package is missing, exit with a message that says what to install."""
    try:
        from optimist.commands.app import app
    except ModuleNotFoundError as error:
        sys.exit(missing(error))
    app()


if __name__ == "__main__":
    main()
