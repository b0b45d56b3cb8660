"""Logs of harnesses: how often intervals of differences hold, and what reading a large log takes.

    OMP_NUM_THREADS=1 python benchmarks/logs.py coverage [--logs 1000]
    OMP_NUM_THREADS=1 python benchmarks/logs.py reading [--rows 1000000]

`coverage` simulates logs of two models whose questions have difficulties and epochs, and says how often the interval of
the difference, by `board_of`, has the true one, which is known. `reading` writes logs of two models, compares them in a
process of its own, and says how much more processor time that takes than `json.loads` of their lines, and its largest
memory.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from optimist.datasets.logs.reading import answers_in, named
from optimist.datasets.logs.rows import Log, LogRow
from optimist.leaderboards.board import Spec, board_of

BEDS = {
    "1 task, 50 questions, 4 epochs": ([50], 4, 0.0),
    "1 task, 200 questions, 4 epochs": ([200], 4, 0.0),
    "1 task, 200 questions, 1 epoch": ([200], 1, 0.0),
    "5 tasks, 30 to 300 questions, 3 epochs": ([30, 60, 100, 200, 300], 3, 0.0),
    "3 tasks, 100 questions, 4 epochs, 10 % missing": ([100, 100, 100], 4, 0.1),
}
"""By name: the questions of each task, epochs, and the share of answers that fail by chance."""
SPREAD, ALIKE, EDGE = 1.5, 0.7, 0.3
"""Of the log-odds of a right answer: deviation between questions, how much of it models share, and the better model's
advantage."""
TRUTH = 2_000_000
"""Questions by which the true difference is integrated."""
SHORT = "Q: 1 + 3?"
ARGUMENTS = "A word problem about trains that leave two towns at different times, told at some length. " * 6
READ = """
import resource, sys, time
from pathlib import Path
from optimist.datasets.logs.reading import answers_in, logs_in, named
from optimist.leaderboards.board import Asked, board_of
from optimist.leaderboards.texts import sentence
sentence(board_of(named(answers_in(logs_in([*Path(sys.argv[1]).rglob("*.jsonl")]))), Asked()))
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    """Run the measurement that is asked for and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "reading"))
    parser.add_argument("--logs", type=int, default=1000, help="simulated logs of each bed")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large log")
    options = parser.parse_args()
    if options.what == "coverage":
        print("| bed | logs | the interval has the difference | rms z |\n|-----|-----:|-----:|-----:|")
        for place, name in enumerate(BEDS):
            held, z = coverage(name, options.logs, np.random.default_rng(place))
            print(f"| {name} | {options.logs:,} | {held:.3f} | {z:.2f} |", flush=True)
    else:
        print("| log | rows | bytes of a row | json.loads, CPU s | compared, CPU s | times | largest memory, MiB |")
        print("|-----|-----:|-----:|-----:|-----:|-----:|-----:|")
        for kind, arguments in (("lm-eval", ARGUMENTS), ("lm-eval", SHORT), ("table", SHORT)):
            print(reading(options.rows, kind, arguments), flush=True)


def chances(rng: np.random.Generator, questions: int) -> np.ndarray:
    """The chance (2, questions) of a right answer, of questions drawn at random."""
    shared = rng.standard_normal(questions) * math.sqrt(ALIKE)
    own = rng.standard_normal((2, questions)) * math.sqrt(1.0 - ALIKE)
    return 1.0 / (1.0 + np.exp(-(SPREAD * (shared + own) + np.array([[0.5 + EDGE], [0.5]]))))


def coverage(name: str, logs: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often the 95 % interval has the true difference, and the root mean square of the difference in errors."""
    tasks, epochs, missing = BEDS[name]
    means = chances(np.random.default_rng(99), TRUTH).mean(axis=1)
    truth = float(means[1] - means[0])
    held, squares = 0, 0.0
    for _ in range(logs):
        rows: list[LogRow] = []
        for task, questions in enumerate(tasks):
            right = rng.random((epochs, 2, questions)) < chances(rng, questions)
            fails = rng.random(right.shape) < missing
            rows += [
                LogRow(
                    model,
                    f"{task}",
                    f"{at}",
                    {} if fails[epoch, of, at] else {"right": float(right[epoch, of, at])},
                    epoch=epoch + 1,
                )
                for of, model in enumerate(("large", "small"))
                for at in range(questions)
                for epoch in range(epochs)
            ]
        log = Log(Path(name), lambda texts, rows=rows: rows)
        board = board_of(named(answers_in([log])), Spec(baseline="large"))
        difference = next(one.overall.difference for one in board.standings if one.overall.difference is not None)
        low, high = difference.interval(0.05)
        held += low <= truth <= high
        squares += ((difference.value - truth) / difference.standard_error) ** 2
    return held / logs, math.sqrt(squares / logs)


def reading(rows: int, kind: str, arguments: str) -> str:
    """A row of the table: logs of two models with so many rows together, whose prompts are `arguments`."""
    made = _sample if kind == "lm-eval" else _line
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files: list[Path] = []
        for model in ("large", "small"):
            name = "samples_sums_2026-01-01T00-00-00.000000" if kind == "lm-eval" else model
            file = Path(folder, model, f"{name}.jsonl")
            file.parent.mkdir()
            files.append(file)
            with file.open("w") as stream:
                for number, right in enumerate((rng.random(rows // 2) < 0.6).tolist()):
                    stream.write(json.dumps(made(number, float(right), arguments)) + "\n")
        size = sum(file.stat().st_size for file in files)
        started = time.process_time()
        for file in files:
            with file.open("rb") as stream:
                for line in stream:
                    json.loads(line)
        parsing = time.process_time() - started
        done = subprocess.run([sys.executable, "-c", READ, folder], capture_output=True, text=True, check=True)
        seconds, memory = map(float, done.stdout.split())
    times = f"{parsing:.1f} | {seconds:.1f} | {seconds / parsing:.1f}"
    return f"| {kind} | {rows:,} | {size / rows:,.0f} | {times} | {memory:,.0f} |"


def _sample(number: int, right: float, arguments: str) -> dict[str, object]:
    """A sample as lm-eval writes it."""
    hash = f"{number:064x}"
    return {
        "doc_id": number,
        "doc": {"question": arguments, "answer": f"{number}"},
        "target": f"{number}",
        "arguments": {"gen_args_0": {"arg_0": arguments, "arg_1": {"until": ["Q:"], "do_sample": False}}},
        "resps": [[f"That is {number}."]],
        "filtered_resps": [f"{number}"],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": hash,
        "prompt_hash": hash,
        "target_hash": hash,
        "exact_match": right,
    }


def _line(number: int, right: float, arguments: str) -> dict[str, object]:
    """A row of a table with tasks."""
    beside = {"cost": 0.001, "seconds": 0.5, "prompt": arguments, "answer": f"That is {number}."}
    return {"task": "sums", "id": number, "score": right, **beside}


if __name__ == "__main__":
    main()
