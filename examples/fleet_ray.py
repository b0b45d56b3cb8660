"""A fleet of Ray actors: each is a worker of one experiment, and is started again wherever there is room.

The models draw normal rows, after a delay like that of a GPU; replace `load` by your own. In a clone of the repository:

    pip install -c constraints.txt '.[demo,ray]'
    python examples/fleet_ray.py

It starts Ray on this machine, or uses the cluster that RAY_ADDRESS names; the service must be reachable from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import ray

from local_service import options, serving
from optimist_client import Optimist
from optimist_client.worker import work

SHIFTS = {"old": 0.3, "new": 0.1, "newest": 0.0}
WORKERS = 4


def draw(shift: float, delay: float, size: int, seed: int) -> np.ndarray:
    """Rows (size, 8) around `shift`, after `delay` seconds."""
    time.sleep(delay)
    return np.random.default_rng(seed).normal(shift, 1.0, (size, 8))


def load(delay: float) -> dict[str, Callable[[int, int], np.ndarray]]:
    """The models; each worker loads them once."""
    return {name: partial(draw, shift, delay) for name, shift in SHIFTS.items()}


@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Worker:
    """A worker. When its process or its node dies, Ray starts another one, which asks for picks of its own.

    What the dead one was sampling goes to others once its lease has ended. `num_gpus=1` gives each a GPU.
    """

    def work(self, experiment: str, url: str, delay: float) -> int:
        """Sample until the experiment ends. Returns the samples of all workers by then."""
        return work(experiment, partial(load, delay), url, progress=False).samples


def main() -> None:
    """Create the experiment, start the workers, and wait for the answer."""
    parser = options(__doc__, budget=6_000)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds that a batch takes (default 0.05)")
    chosen = parser.parse_args()
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "ray-fleet",
            list(SHIFTS),
            reference=(np.zeros(8), np.eye(8)),
            budget=chosen.budget,
            lease=20,  # a few times as long as a batch takes: so soon another worker gets what a dead one had
        )
        key = {"OPTIMIST_API_KEY": value} if (value := os.environ.get("OPTIMIST_API_KEY")) else {}
        ray.init(log_to_driver=False, runtime_env={"env_vars": key})
        workers = [Worker.remote() for _ in range(WORKERS)]
        # The first one that ends says that the experiment has; where there is no room, some have not begun.
        (first, *_), _ = ray.wait([worker.work.remote(experiment.name, url, chosen.delay) for worker in workers])
        ray.get(first)
        print(experiment.report())


if __name__ == "__main__":
    main()
