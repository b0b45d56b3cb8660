"""Contrasts of paired estimates: reference numbers, formulas written out, and what they change in the policies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import Earlier, intervals_of
from optimist.policies import Arm, Policy, Stopping, contrast, described, explained
from optimist.policies.contrasts import MANY, Contrasts, contrasts_of
from optimist.policies.correlation import InfluenceTable
from optimist.policies.paired import Against, Columns, Errors, compared
from optimist.policies.policy import gains
from tests.support.paired_arms import arm, correlated, estimate, pairing, written_out
from tests.support.places import DATA

KINDS: tuple[Errors, Errors] = ("selection", "stopping")


def rho_of(x: np.ndarray, y: np.ndarray) -> float:
    return float(InfluenceTable(np.array([x, y])).correlations(0)[1])


def test_correlations_of_reference():
    known = np.load(DATA / "pair_correlation.npz")
    found = [rho_of(x, y) for x, y in zip(known["x"], known["y"], strict=True)]
    np.testing.assert_allclose(found, known["rho"], atol=1e-9)
    real = np.load(DATA / "pair_real.npz")
    assert rho_of(real["influence_a"], real["influence_b"]) == pytest.approx(float(real["rho"]), abs=1e-9)


def reference_estimates(case: int, influences: tuple[np.ndarray, np.ndarray]) -> list[Estimate]:
    known = np.load(DATA / "pair_contrast.npz")
    made = []
    for side, influence in zip("ab", influences, strict=True):
        n, _, value, select, stop, systematic, first = known[side][case].tolist()
        history = tuple(Earlier(int(row[0]), *row[1:]) for row in known[f"trail_{side}"][case].tolist() if row[0])
        doubt = math.sqrt(systematic)
        has = pairing(influence, int(n), first, history=history,
                      systematic_selection=doubt, systematic_stopping=doubt)  # fmt: skip
        made.append(estimate(value, math.sqrt(select + systematic), math.sqrt(stop + systematic), int(n), has))
    return made


@pytest.mark.parametrize("case", [case for case in range(12) if case not in (7, 8, 9)])
def test_contrasts_of_reference(case: int):
    known = np.load(DATA / "pair_contrast.npz")
    rho, row = float(known["rho"][case]), known["out"][case].tolist()
    made = reference_estimates(case, correlated(rho))
    contrasts = Contrasts(made)
    against = contrasts.against(1)
    assert against.rho[0] == pytest.approx(rho, abs=1e-12)
    assert against.differences[0] == pytest.approx(row[0], rel=1e-9)
    assert contrasts.errors(1, "selection")[0] ** 2 == pytest.approx(row[1] + row[2], rel=1e-9)
    assert contrasts.errors(1, "stopping")[0] ** 2 == pytest.approx(row[4] + row[5], rel=1e-9)
    if rho >= 0.0:  # else all that may be in common counts, on the wide side
        assert against.correlations[0] == pytest.approx(row[7], abs=1e-9)
        assert against.common[0] == pytest.approx(row[6] * math.sqrt(made[0].samples * made[1].samples))
    arms = [arm(name, one) for name, one in zip("ab", made, strict=True)]
    leader, challenger = gains(arms, contrasts, 0, 1, "selection")
    assert leader / (leader + challenger) == pytest.approx(row[8], rel=1e-9)


missing = st.sampled_from(
    [[], [], [], [*range(40, 45)], [*range(3), 299, 300, 301], [*range(100, 280)], [*range(10, 700, 9)], [5, 7, 650]]
)


@st.composite
def pairs(draw: st.DrawFn) -> list[Estimate]:
    rho = draw(st.sampled_from([0.0, 0.2, 0.9, 0.99, -0.5]))
    lower = draw(st.booleans())
    made = []
    for influence in correlated(rho, 700):
        told = sorted({*range(draw(st.integers(12, 700)))} - {*draw(missing)})
        kept = draw(st.sampled_from([256, 256, 20, 0]))
        newest = [i for i in told if i >= 256][-kept:] if kept else []
        n = len(told) + draw(st.sampled_from([0, 0, 0, 3]))
        counts = [count for count in (2, 7, 15, 40, 90, 200) if count < n]
        number = st.floats(0.1, 3.0)
        sign = draw(st.sampled_from([0, 1, 1, -1]))
        history = tuple(
            Earlier(
                c, draw(number), 4.0 / c * draw(number), draw(st.floats(0.0, 1.0)), systematic=0.1 * sign * draw(number)
            )
            for c in counts
        )
        first = np.where(np.isin(np.arange(256), told), influence[:256], np.nan)
        has = pairing(first, n, draw(st.sampled_from([0.0]) | st.floats(0.01, 1.0)), history=history,
                      told=intervals_of(told), later=influence[newest].astype(np.float32),
                      later_told=intervals_of(newest), systematic_selection=draw(st.sampled_from([0.0, 0.1])),
                      systematic_stopping=draw(st.sampled_from([0.0, 0.15])), systematic_sign=sign)  # fmt: skip
        made.append(estimate(draw(number), 0.2 + draw(number), 0.2 + draw(number), n, has, lower))
    return made


@given(pairs())
def test_contrasts_are_the_formulas(made: list[Estimate]):
    contrasts = Contrasts([*made, estimate(1.0, 0.5, 0.5, 30, None, made[0].lower_is_better)])
    rho = contrasts.against(1).rho[0]
    for kind in KINDS:
        difference, variance, effective = written_out(made[0], made[1], rho, kind)
        assert contrasts.against(1).differences[0] == pytest.approx(difference, rel=1e-9, abs=1e-12)
        assert contrasts.against(0).differences[1] == pytest.approx(-difference, rel=1e-9, abs=1e-12)
        assert contrasts.errors(1, kind)[0] == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert contrasts.errors(0, kind)[1] == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert contrasts.against(1).correlations[0] == pytest.approx(effective, abs=1e-12)
        # The one that is not paired is independent of both.
        assert contrasts.errors(1, kind)[2] == math.hypot(contrasts.errors_of(kind)[1], contrasts.errors_of(kind)[2])
        assert (contrasts.against(1).correlations[2], contrasts.against(1).common[2]) == (0.0, 0)


def test_systematic_parts_of_one_sign_cancel_as_far_as_the_generators_are_related():
    def error(rho: float, signs: tuple[int, int]) -> float:
        made = [
            estimate(1.0, 0.5, 0.5, 100, pairing(row[:100], 100, systematic_stopping=0.4, systematic_sign=sign))
            for row, sign in zip(correlated(rho, 100), signs, strict=True)
        ]
        return Contrasts(made).errors(0, "stopping")[1] ** 2

    apart, sampled = 2.0 * 0.5**2, 2.0 * 0.3**2
    assert error(0.9, (1, 1)) == pytest.approx(0.1 * apart)
    assert error(0.9, (1, 0)) == error(0.9, (0, 0)) == pytest.approx(0.1 * sampled + 2.0 * 0.4**2)
    assert error(0.9, (1, -1)) == pytest.approx(0.1 * sampled + 1.9 * 2.0 * 0.4**2)
    assert error(0.0, (1, 1)) == error(0.0, (0, 0)) == pytest.approx(apart)


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_where_counts_are_even_a_reduction_is_the_one_at_even_counts(rho: float):
    influences = correlated(rho, 100)
    made = [estimate(1.0, s, s, 100, pairing(row, 100)) for s, row in zip((0.5, 0.8), influences, strict=True)]
    against = Contrasts(made).against(0)
    assert against.even_reductions == pytest.approx(against.stopping_reductions)
    assert against.even_reductions[1] < 1.0


def test_a_contrast_is_the_same_in_every_company():
    level, arms = paired_arms([1.0, 1.2, 1.6, 1.3, 0.9, 1.1, 1.7], 0.8), list[Arm]()
    for n, one in zip(range(60, 130, 10), level, strict=True):
        influence = one.estimate.pairing.influence[:n]
        arms.append(arm(one.name, estimate(one.estimate.value, 0.1, 0.1, n, pairing(influence, n))))
    together = {one.generator: one for one in described(arms, 0.05, "g3")}
    for place in (0, 1, 2, 4, 5, 6):
        assert contrast(arms[place], arms[3], 0.05) == together[f"g{place}"]


def test_many_estimates_are_compared_anew_only_where_they_are_others(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    common = rng.standard_normal(256)

    def made(n: int) -> Estimate:
        row, told = common[:n] + rng.standard_normal(min(n, 256)), (0, n) if n % 3 else (0, n // 2, n // 2 + 1, n + 1)
        jackknife = tuple(rng.standard_normal(10) / 20.0) if n >= 100 else ()
        of = pairing(row, n, told=told, jackknife=jackknife, systematic_stopping=0.01, skewness=rng.normal())
        return estimate(1.0 + rng.random(), 0.2, 0.25, n, of)

    sizes = list[int]()

    def counted(columns: Columns, base: int, influences: InfluenceTable, beyond: float) -> Against:
        sizes.append(len(columns.n))
        return compared(columns, base, influences, beyond)

    monkeypatch.setattr("optimist.policies.contrasts.compared", counted)
    estimates = [made(int(n)) for n in rng.integers(20, 300, MANY + 20)]
    first = contrasts_of(list(estimates))
    base = first.best
    first.against(base, 0.1)
    for step in range(6):
        for place in rng.integers(0, len(estimates), 1 + step):
            if place != base:
                estimates[place] = made(int(rng.integers(20, 300)))
        sizes.clear()
        patched = contrasts_of(list(estimates))
        of = {kind: (patched.errors(base, kind), patched.errors(base, kind, 0.1)) for kind in KINDS}
        separations = patched.separations(0.05, "stopping")
        assert sizes
        assert patched.best != base or max(sizes) <= 2 + step, "all of them were compared again"
        whole = Contrasts(estimates)
        assert patched.best == whole.best
        assert patched.against(base) == whole.against(base)
        assert patched.against(base, 0.1) == whole.against(base, 0.1)
        assert of == {kind: (whole.errors(base, kind), whole.errors(base, kind, 0.1)) for kind in KINDS}
        assert separations == whole.separations(0.05, "stopping")


def test_influences_that_say_nothing():
    rng = np.random.default_rng(0)
    x, level = rng.standard_normal(256), np.full(256, 0.1, np.float32).astype(float)
    assert rho_of(x, level) == 0.0
    assert rho_of(level, level) == 0.0
    gap = np.where(np.arange(256) < 100, x, np.nan)
    later = np.where(np.arange(256) >= 91, x, np.nan)
    assert rho_of(gap, later) == 0.0  # 9 in common
    nothing = np.full(256, np.nan)
    assert rho_of(nothing, nothing) == 0.0
    # Level over the indices in common, but not elsewhere.
    assert rho_of(np.where(np.arange(256) < 100, 5.0, x), gap) == 0.0
    # An additive constant, however large, has no meaning.
    assert rho_of(x + 1e9, 2.0 * x - 1e9) == pytest.approx(rho_of(x, x), abs=1e-6)


def test_the_best_is_better_than_the_least_value_by_its_contrast():
    """b had bad luck in its first 50 samples, which are common; a's value is less only for its luck in them."""
    one, other = correlated(0.99)
    short = estimate(1.0, 0.2, 0.2, 50, pairing(one, 50))
    past = (Earlier(50, 0.9, 0.04, 1.0),)  # the longer run's own value was lower then, too
    long = estimate(1.05, 0.1, 0.1, 200, pairing(other, 200, history=past))
    contrasts = Contrasts([short, long])
    assert contrasts.losses[0] < contrasts.losses[1]
    assert contrasts.best == 1
    arms = [arm("short", short), arm("long", long)]
    assert Stopping().decide(arms, 50).best == "long"
    assert min(Stopping().separations(arms, "stopping")) > 0.0
    hardest = explained(Policy("top-two", 2, Stopping()), arms, 50).hardest
    assert hardest.generator == "short"
    assert hardest.difference > 0.0


