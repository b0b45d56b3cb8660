"""What routing gains by the table of an experiment, and by logs of generators that other prompts were given to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.answers.rows import RoutedRows
from optimist.routing.gain.gain import route_gain
from optimist.routing.gain.outcomes import Outcomes, ScoredPrompts
from optimist.routing.gain.reports import RoutingSettings, route_table
from optimist.routing.simulation.trials import RoutingProblem, play
from optimist_client.models.routes import Routes

KINDS = ("a poem about", "translate", "sum up")
EXPECTED = np.array([[0.9, 0.3, 0.2], [0.4, 0.8, 0.2], [0.6, 0.1, 0.2]])
"""Of three generators on three kinds of prompt."""
NAMES = ("ada", "bob", "cyd")


@cache
def told(count: int = 800, *, seed: int = 0, sign: float = 1.0, policy: str = "optimistic") -> RoutedRows:
    """Rows as a service keeps them, of an experiment in which lower scores are better if the sign is −1."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, count)
    contexts = 2.0 * np.random.default_rng(99).standard_normal((3, 16))[kinds] + 0.7 * rng.standard_normal((count, 16))
    expected = EXPECTED[kinds]
    scores = expected + 0.2 * rng.standard_normal(expected.shape)
    run = play(RoutingProblem("", contexts, scores, expected), RoutePolicy(policy), trial=seed, features=64)
    score = sign * scores[run.order, run.chosen]
    return RoutedRows(
        contexts=contexts[run.order].astype(np.float32),
        generator=run.chosen,
        score=score,
        probability=run.probability,
        pick=np.arange(count),
        prompts=[f"{KINDS[kind]} {place}" for place, kind in enumerate(kinds[run.order])],
        samples=np.bincount(run.chosen, minlength=3),
        sums=np.bincount(run.chosen, weights=score, minlength=3).astype(np.float64),
    )


def table(rows: RoutedRows, **settings: Any) -> Routes:
    return route_table(rows, RoutingSettings(**{"names": NAMES, **settings}))


def kind_of(text: str) -> int:
    return next(place for place, kind in enumerate(KINDS) if text.startswith(kind))


@pytest.mark.long
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_table_says_who_wins_what_in_both_directions(sign: float):
    made = table(told(sign=sign), lower_is_better=sign < 0.0)
    assert made.basis == "doubly robust"
    assert made.gain is not None
    assert made.standard_error is not None
    # The best generator of each kind over "ada", the best single one: (0 + 0.4 + 0)/3.
    assert abs(made.gain - 0.4 / 3) < 3.0 * made.standard_error < 0.15
    assert made.best == "ada"
    assert made.best_score == pytest.approx(sign * 0.633, abs=0.08)
    assert made.score - made.best_score == pytest.approx(sign * made.gain)
    assert [kind.share for kind in made.types] == sorted((kind.share for kind in made.types), reverse=True)
    assert len(made.types) == 3
    for kind in made.types:
        expected = EXPECTED[kind_of(kind.examples[0])]
        assert all(kind_of(text) == kind_of(kind.examples[0]) for text in kind.examples)
        assert [one.generator for one in kind.scores] == list(NAMES)
        for one, value in zip(kind.scores, expected, strict=True):
            assert one.score is not None
            assert abs(one.score - sign * value) < 3.5 * (one.standard_error or 0.2)
        assert kind.lead is not None
        assert kind.lead >= 0.0
        assert kind.winner == NAMES[int(expected.argmax())]
        assert sum(one.traffic for one in kind.scores if one.generator == kind.winner) > 0.8
    assert sum(share.routed for share in made.shares) == pytest.approx(1.0)
    assert sum(share.traffic for share in made.shares) == pytest.approx(1.0)


@pytest.mark.long
def test_prompts_of_few_different_contexts_have_as_many_types():
    rows = told(400)
    kinds = np.array([kind_of(prompt) for prompt in rows.prompts])
    made = table(replace(rows, contexts=np.eye(3, dtype=np.float32)[kinds]))
    shares = np.bincount(kinds, minlength=3) / len(kinds)
    assert [kind.share for kind in made.types] == pytest.approx(sorted(shares, reverse=True))


