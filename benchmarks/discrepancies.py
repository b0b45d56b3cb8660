"""KID, MMD and CMMD: are the intervals as wide as the real errors, what do common seeds save, what do others say?

    python benchmarks/discrepancies.py [--data DIR] [--repeats 100]
    python benchmarks/discrepancies.py --pairs [--repeats 100]
    python benchmarks/discrepancies.py --references [--repeats 100]
    python benchmarks/discrepancies.py --beside [--data DIR]

Generators are pools of samples, drawn with replacement, so that the truth is exact; the reference is made of real rows.
The first command prints the root-mean-square z = (value − truth)/`stopping_error` over all generators of a benchmark
problem, the mean z, and how often the 95 % interval has the truth. The rows "null" are generators that draw the
reference's own rows, or other real ones: there the law of the estimate is not normal. MNIST, CIFAR and text need
`--data`, a directory with mnist_lenet_generators.npz, cifar10_ref2048_arms.npz and llmfao_minilm.npz; without it they
are left out.

`--pairs` measures the differences of four truncations of one VAE with the same seeds, as independent and as paired.
`--references` does so for references of few real rows, drawn anew each time, where the truth is against all of them.
`--beside` compares values with those of torch-fidelity (`pip install --no-deps torch-fidelity`) and of CMMD's published
formula on the same rows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.threads import limit_threads
from optimist.numerics.estimate import Estimate
from optimist.numerics.real_data import RealData
from optimist.policies.contrasts import contrasts_of
from optimist.simulation.digits.generators import TruncatedVAE
from optimist.simulation.digits.world import load
from optimist_client.metrics import CMMD, KID, MMD, Gaussian, Metric
from pairs.truths import truth

COUNTS = (20, 50, 100, 200, 500)
POOL = 3_000
BESIDE = 3
"""Generators of a benchmark problem that are compared with others' values."""
LEVELS = (0.9, 1.0, 1.1, 1.2)
BATCH = 100
FEATURES = 256
"""Frequencies: truth and estimates use the same, so that more would change nothing but the time it takes."""

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Real rows (m, d), and pools of samples by generator; those of `null` are real rows, too."""

    real: Rows
    pools: Mapping[str, Rows]
    null: Mapping[str, Rows]


def digits() -> Problem:
    """The demo's generators against the features of all real digits."""
    world = load(progress=False)
    real = world.features(world.images).astype(np.float64)
    pools = {name: made.sample(POOL, 7) for name, made in world.generators.items()}
    half = np.random.default_rng(0).permutation(len(real))
    return Problem(
        real[half[:900]],
        {name: world.features(images).astype(np.float64) for name, images in pools.items()},
        {"the reference": real[half[:900]], "other real rows": real[half[900:]]},
    )


def problems(data: Path | None) -> Iterator[tuple[str, Problem]]:
    """All benchmark problems by name."""
    yield "digits", digits()
    if data is None:
        return
    file = np.load(data / "mnist_lenet_generators.npz")
    real = file["real_feat"].astype(np.float64)[np.random.default_rng(0).permutation(10_000)]
    arms = dict(zip(file["arm_names"].tolist(), file["arm_feat"].astype(np.float64), strict=True))
    yield "MNIST", Problem(real[:5000], arms, {"the reference": real[:5000], "other real rows": real[5000:]})
    file = np.load(data / "cifar10_ref2048_arms.npz")
    arms = {name[9:]: file[name].astype(np.float64) for name in file.files if name.startswith("feat2048_")}
    real = arms.pop("heldout_real")[np.random.default_rng(0).permutation(800)]
    arms = {name: rows for name, rows in arms.items() if len(rows) == 800}
    yield "CIFAR", Problem(real[:400], arms, {"the reference": real[:400], "other real rows": real[400:]})
    file = np.load(data / "llmfao_minilm.npz")
    texts, part = file["emb"].astype(np.float64), file["model"] % 5
    arms = {f"models {place}": texts[part == place] for place in range(2, 5)}
    first = texts[part == 0]
    yield "text", Problem(first, arms, {"the reference": first, "other models": texts[part == 1]})


def metrics() -> dict[str, Metric]:
    """The metrics by the name of their row."""
    return {
        "kid": KID(),
        "mmd": MMD(kernel=Gaussian("median", features=FEATURES)),
        "cmmd": CMMD(kernel=Gaussian(10.0, features=FEATURES)),
    }


def made(declared: Metric, real: Rows) -> Any:
    """The score of a metric against real rows."""
    data = RealData(real.mean(0), np.cov(real, rowvar=False), real)
    prepared = make_reference(declared, data)
    return make_metric(declared.model_copy(update={"reference": prepared}), Setting({"features": real.shape[1]}))


def fed(score: Any, rows: torch.Tensor) -> Any:
    """A statistic of these samples."""
    statistic = score.statistic()
    for part in rows.split(BATCH):
        statistic.update(part)
    return statistic


