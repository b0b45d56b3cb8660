"""The generators to compare: pools of samples, in which rows of the same number share their noise or their prompt."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import altered
import numpy as np
import tails
import torch
from numpy.typing import NDArray
from truths import truth

from optimist.estimation.question import Question, declared_of
from optimist.metrics.bound import Bound
from optimist.places import cache_directory
from optimist.simulation.digits.generators import Generator, Recipe, TruncatedVAE
from optimist.simulation.digits.world import Digits, load
from optimist.simulation.sources import Draw, SourceSet

ROWS = 30_000
"""Samples in a pool of most problems. The pool is the population: streams are drawn from it with replacement."""
SEED = 1_000_000
EPOCHS = (20, 40, 80, 120)
LEAST = {4: 0.9, 8: 0.6, 20: 0.5, 50: 0.5}
MOST = {4: 1.2, 8: 1.3, 20: 1.3, 50: 1.3}
"""The truncations, by how many there are: unpaired, the four need thousands of samples."""
PAPERS = Path(__file__).parents[1] / "papers"
KINDS = ("vae-1.0", "gmm-40", "kde-0.2", "pca-gaussian")
OF_PAPERS = (
    *("truncation-fid", "truncation-is", "truncation-rke", "truncation-vendi", "kinds-fid", "kinds-is"),
    *("mixtures-rke", "mixtures-vendi", "gaussian-variance", "gaussian-spectra", "gaussian-rotations"),
)
KERNEL: dict[str, Any] = {"name": "gaussian", "sigma": 5.0, "features": 128}
DIMENSION = 64
METRICS = ("fid", "kid", "mmd", "cmmd", "rke", "vendi", "is", "mean")
"""By which the problems of rows are scored."""

Arrays = Mapping[str, NDArray[Any]]
Pools = Mapping[str, Arrays]
"""The arrays (rows, …) of each generator."""


@dataclass(frozen=True)
class Problem:
    """Generators, the question about them, and the samples of each after which a run counts as undecided."""

    pools: Pools
    question: Question
    horizon: int
    unlike: bool = False
    """Whether the generators have so little in common that seeds do not matter."""

    @property
    def size(self) -> int:
        """Samples in each pool."""
        return len(next(iter(next(iter(self.pools.values())).values())))

    @property
    def generators(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.pools)

    def bound(self) -> Bound:
        """The bound of the question."""
        arrays = next(iter(self.pools.values()))
        return self.question.bound_for({name: arrays[name].shape[1] for name in self.question.arrays})

    def rows(self, generator: str, places: NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """The rows (n, …) of a pool by array, float64."""
        pool = self.pools[generator]
        return {name: torch.from_numpy(pool[name][places].astype(np.float64)) for name in self.question.arrays}

    def truth(self, generator: str) -> float:
        """The score of the whole pool, on the estimates' scale."""
        return truth(self.bound().metric, *self.rows(generator, np.arange(self.size)).values())


def truncations(levels: int) -> dict[str, Generator]:
    """The demo's VAE at this many truncations, from `LEAST` to `MOST`."""
    made = load(progress=False).generators["vae-1.0"]
    assert isinstance(made, TruncatedVAE)
    chosen = np.linspace(LEAST[levels], MOST[levels], levels).tolist()
    return {f"vae-{truncation:.3g}": replace(made, truncation=truncation) for truncation in chosen}


def checkpoints() -> dict[str, Generator]:
    """The demo's VAE trained for `EPOCHS`. Each is fitted once and kept in the cache of the digits."""
    recipes = {f"{epochs} epochs": replace(Recipe(), vae_epochs=epochs) for epochs in EPOCHS}
    return {
        name: load(cache_directory() / f"vae-{recipe.vae_epochs}", False, recipe).generators["vae-1.0"]
        for name, recipe in recipes.items()
    }


def kinds() -> dict[str, Generator]:
    """Generators that have nothing in common, drawn with the same seed."""
    made = load(progress=False).generators
    return {name: made[name] for name in KINDS}