def test_the_best_is_found_over_any_number_of_others():
    """Each is better than the one before by its contrast, and worse by its value."""

    class Chain(Contrasts):
        def against(self, base: int):
            found = Contrasts.against(self, base)
            found.differences[:] = [-1.0 if place == base + 1 else float(place != base) for place in range(8)]
            return found

    assert Chain([estimate(float(i), 1.0, 1.0, 50) for i in range(8)]).best == 7


def test_a_circle_of_contrasts_ends_where_it_closes():
    """Contrasts need not be transitive; whatever they are, there is an answer."""

    class Circular(Contrasts):
        def against(self, base: int):
            found = Contrasts.against(self, base)
            found.differences[:] = [0.0, -1.0, 1.0] if base == 0 else [1.0, 0.0, -1.0] if base == 1 else [-1.0, 1.0, 0]
            return found

    assert Circular([estimate(float(i), 1.0, 1.0, 50) for i in range(3)]).best == 0


def paired_arms(values: list[float], rho: float, n: int = 100):
    shared, own = math.sqrt(rho), math.sqrt(1.0 - rho)
    draws = np.random.default_rng(1).standard_normal((len(values) + 1, 256))
    rows = [pairing(shared * draws[0] + own * each, n) for each in draws[1:]]
    return [arm(f"g{i}", estimate(v, 0.1, 0.1, n, has)) for i, (v, has) in enumerate(zip(values, rows, strict=True))]


