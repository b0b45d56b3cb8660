"""Whether the suite notices a line that is wrong: mutants of every room and of the SDK, and which tests kill them.

    python benchmarks/mutants.py killed.jsonl [--mutants 200] [--seed 0] [--jobs 2] [--limit 600]
    python benchmarks/mutants.py again.jsonl --only-killed killed.jsonl

A mutant is one change in a copy of the project: a comparison turned, a sign, a constant, or a call that is dropped.
Rooms get mutants in proportion to their statements, and three at least. A mutant is given to the tests in files named
like its module, then to those of its room, then to all of `make test`, until one fails; each time for `--limit` seconds
at most. A mutant that outlived all of them has "survived"; one that outlived those that there was time for is "out of
time", and one that only a test killed which also fails without it "unsure".

The file gets a line for each mutant at once, so that a run which was interrupted goes on. `--only-killed` runs the
mutants again that another file says were killed, wherever their lines have moved to, on the test that killed them
first, and ends with an error if less than 98 % of those that still exist are killed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "service/optimist", "clients/python/optimist_client"
LOG = "MUTANTS_LOG"
"""The variable that names the file where the plugin writes which tests failed."""
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
OUTCOMES = "killed", "survived", "out of time", "unsure"
SAID = {"debug", "info", "warning", "exception", "print"}
"""Calls that only say something."""
FOLDERS = {"SDK": "sdk", "beside the rooms": "beside"}
"""The folder of a room's tests, where it has another name."""