def calibration(data: Path | None, repeats: int) -> Table:
    """The table of root-mean-square z, mean z and coverage by benchmark problem, metric and count."""
    table = Table(title=f"rms z (mean z; coverage in %): {repeats} repeats", box=box.MARKDOWN)
    for column in ("samples", "metric", *(f"n = {n}" for n in COUNTS)):
        table.add_column(column, no_wrap=True)
    for name, problem in problems(data):
        for label, declared in metrics().items():
            score = made(declared, problem.real)
            for group, pools in (
                (name, problem.pools),
                *((f"{name}, {null}", {null: problem.null[null]}) for null in problem.null),
            ):
                table.add_row(group, label, *_row(score, pools, repeats))
    return table


def _row(score: Any, pools: Mapping[str, Rows], repeats: int) -> list[str]:
    bound, z = InfluenceBound(score), {n: list[float]() for n in COUNTS}
    for place, pool in enumerate(pools.values()):
        true = truth(score, torch.from_numpy(pool))
        for repeat in range(repeats):
            drawn = np.random.default_rng((repeat, place)).integers(len(pool), size=max(COUNTS))
            statistic, done = score.statistic(), 0
            for n in COUNTS:
                statistic.update(torch.from_numpy(pool[drawn[done:n]]))
                done, found = n, bound.estimate(statistic)
                assert found.stopping_error is not None
                z[n].append((found.value - true) / found.stopping_error)
    return [_cell(np.array(each)) for each in z.values()]


def _cell(z: NDArray[np.float64]) -> str:
    covered = 100 * float((np.abs(z) < 1.96).mean())
    return f"{math.sqrt(np.square(z).mean()):.2f} ({z.mean():+.1f}; {covered:.0f})"


def truncations(levels: Sequence[float] = LEVELS) -> tuple[Rows, dict[str, Rows]]:
    """Real rows, and pools of truncations of one VAE, whose row i has the same latent vector."""
    world = load(progress=False)
    vae = world.generators["vae-1.0"]
    assert isinstance(vae, TruncatedVAE)
    return world.features(world.images).astype(np.float64), {
        f"vae-{level:g}": world.features(replace(vae, truncation=level).sample(POOL, 7)).astype(np.float64)
        for level in levels
    }


def pairs(repeats: int) -> Table:
    """The table of differences between truncations of one VAE, whose row i has the same latent vector."""
    real, pools = truncations()
    table = Table(title="differences of four truncations", box=box.MARKDOWN)
    for column in (
        "metric",
        "n",
        "correlation",
        "mean ρ",
        "paired/independent variance",
        "rms z: independent → paired",
    ):
        table.add_column(column, no_wrap=True)
    for label, declared in metrics().items():
        score = made(declared, real)
        true = {name: truth(score, torch.from_numpy(pool)) for name, pool in pools.items()}
        for n in (50, 200, 500):
            table.add_row(label, f"{n}", *_differences(score, pools, true, n, repeats))
    return table


def _differences(
    score: Any, pools: Mapping[str, Rows], true: Mapping[str, float], n: int, repeats: int
) -> tuple[str, ...]:
    values, rho, shares, z = [], [], [], []
    for repeat in range(repeats):
        drawn = np.random.default_rng(repeat).integers(POOL, size=n)
        # The truth is against this reference.
        found = [without_reference(estimate_of(score, torch.from_numpy(pool[drawn]))) for pool in pools.values()]
        values.append([each.value for each in found])
        contrasts = contrasts_of(found)
        for one, other in combinations(range(len(found)), 2):
            against, error = contrasts.against(one), contrasts.errors(one, "stopping")[other]
            alone = math.hypot(*(contrasts.stopping_errors[place] for place in (one, other)))
            names = list(pools)
            miss = against.differences[other] - (true[names[other]] - true[names[one]])
            rho.append(against.correlations[other])
            shares.append((error / alone) ** 2)
            z.append((miss / alone, miss / error))
    correlations = np.corrcoef(np.array(values).T)[np.triu_indices(len(pools), 1)]
    independent, paired = np.sqrt(np.square(z).mean(0))
    return (
        f"{correlations.mean():.2f}",
        f"{np.mean(rho):.2f}",
        f"{np.mean(shares):.2f}",
        f"{independent:.2f} → {paired:.2f}",
    )


