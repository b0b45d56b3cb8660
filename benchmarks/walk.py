"""Which of the project's files and functions run for one ask, and for one tell until its 200.

    python benchmarks/walk.py [--names]

A service is started as users start it: API, scorer and Redis are processes. In those of the API and of the scorer a
profile hook notes the code that runs meanwhile. What counts are the files and functions of `service/optimist` and of
the SDK. Comprehensions and generator expressions count as functions, as the interpreter calls them; `named` is the
number of functions without them. From Python 3.12 on most comprehensions are not called.

Each request is walked several times, and only what runs every time is counted: this leaves out what the process does
once a second beside its requests. The rows of the table are:

- first ask: of an experiment that this process has not served yet. The state is read from Redis.
- ask, tell: of an experiment that this process serves, while no estimate is due.
- score: in the scorer, from a tell after which an estimate is due until that is published.
- report: of an experiment that has an estimate since the last one.
- tell, score and report: any of the three.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from optimist_client import Optimist, tensors
from raw import BATCH, GENERATORS, HEADERS, JSON, RawClient, batch_path, free_port, process, scorer_of

HERE = Path(__file__).resolve().parents[1]
ROOMS = f"{HERE}/service/optimist/", f"{HERE}/clients/python/"
TIMES = 5
"""How often each request is walked."""
WARM_UP = 40
"""Rounds of an experiment before it is walked: the first estimates are due after nearly every batch."""
AFTERWARDS = 0.01
"""Seconds for what the process does of a request once its answer is sent: it is counted."""
COMPREHENSIONS = "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"
Functions = set[tuple[str, str, int]]
"""Each with its file, relative to the checkout, its qualified name and its line."""


def note_calls(noted: Path) -> None:
    """Have this process note what runs from one SIGUSR1 to the next, which has it written to a file."""
    codes: set[CodeType] = set()
    is_noting = False

    def note(frame: FrameType, event: str, _: object) -> None:
        if is_noting and event == "call":
            codes.add(frame.f_code)

    def turn(number: int, frame: FrameType | None) -> None:
        nonlocal is_noting
        is_noting = not is_noting
        if is_noting:
            codes.clear()
            noted.write_text("")
            return
        found = [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in codes]
        unfinished = noted.with_suffix(".part")
        unfinished.write_text(json.dumps([one for one in found if one[0].startswith(ROOMS)]))
        unfinished.rename(noted)

    signal.signal(signal.SIGUSR1, turn)
    threading.setprofile(note)
    sys.setprofile(note)


def serve(port: str, directory: str, noted: Path) -> None:
    """Run the service: its API notes what runs, and so does its scorer, which imports `sitecustomize` first."""
    from optimist.cli import main as command_line

    here, hooks = str(Path(__file__).parent), noted.parent / "hooks"
    hooks.mkdir()
    told = f"import pathlib, sys\nif 'optimist.scoring' in sys.orig_argv:\n    sys.path.append({here!r})\n"
    told += f"    import walk\n    walk.note_calls(pathlib.Path({str(noted.with_suffix('.scorer'))!r}))\n"
    (hooks / "sitecustomize.py").write_text(told)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hooks), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    note_calls(noted)
    sys.argv = ["optimist", "serve", f"--port={port}", f"--data-dir={directory}"]
    command_line()


class Walked:
    """A process that notes what it runs, and one client of the service."""

    def __init__(self, port: int, pid: int, noted: Path) -> None:
        self.client = RawClient(port)
        self._pid = pid
        self._noted = noted
        self._rng = np.random.default_rng(0)

    def ask(self, picks: str) -> Any:
        """Ask for a pick; picks: the path of the experiment's picks."""
        return self.client.post(picks, b'{"worker": "one"}', JSON)["picks"][0]

    def tell(self, picks: str, pick: Any) -> None:
        """Tell a pick's batch."""
        body = tensors.encode({"features": self._rng.standard_normal((BATCH, 8)).astype(np.float32)})
        self.client.post(batch_path(picks, pick), body, HEADERS)

    def walk(self, request: Callable[[], Any]) -> tuple[Any, Functions]:
        """The result of a request, and what runs in the process until it is answered."""
        self._turn(self._noted.exists)
        result = request()
        time.sleep(AFTERWARDS)
        self._turn(lambda: self._noted.read_text() != "")
        found = json.loads(self._noted.read_text())
        self._noted.unlink()
        return result, {(str(Path(file).relative_to(HERE)), name, line) for file, name, line in found}

    def _turn(self, is_done: Callable[[], bool]) -> None:
        os.kill(self._pid, signal.SIGUSR1)
        while not is_done():
            time.sleep(0.001)


