"""Processor time and memory of a score of many files, beside the products of their rows.

    python benchmarks/shards.py [--rows 50000] [--shards 5 10 20 40] [--columns 512] [--jobs 1 2] [--metric fid]

Files of float32 are written first. Every measurement is a process on one thread a job. "products" are x.T @ x of the
same files in blocks of 4,096 rows as float64, by numpy or by torch, alone or with reading. "memory" is the largest that
the process had above what it had with its libraries. Intervals are to be the same for all jobs, to the last bit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BLOCK = 4096


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000, help="of each file")
    parser.add_argument("--shards", type=int, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--metric", choices=["fid", "vendi"], default="fid")
    parser.add_argument("--measure", nargs=2, metavar=("TOOL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        tool, folder = options.measure
        print(json.dumps(measure(tool, options.metric, sorted(Path(folder).iterdir())[: options.shards[0]])))
        return
    print("| rows | files | tool | CPU, s | ÷ products | wall, s | memory, MiB | interval |")
    print("|---" * 8 + "|")
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for shards in options.shards:
            for number in range(len([*Path(folder).iterdir()]), shards):
                rows = rng.standard_normal((options.rows, options.columns), dtype=np.float32)
                np.save(Path(folder) / f"{number:05}.npy", rows)
            products = 1.0
            for tool in (
                "products",
                "products by torch",
                "reading and products",
                *(f"{jobs} jobs" for jobs in options.jobs),
            ):
                found = measured(tool, folder, shards, options.metric)
                products = found["seconds"] if tool == "products" else products
                numbers = f"{found['seconds']:.2f} | {found['seconds'] / products:.2f} | {found['wall']:.2f}"
                size = f"{shards * options.rows:,} | {shards}"
                print(f"| {size} | {tool} | {numbers} | {found['memory']:.0f} | {found['interval']} |", flush=True)


def measured(tool: str, folder: str, shards: int, metric: str) -> dict[str, float]:
    """`measure` in a process of its own."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--metric", metric, "--shards", f"{shards}", "--measure", tool, folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **limits})
    return json.loads(ended.stdout.splitlines()[-1])


def measure(tool: str, metric: str, files: list[Path]) -> dict[str, float | str]:
    """Seconds of processor time and of the clock, memory in MiB, and the interval."""
    import torch

    import optimist
    from optimist.metrics.spectra import symmetric  # the libraries

    assert symmetric
    columns = np.load(files[0], mmap_mode="r").shape[1]
    Path("/proc/self/clear_refs").write_text("5")
    before, interval = memory("VmRSS"), "–"
    begun, processor = time.perf_counter(), time.process_time()
    if "products" in tool:
        whole, spent = np.zeros((columns, columns)), 0.0
        for file in files:
            rows = np.load(file)
            for start in range(0, len(rows), BLOCK):
                x = rows[start : start + BLOCK].astype(np.float64)
                y = torch.from_numpy(x)
                at = time.process_time()
                whole += (y.T @ y).numpy() if "torch" in tool else x.T @ x
                spent += time.process_time() - at
        seconds = spent if tool.startswith("products") else time.process_time() - processor
    else:
        settings = {"reference": (np.zeros(columns), np.eye(columns))} if metric == "fid" else {"kernel": "cosine"}
        with ThreadPoolExecutor(int(tool.partition(" ")[0])) as executor:
            found = optimist.score(files, metric, executor=executor, **settings)
        seconds, interval = time.process_time() - processor, f"{found.lower!r} to {found.upper!r}"
    wall, peak = time.perf_counter() - begun, memory("VmHWM") - before
    return {"seconds": seconds, "wall": wall, "memory": peak, "interval": interval}


def memory(field: str) -> float:
    """MiB of this process: VmRSS, or VmHWM for the peak."""
    found = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024.0 if found else 0.0


if __name__ == "__main__":
    main()
