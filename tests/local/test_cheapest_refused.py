"""The goal "cheapest": a generator that surely misses the limit takes no samples to refuse others by."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation
from optimist.local.run import LocalService
from optimist_client.metrics import Mean

WORLD = {"small": (0.7, 3.3e-6), "medium": (0.93, 1.6e-5), "large": (0.94, 1.6e-4), "stuck": (0.0, 1e-6)}
"""The share of right answers, and the cost of one."""


@pytest.mark.long
def test_the_cheap_and_hopeless_is_not_sampled_to_the_end():
    watch = [Mean(label="dollars", reads="dollars", higher_is_better=False)]
    how = {"goal": "cheapest", "good_enough": "3%", "cost_metric": "dollars", "batch_size": 5}
    prompts = [f"{number}" for number in range(400)]
    evaluation = Evaluation(
        [*WORLD], metric=Mean(range=(1, 5)), watch=watch, prompts=prompts, prompts_are="list", **how
    )
    service, rng = LocalService(evaluation, "run"), np.random.default_rng(0)
    while evaluation.samples < 600 and (picks := service.ask(None, None).picks):
        right, cost = WORLD[picks[0].generator]
        values = np.where(rng.random((5, 1)) < right, 5.0, 1.0)
        service.tell(picks[0].number, {"values": values, "dollars": np.full((5, 1), cost)})
    verdicts = {one.generator: one.verdict for one in evaluation.report().decision.limits}
    assert verdicts["stuck"] == "not met"
    assert evaluation.counts("stuck")[0] <= 40