def measure() -> dict[str, Functions]:
    """What runs every time, for each kind of request."""
    seen: dict[str, list[Functions]] = {kind: [] for kind in ("first ask", "ask", "tell", "score", "report")}
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="walk-") as directory:
        noted = Path(directory) / "walk.json"
        command = [sys.executable, __file__, "--serve", f"{port}", f"{directory}/data", f"{noted}"]
        with process(command, port, HERE) as pid, Optimist(f"http://127.0.0.1:{port}") as optimist:
            walked, scorer = Walked(port, pid, noted), Walked(port, scorer_of(pid), noted.with_suffix(".scorer"))
            optimist.create_reference("normal", mean=np.zeros(8), covariance=np.eye(8))

            def created(name: str) -> str:
                optimist.create_experiment(name, GENERATORS, reference="normal", stop=False, rescore_growth=1.0)
                return f"/v1/experiments/{name}/picks"

            picks = created("steady")
            for _ in range(WARM_UP):
                walked.tell(picks, walked.ask(picks))
            while not optimist.experiment("steady").report().scored:
                time.sleep(0.05)
            walked.tell(picks, walked.ask(picks))  # reads the newest estimates
            for number in range(TIMES):
                fresh = created(f"fresh-{number}")
                seen["first ask"].append(walked.walk(lambda: walked.ask(fresh))[1])  # noqa: B023  # called at once
                pick, found = walked.walk(lambda: walked.ask(picks))
                seen["ask"].append(found)
                seen["tell"].append(walked.walk(lambda: walked.tell(picks, pick))[1])  # noqa: B023
                seen["score"].append(scorer.walk(lambda: scored(walked, fresh, optimist, f"fresh-{number}"))[1])  # noqa: B023
                seen["report"].append(walked.walk(lambda: optimist.experiment(f"fresh-{number}").report())[1])  # noqa: B023
    common = {kind: set.intersection(*found) for kind, found in seen.items()}
    return common | {"tell, score and report": common["tell"] | common["score"] | common["report"]}


def scored(walked: Walked, picks: str, optimist: Optimist, name: str) -> None:
    """Tell the first batch of an experiment, and wait until it is scored."""
    walked.tell(picks, walked.ask(picks))
    while all(one.score is None for one in optimist.experiment(name).report().standings):
        time.sleep(0.05)


def main() -> None:
    """Measure, or with `--serve` be what is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="name the functions, too")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        port, directory, noted = options.serve
        serve(port, directory, Path(noted))
    else:
        show(measure(), options.names)


def show(found: dict[str, Functions], with_names: bool) -> None:
    """Print the table, and perhaps what it counts."""
    print(f"Python {sys.version_info.major}.{sys.version_info.minor}\n")
    print("| request | files | functions | named |\n| --- | --- | --- | --- |")
    for kind, functions in found.items():
        named = [name for _, name, _ in functions if not name.endswith(COMPREHENSIONS)]
        print(f"| {kind} | {len({file for file, _, _ in functions})} | {len(functions)} | {len(named)} |")
    for kind, functions in found.items() if with_names else ():
        print(f"\n{kind}:")
        for file, names in itertools.groupby(sorted(functions), key=lambda one: one[0]):
            print(f"  {file}: {', '.join(f'{name}:{line}' for _, name, line in names)}")


if __name__ == "__main__":
    main()
