"""The table of docs/mixtures.md: four models that draw only some kinds of digits, alone and blended, by four metrics.

    python benchmarks/mixture_table.py

The models are those of examples/blend.py: they redraw scikit-learn's handwritten digits with noise. Real data are the
digits themselves.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import optimist
from optimist_client.metrics import FID, MMD, RKE, Gaussian, Metric, Vendi

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from blend import KINDS, model

SAMPLES = 1000
KERNEL = Gaussian(2.0, features=64)


def main() -> None:
    """Print a row for each metric."""
    images, digits = load_digits(return_X_y=True)
    real = np.asarray(images) / 16
    seeds = list(range(SAMPLES))
    made = {
        name: model(real[np.isin(digits, kinds)])(SAMPLES, [place * SAMPLES + seed for seed in seeds])
        for place, (name, kinds) in enumerate(KINDS.items())
    }
    metrics: list[Metric] = [
        RKE(kernel=KERNEL, dimension=64),
        Vendi(kernel=KERNEL, dimension=64),
        FID(reference=real),
        MMD(reference=real, kernel=KERNEL),
    ]
    print("| metric |", " | ".join(made), "| best mixture | its weights | gain |")
    print("| --- " * (len(made) + 4) + "|")
    for metric in metrics:
        alone = [optimist.score(rows, metric).score for rows in made.values()]
        best = optimist.mixture(made, metric)
        arrow = "↓" if metric.lower_is_better else "↑"
        scores = " | ".join(f"{score:.3g}" for score in alone)
        gain = best.gain_text.removeprefix("The mixture is ").rstrip(".")
        blend = f"{best.score:.3g} ± {best.standard_error:.1g} | {best.recipe}"
        print(f"| {metric.title} {arrow} | {scores} | {blend} | {gain} |")


if __name__ == "__main__":
    main()
