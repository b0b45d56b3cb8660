"""Where nothing is known of a correlation, everything is as if there were no contrasts, to the last bit.

The formulas before contrasts are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from optimist.policies import Arm, Policy, Stopping, deciding_tolerance, described, explained
from optimist.policies.stopping import FEWEST_SAMPLES
from tests.support.paired_arms import correlated, estimate, pairing

TOLERANCES = (0.0, 0.3, "2%")


@st.composite
def arms_of(draw: st.DrawFn) -> list[Arm]:
    lower, kind = draw(st.booleans()), draw(st.sampled_from(["none", "few in common", "unrelated", "one paired"]))
    number, made = st.floats(0.05, 4.0), list[Arm]()
    one, other = correlated(0.0)
    for place in range(draw(st.integers(2, 6))):
        n = 5 * draw(st.integers(3, 60))
        value = draw(st.sampled_from([1.0, 1.5])) if draw(st.booleans()) else draw(number)
        has = None
        if kind == "few in common":
            has = pairing(one[:9], n)
        elif kind == "unrelated" and place < 2:
            has = pairing((one, other)[place], n)
        elif kind == "one paired" and place == 0:
            has = pairing(one, n)
        pending = draw(st.sampled_from([0, 10]))
        found = estimate(value, draw(number), draw(number), n, has, lower)
        made.append(Arm(f"g{place}", found, n, n // 5, pending, pending // 5))
    return made


def losses(arms: Sequence[Arm]) -> list[float]:
    return [a.estimate.value if a.estimate.lower_is_better else -a.estimate.value for a in arms if a.estimate]


def errors(arms: Sequence[Arm], stop: bool) -> list[float]:
    known = [(a.estimate.standard_error, a.estimate.stopping_error) for a in arms if a.estimate]
    return [float(pair[stop] or 0.0) for pair in known]


def separations(arms: Sequence[Arm], rule: Stopping, stop: bool) -> list[float]:
    values, sd = losses(arms), errors(arms, stop)
    best = values.index(min(values))
    tolerated = 0.02 * max(abs(values[best]), 0.0) if rule.tolerance == "2%" else float(rule.tolerance)
    z = [(v - values[best] + tolerated) / math.hypot(sd[best], e) for v, e in zip(values, sd, strict=True)]
    z[best] = math.inf
    return z


def top_two(arms: Sequence[Arm], told: int, rule: Stopping, draw: float) -> int:
    values, batches = losses(arms), [a.batches + a.pending_batches for a in arms]
    samples, places = [a.samples + a.pending_samples for a in arms], range(len(arms))
    unblocked = min(separations(arms, rule, stop=False)) > rule.threshold(len(arms), told)
    sd = [e * a.shrink for e, a in zip(errors(arms, unblocked), arms, strict=True)]
    if unblocked:
        if min(samples) < FEWEST_SAMPLES:
            return samples.index(min(samples))
        leader = min(places, key=lambda i: (values[i], samples[i]))
    else:
        width = math.sqrt(2.0 * math.log(told))
        indices = [
            value - abs(value - (value - width * e)) * a.shrink
            for value, e, a in zip(values, errors(arms, stop=False), arms, strict=True)
        ]
        leader = min(places, key=lambda i: (indices[i], samples[i]))
    variances = [e**2 for e in sd]

    def cost(rival: int) -> float:
        gap = max(values[rival] - values[leader], 0.0)
        return gap**2 / (2.0 * (variances[rival] + variances[leader])) + math.log(max(1, batches[rival]))

    challenger = min((rival for rival in places if rival != leader), key=cost)
    return leader if draw * (variances[leader] + variances[challenger]) < variances[leader] else challenger


def uniform_samples(arms: Sequence[Arm], told: int, rule: Stopping) -> int | None:
    values = losses(arms)
    best = values.index(min(values))
    z = separations(arms, rule, stop=True)
    spread = [a.samples * e**2 for a, e in zip(arms, errors(arms, stop=True), strict=True)]
    tolerated = 0.02 * max(abs(values[best]), 0.0) if rule.tolerance == "2%" else float(rule.tolerance)
    gaps = [v - values[best] + tolerated for v in values]
    rivals = [i for i in range(len(arms)) if i != best]
    if min(z[i] for i in rivals) <= 0.0:
        return None
    needed = max((spread[best] + spread[i]) / gaps[i] ** 2 for i in rivals)
    batch, each = sum(a.samples for a in arms) / told, float(FEWEST_SAMPLES)
    for _ in range(50):
        looks = max(1, round(each * len(arms) / batch))
        each = max(FEWEST_SAMPLES, needed * rule.threshold(len(arms), looks) ** 2)
    return math.ceil(each * len(arms))


@given(arms_of(), st.sampled_from(TOLERANCES), st.integers(0, 100))
def test_picks_decisions_and_forecasts(arms: list[Arm], tolerance: float | str, round_: int):
    rule, told = Stopping(0.05, tolerance), sum(a.batches for a in arms)
    assume(tolerance != "2%" or losses(arms)[0] > 0.0)  # a share of a score to be maximised is one of its logarithm
    policy = Policy("top-two", 1, rule, seed=3)
    draw = float(np.random.default_rng((3, round_)).random())
    assert policy.pick(arms, told, round_) == top_two(arms, told, rule, draw)
    assert rule.separations(arms, "selection") == separations(arms, rule, stop=False)
    assert rule.separations(arms, "stopping") == separations(arms, rule, stop=True)
    decision, values = rule.decide(arms, told), losses(arms)
    best = values.index(min(values))
    z = min(separations(arms, rule, stop=True))
    few = any(a.samples < FEWEST_SAMPLES for a in arms)
    assert (decision.best, decision.decided) == (arms[best].name, not few and z > rule.threshold(len(arms), told))
    assert rule.uniform_samples(arms, told) == uniform_samples(arms, told, rule)
    sd = errors(arms, stop=True)
    for found in described(arms, 0.05):
        place = int(found.generator[1:])
        assert found.difference == values[place] - values[best]
        assert found.standard_error == math.hypot(sd[place], sd[best])
        assert found.correlation == 0.0


@given(arms_of(), st.sampled_from(["top-two", "uniform"]))
def test_verdicts_and_samples_still_needed(arms: list[Arm], name: str):
    bare = [
        Arm(a.name, estimate(a.estimate.value, *_errors(a), a.samples, None, a.estimate.lower_is_better),
            a.samples, a.batches, a.pending_samples, a.pending_batches)
        for a in arms if a.estimate
    ]  # fmt: skip
    policy, told = Policy(name, 1, Stopping()), sum(a.batches for a in arms)
    assert explained(policy, arms, told) == explained(policy, bare, told)
    assert deciding_tolerance(policy, arms, told) == deciding_tolerance(policy, bare, told)


def _errors(a: Arm) -> tuple[float, float]:
    assert a.estimate.standard_error is not None
    assert a.estimate.stopping_error is not None
    return a.estimate.standard_error, a.estimate.stopping_error