# ---- What pytest runs as a plugin.


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A line for each test that failed; workers of xdist leave this to the process that started them."""
    if report.failed and (log := os.environ.get(LOG)) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(log, "a") as file:
            file.write(f"{report.nodeid}\n")


# ---- Mutants.


@dataclass(frozen=True)
class Mutant:
    """A change of one expression or statement, and what became of it."""

    room: str
    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str
    text: str
    """The line where it begins, by which it is found again."""
    outcome: str = ""
    by: str = ""
    """The test that killed it."""
    seconds: float = 0.0

    @property
    def name(self) -> tuple[str, str, int, str]:
        """What stays the same when its line moves."""
        return self.file, self.text, self.column, self.after

    def applied(self, source: str) -> str:
        """The source with this change. Columns are of bytes, as those of `ast`."""
        lines = source.encode().splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        whole, before = b"".join(lines), self.before.encode()
        assert whole[start : start + len(before)] == before
        return (whole[:start] + self.after.encode() + whole[start + len(before) :]).decode()


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source, self.lines = file, source, source.split("\n")
        self.found, self.statements = list[Mutant](), 0
        parts = Path(file).parts
        self.room = "SDK" if parts[0] == "clients" else parts[2] if len(parts) > 3 else "beside the rooms"
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        """Leave out annotations, imports, decorators, raised messages, texts, and what only runs for type checkers."""
        self.statements += isinstance(node, ast.stmt)
        left_out = ast.Import | ast.ImportFrom | ast.Raise | ast.Assert | ast.JoinedStr
        if isinstance(node, left_out) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in SAID:
            return
        self._mutate(node)
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "type_params"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)

    def _mutate(self, node: ast.AST) -> None:
        match node:
            case ast.Compare(left=left, ops=[op, *ops], comparators=those):
                self._add("comparison", node, ast.Compare(left, [TURNED[type(op)](), *ops], those))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SIGNS and not _is_text(left, right):
                self._add("sign", node, ast.BinOp(left, SIGNS[type(op)](), right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                self._add("sign", node, operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._add("comparison", node, operand)
            case ast.Constant(value=bool(value)):
                self._add("constant", node, ast.Constant(not value))
            case ast.Constant(value=int(value)):
                self._add("constant", node, ast.Constant(value + 1))
            case ast.Constant(value=float(value)):
                self._add("constant", node, ast.Constant(2 * value or 1.0))
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) if not _says(node.value):
                self._add("call", node, ast.Pass())
            case _:
                pass

    def _add(self, kind: str, node: ast.expr | ast.stmt, new: ast.AST) -> None:
        before = ast.get_source_segment(self.source, node)
        assert before is not None
        after = ast.unparse(ast.fix_missing_locations(new))
        after = after if isinstance(new, ast.Constant | ast.Pass) else f"({after})"
        text = self.lines[node.lineno - 1].strip()
        self.found.append(Mutant(self.room, self.file, node.lineno, node.col_offset, kind, before, after, text))


def _is_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(each, ast.JoinedStr | ast.List | ast.Tuple) or isinstance(getattr(each, "value", None), str)
        for each in operands
    )


def _says(value: ast.expr) -> bool:
    call = value.value if isinstance(value, ast.Await) else value
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in SAID


def found_in(root: Path) -> list[Finder]:
    """The mutants of every file."""
    files = sorted(file for folder in SOURCES for file in (root / folder).rglob("*.py"))
    return [Finder(str(file.relative_to(root)), file.read_text()) for file in files]


def chosen(finders: list[Finder], count: int, seed: int) -> list[Mutant]:
    """About so many mutants, three of each room at least; within a room the kinds take turns."""
    rng, sizes, by_room = random.Random(seed), Counter[str](), defaultdict[str, list[Mutant]](list)
    for finder in finders:
        sizes[finder.room] += finder.statements
        by_room[finder.room] += finder.found
    picked: list[Mutant] = []
    for room, mutants in sorted(by_room.items()):
        rng.shuffle(mutants)
        places, seen = dict[Mutant, int](), Counter[str]()
        for mutant in mutants:
            places[mutant] = seen[mutant.kind]
            seen[mutant.kind] += 1
        quota = max(3, round(count * sizes[room] / sizes.total()))
        picked += sorted(mutants, key=places.__getitem__)[:quota]
    return picked


# ---- Running tests.


def copied(folder: Path) -> Path:
    """A copy of the files that git knows or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if (source := ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


def run(tree: Path, arguments: list[str], limit: float) -> tuple[int | None, str]:
    """Run pytest in a copy until a test fails: its status, None if it took too long; and that test."""
    log = tree / ".mutants.log"
    log.unlink(missing_ok=True)
    path = os.pathsep.join(f"{tree}/{folder}" for folder in ("service", "clients/python", "benchmarks"))
    environment = os.environ | {"PYTHONPATH": path, LOG: str(log)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=60", "-p", "mutants", *arguments]
    child = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        for number in signal.SIGINT, signal.SIGKILL:  # interrupted, its tests end what they have started
            if child.poll() is None:
                os.killpg(child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(60.0)
    return status, log.read_text().splitlines()[0] if log.exists() else ""


def stages(mutant: Mutant, killer: str) -> list[list[str]]:
    """Arguments of pytest, for one run after the other: the test that killed it before ("" if none did), those in files
    named like its module, those of its room, and all."""
    soon, room = ["-m", "not long"], f"tests/{FOLDERS.get(mutant.room, mutant.room)}"
    files = (ROOT / "tests").rglob(f"test_*{Path(mutant.file).stem}*.py")
    named = sorted(str(file.relative_to(ROOT)) for file in files)
    own = [room, *soon] if (ROOT / room).exists() else []
    return [each for each in ([killer] if killer else [], named, own, ["tests", "-n", "2", *soon]) if each]


def judged(mutant: Mutant, tree: Path, killer: str, limit: float) -> Mutant:
    """Apply a mutant in a copy, run tests, the one that killed it before first, and say what became of it."""
    begun, path = time.perf_counter(), tree / mutant.file
    source, outcome, by = path.read_text(), "survived", ""
    for tests in stages(mutant, killer):
        path.write_text(mutant.applied(source))
        try:
            status, by = run(tree, tests, limit)
        finally:
            path.write_text(source)
        if status is None:
            outcome = "out of time"
        elif status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            outcome = "survived"
        else:
            alone, _ = run(tree, [by] if by else tests, limit)
            outcome, by = "killed" if alone == 0 else "unsure", by or "its import"
            if alone == 0:
                break
    return replace(mutant, outcome=outcome, by=by, seconds=round(time.perf_counter() - begun, 1))


def read(path: Path) -> list[Mutant]:
    """The mutants of a file; none if there is no such file."""
    return [Mutant(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(judgements: list[Mutant]) -> Table:
    """What became of the mutants, by room."""
    shown = Table(box=box.MARKDOWN)
    for column in ("room", "mutants", *OUTCOMES, "seconds"):
        shown.add_column(column, justify="left" if column == "room" else "right")
    rooms = sorted({each.room for each in judgements})
    for room in [*rooms, "all"]:
        those = [each for each in judgements if room in (each.room, "all")]
        counts = Counter(each.outcome for each in those)
        cells = len(those), *(counts[outcome] for outcome in OUTCOMES)
        shown.add_row(room, *map(str, cells), f"{sum(each.seconds for each in those):,.0f}")
    return shown


def main() -> int:
    """Judge the mutants, and print the table and those that survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file with a line for each mutant")
    parser.add_argument("--mutants", type=int, default=200, help="about how many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time, each in a copy of its own")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of each run of tests")
    parser.add_argument("--rooms", nargs="+", help="only these")
    parser.add_argument("--only-killed", type=Path, help="a file of an earlier run")
    options = parser.parse_args()
    finders, console = found_in(ROOT), Console(width=160)
    mutants, judgements = chosen(finders, options.mutants, options.seed), read(options.out)
    killers = dict[tuple[str, str, int, str], str]()
    if options.only_killed:
        killers = {each.name: each.by for each in read(options.only_killed) if each.outcome == "killed"}
        exist = {each.name: each for finder in finders for each in finder.found}
        mutants = [exist[name] for name in killers if name in exist]
        console.print(f"{len(killers)} were killed; {len(mutants)} of them still exist")
    done, free = {each.name for each in judgements}, SimpleQueue[Path]()
    left = [each for each in mutants if each.name not in done and each.room in (options.rooms or [each.room])]

    def judge(mutant: Mutant) -> None:
        tree = free.get()
        judgement = judged(mutant, tree, killers.get(mutant.name, ""), options.limit)
        free.put(tree)
        judgements.append(judgement)
        with options.out.open("a") as file:
            file.write(json.dumps(asdict(judgement)) + "\n")
        console.log(f"{mutant.file}:{mutant.line} {mutant.kind}: {judgement.outcome} {judgement.by}", highlight=False)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            free.put(copied(Path(folder).resolve() / f"{number}"))
        list(pool.map(judge, left))
    console.print(table(judgements))
    for each in (each for each in judgements if each.outcome != "killed"):
        console.print(
            f"{each.outcome}: {each.file}:{each.line} {each.before} → {each.after}", markup=False, highlight=False
        )
    still = sum(each.outcome == "killed" for each in judgements)
    return int(bool(options.only_killed) and still < 0.98 * len(judgements))


if __name__ == "__main__":
    sys.exit(main())
