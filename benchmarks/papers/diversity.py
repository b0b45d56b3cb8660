"""Diversity of known sets: by number of classes, by truncation, and by whether prompts name the class."""

from __future__ import annotations

from typing import Any

import images
import numpy as np
import torch
from figures import draw_lines, labelled
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from settings import Settings, Study

from optimist import score
from optimist.metrics.feature_maps import ExactKernel
from optimist.metrics.vendi.kernels import make_feature_map
from optimist.metrics.vendi.score import VendiScore
from optimist.metrics.vendi.spectrum import log_vendi, spectrum_by

ORDERS = {"Vendi, order 1": 1.0, "Vendi, order 1.5": 1.5, "RKE": 2.0}
FREQUENCIES = 1000
"""r of the random Fourier features: 2r = 2000 columns."""
PIXEL_SIGMA = 24.0
FEATURE_SIGMA = 5.0
"""Each about half the median distance between two real digits."""
PROMPT_SIGMA = 2.5
WORDING = 0.1
"""Standard deviation of the wording noise in each of a prompt's 64 coordinates; classes are 5.4 to 10.3 apart."""


def classes(settings: Settings) -> Study:
    """Real digits of the first t classes: pixel embedding, the exact kernel and FKEA (seed 003, Figure 2)."""
    rows = images.pixels(images.digits().images)
    counts = [1, 10] if settings.quick else list(range(1, 11))
    found = [_scores(rows[_first(count)], PIXEL_SIGMA, True) for count in _tracked(counts, "classes")]
    lines = {f"{way}, {name}": [each[way][name] for each in found] for way in ("exact", "FKEA") for name in ORDERS}
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, counts, {name: lines[f"FKEA, {name}"] for name in ORDERS}, suffix=" (FKEA)")
    for name in ORDERS:
        axes.plot(
            counts, lines[f"exact, {name}"], "+", color="black", ms=9, label="exact kernel" if name == "RKE" else None
        )
    labelled(axes, "digits among the images", "score (number of modes)")
    axes.set_xticks(counts)
    axes.legend(fontsize="small")
    axes.set_title(f"Real digits by pixels, σ = {PIXEL_SIGMA:g}, 2r = {2 * FREQUENCIES:,}", fontsize="medium")
    return Study({"classes": counts, "scores": lines}, figure)


def truncations(settings: Settings) -> Study:
    """FKEA scores of the truncated VAE (seed 003, Figure 4)."""
    levels = (0.1, 1.5) if settings.quick else tuple(np.arange(0.1, 1.51, 0.2).round(1).tolist())
    size = 200 if settings.quick else 5000
    made = images.truncations(levels).values()
    found = [
        _scores(images.features(each.sample(size, seed)), FEATURE_SIGMA, False)["FKEA"]
        for seed, each in enumerate(_tracked(list(made), "truncations"))
    ]
    lines = {name: [each[name] for each in found] for name in ORDERS}
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, levels, lines, suffix=" (FKEA)")
    labelled(axes, "truncation (factor of the latent vectors' standard deviation)", "score (number of modes)")
    axes.legend(fontsize="small")
    axes.set_title(
        f"{size:,} images of the VAE by features, σ = {FEATURE_SIGMA:g}, 2r = {2 * FREQUENCIES:,}", fontsize="medium"
    )
    return Study({"truncations": levels, "samples": size, "scores": lines}, figure)


def conditional(settings: Settings) -> Study:
    """Real digits of the first t classes with prompts that do or do not name the class (seed 002, Figure 2)."""
    world, rng = images.digits(), np.random.default_rng(0)
    features = world.features(world.images).astype(np.float64)
    named = np.stack([features[world.labels == digit].mean(axis=0) for digit in range(10)])[world.labels]
    wording = WORDING * rng.standard_normal(named.shape)
    prompts = {
        "prompts do not name the digit": np.tile(features.mean(axis=0), (len(named), 1)),
        "prompts name the digit": named,
    }
    counts = [1, 10] if settings.quick else list(range(1, 11))
    kernels: dict[str, Any] = {
        "kernel": {"sigma": FEATURE_SIGMA, "features": "exact"},
        "prompt_kernel": {"sigma": PROMPT_SIGMA, "features": "exact"},
    }
    lines: dict[str, dict[str, list[float]]] = {}
    for title, embedded in prompts.items():
        scores: dict[str, list[float]] = {"Vendi": [], "Conditional-Vendi": []}
        for count in _tracked(counts, title):
            rows = _first(count)
            pairs = {"features": features[rows], "prompts": (embedded + wording)[rows]}
            scores["Vendi"].append(score(pairs["features"], "vendi", kernel=kernels["kernel"]).score)
            scores["Conditional-Vendi"].append(score(pairs, "conditional-vendi", **kernels).score)
        lines[title] = scores
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, (title, scores) in zip(figure.subplots(1, 2, sharey=True), lines.items(), strict=True):
        draw_lines(axes, counts, scores)
        labelled(axes, "digits among the images", "score (number of modes)")
        axes.set_xticks(counts)
        axes.set_ylim(0, None)
        axes.set_title(title[0].upper() + title[1:], fontsize="medium")
        axes.legend(fontsize="small")
    return Study({"classes": counts, "scores": lines}, figure)


def _first(count: int) -> NDArray[np.bool_]:
    return images.digits().labels < count


def _scores(rows: NDArray[Any], sigma: float, has_exact: bool) -> dict[str, dict[str, float]]:
    """Each order's plug-in score of rows (n, d) by random Fourier features, and by the n × n kernel matrix."""
    tensor = torch.from_numpy(rows.astype(np.float64))
    kernel = {"name": "gaussian", "sigma": sigma, "features": FREQUENCIES}
    fkea = VendiScore(make_feature_map(kernel, tensor.shape[1]))
    statistic = fkea.statistic()
    statistic.update(tensor)
    spectra = {"FKEA": fkea.spectrum(statistic)}
    if has_exact:
        spectra["exact"] = spectrum_by(ExactKernel([(tensor.shape[1], sigma)]), tensor)
    return {
        way: {name: float(np.exp(log_vendi(spectrum, order))) for name, order in ORDERS.items()}
        for way, spectrum in spectra.items()
    }


def _tracked(steps: list[Any], what: str) -> Any:
    return track(steps, what, console=Console(stderr=True))
