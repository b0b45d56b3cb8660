"""Convergence of Vendi scores of a growing sample (seed 001, Figures 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import images
import numpy as np
import torch
from figures import draw_lines, labelled
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from settings import Settings, Study

from optimist import score
from optimist.metrics.feature_maps import Cosine, ExactKernel
from optimist.metrics.vendi.spectrum import log_vendi, spectrum_by

SIGMA = 5.0
"""Half the median distance between samples."""
RANK = 256
"""t of the truncated score, the landmarks of Nyström and the columns of FKEA, matched as in the paper."""
COUNTS = (250, 500, 1000, 2000, 4000, 8000, 16000)
LARGEST_EXACT = 4000
"""Samples of the largest kernel matrix decomposed: 8,000 take a minute, and the paper's 20,000 take 15 minutes."""
GENERATOR = "kde-0.2"


def convergence(settings: Settings) -> Study:
    """Vendi, truncated Vendi, Nyström, FKEA and RKE with a cosine and a Gaussian kernel, against n."""
    counts = COUNTS[:2] if settings.quick else COUNTS
    rows = images.features(images.digits().generators[GENERATOR].sample(max(counts), 0)).astype(np.float64)
    steps = track(counts, "samples", console=Console(stderr=True))
    found = [_scores(torch.from_numpy(rows[:count])) for count in steps]
    scores = {
        kernel: {name: [each[kernel].get(name) for each in found] for name in found[0][kernel]} for kernel in found[0]
    }
    return Study({"samples": counts, "scores": scores}, draw(counts, scores))


def draw(counts: Sequence[int], scores: Mapping[str, Mapping[str, Sequence[float | None]]]) -> Figure:
    """The scores against n by kernel and name; None if a score was not computed."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    titles = {"cosine": "Cosine kernel, d = 64", "gaussian": f"Gaussian kernel, σ = {SIGMA:g}, t = m = 2r = {RANK}"}
    for axes, (kernel, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        lines = {name: [np.nan if value is None else value for value in line] for name, line in scores[kernel].items()}
        draw_lines(axes, counts, lines)
        labelled(axes, "samples n", "score (number of modes)")
        axes.set_xscale("log")
        axes.set_ylim(0, None)
        axes.set_title(title, fontsize="medium")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(f"Features of the digits' {GENERATOR}", fontsize="medium")
    return figure


def _scores(rows: torch.Tensor) -> dict[str, dict[str, float]]:
    """The scores of rows (n, 64) by kernel and name; without the exact ones if n is too large."""
    cosine = spectrum_by(directions := Cosine(rows.shape[1]), directions(rows))
    fkea = {"name": "gaussian", "sigma": SIGMA, "features": RANK // 2}
    nystrom = {"name": "nystrom", "sigma": SIGMA, "features": min(RANK, len(rows))}
    gaussian: dict[str, float] = {}
    if len(rows) <= LARGEST_EXACT:
        spectrum = spectrum_by(ExactKernel([(rows.shape[1], SIGMA)]), rows)
        gaussian["Vendi"] = log_vendi(spectrum)
        gaussian[f"truncated, t = {RANK}"] = log_vendi(spectrum, truncation=RANK)
    of_fkea = score(rows, "vendi", kernel=fkea)
    gaussian["Nyström"] = score(rows, "vendi", kernel=nystrom).plug_in
    gaussian["FKEA"] = of_fkea.plug_in
    gaussian["FKEA, de-biased (ours)"] = of_fkea.value
    gaussian["RKE"] = score(rows, "rke", kernel=fkea).plug_in
    return {
        "cosine": {
            "Vendi": float(np.exp(log_vendi(cosine))),
            "truncated, t = 32": float(np.exp(log_vendi(cosine, truncation=32))),
            "RKE": float(np.exp(log_vendi(cosine, 2.0))),
        },
        "gaussian": {name: float(np.exp(value)) for name, value in gaussian.items()},
    }
