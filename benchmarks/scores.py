"""Processor time and memory of scores of one set of features, beside other tools and another checkout.

    python benchmarks/scores.py [--against CHECKOUT] [--turns 5] [--threads N] [--scale N D] [CASE …]

Ours has an interval, the peers have none. *pytorch-fid* and *clean-fid* are the formulas of these packages on features
(`sqrtm` of the product of covariances; kernel distances of 100 subsets of 1,000), as they import networks that features
do not need. *vendi-score* 0.0.3 (its dual eigenproblem) and *prdc* 0.2 must be installed. *FKEA* is the formula of its
paper, by 2 × 1,000 random Fourier features. Peers compute in the precision that they take from float32 rows, "64": in
float64, as ours does.

Every measurement is a process that scores a part (`WARM` rows), and then all rows twice, and counts the last time;
versions and tools take turns. "loop" is the processor time of a million steps of Python after it, which says how fast
the machine was. A ratio is the median of those of single turns: ours, by the tool. Memory is the peak above what the
process had after the part; "first" is what the part added, mostly libraries.
`--scale 8 4`: 8 times the samples, 4 times the columns. `--threads`: of every library; by default each uses what it
takes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Rows = NDArray[Any]
ROOT = Path(__file__).parent.parent
FREQUENCIES, SIGMA = 1000, 3.0
WARM = 1000
SUBSETS, SUBSET = 100, 1000
CASES = {
    "fid": ((2000, 512), ("pytorch-fid",)),
    "kid": ((5000, 512), ("clean-fid",)),
    "vendi cosine": ((5000, 512), ("vendi-score", "vendi-score 64")),
    "rke cosine": ((5000, 512), ("dual", "dual 64")),
    "vendi gaussian": ((5000, 512), ("FKEA", "FKEA 64")),
    "rke gaussian": ((5000, 512), ("FKEA", "FKEA 64")),
    "precision": ((5000, 512), ("prdc",)),
    "precision, density, coverage": ((5000, 512), ("prdc",)),
}
"""Samples and columns of each case, and its peers."""
OURS, BEFORE = "ours", "before"
KERNELS = {
    "cosine": {"name": "cosine"},
    "gaussian": {"name": "gaussian", "sigma": SIGMA, "features": FREQUENCIES},
}


def ours(case: str, rows: Rows, real: Rows, moments: tuple[Rows, Rows]) -> Any:
    """Our scores of the rows (n, d), with their intervals."""
    import optimist
    from optimist_client.metrics import Coverage, Density, Precision

    name, _, kernel = case.partition(" ")
    if case == "fid":
        return optimist.score(rows, "fid", reference=moments)
    if kernel in KERNELS:
        return optimist.score(rows, name, kernel=KERNELS[kernel])
    if case in ("kid", "precision"):
        return optimist.score(rows, case, reference=real)
    return optimist.score({"features": rows}, [kind(reference=real) for kind in (Precision, Density, Coverage)])


def peer(tool: str, case: str, rows: Rows, real: Rows, moments: tuple[Rows, Rows]) -> Any:
    """What a peer makes of the rows (n, d)."""
    import torch

    tool, _, double = tool.partition(" ")
    rows = rows.astype(np.float64) if double else rows
    if tool == "pytorch-fid":
        covariance, shift = np.cov(rows, rowvar=False), rows.mean(axis=0) - moments[0]
        root: Any = scipy.linalg.sqrtm(covariance @ moments[1])
        return shift @ shift + np.trace(covariance) + np.trace(moments[1]) - 2.0 * np.trace(root.real)
    if tool == "clean-fid":
        return statistics.mean(kernel_distance(rows, real) for _ in range(SUBSETS))
    if tool == "prdc":
        return importlib.import_module("prdc").compute_prdc(real, rows, 5)
    if tool == "vendi-score":
        return importlib.import_module("vendi_score.vendi").score_dual(rows, normalize=True)
    if tool == "dual":
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return 1.0 / np.square(unit.T @ unit / len(rows)).sum()
    given = torch.from_numpy(rows)
    angles = given @ (torch.randn(rows.shape[1], FREQUENCIES, dtype=given.dtype) / SIGMA)
    features = torch.cat([angles.cos(), angles.sin()], 1) / FREQUENCIES**0.5
    covariance = features.T @ features / len(rows)
    if case.startswith("rke"):
        return float(1.0 / covariance.square().sum())
    spectrum = torch.linalg.eigvalsh(covariance)
    spectrum = spectrum[spectrum > 0.0]
    return float((-spectrum * spectrum.log()).sum().exp())


def kernel_distance(rows: Rows, real: Rows) -> float:
    """The unbiased kernel distance of one subset of both."""
    one, other = (each[np.random.choice(len(each), SUBSET, replace=False)] for each in (rows, real))
    alike = np.sum([(each @ each.T / each.shape[1] + 1.0) ** 3 for each in (one, other)], axis=0)
    between = (one @ other.T / one.shape[1] + 1.0) ** 3
    return float((alike.sum() - np.diag(alike).sum()) / (SUBSET - 1) - 2.0 * between.sum() / SUBSET) / SUBSET


def memory(field: str) -> float:
    """MiB of this process: VmRSS, or VmHWM for the peak."""
    found = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024.0 if found else 0.0


def release() -> None:
    """Give memory that is free back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def measure(tool: str, case: str, n: int, d: int) -> dict[str, float]:
    """Seconds of processor time, MiB of a first score and of the peak later, seconds of a loop of a million steps."""
    spread = np.arange(1, d + 1) ** -0.5
    rows = (np.random.default_rng(0).standard_normal((n, d)) * spread * 1.05 + 0.05).astype(np.float32)
    real = (np.random.default_rng(1).standard_normal((max(n, 4 * d), d)) * spread).astype(np.float32)
    moments = real.mean(axis=0).astype(np.float64), np.cov(real, rowvar=False, dtype=np.float64)
    score = ours if tool in (OURS, BEFORE) else partial(peer, tool)
    score = partial(score, case, real=real[:n], moments=moments)
    importlib.import_module("torch")
    before, seconds = memory("VmRSS"), 0.0
    score(rows=rows[:WARM])
    release()
    first = memory("VmRSS") - before
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(2):
        begun = time.process_time()
        score(rows=rows)
        seconds = time.process_time() - begun
    begun = time.process_time()
    for _ in range(1_000_000):
        pass
    loop = time.process_time() - begun
    return {"seconds": seconds, "first": first, "peak": memory("VmHWM") - before - first, "loop": loop}


