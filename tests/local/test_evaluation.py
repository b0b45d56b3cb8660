"""`score` and `Evaluation`: the authors' own pick sequences, agreement with each other, and odd input."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation, score
from optimist_client import NotFoundError
from tests.support.places import DATA

REFERENCE = (np.zeros(6), np.eye(6))


def draw(n: int, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 6)) * [1, 2, 0.5, 1, 1, 3] + shift


@pytest.mark.parametrize(("file", "policy"), [("trajectory_fd_ucb", "ucb"), ("trajectory_greedy", "greedy")])
def test_the_authors_evaluator_picks_the_same_generators(file: str, policy: str):
    with np.load(DATA / f"{file}.npz") as data:
        streams, picks, scores = data["streams"], data["picks"], data["scores"]
        reference = data["mean_reference"], data["covariance_reference"]
    names = [str(g) for g in range(len(streams))]
    evaluation = Evaluation(
        names, metric="fid", reference=reference, policy=policy, bound="authors", warmup=1, rescore_growth=0.0
    )
    taken = [0] * len(names)
    for step, expected in enumerate(picks):
        generator = int(evaluation.ask())
        assert generator == expected, f"step {step}"
        evaluation.tell(str(generator), streams[generator, taken[generator]])
        taken[generator] += 1
        now = evaluation.estimates()[str(generator)]
        ranked = now.optimistic if policy == "ucb" else now.value
        assert ranked == pytest.approx(scores[step, generator], rel=1e-6)


@pytest.mark.parametrize("bound", ["influence", "theorem", "authors", "naive"])
@pytest.mark.parametrize("n", [2, 5, 6, 7, 8, 60, 400])
def test_score_and_evaluation_agree(bound: str, n: int):
    features = draw(n)
    once = score(features, "fid", reference=REFERENCE, bound=bound)
    evaluation = Evaluation(["g"], reference=REFERENCE, bound=bound, rescore_growth=0.0)
    for batch in np.array_split(features, max(1, n // 5)):
        evaluation.tell("g", batch)
    told = evaluation.estimates()["g"]
    for field in ("value", "plug_in", "standard_error", "stopping_error", "lower", "upper"):
        mine, theirs = getattr(told, field), getattr(once, field)
        assert mine == (None if theirs is None else pytest.approx(theirs, rel=1e-10)), field
    assert told.samples == once.samples == n


def test_options_reach_their_bound():
    features = draw(50)
    plain = score(features, reference=REFERENCE, bound="theorem")
    assert score(features, reference=REFERENCE, bound="theorem", sigma2=2.0).optimistic < plain.optimistic
    assert score(features, reference=REFERENCE, bound="theorem", mean_gap=5.0).optimistic < plain.optimistic
    authors = score(features, reference=REFERENCE, bound="authors")
    assert score(features, reference=REFERENCE, bound="authors", kappa=2.0).optimistic < authors.optimistic
    with pytest.raises(ValueError, match="kappa"):
        score(features, reference=REFERENCE, bound="theorem", kappa=2.0)
    evaluation = Evaluation(["a"], reference=REFERENCE, bound="theorem", bound_options={"sigma2": 2.0})
    evaluation.tell("a", features)
    assert evaluation.estimates()["a"].optimistic < plain.optimistic


def test_estimates_are_due_at_fixed_counts():
    evaluation = Evaluation(["g"], reference=REFERENCE, rescore_growth=0.5)
    seen = []
    for batch in np.split(draw(60), 60):
        evaluation.tell("g", batch)
        estimate = evaluation.estimates()["g"]
        seen.append(estimate and estimate.samples)
    assert seen[0] is None
    assert sorted({samples for samples in seen if samples}) == [2, 3, 5, 8, 12, 18, 27, 41]


def test_the_default_policy_finds_the_best_and_the_decision_follows():
    evaluation = Evaluation(["far", "near", "farther"], reference=REFERENCE, policy="top-two", seed=1)
    rng = np.random.default_rng(2)
    shifts = {"far": 1.0, "near": 0.0, "farther": 2.0}
    assert evaluation.decision().best is None
    for _ in range(400):
        if evaluation.decision().decided:
            break
        name = evaluation.ask()
        evaluation.tell(name, rng.standard_normal((5, 6)) + shifts[name])
    decision = evaluation.decision()
    assert (decision.best, decision.decided) == ("near", True)
    assert decision.confidence is not None
    assert decision.confidence > 0.95
    assert [(one.generator, one.verdict) for one in decision.verdicts] == [("far", "worse"), ("farther", "worse")]
    assert decision.hardest.separation > decision.hardest.needed
    plain = evaluation.decision(explain=False)
    assert (plain.decided, plain.verdicts, plain.hardest) == (True, (), None)


def test_tell_takes_batches_nobody_asked_for_and_refuses_bad_ones():
    evaluation = Evaluation(["a", "b"], reference=REFERENCE)
    evaluation.tell("b", draw(37))
    before = evaluation.estimates()
    for bad in (draw(5)[:, :5], np.full((5, 6), np.nan), np.zeros((0, 6)), np.zeros(6), np.full((1, 6), 1e31)):
        with pytest.raises(ValueError, match="expected"):
            evaluation.tell("b", bad)
    with pytest.raises(NotFoundError, match="expected one of a, b"):
        evaluation.tell("c", draw(5))
    assert evaluation.estimates() == before
    assert evaluation.told == 1


@pytest.mark.parametrize("pair", [("a", "c"), ("c", "a")])
def test_a_contrast_with_a_generator_that_is_not_there_is_refused(pair: tuple[str, str]):
    with pytest.raises(NotFoundError, match="expected one of a, b"):
        Evaluation(["a", "b"], reference=REFERENCE).contrast(*pair)


def test_the_caller_may_write_over_its_array():
    evaluation, buffer = Evaluation(["a"], reference=REFERENCE, rescore_growth=0.0), np.empty((5, 6))
    for step in range(4):
        buffer[:] = draw(5, step)
        evaluation.tell("a", buffer)
    expected = score(np.concatenate([draw(5, step) for step in range(4)]), reference=REFERENCE)
    assert evaluation.estimates()["a"].value == pytest.approx(expected.value, rel=1e-10)


@pytest.mark.parametrize("bound", ["influence", "theorem", "authors", "naive"])
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("rank", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", ["identical", "one", "two", "d", "d+1", "many"])
def test_degenerate_input_gives_numbers(bound: str, d: int, rank: int, kind: str):
    rng = np.random.default_rng(0)
    covariance = np.diag([1.0] * min(rank, d) + [0.0] * (d - min(rank, d)))
    sizes = {"identical": 30, "one": 1, "two": 2, "d": d, "d+1": d + 1, "many": 200}
    features = np.ones((30, d)) if kind == "identical" else rng.standard_normal((sizes[kind], d))
    estimate = score(features, reference=(np.zeros(d), covariance), bound=bound)
    assert estimate.is_sound()
    assert np.isfinite(estimate.score)
    assert not np.isnan([estimate.lower, estimate.upper, estimate.optimistic]).any()
    if kind == "one" and bound == "influence":
        assert estimate.warnings
