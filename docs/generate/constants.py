"""reference/constants.md from the numbers that modules name."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from notes import cell

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))
from benchmarks.size import PACKAGES, constants  # noqa: E402  (it is a program beside the package)

INTRODUCTION = """# Numbers in the code

The numbers that the code names, by room, with what each one is: what changes if you change it. None is a setting.
What users choose are [settings](settings.md) of the service, and of experiments those of the [SDK](sdk.md).
`make size` counts these numbers, and a test limits how many there may be.
"""


def page() -> str:
    """The whole page, a table for each room. Raises ValueError where a number has no docstring."""
    rooms = defaultdict[str, list[str]](list)
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).parts
            room = parts[0] if package == "service" and len(parts) > 1 else package
            for name, value, note in constants(path):
                if not note:
                    raise ValueError(f"{path}: {name} has no docstring that says what it is")
                module = "/".join(parts[int(room == parts[0]) :])
                rooms[room].append(f"| `{name}` | {module} | {cell(value)} | {cell(note)} |")
    tables = (
        "\n".join([f"\n## {room}\n", "| name | module | value | what it is |", "| --- | --- | --- | --- |", *rows])
        for room, rows in sorted(rooms.items())
    )
    return INTRODUCTION + "\n".join(tables)