def measured(tool: str, case: str, size: Sequence[int], against: Path | None, threads: int | None) -> dict[str, float]:
    """`measure` in a process of its own."""
    root = against if tool == BEFORE and against is not None else ROOT
    names = () if threads is None else ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, "PYTHONPATH": f"{root / 'service'}:{root / 'clients' / 'python'}"}
    environment |= dict.fromkeys(names, f"{threads}")
    command = [sys.executable, __file__, "--measure", tool, case, *map(str, size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    """Print the table, a row as soon as it is known."""
    if sys.argv[1:2] == ["--measure"]:
        tool, case, n, d = sys.argv[2:]
        print(json.dumps(measure(tool, case, int(n), int(d))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=[*CASES], help=f"of {', '.join(CASES)}")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--scale", type=int, nargs=2, default=(1, 1), metavar=("N", "D"))
    options = parser.parse_args()
    print("| score | n × d | tool | CPU, s | loop, s | ours ÷ it | peak, MiB | first, MiB |")
    print("|---" * 8 + "|")
    for case in options.cases:
        size = [part * factor for part, factor in zip(CASES[case][0], options.scale, strict=True)]
        tools = [OURS, *([BEFORE] if options.against else []), *CASES[case][1]]
        turns: list[dict[str, dict[str, float]]] = []
        for turn in range(options.turns):
            order = tools if turn % 2 == 0 else tools[::-1]
            turns.append({tool: measured(tool, case, size, options.against, options.threads) for tool in order})
        for tool in tools:
            of_tool = [turn[tool] for turn in turns]
            parts = ("seconds", "loop", "peak", "first")
            seconds, loop, peak, first = (statistics.median(each[part] for each in of_tool) for part in parts)
            ratio = statistics.median(turn[OURS]["seconds"] / turn[tool]["seconds"] for turn in turns)
            numbers = f"{seconds:.3f} | {loop:.3f} | {ratio:.2f} | {peak:.0f} | {first:.0f}"
            print(f"| {case} | {size[0]:,} × {size[1]} | {tool} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
