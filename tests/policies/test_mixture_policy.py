"""The policies of the goal "mixture": parity with the published algorithms, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.estimates.mixture import Mixture
from optimist.estimates.programme import Quadratic
from optimist.policies import Arm, MixturePolicy, Ranges, Stopping
from optimist.policies.mixture_policy import drawn, optimistic_weights, steepest
from optimist.records import ExperimentState, GeneratorState, LogExtent, StoredArtefact, codec
from optimist_client.goals import BestMixture
from optimist_client.metrics import CMMD, FID, MMD, RKE
from tests.support.places import DATA

KNOWN = DATA / "mixture_online.npz"
PUBLISHED = tuple(name for name in BestMixture.policies if name.startswith("mixture-"))


def kernel(one: np.ndarray, other: np.ndarray, sigma: float) -> np.ndarray:
    """The squared Gaussian kernel of all pairs of rows."""
    return np.exp(-((one[:, None] - other[None, :]) ** 2).sum(axis=2) / (2.0 * sigma**2)) ** 2


@pytest.mark.parametrize("rule", ["cab", "ogd", "greedy"])
def test_arms_are_those_of_the_published_algorithms(rule: str):
    """The streams of the reference run, sampled by one rule: a first pull of each, then one sample a round."""
    data = np.load(KNOWN)
    rows, arms, weighed = [[], [], []], [], []

    def sums() -> np.ndarray:
        """The sums of the kernel, self pairs once."""
        told = [np.array(own) for own in rows]
        return np.array([[kernel(one, other, float(data["sigma"])).sum() for other in told] for one in told])

    # The reference has ε = 0.2 √(log t/(2n)), without the term Δ_κ/n.
    ranges = Ranges(kernel=0.0, loss=0.2)
    for round_, uniform in enumerate(data["uniforms"]):
        if round_ < 3:
            place, weights = round_, np.eye(3)[round_]
        else:
            samples = np.array([float(len(own)) for own in rows])
            model = Quadratic(sums() / np.outer(samples, samples), np.zeros(3))
            if rule == "ogd":
                place = steepest(model, samples, ranges.bonus(samples))
                weights = np.eye(3)[place]
            else:
                weights = optimistic_weights(model, ranges.bonus(samples) if rule == "cab" else np.zeros(3))
                place = drawn(weights, float(uniform))
        rows[place].append(data["streams"][place, len(rows[place])])
        arms.append(place)
        weighed.append(weights)
    assert arms == data[f"{rule}_arms"].tolist()
    np.testing.assert_allclose(weighed, data[f"{rule}_alphas"], atol=1e-7)
    np.testing.assert_allclose(sums(), data[f"{rule}_sums"], rtol=1e-9)


def test_the_published_bonus():
    samples = np.array([4.0, 16.0])
    bonus = 2.0 * np.sqrt(2.0 * np.log(20.0) / (2.0 * samples)) + 1.0 / samples
    assert Ranges.from_metric(RKE()) == Ranges(1.0, 2.0)
    np.testing.assert_allclose(Ranges(1.0, 2.0).bonus(samples, beta=2.0), bonus)
    assert Ranges.from_metric(MMD(factor=3.0)) == Ranges(3.0, 12.0)
    assert Ranges.from_metric(CMMD()) == Ranges(1000.0, 4000.0)
    assert Ranges.from_metric(FID()) is None


def made(
    matrix: np.ndarray,
    samples: tuple[int, ...] = (100, 100, 100),
    slacks: tuple[float, ...] = (0.0, 0.0, 0.0),
    errors: tuple[float, ...] = (0.1, 0.1, 0.1),
    names: str = "abc",
    **fields: object,
) -> Mixture:
    """A mixture of generators with this quadratic loss."""
    count = len(samples)
    known = {
        "generators": tuple(names),
        "samples": samples,
        "weights": (1.0 / count,) * count,
        "value": 1.0,
        "error": 0.1,
        "best": names[0],
        "best_value": 1.2,
        "gain": 0.2,
        "gain_error": 0.05,
        "slacks": slacks,
        "slack_errors": errors,
        "contributions": (0.1,) * count,
        "model": Quadratic(matrix, np.zeros(count)),
        "deviations": (1.0,) * count,
    }
    return Mixture(**(known | fields))  # pyright: ignore[reportArgumentType]


def arms_of(samples: tuple[int, ...], names: str = "abc", **fields: object) -> list[Arm]:
    return [replace(Arm(name, None, n, n // 5), **fields) for name, n in zip(names, samples, strict=True)]


def policy(name: str = "ogd", tolerance: float = 0.0, warmup: int = 2) -> MixturePolicy:
    return MixturePolicy.from_metric(name, RKE(), warmup, Stopping(tolerance=tolerance), seed=3)


class TestOurs:
    def test_it_follows_the_gradient_less_its_errors(self):
        mixture = made(np.diag([1.0, 2.0, 4.0]), deviations=(0.5, 0.5, 3.0))
        arms = arms_of((100, 80, 120))
        n = np.array([100.0, 80.0, 120.0])
        index = 2.0 * np.diag([1.0, 2.0, 4.0]) @ (n / n.sum()) - np.array([0.5, 0.5, 3.0]) / np.sqrt(n)
        assert policy().pick(arms, mixture, 60, 1) == int(index.argmin()) == 0

    def test_open_picks_count_as_samples(self):
        mixture = made(np.diag([1.0, 1.1, 4.0]))
        arms = arms_of((100, 100, 100))
        assert policy().pick(arms, mixture, 60, 1) == 0
        arms[0] = replace(arms[0], pending_samples=50, pending_batches=10)
        assert policy().pick(arms, mixture, 60, 1) == 1

    def test_a_paused_generator_keeps_its_share_of_the_mixture(self):
        # a and c are alike. While the paused c has many samples, b is what lacks.
        matrix = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
        mixture = made(matrix, (50, 60, 100), deviations=(0.0, 0.0, 0.0))
        arms = arms_of((50, 60, 100))
        arms[2] = replace(arms[2], active=False)
        assert policy().pick(arms, mixture, 60, 1) == 1
        # Retired, it is no arm, and no part of the mixture.
        assert policy().pick(arms[:2], mixture, 60, 1) == 0

    def test_costs(self):
        mixture = made(np.diag([1.0, 1.0, 1.0]), deviations=(1.0, 1.0, 1.0))
        arms = arms_of((90, 100, 110))
        assert policy().pick(arms, mixture, 60, 1) == 0
        dear = [replace(arm, cost=cost) for arm, cost in zip(arms, (10.0, 1.0, 1.0), strict=True)]
        assert policy().pick(dear, mixture, 60, 1) == 1
        same = [replace(arm, cost=10.0) for arm in arms]
        assert policy().pick(same, mixture, 60, 1) == 0

    def test_what_still_prevents_the_stop_is_sampled(self):
        # c has no part in the mixture, but too few samples to say so.
        mixture = made(np.diag([1.0, 1.0, 1.5]), (400, 400, 30), (0.0, 0.0, -0.5), (0.001, 0.001, 0.2),
                       weights=(0.5, 0.5, 0.0), deviations=(0.1, 0.1, 2.0))  # fmt: skip
        arms = arms_of((400, 400, 30))
        far = replace(mixture, model=Quadratic(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1.5]]), np.zeros(3)))
        assert policy(tolerance=0.0).pick(arms, far, 166, 1) in (0, 1)
        assert far.gap_bound(1.0) <= 0.01 < far.gap_bound(3.0)
        assert policy(tolerance=0.01).pick(arms, far, 166, 1) == 2
        few = replace(far, samples=(400, 400, 10))
        assert policy(tolerance=5.0).pick(arms_of((400, 400, 10)), few, 162, 1) == 2
        assert policy(tolerance=5.0).pick(arms_of((400, 400, 30)), far, 166, 1) in (0, 1)


class TestWarmup:
    def test_it_goes_round(self):
        arms, picks = [Arm(name) for name in "abc"], []
        for told in range(6):
            place = policy().pick(arms, None, told, told + 1)
            picks.append(place)
            arms[place] = replace(arms[place], samples=arms[place].samples + 5, batches=arms[place].batches + 1)
        assert picks == [0, 1, 2, 0, 1, 2]

    def test_it_lasts_until_each_has_samples_for_a_mixture(self):
        arms = [Arm("a", None, 4, 2), Arm("b", None, 3, 3), Arm("c", None, 2, 2, 2, 1)]
        assert policy().pick(arms, None, 7, 8) == 1

    def test_one_that_is_new_comes_first_and_then_waits_for_a_mixture(self):
        mixture = made(np.eye(3))
        arms = [*arms_of((100, 100, 100)), Arm("d")]
        assert policy().pick(arms, mixture, 60, 61) == 3
        arms[3] = Arm("d", None, 0, 0, 10, 2)
        assert policy().pick(arms, mixture, 60, 61) < 3

    def test_without_a_mixture_the_rarest_is_sampled_and_always_by_uniform(self):
        assert policy().pick(arms_of((20, 10, 30)), None, 12, 13) == 1
        assert policy("uniform").pick(arms_of((20, 10, 30)), made(np.eye(3)), 12, 13) == 1


@pytest.mark.parametrize("name", ["mixture-ucb-cab", "mixture-ucb-ogd"])
def test_published_rules_refuse_metrics_without_their_constants(name: str):
    with pytest.raises(ValueError, match="quadratic"):
        MixturePolicy.from_metric(name, FID(), 1, Stopping())
    assert MixturePolicy.from_metric("mixture-greedy", FID(), 1, Stopping()).goes_by_published


@pytest.mark.long
def test_greedy_draws_by_the_best_weights():
    mixture = made(np.diag([1.0, 2.0, 4.0]))
    picks = [policy("mixture-greedy").pick(arms_of((10, 10, 10)), mixture, 6, round_) for round_ in range(2000)]
    np.testing.assert_allclose(np.bincount(picks) / 2000.0, np.array([4.0, 2.0, 1.0]) / 7.0, atol=0.04)


@st.composite
def states(draw: st.DrawFn) -> tuple[list[Arm], Mixture | None, int]:
    """Contenders with a mixture of some of them, and perhaps of one that was retired."""
    count = draw(st.integers(1, 5))
    counts = st.tuples(st.integers(0, 60), st.integers(0, 12), st.integers(0, 20), st.integers(0, 4))
    costs = st.sampled_from([None, 1.0, 3.0])
    arms = [
        Arm(f"{place}", None, *draw(counts), active=draw(st.booleans()), cost=draw(costs)) for place in range(count)
    ]
    known = [arm.name for arm in arms if arm.samples >= 4] + (["gone"] if draw(st.booleans()) else [])
    if not known or draw(st.booleans()):
        return arms, None, draw(st.integers(0, 50))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    features = rng.standard_normal((len(known), 3))
    weights = rng.dirichlet(np.ones(len(known)))
    mixture = made(
        features @ features.T,
        tuple(int(n) for n in rng.integers(4, 60, len(known))),
        tuple(rng.normal(0.0, 0.1, len(known))),
        tuple(rng.uniform(0.0, 0.1, len(known))),
        weights=tuple(weights),
        contributions=(0.0,) * len(known),
        deviations=tuple(rng.uniform(0.0, 2.0, len(known))),
        generators=tuple(known),
    )
    return arms, mixture, draw(st.integers(0, 50))


@settings(max_examples=60, deadline=None)
@given(states(), st.sampled_from(BestMixture.policies), st.integers(1, 10**6), st.sampled_from([0.0, 0.1, 10.0]))
def test_picks_are_pure_and_never_of_a_paused_generator(
    state: tuple[list[Arm], Mixture | None, int], name: str, round_: int, tolerance: float
):
    arms, mixture, told = state
    if not any(arm.active for arm in arms):
        with pytest.raises(ValueError, match="active"):
            policy(name).pick(arms, mixture, told, round_)
        return
    place = policy(name, tolerance).pick(arms, mixture, told, round_)
    assert arms[place].active
    again = None if mixture is None else codec.decode(Mixture, codec.encode(mixture))
    assert policy(name, tolerance).pick(list(arms), again, told, round_) == place
    begun = [arm for arm in arms if arm.active and arm.batches + arm.pending_batches < 2]
    assert not begun or arms[place].batches + arms[place].pending_batches < 2 or arms[place].samples < 4


@settings(max_examples=30, deadline=None)
@given(states(), st.integers(1, 12))
def test_many_open_picks_spread(state: tuple[list[Arm], Mixture | None, int], workers: int):
    """Picks that are opened one after the other bring every active generator through its warm-up, whatever is open."""
    arms, mixture, told = state
    arms = [replace(arm, active=True) for arm in arms]
    for number in range(10 * len(arms) * workers):
        place = policy().pick(arms, mixture, told, number + 1)
        arm = arms[place]
        arms[place] = replace(arm, pending_samples=arm.pending_samples + 5, pending_batches=arm.pending_batches + 1)
    assert all(arm.batches + arm.pending_batches >= 2 for arm in arms)
    assert all(arm.samples + arm.pending_samples >= 4 for arm in arms)


def is_due(
    samples: Sequence[int], mixed: Sequence[int] | None, growth: float = 0.25, paused: Sequence[int] = ()
) -> bool:
    """Whether generators with these samples need a new mixture; mixed: the samples that the last one was made of."""
    generators = [
        GeneratorState(place, f"{place}", count, 1, count, 0, 0, state="paused" if place in paused else "active")
        for place, count in enumerate(samples)
    ]
    made = None if mixed is None else StoredArtefact("", {g: LogExtent(count, count) for g, count in enumerate(mixed)})
    return ExperimentState(0, 0, generators, mixture_growth=growth, mixture=made).is_mixture_due


def test_when_a_mixture_is_due():
    """As samples grow and generators change: tests/store/test_stored_artefacts.py."""
    assert [is_due((120, 130, last), (100, 100, 100)) for last in (124, 125)] == [False, True]
    assert [is_due((100, last, 100), (100, 100, 100), growth=0.0) for last in (100, 101)] == [False, True]
    assert [is_due((100, few, 100), None) for few in (3, 4)] == [False, True]
    assert is_due((100, 3, 100), None, paused=[1])
