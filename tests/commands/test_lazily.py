"""A command imports what it needs itself, and nothing of the others."""

from __future__ import annotations

import subprocess
import sys

HELP = """import sys
from optimist.cli import main
sys.argv[:] = ["optimist", "--help"]
try:
    main()
finally:
    print(*{"pydantic", "rich", "httpx", "numpy"} & sys.modules.keys(), file=sys.stderr)
"""


def test_the_list_of_commands_imports_none_of_them():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.returncode == 0
    assert "\n  serve " in done.stdout
    assert done.stderr.split() == []
