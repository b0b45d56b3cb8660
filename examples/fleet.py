"""An asyncio fleet: twenty workers that wait for images share one experiment.

The models redraw scikit-learn's real digits with more or less noise, after a while, as a remote server would; put a
call to yours in their place. Needs `pip install 'optimist[demo]'`.
"""

from __future__ import annotations

import asyncio

import numpy as np
from sklearn.datasets import load_digits

from local_service import connected, options, print_outcome
from optimist_client import Experiment
from optimist_client.embedders import Function

NOISE = {"clean": 0.05, "grainy": 0.15, "snowy": 0.3}
PIXELS = Function("pixels-64", 64, lambda images: images)
WORKERS = 20


async def generate(real: np.ndarray, model: str, size: int, seed: int) -> np.ndarray:
    """Images (size, 64), once the server has made them."""
    rng = np.random.default_rng(seed)
    await asyncio.sleep(rng.exponential(0.02))
    images = real[rng.integers(len(real), size=size)]
    return (images + NOISE[model] * rng.standard_normal(images.shape)).clip(0, 1)


async def work(experiment: Experiment, name: str, real: np.ndarray) -> int:
    """Ask, generate and tell until the experiment has ended; the samples that were made."""
    made = 0
    # Asking and telling wait for the service: in threads, so that the others go on.
    while (pick := await asyncio.to_thread(experiment.ask, worker=name)) is not None:
        try:
            images = await generate(real, pick.generator, pick.size, pick.seed)
        except BaseException as error:
            # Cancelled, or the server failed: somebody else takes the pick now, not when its lease has run out.
            await asyncio.to_thread(pick.give_up, repr(error))
            raise
        await asyncio.to_thread(pick.tell, PIXELS(images), embedding=PIXELS.name)
        made += len(images)
    return made


async def fleet(experiment: Experiment, real: np.ndarray) -> list[int]:
    """What each of the workers made; when one fails, all end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(experiment, f"worker-{number}", real)) for number in range(WORKERS)]
    return [task.result() for task in tasks]


def main() -> None:
    """Run the fleet until the answer is sure."""
    chosen = options(__doc__, budget=6_000).parse_args()
    real = load_digits().data / 16
    with connected(chosen.url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "digit-fleet",
            list(NOISE),
            reference=PIXELS(real),
            embedding=PIXELS.name,
            budget=chosen.budget,
        )
        made = asyncio.run(fleet(experiment, real))
        print(f"{sum(made):,} samples by {len(made)} workers, {min(made)} to {max(made)} each")
        print_outcome(experiment)


if __name__ == "__main__":
    main()
