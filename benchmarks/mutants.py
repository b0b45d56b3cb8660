"""Does the suite notice a line that is wrong? Mutants of every room and of the SDK, and which tests kill them.

    python benchmarks/mutants.py killed.jsonl [--mutants 200] [--seed 0] [--jobs 2] [--limit 300] [--tests tests]
    python benchmarks/mutants.py again.jsonl --only-killed killed.jsonl

A mutant is one change in a copy of the project: a comparison turned, a sign, a constant, or a call that is dropped.
Rooms get mutants in proportion to their statements, and three at least. First the whole suite runs once with coverage,
which says for each line what tests reach it, in this process or in a child (kept in `.mutants/`, by the contents of all
sources and tests). A mutant is given to the tests that reach its line, those of its own room first and of these the
quickest, until one fails, and if none does, to those that reach its module; each of both for `--limit` seconds at most.
A mutant that outlived the tests of that time is "out of time", one whose module no test reaches "unreached", and one
that a test killed which also fails without it "unsure".

The file gets a line for each mutant at once, so that a run which was interrupted goes on. `--only-killed` runs the
mutants again that another file says were killed, wherever their lines have moved to, and ends with an error if less
than 98 % of those that still exist are killed. The test that killed a mutant then is tried first, and the suite runs
with coverage only if that does not kill all of them.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue

import pytest
from coverage import Coverage, CoverageData
from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "service/optimist", "clients/python/optimist_client"
LOG = "MUTANTS_LOG"
"""The variable that names the file where the plugin writes what became of each test."""
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
OUTCOMES = "killed", "survived", "out of time", "unreached", "unsure"
SAID = {"debug", "info", "warning", "exception", "print"}
"""Calls that only say something."""
FOLDERS = {"SDK": "sdk", "beside the rooms": "beside"}
"""The folder of a room's tests, where it has another name."""


