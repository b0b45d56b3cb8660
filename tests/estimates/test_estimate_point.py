"""The points of charts, which are not cut at the smallest possible score."""

from __future__ import annotations

import math

from optimist.estimates.estimate import Estimate


def test_a_point_below_the_smallest_score_stays_where_it_was_estimated():
    made = Estimate(-0.25, -0.25, 40, lower=-0.5, upper=0.75, optimistic=-0.5)
    assert (made.score, made.point) == (0.0, (40, -0.25, -0.5, 0.75))
    assert made.unclipped == (-0.25, -0.5, 0.75)


def test_what_is_not_cut_is_given_once():
    assert Estimate(0.5, 0.5, 40, lower=0.25, upper=math.inf, optimistic=0.25).unclipped is None
    free = Estimate(-0.25, -0.25, 40, lower=-0.5, upper=0.75, optimistic=-0.5, floor=None)
    assert (free.score, free.unclipped) == (-0.25, None)
    log = Estimate(-0.25, -0.25, 40, lower=-0.5, upper=math.inf, optimistic=-0.5, scale="log")
    assert (log.point[1], log.point[3], log.unclipped) == (round(math.exp(-0.25), 6), None, None)