@pytest.mark.long
def test_costs_are_weighed_and_what_was_saved_is_said():
    rows = told()
    free = table(rows, costs=[3.0, 1.0, 0.5])
    assert free.savings is not None
    spent = float(rows.samples @ [3.0, 1.0, 0.5])
    assert free.savings.cost == pytest.approx(spent / len(rows.score))
    assert free.savings.single_cost == free.savings.dearest_cost == 3.0
    assert free.savings.saved == pytest.approx(3.0 * len(rows.score) - spent)
    # At this price, "ada" is worth 0.3, −0.2 and 0, "bob" 0.1, 0.6 and −0.1, and "cyd" always 0.1.
    priced = table(rows, costs=[3.0, 1.0, 0.5], price=0.2)
    assert priced.best == "bob"
    assert priced.savings is not None
    assert priced.savings.single_cost == 1.0
    assert priced.gain is not None
    assert priced.gain == pytest.approx((0.2 + 0.0 + 0.2) / 3, abs=4.0 * (priced.standard_error or 0.0))
    assert table(rows).savings is None


def test_tries_count_by_their_first_row():
    rows = told(400)
    calls = np.where(rows.score > 0.5, 1, 3)
    repeated = np.repeat(np.arange(400), calls)
    more = replace(
        rows,
        **{name: getattr(rows, name)[repeated] for name in ("contexts", "generator", "probability", "pick")},
        score=np.repeat(rows.score, calls) > 0.5,
        prompts=[rows.prompts[place] for place in repeated],
        samples=np.bincount(rows.generator, weights=calls, minlength=3).astype(np.int64),
    )
    made = table(more, costs=[1.0, 1.0, 1.0], tries=3)
    assert made.prompts == 400
    assert made.savings is not None
    assert made.savings.cost == pytest.approx(calls.mean())
    assert 1.0 < made.savings.single_cost < 3.0


@pytest.mark.long
def test_without_probabilities_the_gain_is_by_the_model():
    rows = told(policy="greedy")
    # As a service has it: until the first model, it draws by chance.
    early = np.where(np.arange(len(rows.score)) < 40, 1.0 / 3.0, np.nan)
    made = table(replace(rows, probability=early), policy="greedy")
    assert made.basis == "model"
    assert made.gain is not None
    assert 0.0 < made.gain < 0.3
    assert made.standard_error is None
    assert made.warnings == ()
    assert all(kind.gain_standard_error is None and kind.lead_standard_error is None for kind in made.types)


@pytest.mark.long
def test_a_log_without_overlap_or_with_few_rows_says_so():
    rows = told()
    made = table(replace(rows, probability=np.full(len(rows.score), np.nan)))
    assert made.basis == "model"
    assert any("by chance" in warning for warning in made.warnings)
    made = table(_first(rows, 6))
    assert made.gain is None
    assert made.types == []
    assert made.prompts == 6
    assert any("too few" in warning for warning in made.warnings)


@pytest.mark.long
def test_generators_without_samples_are_named():
    rows = told()
    wide = replace(rows, samples=np.append(rows.samples, 0), sums=np.append(rows.sums, 0.0))
    made = table(wide, names=(*NAMES, "dee"))
    assert any("dee" in warning for warning in made.warnings)
    assert made.shares[3].samples == made.shares[3].routed == 0.0
    assert all(kind.scores[3].score is None for kind in made.types)
    # Those that were retired are not missing, and nobody could save their costs.
    priced = table(wide, names=(*NAMES, "dee"), retired=["dee"], costs=[1.0, 2.0, 4.0, 9.0])
    assert not any("dee" in warning for warning in priced.warnings)
    assert priced.savings is not None
    assert priced.savings.dearest_cost == 4.0
    # With one generator that has samples, there is nothing to compare.
    alone = _first(replace(rows, generator=np.zeros_like(rows.generator)), 40)
    only = table(alone)
    assert only.gain is None
    assert only.best == "ada"


def _first(rows: RoutedRows, count: int) -> RoutedRows:
    names = "contexts", "generator", "score", "probability", "pick", "prompts"
    found = replace(rows, **{name: getattr(rows, name)[:count] for name in names})
    sums = np.bincount(found.generator, weights=found.score, minlength=3).astype(np.float64)
    return replace(found, samples=np.bincount(found.generator, minlength=3), sums=sums)


