"""A generation worker of the demo: asks the service over HTTP, samples a real generator, tells its features."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from optimist.simulation.digits import load
from optimist_client import Optimist


def work(url: str, experiment: str, cache: Path | None) -> None:
    """Serve picks of `experiment` until it has ended."""
    digits = load(cache, progress=False)
    with Optimist(url) as optimist:
        for pick in optimist.experiment(experiment).picks():
            images = digits.generators[pick.generator].sample(pick.size, pick.seed)
            pick.tell(digits.features(images))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        work(sys.argv[1], sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
