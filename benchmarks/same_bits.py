"""Whether two checkouts have the same numbers: estimates, picks and decisions, equal to the last bit.

    python benchmarks/same_bits.py OTHER [--only PATTERN] [--save FILE]
    python benchmarks/same_bits.py --list [--only PATTERN]

OTHER is another checkout, or a record that `--save` wrote: of this checkout, and alone without an OTHER. The exit code
is 0 if all is equal, 1 if something differs or failed. PATTERN is one of the shell, or a part of the names.

Both checkouts play the experiments of `bits/experiments.py` in this environment, each with its own copy of `bits/`
where it has one, so that fields can be renamed there. They are played at the same time, each on one core with one
thread, as results depend on the number of threads in their last digits. Of an experiment that differs, the first step
that does is shown. Experiments that only one of the two has are named, and count as no difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

HERE = Path(__file__).resolve().parents[1]
PLAYER = Path("benchmarks/bits/player.py")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
RESTARTED = ", restarted"
"""How the names of experiments end that are the same as another one, but for a restart of the service."""
Steps = list[tuple[str, dict[str, Any]]]
Record = dict[str, Steps]
"""The steps of each experiment by its name."""


class Difference(NamedTuple):
    """Where two records of an experiment first differ."""

    step: str
    field: str
    one: str
    other: str


def environment(checkout: Path, place: Path) -> dict[str, str]:
    """The variables of a player of this checkout, whose files go to `place`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPTIMIST_", "PYTHON"))}
    paths = os.pathsep.join(map(str, (checkout / "service", checkout / "clients" / "python")))
    own = {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    return kept | ONE_THREAD | own | {"OPTIMIST_CACHE": str(place / "cache"), "NO_PROXY": "127.0.0.1"}


def player_of(checkout: Path) -> Path:
    """The checkout's own player, or this one's."""
    return (checkout if (checkout / PLAYER).exists() else HERE) / PLAYER


def played(checkout: Path, only: str | None, core: int | None, step: Callable[[int, int], object]) -> Record:
    """The record of a checkout; `step` is called with how many experiments were played, and how many there are. Raises
    RuntimeError with what the player wrote if that failed."""
    found: Record = {}
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as errors:
        place = Path(name)
        command = [sys.executable, str(player_of(checkout)), f"--of={checkout}", *_only(only)]
        pinned = None if core is None else lambda: os.sched_setaffinity(0, {core})
        how: dict[str, Any] = {"env": environment(checkout, place), "cwd": place, "preexec_fn": pinned}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, **how) as playing:
            assert playing.stdout is not None
            names = json.loads(playing.stdout.readline() or "[]")
            step(0, len(names))
            for line in playing.stdout:
                one = json.loads(line)
                found[one["experiment"]] = [(what, fields) for what, fields in one["steps"]]
                step(len(found), len(names))
        if playing.returncode or len(found) != len(names):
            errors.seek(0)
            raise RuntimeError(f"{checkout}: {errors.read().decode()[-3000:]}")
    return found


def _only(only: str | None) -> list[str]:
    return [] if only is None else [f"--only={only}"]