FIRST, SECOND = np.zeros(400, dtype=np.int64), np.ones(400, dtype=np.int64)
EVERYWHERE = np.ones(400, dtype=np.bool_)


def log(seed: int, rare: float = 0.2) -> tuple[ScoredPrompts, np.ndarray, np.ndarray]:
    """A log of two generators, the second rarely drawn; true scores (m, 2); and predictions that are off by a part."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((400, 4))
    true = np.stack([contexts[:, 0], 0.5 - contexts[:, 1]], axis=1)
    generator = (rng.random(400) < rare).astype(np.int64)
    generator[0] = 1
    scores = true[np.arange(400), generator] + 0.3 * rng.standard_normal(400)
    probability = np.where(generator == 1, rare, 1.0 - rare)
    known = ScoredPrompts(("a", "b"), contexts, np.arange(400), generator, scores, probability)
    return known, true, 0.5 * true + [0.3, -0.2]


def test_wrong_predictions_are_corrected_by_draws():
    z = []
    for seed in range(40):
        known, true, predicted = log(seed)
        found = Outcomes(known, predicted, np.zeros(2)).difference(FIRST, SECOND, EVERYWHERE)
        assert found is not None
        assert found.error is not None
        # The error is for further prompts: 0 − 0.5 on average over all.
        z.append((found.value + 0.5) / found.error)
        assert abs(found.value - (true[:, 0] - true[:, 1]).mean()) < 0.3
    assert 0.7 < np.sqrt(np.square(z).mean()) < 1.3
    assert abs(np.mean(z)) < 0.5


def test_draws_without_a_probability_correct_nothing():
    known, _, predicted = log(0)
    probability = np.where(np.arange(400) < 100, np.nan, known.probability)
    scores = np.where(np.arange(400) < 100, 99.0, known.scores)
    some = ScoredPrompts(known.names, known.contexts, known.prompt, known.generator, scores, probability)
    rest = ScoredPrompts(
        known.names, known.contexts[100:], np.arange(300), known.generator[100:], scores[100:], probability[100:]
    )
    of_some = Outcomes(some, predicted, np.zeros(2))
    assert not of_some.judged[:100].any()
    expected = Outcomes(rest, predicted[100:], np.zeros(2)).difference(FIRST[100:], SECOND[100:], EVERYWHERE[100:])
    assert of_some.difference(FIRST, SECOND, EVERYWHERE) == expected


def test_a_generator_that_was_not_drawn_is_known_on_few_prompts_only():
    known, _, predicted = log(1, rare=1e-9)
    outcomes = Outcomes(known, predicted, np.zeros(2))
    everywhere = outcomes.difference(FIRST, SECOND, EVERYWHERE)
    assert everywhere is not None
    assert everywhere.error is None
    assert everywhere.value == pytest.approx((predicted[:, 0] - predicted[:, 1]).mean())
    few = np.where(np.arange(400) < 8, 1, 0)
    rarely = outcomes.difference(few, FIRST, EVERYWHERE)
    assert rarely is not None
    assert rarely.error is not None
    assert 0.0 < rarely.error < 0.1


@pytest.mark.long
def test_the_error_is_right_on_logs_that_the_default_wrote():
    z = []
    for seed in range(14):
        rng = np.random.default_rng(seed)
        contexts = rng.standard_normal((600, 6))
        expected = contexts[:, :3] * 0.5 + [0.3, 0.0, 0.0]
        problem = RoutingProblem("", contexts, expected + 0.5 * rng.standard_normal(expected.shape), expected)
        run = play(problem, RoutePolicy("optimistic", seed=seed), features=32)
        scores = problem.scores[run.order, run.chosen]
        known = ScoredPrompts(("a", "b", "c"), contexts[run.order], np.arange(600), run.chosen, scores, run.probability)
        found = route_gain(known, features=32, seed=seed)
        if not found.error:
            continue
        there = expected[run.order]
        rows = np.arange(600)
        z.append((found.gain - (there[rows, found.routed] - there[:, found.single]).mean()) / found.error)
    assert len(z) > 9
    assert 0.5 < np.sqrt(np.square(z).mean()) < 1.5
