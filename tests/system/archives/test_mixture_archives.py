"""Experiments with the goal "mixture" as files: replayed pick by pick, imported elsewhere, gone on with there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optimist_client import Experiment, Optimist
from tests.support.processes import scored
from tests.support.replay import replay

PLACES = {"a": 0.0, "b": 3.0, "late": 6.0}


def play(experiment: Experiment, rounds: int) -> None:
    for _ in range(rounds):
        pick = experiment.ask()
        assert pick is not None
        pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 2)) + PLACES[pick.generator])


@pytest.mark.parametrize("policy", ["ogd", "mixture-ucb-cab"])
@pytest.mark.long
def test_an_experiment_is_replayed_and_goes_on_elsewhere(
    client: Optimist, other: Optimist, name: str, policy: str, tmp_path: Path
):
    experiment = client.create_experiment(
        *(name, ["a", "b"]),
        metric="rke",
        dimension=2,
        kernel={"sigma": 1.0, "features": 16},
        goal="mixture",
        policy=policy,
        keep_log=True,
        max_wait=60,
    )
    play(experiment, 10)
    experiment.add_generator("late")
    play(experiment, 8)
    experiment.set_state("a", "paused")
    play(experiment, 4)
    experiment.set_state("a", "active")
    experiment.set_state("b", "retired")
    play(experiment, 6)
    scored(experiment)
    experiment.stop()
    experiment.export(tmp_path / "file")
    replayed = replay(tmp_path / "file")
    assert len(replayed.picks) == 28
    assert all(one.is_reproduced for one in replayed.picks)
    assert len({one.pick.mixture for one in replayed.picks}) >= 4
    again = other.import_experiment(tmp_path / "file")
    assert again.info.config.goal == "mixture"
    # A stopped experiment has the mixture of all samples made when it is asked for.
    made = experiment.mixture()
    assert again.mixture() == made
    assert made.samples == sum(row.samples for row in again.report().standings)
    again.resume()
    play(again, 4)
    assert again.report().rounds == 32
