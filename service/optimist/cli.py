"""Entry point of the `optimist` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. If a required package is missing, exit with a message that says what to install."""
    try:
        from optimist.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        sys.exit(f"the optimist command needs {error.name}: pip install 'optimist[server,scoring]'")
    app()


if __name__ == "__main__":
    main()
