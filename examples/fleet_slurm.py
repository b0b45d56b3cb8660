"""A fleet on Slurm, by submitit: an array of jobs, each a worker of one experiment.

The models draw normal rows; replace `load` by your own. In a clone of the repository, on a node that submits jobs:

    pip install -c constraints.txt '.[demo,slurm]'
    python examples/fleet_slurm.py --url http://HOST:8000 --folder logs

`--cluster local` runs the jobs as processes of this machine, `--url` names a service that all nodes reach.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import submitit

from local_service import options, serving
from optimist_client import Optimist
from optimist_client.worker import work

SHIFTS = {"old": 0.3, "new": 0.1, "newest": 0.0}


def draw(shift: float, size: int, seed: int) -> np.ndarray:
    """Rows (size, 8) around `shift`."""
    return np.random.default_rng(seed).normal(shift, 1.0, (size, 8))


def load() -> dict[str, Callable[[int, int], np.ndarray]]:
    """The models; each job loads them once."""
    return {name: partial(draw, shift) for name, shift in SHIFTS.items()}


class Worker:
    """A job. One that Slurm preempts, or that reaches its time limit, is put into the queue again as it was."""

    def __call__(self, experiment: str, url: str) -> int:
        """Sample until the experiment ends. Returns the samples of all workers by then."""
        return work(experiment, load, url, progress=False).samples

    def checkpoint(self, experiment: str, url: str) -> submitit.helpers.DelayedSubmission:
        """The job that follows one which is preempted: the service knows how far the experiment is."""
        return submitit.helpers.DelayedSubmission(self, experiment, url)


def main() -> None:
    """Create the experiment, submit the jobs, and wait for the answer."""
    parser = options(__doc__, budget=6_000)
    parser.add_argument("--cluster", help="local: processes of this machine; by default Slurm, where it is there")
    parser.add_argument("--folder", default="slurm", help="where the jobs write what they print (default slurm)")
    parser.add_argument("--jobs", type=int, default=4, help="how many workers (default 4)")
    chosen = parser.parse_args()
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "slurm-fleet", list(SHIFTS), reference=(np.zeros(8), np.eye(8)), budget=chosen.budget
        )
        executor = submitit.AutoExecutor(chosen.folder, cluster=chosen.cluster)
        executor.update_parameters(timeout_min=60, slurm_array_parallelism=chosen.jobs)  # `gpus_per_node=1` for GPUs
        jobs = executor.map_array(Worker(), [experiment.name] * chosen.jobs, [url] * chosen.jobs)
        for job in jobs:
            job.result()
        print(experiment.report())


if __name__ == "__main__":
    main()