# ---- What pytest runs as a plugin: it notes each test, and tells coverage which one runs.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Lines that run from now on are those of this test."""
    if (measured := Coverage.current()) is not None:
        measured.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line for each phase of a test; workers of xdist leave this to the process that started them."""
    if (log := os.environ.get(LOG)) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(log, "a") as file:
            file.write(json.dumps([report.nodeid, report.duration, report.failed]) + "\n")


def pytest_sessionfinish() -> None:
    """A worker of xdist ends without the exit handlers that would save."""
    if (measured := Coverage.current()) is not None:
        measured.save()


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


def run(tree: Path, arguments: list[str], limit: float | None, **variables: str) -> tuple[int | None, str]:
    """Run pytest in a copy: its status, None if it took too long; and the first test that failed."""
    log = tree / ".mutants.log"
    log.unlink(missing_ok=True)
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([*(f"{tree}/{folder}" for folder in ("service", "clients/python", "benchmarks")), *found])
    environment = os.environ | {"PYTHONPATH": path, LOG: str(log), "OMP_NUM_THREADS": "1"} | variables
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants", *arguments]
    child = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:  # whatever its tests have started
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    lines = log.read_text().splitlines() if log.exists() else []
    return status, next((test for test, _, failed in map(json.loads, lines) if failed), "")


class Reached:
    """Which tests reach a line, or a module, and how long each takes."""

    def __init__(self, tests: list[str], jobs: int) -> None:
        """Run the suite with coverage, unless this was done for the same sources and tests."""
        digest = hashlib.sha256(" ".join(tests).encode())
        for file in sorted(file for folder in (*SOURCES, "tests") for file in (ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
        kept = ROOT / ".mutants" / digest.hexdigest()[:16]
        if not kept.exists():
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                _measure(copied(Path(folder).resolve()), tests, jobs, kept)
        self._data = CoverageData(str(kept / "coverage"))
        self._data.read()
        self.seconds, failed = defaultdict[str, float](float), set[str]()
        for test, seconds, wrong in map(json.loads, (kept / "tests.jsonl").read_text().splitlines()):
            self.seconds[test] += seconds
            failed |= {test} if wrong else set()
        self._passed = self.seconds.keys() - failed

    def stages(self, mutant: Mutant) -> list[list[str]]:
        """The tests that reach its line, then the others that reach its module; of both its room's first, then the
        quickest."""
        lines = self._data.contexts_by_lineno(mutant.file)
        last = mutant.line + mutant.before.count("\n")
        near = self._tests(each for line in range(mutant.line, last + 1) for each in lines.get(line, []))
        far = self._tests(each for contexts in lines.values() for each in contexts) - near
        own = f"tests/{FOLDERS.get(mutant.room, mutant.room)}/"
        return [
            sorted(tests, key=lambda test: (not test.startswith(own), self.seconds[test]))
            for tests in (near, far)
            if tests
        ]

    def _tests(self, contexts: Iterator[str]) -> set[str]:
        """The tests of contexts. That of a child process is what pytest says of itself: "test (call)"."""
        names = {context for context in contexts if context}
        return {name for each in names for name in (each, each.rpartition(" (")[0])} & self._passed


def _measure(tree: Path, tests: list[str], jobs: int, kept: Path) -> None:
    (tree / "coverage.ini").write_text(
        "[run]\nparallel = true\nrelative_files = true\nsigterm = true\n"
        f"source = {','.join(SOURCES)}\ndata_file = {tree}/.coverage\ncontext = ${{PYTEST_CURRENT_TEST-}}\n"
    )
    arguments = ["-n", f"{jobs}", "--dist", "worksteal", *tests]
    status, _ = run(tree, arguments, None, COVERAGE_PROCESS_START=str(tree / "coverage.ini"))
    if status not in (0, 1):
        raise RuntimeError(f"pytest ended with {status}")
    measured = Coverage(config_file=str(tree / "coverage.ini"))
    measured.combine([str(tree)])
    measured.save()
    kept.mkdir(parents=True)
    shutil.move(tree / ".mutants.log", kept / "tests.jsonl")
    shutil.move(tree / ".coverage", kept / "coverage")


def judged(mutant: Mutant, tree: Path, stages: list[list[str]], seconds: Mapping[str, float], limit: float) -> Mutant:
    """Apply a mutant in a copy, run tests that take so many seconds, and say what became of it."""
    begun, path = time.perf_counter(), tree / mutant.file
    source, outcome, by = path.read_text(), "survived" if stages else "unreached", ""

    def tried(tests: list[str]) -> tuple[int | None, str]:
        (tree / ".mutants.txt").write_text("\n".join(tests))
        slowest = max(seconds.get(test, 0.0) for test in tests)
        return run(tree, ["-x", f"--timeout={max(60, 5 * slowest):.0f}", "@.mutants.txt"], limit)

    for tests in stages:
        path.write_text(mutant.applied(source))
        try:
            status, by = tried(tests)
        finally:
            path.write_text(source)
        if status not in (0, None):
            alone, _ = tried([by] if by else tests[:1])
            outcome, by = "killed" if alone == 0 else "unsure", by or "its import"
            break
        outcome = "out of time" if status is None else outcome
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
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of each of the two runs of tests")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files and folders")
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
    free = SimpleQueue[Path]()

    def judge(mutant: Mutant, stages: list[list[str]], seconds: Mapping[str, float], is_last: bool) -> None:
        tree = free.get()
        judgement = judged(mutant, tree, stages, seconds, options.limit)
        free.put(tree)
        if is_last or judgement.outcome == "killed":
            judgements.append(judgement)
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(judgement)) + "\n")
        console.log(f"{mutant.file}:{mutant.line} {mutant.kind}: {judgement.outcome} {judgement.by}", highlight=False)

    def left() -> list[Mutant]:
        done = {each.name for each in judgements}
        return [each for each in mutants if each.name not in done and each.room in (options.rooms or [each.room])]

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            free.put(copied(Path(folder).resolve() / f"{number}"))
        known = [each for each in left() if killers.get(each.name)]
        list(pool.map(lambda each: judge(each, [[killers[each.name]]], {}, False), known))
        if others := left():
            reached = Reached(options.tests, options.jobs)
            list(pool.map(lambda each: judge(each, reached.stages(each), reached.seconds, True), others))
    console.print(table(judgements))
    for each in (each for each in judgements if each.outcome != "killed"):
        console.print(
            f"{each.outcome}: {each.file}:{each.line} {each.before} → {each.after}", markup=False, highlight=False
        )
    still = sum(each.outcome == "killed" for each in judgements)
    return int(bool(options.only_killed) and still < 0.98 * len(judgements))


if __name__ == "__main__":
    sys.exit(main())
