"""A worker of the demo: asks the service over HTTP, samples a real generator and tells the features."""

from __future__ import annotations

import contextlib
import sys

from optimist.simulation.digits.world import load
from optimist_client import Optimist


def work(url: str, experiment: str) -> None:
    """Work on picks of `experiment` until it has ended."""
    digits = load(progress=False)
    with Optimist(url, patience=120.0) as optimist:
        opened = optimist.experiment(experiment)
        embed = digits.probabilities if "probabilities" in opened.info.config.metric.arrays else digits.features
        for pick in opened.picks():
            if pick.prompts:
                images = digits.prompted[pick.generator].sample(pick.prompts, pick.seed)
                ids = [f"{pick.number}:{row} {prompt}" for row, prompt in enumerate(pick.prompts)]
                pick.tell(embed(images), prompts=digits.embeddings(pick.prompts), ids=ids)
            else:
                pick.tell(embed(digits.family[pick.generator].sample(pick.size, pick.seed)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        work(*sys.argv[1:])