def of_digits(metric: str, made: Mapping[str, Generator], horizon: int, unlike: bool = False) -> Problem:
    """A problem of generators of digits, all drawn with one seed."""
    world = load(progress=False)
    brought: dict[str, dict[str, Any]] = {
        "fid": {"reference": world.reference()[:2]},
        "kid": {"reference": world.features(world.images)},
        "is": {},
        "mean": {},
    }
    settings = brought.get(metric, {"kernel": KERNEL})
    pools = {name: _seen(world, metric, generator.sample(ROWS, SEED)) for name, generator in made.items()}
    return Problem(pools, Question(declared_of(metric, **settings)), horizon, unlike)


def _seen(world: Digits, metric: str, images: NDArray[Any]) -> Arrays:
    if metric == "mean":  # how sure the classifier is
        return {"values": world.probabilities(images).max(axis=1, keepdims=True)}
    return {"probabilities": world.probabilities(images)} if metric == "is" else {"features": world.features(images)}


def gaussian(rotated: bool, horizon: int) -> Problem:
    """FID of 0.3 + s·N(0, diag λ), λ_j ∝ 1/j with sum 50, against s = 1 and mean 0. Rotated: each in its own basis.

    The rotation is of the noise, so that every generator has the score it has without.
    """
    roots = np.sqrt(50.0 / np.arange(1.0, DIMENSION + 1.0) / (1.0 / np.arange(1.0, DIMENSION + 1.0)).sum())
    noise = np.random.default_rng(SEED).standard_normal((ROWS, DIMENSION))
    pools: dict[str, Arrays] = {}
    for place, scale in enumerate((1.0, 1.05, 1.1, 1.15, 1.2)):
        turned = noise @ _rotation(place) if rotated else noise
        pools[f"s = {scale:g}"] = {"features": 0.3 + scale * roots * turned}
    reference = np.zeros(DIMENSION), np.diag(roots**2)
    return Problem(pools, Question(declared_of("fid", reference=reference)), horizon, rotated)


def _rotation(seed: int) -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((DIMENSION, DIMENSION)))[0]


def tailed(metric: str, law: str, horizon: int) -> Problem:
    """A problem of rows of unequal size (`tails.LAWS`)."""
    return of_rows(metric, tails.real_rows(law), tails.pools(law), KERNEL, lambda rows: rows, horizon)


def altered_rows(metric: str, name: str, horizon: int) -> Problem:
    """A problem of real rows that generators alter (`altered.MADE`)."""
    real, pools = altered.MADE[name]()
    mean, deviation = real.mean(0), real.std(0) + 1e-9
    return of_rows(metric, real, pools, _at_half_median(real[:1_000]), lambda rows: (rows - mean) / deviation, horizon)


def of_rows(
    metric: str,
    real: NDArray[np.float64],
    made: Mapping[str, NDArray[np.float64]],
    kernel: Mapping[str, Any],
    scaled: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    horizon: int,
) -> Problem:
    """A problem of these pools of rows. Classes and values are those of rows that are `scaled`."""
    brought: dict[str, dict[str, Any]] = {
        "fid": {"reference": real},
        "kid": {"reference": real},
        "mmd": {"reference": real, "kernel": kernel},
        "cmmd": {"reference": real},
        "is": {},
        "mean": {},
    }
    seen = {
        "is": ("probabilities", lambda rows: tails.classes(scaled(rows))),
        "mean": ("values", lambda rows: tails.values(scaled(rows))),
    }
    array, of = seen.get(metric, ("features", lambda rows: rows))
    pools = {name: {array: of(rows)} for name, rows in made.items()}
    return Problem(pools, Question(declared_of(metric, **brought.get(metric, {"kernel": kernel}))), horizon)


