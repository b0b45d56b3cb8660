"""How many samples a gate makes until it looks again."""

from __future__ import annotations

import pytest

from optimist_client.margins import Steps
from optimist_client.models import Report
from tests.support.reports import report


def told(samples: int, ended: bool = False) -> Report:
    return report(samples=samples, ended=ended)


@pytest.mark.parametrize(("samples", "step"), [(0, 10), (99, 10), (199, 10), (200, 20), (1000, 100)])
def test_a_step_is_a_batch_of_both_and_later_a_tenth_of_all_in_whole_batches(samples: int, step: int):
    steps = Steps(5, None)
    steps.made(0, told(samples))
    assert steps.next() == step


def test_steps_stop_at_the_samples_that_are_left_and_at_the_end():
    steps = Steps(5, 115)
    steps.made(0, told(1000))
    assert steps.next() == 100
    steps.made(100, told(1100))
    assert steps.next() == 15
    steps.made(0, told(1100, ended=True))
    assert steps.next() == 0
