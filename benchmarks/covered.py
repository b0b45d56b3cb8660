"""How much of each room do tests run, and does a room fall below its floor?

    make coverage
    python benchmarks/covered.py [--missing ROOM …]

Reads what `pytest --cov` has written to `.coverage`: statements of each room that ran in a test's own process, or in a
service or scorer that a test started. Ends with an error where a room has less than its floor, which is a little below
what was measured. `--missing` names the lines of some rooms that nothing ran.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from coverage import Coverage
from rich import box
from rich.console import Console
from rich.table import Table

FLOORS = {
    "SDK": 84, "anomalies": 96, "api": 60, "archive": 66, "beside": 89, "commands": 71, "datasets": 92, "dispatch": 94,
    "estimates": 96, "estimation": 97, "experiments": 91, "insight": 81, "local": 92, "metrics": 96, "policies": 96,
    "records": 97, "references": 96, "routing": 94, "scoring": 92, "server": 58, "simulation": 91, "store": 93,
}  # fmt: skip
"""In % of a room's statements, by the tests of `make coverage`: those of rooms alone, not of the whole service."""


def room_of(path: Path) -> str:
    """The room that a file belongs to: a folder of service/optimist/, "SDK", or "beside" the rooms."""
    parts = path.parts
    if "optimist_client" in parts:
        return "SDK"
    within = parts[parts.index("optimist") + 1 :]
    return within[0] if len(within) > 1 else "beside"


def main() -> int:
    """Print the table; 1 if a room has less than its floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", nargs="+", default=[], help="rooms whose lines are named")
    options = parser.parse_args()
    measured, console = Coverage(), Console(width=120)
    measured.load()
    statements, missing = defaultdict[str, int](int), defaultdict[str, int](int)
    for file in sorted(measured.get_data().measured_files()):
        _, lines, _, absent, shown = measured.analysis2(file)
        room = room_of(Path(file))
        statements[room] += len(lines)
        missing[room] += len(absent)
        if absent and room in options.missing:
            console.print(f"{file}: {shown}", highlight=False)
    table, below = Table(box=box.MARKDOWN), list[str]()
    for column in ("room", "statements", "run, %", "floor, %"):
        table.add_column(column, justify="left" if column == "room" else "right")
    for room, count in sorted(statements.items()):
        share, floor = 100.0 * (1.0 - missing[room] / count), FLOORS.get(room, 100.0)
        table.add_row(room, f"{count:,}", f"{share:.1f}", f"{floor:g}")
        below += [room] if share < floor else []
    console.print(table)
    if unknown := FLOORS.keys() - statements.keys():
        below += sorted(unknown)
    if below:
        console.print(f"below their floor: {', '.join(below)}")
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
