"""Paired experiments: service and `Evaluation` pick, score and compare alike, whatever order the indices come in."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np

from optimist import Evaluation
from optimist_client import Experiment, Optimist, Pick
from tests.support.alike import same
from tests.support.processes import Service, append_batch, scored
from tests.support.replay import replay

SCALES = {"narrow": 0.8, "wide": 1.2, "late": 1.0}
CONFIG = {"metric": "rke", "kernel": {"sigma": 4.0, "features": 32}, "policy": "ucb", "rescore_growth": 0.0}
SIZE = 4


def rows(generator: str, start: int, size: int) -> np.ndarray:
    """Samples of these indices, with common noise and some of their own."""
    common = [np.random.default_rng(index).standard_normal(3) for index in range(start, start + size)]
    own = np.random.default_rng([*generator.encode(), start]).standard_normal((size, 3))
    return SCALES[generator] * np.stack(common) + 0.1 * own


class Both:
    """The same batches for an experiment and for an evaluation."""

    def __init__(self, experiment: Experiment, service: Service, evaluation: Evaluation) -> None:
        self.experiment, self.evaluation = experiment, evaluation
        self._url = service.url

    def ask(self, generator: str | None = None) -> Pick:
        scored(self.experiment)  # an ask would not wait for all that is due
        pick = self.experiment.ask(generators=None if generator is None else [generator])
        assert pick.start is not None
        return pick

    def tell(self, pick: Pick, size: int | None = None) -> None:
        batch = rows(pick.generator, pick.start or 0, size or pick.size)
        pick.tell(batch)
        self.evaluation.tell(pick.generator, batch, start=pick.start or 0)

    def append(self, generator: str, start: int | None, size: int) -> None:
        batch = rows(generator, 1000 if start is None else start, size)
        at = {} if start is None else {"start": start}
        append_batch(self._url, self.experiment.name, generator, {"features": batch}, **at).raise_for_status()
        self.evaluation.tell(generator, batch, start=start)

    def check(self, experiment: Experiment | None = None) -> None:
        """Both have the same scores and contrasts, to the last bit."""
        experiment = experiment or self.experiment
        same(experiment, self.evaluation)
        known = [name for name, found in self.evaluation.estimates().items() if found is not None]
        for one, other in permutations(known, 2):
            assert experiment.contrast(one, other) == self.evaluation.contrast(one, other)


def test_service_and_evaluation_agree_about_indices(client: Optimist, service: Service, name: str, tmp_path: Path):
    experiment = client.create_experiment(
        name, ["narrow", "wide"], dimension=3, batch_size=SIZE, stop=False, keep_log=True, max_wait=30.0, **CONFIG
    )
    evaluation = Evaluation([*SCALES], batch_size=SIZE, **CONFIG)
    both, alone = Both(experiment, service, evaluation), Evaluation(["narrow", "wide"], batch_size=SIZE, **CONFIG)
    seeds = set()
    for _ in range(14):
        pick = both.ask()
        assert (pick.generator, pick.start) == (alone.ask(), alone.next_start(pick.generator))
        assert pick.seeds == [(pick.seed + place) % 2**32 for place in range(SIZE)]
        seeds.add((pick.seed - (pick.start or 0)) % 2**32)
        alone.tell(pick.generator, rows(pick.generator, pick.start or 0, SIZE))
        both.tell(pick)
    assert len(seeds) == 1, "the seed of an index is the same for both generators"
    both.check()
    contrast = experiment.contrast("narrow", "wide")
    assert contrast.common >= 2 * SIZE
    assert contrast.correlation > 0.2

    # Batches out of order, slices given up, batches with fewer rows, and what they leave.
    for generator in ("narrow", "wide"):
        held = both.ask(generator)
        both.tell(both.ask(generator))
        given_up = both.ask(generator)
        both.tell(held)
        given_up.give_up()
        short = both.ask(generator)
        assert short.start == given_up.start
        both.tell(short, size=1)
        rest = both.ask(generator)
        assert (rest.start, rest.size) == ((short.start or 0) + 1, SIZE - 1)
        both.tell(rest)
    both.check()

    # Batches without a pick, of sizes of their own, with and without indices.
    after = both.ask("wide")
    start = (after.start or 0) + SIZE
    both.append("wide", start, 7)
    both.append("narrow", None, 3)
    both.append("wide", start + 7, 2)
    both.tell(after)
    following = both.ask("wide")
    assert following.start == start + 3 * SIZE
    both.tell(following)
    both.check()

    experiment.add_generator("late")
    for expected in (0, SIZE, 2 * SIZE):
        pick = both.ask("late")
        assert pick.start == expected
        both.tell(pick)
    both.check()
    assert experiment.contrast("late", "wide").common == 3 * SIZE, "the three indices that `wide` lacks are later ones"

    left = both.ask("narrow")
    experiment.export(tmp_path / "file.zip")
    replayed = replay(tmp_path / "file.zip")
    assert replayed.picks
    assert all(pick.is_reproduced for pick in replayed.picks)
    again = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    both.check(again)
    both.experiment = again
    pick = both.ask("narrow")
    assert (pick.start, pick.seed) == (left.start, left.seed), "open picks are not exported: theirs is handed out again"
    both.tell(pick)
    both.check()


def test_unpaired_generators_have_seeds_of_their_own(client: Optimist, name: str):
    experiment = client.create_experiment(
        name, ["a", "b"], metric="is", dimension=3, paired=False, policy="uniform", stop=False
    )
    picks = [experiment.ask(), experiment.ask()]
    seeds = {pick.generator: pick.seeds for pick in picks if pick is not None}
    assert len(set(seeds["a"]) | set(seeds["b"])) == 10