def references(repeats: int) -> Table:
    """Differences against references of few real rows, each drawn anew; the truth is against all real rows."""
    real, by_name = truncations((LEVELS[0], 0.5))
    pools = list(by_name.values())
    table = Table(title="difference of two truncations by references of few rows", box=box.MARKDOWN)
    for column in ("metric", "real rows", "n", "same seeds", "share of the reference", "rms z: exact → finite"):
        table.add_column(column)
    for label, declared in metrics().items():
        true = np.diff([truth(made(declared, real), torch.from_numpy(pool)) for pool in pools])[0]
        for size, n, common in ((100, 200, False), (100, 200, True), (400, 1000, False), (400, 1000, True)):
            found = []
            for repeat in range(repeats):
                rng = np.random.default_rng(repeat)
                score = made(declared, real[rng.integers(len(real), size=size)])
                places = [rng.integers(POOL, size=n)] * 2 if common else rng.integers(POOL, size=(2, n))
                both = [
                    estimate_of(score, torch.from_numpy(pool[drawn])) for pool, drawn in zip(pools, places, strict=True)
                ]
                miss = both[1].value - both[0].value - true
                exact = contrasts_of([without_reference(each) for each in both]).errors(0, "stopping")[1]
                found.append(
                    (miss / exact, miss / (error := contrasts_of(both).errors(0, "stopping")[1]), error / exact)
                )
            exact, finite = np.sqrt(np.square(found).mean(0))[:2]
            share = 1.0 - np.mean([ratio**-2 for _, _, ratio in found])
            row = f"{size}", f"{n}", "yes" if common else "no", f"{share:.2f}", f"{exact:.2f} → {finite:.2f}"
            table.add_row(label, *row)
    return table


def without_reference(estimate: Estimate) -> Estimate:
    """The estimate as if its reference were exact."""
    assert estimate.pairing is not None
    return replace(estimate, pairing=replace(estimate.pairing, reference=None))


def estimate_of(score: Any, rows: torch.Tensor) -> Estimate:
    """The estimate from samples of indices 0, 1, …, as experiments make it."""
    estimator = StreamingEstimator(InfluenceBound(score), 0.04, paired=True)
    estimator.add({"features": rows}, [""] * len(rows), indices=(0, len(rows)))
    return estimator.estimate()


def beside(data: Path | None) -> tuple[Table, Table]:
    """KID beside torch-fidelity's, and CMMD beside its published formula, on the same rows."""
    from torch_fidelity.metric_kid import kid_features_to_metric  # pyright: ignore[reportMissingImports]

    kid = Table(title="KID beside torch-fidelity", box=box.MARKDOWN)
    for column in ("rows", "generator", "n", "KID ± error", "torch-fidelity", "spread of its subsets", "of its mean"):
        kid.add_column(column, no_wrap=True)
    cmmd = Table(title="CMMD beside the published formula", box=box.MARKDOWN)
    for column in ("rows", "generator", "n", "published", "the same by features", "unbiased ± error"):
        cmmd.add_column(column, no_wrap=True)
    for name, problem in problems(data):
        if name == "text":
            continue
        scores = {"kid": made(KID(), problem.real), "cmmd": made(CMMD(), problem.real)}
        size = min(500, len(problem.real))
        for generator, pool in list(problem.pools.items())[:BESIDE]:
            rows = torch.from_numpy(pool)
            found = InfluenceBound(scores["kid"]).estimate(fed(scores["kid"], rows))
            theirs = kid_features_to_metric(
                rows, torch.from_numpy(problem.real), kid_subset_size=size, kid_subsets=100, verbose=False
            )
            mean, spread = theirs["kernel_inception_distance_mean"], theirs["kernel_inception_distance_std"]
            # Subsets of one sample overlap; as many as fit into it side by side would be independent.
            alone = spread * math.sqrt(size / min(len(pool), len(problem.real)))
            kid.add_row(
                *(name, generator, f"{len(rows)}", f"{found.value:.5f} ± {found.stopping_error:.5f}"),
                *(f"{mean:.5f} ({size} rows a subset)", f"{spread:.5f}", f"{alone:.5f}"),
            )
            few = rows[:500]
            statistic = fed(scores["cmmd"], few)
            unbiased = InfluenceBound(scores["cmmd"]).estimate(statistic)
            cmmd.add_row(
                *(name, generator, "500", f"{published_cmmd(few.numpy(), problem.real):.5f}"),
                *(f"{unbiased.plug_in:.5f}", f"{unbiased.value:.5f} ± {unbiased.stopping_error:.5f}"),
            )
    return kid, cmmd


def published_cmmd(rows: Rows, real: Rows) -> float:
    """1000 times the biased MMD² of rows scaled to norm 1, by exact kernels of bandwidth 10."""
    x, y = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (rows, real))

    def mean_kernel(one: Rows, other: Rows) -> float:
        return float(np.exp((one @ other.T - 1.0) / 100.0).mean())

    return 1000.0 * (mean_kernel(x, x) + mean_kernel(y, y) - 2.0 * mean_kernel(x, y))


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--beside", action="store_true")
    given = parser.parse_args()
    limit_threads(1)
    console = Console(width=200)
    if given.references:
        console.print(references(given.repeats))
    elif given.pairs:
        console.print(pairs(given.repeats))
    elif given.beside:
        console.print(*beside(given.data))
    else:
        console.print(calibration(given.data, given.repeats))


if __name__ == "__main__":
    main()
