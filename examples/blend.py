"""A mixture of models: each makes only some kinds of digits; which shares of them together are the most diverse?

Four models redraw scikit-learn's handwritten digits with noise, and none of them makes all ten.
In a clone of the repository:

    pip install -c constraints.txt '.[demo]'
    python examples/blend.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits

from local_service import options, serving
from optimist_client import Optimist
from optimist_client.embedders import Function
from optimist_client.metrics import RKE, Gaussian

KINDS = {"round": (0, 3, 6, 8, 9), "straight": (1, 4, 7), "curved": (2, 3, 5), "loops": (6, 8, 9)}
NOISE = 0.1


def model(images: np.ndarray) -> Callable[[int, list[int]], np.ndarray]:
    """A function that makes samples (size, 64), each from a seed of its own, by redrawing one of these images."""

    def redraw(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return (rng.choice(images) + NOISE * rng.standard_normal(64)).clip(0, 1)

    return lambda size, seeds: np.stack([redraw(seed) for seed in seeds])


def main() -> None:
    """Sample until the best mixture is known, then serve 100 samples of it."""
    chosen = options(__doc__, budget=4_000).parse_args()
    digits = load_digits()
    models = {name: model(digits.data[np.isin(digits.target, kinds)] / 16) for name, kinds in KINDS.items()}
    pixels = Function("pixels-64", 64, lambda images: images)
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "digits-blend",
            list(models),
            metric=RKE(kernel=Gaussian(2.0, features=64), dimension=64),
            embedding=pixels.name,
            goal="mixture",
            tolerance="5%",  # decided once no other mixture is better by more
            batch_size=20,
            budget=chosen.budget,
        )
        print(experiment.run(models, pixels))
        counts = experiment.blend(100).counts
        served = np.concatenate([models[name](count, list(range(count))) for name, count in counts.items()])
        print(f"Served {len(served)} samples: {', '.join(f'{count} by {name}' for name, count in counts.items())}.")


if __name__ == "__main__":
    main()
