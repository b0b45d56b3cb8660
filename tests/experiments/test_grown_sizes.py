"""How many samples a pick asks for, by the samples that its generator has."""

from __future__ import annotations

import pytest

from optimist.estimates.estimate import Estimate
from optimist.experiments.assignment import Assignment, PickLimits
from optimist.experiments.slices import grown_size
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState
from optimist_client.models import AskRequest
from tests.support.configs import config_of, experiment_of
from tests.support.scored_states import generator


@pytest.mark.parametrize(
    ("samples", "size"), [(0, 5), (999, 5), (1000, 10), (1499, 10), (1500, 15), (4000, 40), (10**9, 60)]
)
def test_it_is_a_hundredth_of_the_samples_in_whole_batches(samples: int, size: int):
    assert grown_size(5, samples, 0, 0.1, 900.0) == size
    assert grown_size(5, samples, 0, None, 900.0) == 5, "nothing is known of how long a sample takes"


def test_it_takes_at_most_a_quarter_of_the_lease():
    assert grown_size(5, 10**6, 0, 10.0, 900.0) == 20
    assert grown_size(5, 10**6, 0, 1000.0, 900.0) == 5
    assert grown_size(1, 10**6, 0, 0.0, 900.0) == 64


def test_what_is_on_its_way_leaves_less():
    assert grown_size(5, 10**6, 256 - 33, 0.1, 900.0) == 30
    assert grown_size(5, 10**6, 256 + 33, 0.1, 900.0) == 5


def test_large_batches_do_not_grow():
    assert grown_size(100, 10**6, 0, 0.1, 900.0) == 100


def size_of(**config: object) -> int:
    """The size of the next pick of an experiment whose generators have 4,000 samples each."""
    made = Estimate(1.0, 1.0, 4000, 0.0, 2.0, 0.0, 1.0, 1.0)
    generators = [generator(place, name, 4000, {"rke": made}, handed=4000) for place, name in enumerate("ab")]
    metric = {"metric": "rke", "kernel": {"name": "cosine"}, "dimension": 4}
    asked = config_of(name="e", generators=["a", "b"], **metric, **config)
    state = PolicyState(experiment_of(asked, columns={"features": 4}), ExperimentState(1600, 1600, generators))
    for place in range(len(generators)):
        state.paces[place] = 0.1
    (pick,) = Assignment(state, PickLimits(10, 10, 10)).answer(AskRequest(), stale=False)
    assert state.stored.generators["ab".index(pick.generator)].handed == 4000 + pick.size
    return pick.size


def test_which_experiments_grow():
    prompts = [f"prompt {place}" for place in range(10)]
    assert size_of() == 40
    assert size_of(seeds=False) == 40
    assert size_of(prompts=prompts) == 40
    assert size_of(grow=False) == 5
    assert size_of(clusters="batch") == 5, "larger batches would be fewer clusters"
    assert size_of(rescore_growth=0.0) == 5
    assert size_of(policy="greedy") == 5
    assert size_of(prompts=prompts, prompts_are="list") == 5