def both(checkouts: list[Path], only: str | None) -> list[Record]:
    """The records of checkouts, played at the same time with a bar for each."""
    cores: list[int | None] = [*sorted(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else [None]
    records: dict[int, Record] = {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        failed: list[Exception] = []

        def play(number: int, checkout: Path) -> None:
            task = progress.add_task(f"{checkout}", total=None)

            def step(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            try:
                records[number] = played(checkout, only, cores[number % len(cores)], step)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=play, args=given) for given in enumerate(checkouts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in failed:
            raise error
    return [records[number] for number in range(len(checkouts))]


def difference(one: Steps, other: Steps) -> Difference | None:
    """Where two records of an experiment first differ, or the first failure; None if they are equal."""
    for (what, fields), (same, others) in zip(one, other, strict=False):
        if "failed" in (what, same):
            return Difference("failed", "", *(_end(steps) for steps in ((what, fields), (same, others))))
        if what != same:
            return Difference("next step", "", what, same)
        for path, left, right in _apart(fields, others):
            return Difference(what, path, shown(left), shown(right))
    if len(one) != len(other):
        ends = [steps[min(len(one), len(other)) :] for steps in (one, other)]
        return Difference("next step", "", *(steps[0][0] if steps else "the end" for steps in ends))
    return None


def _end(step: tuple[str, dict[str, Any]]) -> str:
    return f"{step[1]['error']}" if step[0] == "failed" else step[0]


def _apart(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places where two values of records differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name in one:
            yield from _apart(one[name], other[name], f"{path}, {name}" if path else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from _apart(*pair, f"{path} [{place}]")
    elif one != other:
        yield path, one, other


def shown(value: Any) -> str:
    """A value of a record: a float in both forms."""
    if isinstance(value, str) and value.removeprefix("-").startswith("0x"):
        return f"{value} = {float.fromhex(value)!r}"
    return json.dumps(value)[:300]


def compared(one: Record, other: Record) -> dict[str, Difference]:
    """Where the experiments that both have differ, by their names; and where those differ that were played with and
    without a restart of the service, in the same checkout."""
    found = {name: difference(one[name], other[name]) for name in one if name in other}
    for record, where in ((one, "here"), (other, "there")):
        for name in [name for name in record if f"{name}{RESTARTED}" in record]:
            found[f"{name}{RESTARTED} {where}, and without"] = difference(record[f"{name}{RESTARTED}"], record[name])
    return {name: first for name, first in found.items() if first is not None}


def tell(one: Record, other: Record) -> bool:
    """Print how two records differ; whether they are equal."""
    console, apart = Console(), compared(one, other)
    common = [name for name in one if name in other]
    for name, first in apart.items():
        where = f"{first.step}, {first.field}" if first.field else first.step
        # Values are whole on any terminal, as in a file.
        told = f"{name}: {where}\n    this checkout: {first.one}\n    the other one: {first.other}"
        console.print(told, markup=False, highlight=False, soft_wrap=True)
    for where, names in (("here", [*one.keys() - other.keys()]), ("there", [*other.keys() - one.keys()])):
        if names:
            console.print(f"Only {where}: {', '.join(sorted(names))}.")
    values = sum(len(one[name]) for name in common)
    if apart or not common:
        console.print(f"[bold red]Different[/]: {len(apart)} of {len(common)} experiments.")
    else:
        console.print(f"[bold green]Equal[/] to the last bit: {len(common)} experiments, {values:,} steps.")
    return bool(common) and not apart


def main() -> int:
    """Compare what the command line names; the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("other", nargs="?", type=Path, help="another checkout, or a record")
    options.add_argument("--only", metavar="PATTERN", help="which experiments")
    options.add_argument("--list", action="store_true", help="show the experiments' names")
    options.add_argument("--save", metavar="FILE", type=Path, help="write the record of this checkout")
    given = options.parse_args()
    if given.list:
        place = Path(tempfile.gettempdir())
        return subprocess.run(
            [sys.executable, HERE / PLAYER, "--list", *_only(given.only)], env=environment(HERE, place)
        ).returncode
    if given.other is None and given.save is None:
        options.error("expected another checkout, or --save")
    if given.other is not None and not given.other.exists():
        options.error(f"{given.other}: no such checkout or record")
    checkouts = [HERE] if given.other is None or given.other.is_file() else [HERE, given.other.resolve()]
    records = both(checkouts, given.only)
    if given.save is not None:
        given.save.write_text(json.dumps(records[0]))
    if given.other is None:
        return 0
    if given.other.is_file():
        stored = json.loads(given.other.read_text())
        records.append({name: stored[name] for name in stored if given.only is None or name in records[0]})
    return 0 if tell(*records) else 1


if __name__ == "__main__":
    sys.exit(main())