def test_decision_forecast_and_verdicts_use_the_errors_of_the_differences():
    arms = paired_arms([1.0, 1.2, 1.6], 0.95)
    bare = [arm(a.name, estimate(a.estimate.value, 0.1, 0.1, 100)) for a in arms if a.estimate]
    rule = Stopping(0.05)
    made = Policy("top-two", 2, rule)
    assert rule.decide(arms, 60).decided
    assert not rule.decide(bare, 60).decided
    few, many = rule.uniform_samples(arms, 60), rule.uniform_samples(bare, 60)
    assert few is not None
    assert many is not None
    assert 5 * few < many
    assert {v.verdict for v in explained(made, arms, 60).verdicts} == {"worse"}
    (near, far) = described(arms, 2.0, "g0")
    hardest = explained(made, arms, 60).hardest
    assert hardest.standard_error == near.standard_error
    assert (near.lower, near.upper) == (
        near.difference - 2.0 * hardest.standard_error,
        near.difference + 2.0 * hardest.standard_error,
    )
    assert (near.generator, far.generator, near.against, near.common) == ("g1", "g2", "g0", 100)
    assert near.correlation > 0.9
    assert near.text == f"0.200 ({near.lower:.3f} to {near.upper:.3f})"


@pytest.mark.parametrize("name", ["top-two", "uniform"])
def test_so_many_more_samples_decide_a_paired_comparison(name: str):
    values = [1.0, 1.055]
    arms, made = paired_arms(values, 0.9), Policy(name, 2, Stopping(0.05))
    hardest = explained(made, arms, 40).hardest
    assert hardest.more_samples is not None

    def at(n: int):
        grown = paired_arms(values, 0.9, n)
        error = 0.1 * math.sqrt(100 / n)
        return [
            arm(a.name, estimate(a.estimate.value, error, error, n, a.estimate.pairing)) for a in grown if a.estimate
        ]

    n = next(n for n in range(100, 2000) if made.stopping.decide(at(n), 2 * n // 5).decided)
    assert hardest.more_samples[0] < 2 * (n - 100) < hardest.more_samples[1]


def test_beside_an_unrelated_rival_top_two_lets_the_one_that_fell_behind_catch_up():
    one, other = correlated(0.9)
    past = (Earlier(50, 1.0, 0.02, 1.0),)
    arms = [
        arm("a", estimate(1.0, 0.1, 0.1, 100, pairing(one, 100, history=past))),
        arm("b", estimate(1.02, 0.1 * math.sqrt(2.0), 0.15, 50, pairing(other, 50))),
        arm("unrelated", estimate(1.28, 0.1, 0.1, 100)),
    ]
    picks = [Policy("top-two", 2, Stopping()).pick(arms, 30, round_) for round_ in range(2000)]
    # Per sample 1 each: (1 − .9²)/50 for b against (1 − .9)²/100.
    assert picks.count(1) / 2000 == pytest.approx(0.0038 / (0.0038 + 0.0001), abs=0.02)
    # Open picks count: once b's are on their way, they are level.
    caught = [arms[0], arm("b", arms[1].estimate, 50), arms[2]]  # pyright: ignore[reportArgumentType]
    picks = [Policy("top-two", 2, Stopping()).pick(caught, 30, round_) for round_ in range(2000)]
    assert picks.count(1) / 2000 == pytest.approx(0.5, abs=0.04)


def test_contrasts_are_made_once_for_the_same_estimates():
    arms = paired_arms([1.0, 1.2, 1.6], 0.9)
    made = [one.estimate for one in arms if one.estimate]
    assert contrasts_of(made) is contrasts_of(list(made))
    assert contrasts_of(made) is not contrasts_of(made[::-1])
    assert contrasts_of(made).against(0) is contrasts_of(made).against(0)


def test_a_contrast_needs_two_estimates():
    arms = paired_arms([1.0, 1.2], 0.9)
    with pytest.raises(ValueError, match="'g0' twice"):
        contrast(arms[0], arms[0], 2.0)
    with pytest.raises(ValueError, match="'late' has no estimate yet"):
        contrast(arms[0], Arm("late"), 2.0)
    first = arm("first", Estimate(1.0, 1.0, 1, -math.inf, math.inf, -math.inf))
    found = contrast(first, arms[1], 2.0)
    assert (found.difference, found.standard_error, found.lower) == (pytest.approx(-0.2), None, None)
