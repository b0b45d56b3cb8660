"""An asyncio fleet: twenty workers that wait for images share one experiment.

The models redraw scikit-learn's real digits with more or less noise, after a delay like that of a remote server;
replace them by calls to your server. In a clone of the repository:

    pip install -c constraints.txt '.[demo]'
    python examples/fleet.py
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np
from sklearn.datasets import load_digits

from local_service import options, serving
from optimist_client import AsyncOptimist
from optimist_client.embedders import Function

PIXELS = Function("pixels-64", 64, lambda images: images)
NOISE = {"clean": 0.05, "grainy": 0.15, "snowy": 0.3}
WORKERS = 20


class Remote:
    """A model behind a network, which redraws `images` (n, 64) with `noise`. The class counts concurrent calls."""

    under_way = most = 0

    def __init__(self, images: np.ndarray, noise: float) -> None:
        self._images = images
        self._noise = noise

    async def generate(self, size: int, seed: int) -> np.ndarray:
        """Images (size, 64), after a delay."""
        rng = np.random.default_rng(seed)
        Remote.under_way += 1
        Remote.most = max(Remote.most, Remote.under_way)
        await asyncio.sleep(rng.exponential(0.05))
        Remote.under_way -= 1
        images = self._images[rng.integers(len(self._images), size=size)]
        return (images + self._noise * rng.standard_normal(images.shape)).clip(0, 1)


async def fleet(url: str, chosen: argparse.Namespace) -> None:
    """Run until a decision is made."""
    real = load_digits().data / 16
    models = {name: Remote(real, noise).generate for name, noise in NOISE.items()}
    async with AsyncOptimist(url) as optimist:
        experiment = await optimist.create_experiment(
            chosen.name or "digit-fleet",
            list(models),
            reference=PIXELS(real),
            embedding=PIXELS.name,
            budget=chosen.budget,
        )
        print(await experiment.run(models, PIXELS, workers=WORKERS))
        print(f"{Remote.most} of {WORKERS} workers waited for images at the same time")


def main() -> None:
    """Start or find the service, and run the fleet."""
    chosen = options(__doc__, budget=6_000).parse_args()
    with serving(chosen.url) as url:
        asyncio.run(fleet(url, chosen))


if __name__ == "__main__":
    main()