def texts(metric: str, file: Path, horizon: int) -> Problem:
    """Two language models' answers to 164 tasks, ten each; a pool has a task per row, and an answer drawn at random."""
    with np.load(file) as data:
        answers = data["human_eval_x_java2cpp"].astype(np.float64)
        tasks = data["human_eval_x_java2cpp_prompt"].astype(np.float64)
        names = [str(name) for name in data["models"]]
    rng = np.random.default_rng(SEED)
    task = rng.integers(len(tasks), size=ROWS)
    pools = {
        name: {"features": answers[model, task, rng.integers(answers.shape[2], size=ROWS)], "prompts": tasks[task]}
        for model, name in enumerate(names)
    }
    settings: dict[str, Any] = {"kernel": _at_half_median(answers[0, :, 0])}
    if metric == "conditional-vendi":
        settings |= {"order": 2.0, "prompt_kernel": _at_half_median(tasks)}
    return Problem(pools, Question(declared_of(metric, **settings)), horizon)


def of_papers(name: str, horizon: int) -> Problem:
    """A comparison of the papers (`benchmarks/papers/problems.py`), whose generators have no seeds in common."""
    sys.path.append(str(PAPERS))
    made = runpy.run_path(str(PAPERS / "problems.py"))["COMPARISONS"][name]
    found: SourceSet = made.make(ROWS)
    pools = {each: source.stream(Draw(SEED, None, each)).take(ROWS) for each, source in found.sources.items()}
    question = Question(declared_of(made.metric, **found.settings))
    return Problem({each: pool for each, pool in pools.items() if pool is not None}, question, horizon, unlike=True)


def _at_half_median(rows: NDArray[np.float64]) -> dict[str, Any]:
    return KERNEL | {"sigma": 0.5 * float(torch.pdist(torch.from_numpy(rows)).median())}


def _digits(
    metric: str, make: Callable[[], Mapping[str, Generator]], horizon: int, unlike: bool = False
) -> Callable[[], Problem]:
    return lambda: of_digits(metric, make(), horizon, unlike)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{
        f"truncations (4): {metric}": _digits(metric, lambda: truncations(4), horizon)
        for metric, horizon in {"fid": 2_000, "kid": 2_000, "is": 6_000, "rke": 2_000, "vendi": 800}.items()
    },
    **{
        f"checkpoints (4): {metric}": _digits(metric, checkpoints, horizon)
        for metric, horizon in {"fid": 3_000, "kid": 3_000, "is": 6_000, "rke": 2_000, "vendi": 800}.items()
    },
    **{
        f"kinds (4): {metric}": _digits(metric, kinds, horizon, unlike=True)
        for metric, horizon in {"fid": 1_000, "is": 1_000, "rke": 1_000}.items()
    },
    **{
        f"truncations (8): {metric}": _digits(metric, lambda: truncations(8), horizon)
        for metric, horizon in {"fid": 1_000, "is": 2_000, "rke": 1_000}.items()
    },
    **{
        f"truncations ({levels}): {metric}": _digits(metric, lambda levels=levels: truncations(levels), horizon)
        for levels, horizon in {20: 400, 50: 400}.items()
        for metric in ("is", "rke", "mean")
    },
    "Gaussian (5): fid": lambda: gaussian(False, 2_000),
    "Gaussian, rotated (5): fid": lambda: gaussian(True, 2_000),
    **{f"papers' {name}": partial(of_papers, name, 2_000) for name in OF_PAPERS},
    **{f"{name}: {metric}": partial(altered_rows, metric, name, 1_000) for name in altered.MADE for metric in METRICS},
    **{f"{law} sizes (3): {metric}": partial(tailed, metric, law, 1_000) for law in tails.LAWS for metric in METRICS},
}
"""By name: the generators, how many there are, and the metric."""
TEXTS = {f"texts (2): {metric}": metric for metric in ("rke", "conditional-vendi")}
"""The problems that need a file."""


@cache
def problem_named(name: str, file: str) -> Problem:
    """The problem, made once in each process."""
    return texts(TEXTS[name], Path(file), 3_000) if name in TEXTS else PROBLEMS[name]()
