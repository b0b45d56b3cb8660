"""Means whose prompts come again: errors against a few lines of numpy, ends of lists, and batches that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from optimist import Evaluation, run
from optimist.estimates.estimate import Estimate
from optimist.estimation.question import Question
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import prompt_order
from optimist.policies.contrasts import Contrasts
from optimist.records import codec
from optimist_client import FixError
from optimist_client.metrics import Mean, WinRate
from tests.support.reports import unwrapped

Array = NDArray[np.float64]
M = 30
NAMES = [f"p{place}" for place in range(M)]
ORDERS = {is_list: np.array(prompt_order(M, 2, 0, 600, passes=is_list)) for is_list in (False, True)}
RNG = np.random.default_rng(7)
EFFECTS = RNG.standard_normal((2, M))
NOISE = 0.6 * RNG.standard_normal((2, 600)) + 0.5 * RNG.standard_normal(600)
"""Chance that both models have in common, as by seeds, and of each."""


def clustered(values: Array, prompts: Array) -> float:
    n, seen = len(values), set(prompts.tolist())
    squares = sum((values[prompts == p] - values.mean()).sum() ** 2 for p in seen)
    return squares / n**2 * len(seen) / (len(seen) - 1) * (1 + 5 / len(seen))


def on_list(values: Array, prompts: Array, repeatable: bool) -> float:
    n, seen, total = len(values), set(prompts.tolist()), values.var(ddof=1)
    counts = np.bincount(prompts, minlength=M)
    squares = sum(((values[prompts == p] - values[prompts == p].mean()) ** 2).sum() for p in seen)
    within = 0.0 if repeatable else min(total, squares / (n - len(seen))) if n - len(seen) >= 10 else total
    uneven = min(1.0, ((counts - n / M) ** 2).sum() / n)
    return (1 + 5 / n) * (within + (total - within) * uneven) / n


def estimated(
    question: Question, values: Array, order: Sequence[int] | None, parts: Sequence[tuple[int, int]]
) -> Estimate:
    """The estimate of values (n,), told in these parts, each with its indices; and the same after a snapshot."""
    bound = question.bound_for({"values": 1})
    estimator = StreamingEstimator(bound, 0.0, question.is_paired)
    for start, end in parts:
        listed = None if order is None else torch.tensor(order[start:end])
        rows = torch.from_numpy(values[start:end, None].copy())
        estimator = StreamingEstimator(bound, 0.0, question.is_paired).restore(estimator.state())
        estimator.add({"values": rows}, [""] * len(rows), listed, (start, len(rows)))
    made = estimator.estimate()
    assert codec.decode(Estimate, codec.encode(made)) == made
    return made


def parts_to(n: int) -> list[tuple[int, int]]:
    """In fives, the second batch told last, as a late one is."""
    parts = [(start, min(start + 5, n)) for start in range(0, n, 5)]
    return [*parts[:1], *parts[2:], *parts[1:2]]


CASES = [(kind, n) for kind in ("sample", "list", "repeatable") for n in (20, 30, 33, 75, 300, 600)]


# Of repeatable answers no generator is asked for more than the list.
@pytest.mark.parametrize(("kind", "n"), [(kind, n) for kind, n in CASES if kind != "repeatable" or n <= M])
def test_errors_are_those_of_the_formulas(kind: str, n: int):
    order, repeatable = ORDERS[kind != "sample"], kind == "repeatable"
    values = EFFECTS[:, order] + (0.0 if repeatable else 1.0) * NOISE
    question = Question(Mean(repeatable=repeatable), prompts=M, are_list=kind != "sample")
    made = [estimated(question, x[:n], order, parts_to(n)) for x in values]

    def formula(x: Array) -> float:
        return clustered(x, order[:n]) if kind == "sample" else on_list(x, order[:n], repeatable)

    for one, x in zip(made, values, strict=True):
        assert one.value == pytest.approx(x[:n].mean(), rel=1e-12)
        assert one.stopping_error is not None
        assert one.stopping_error**2 == pytest.approx(formula(x[:n]), rel=1e-9, abs=1e-16)
    contrasts = Contrasts(made)
    difference = values[0, :n] - values[1, :n]
    assert abs(contrasts.against(0).differences[1]) == pytest.approx(abs(difference.mean()), rel=1e-9)
    assert contrasts.errors(0, "selection")[1] ** 2 == pytest.approx(formula(difference), rel=1e-9, abs=1e-16)
    # Rare values may widen it, never make it narrower.
    assert contrasts.errors(0, "stopping")[1] >= contrasts.errors(0, "selection")[1]


def test_what_one_has_alone_counts_by_itself():
    """Unequal counts: the sums of each prompt are those of D, whatever the counts are."""
    order = ORDERS[False]
    values = EFFECTS[:, order] + NOISE
    question = Question(Mean(), prompts=M)
    made = [estimated(question, x[:n], order, parts_to(n)) for x, n in zip(values, (300, 210), strict=True)]
    sums = [np.bincount(order[:n], x[:n] - x[:n].mean(), M) / n for x, n in zip(values, (300, 210), strict=True)]
    expected = np.square(sums[0] - sums[1]).sum() * M / (M - 1) * (1 + 5 / M)
    assert Contrasts(made).errors(0, "selection")[1] ** 2 == pytest.approx(expected, rel=1e-9)


def test_without_prompts_a_sample_counts_as_one_of_a_new_prompt():
    order, values = ORDERS[False], EFFECTS[0, ORDERS[False]] + NOISE[0]
    question = Question(Mean(), prompts=M)
    assert estimated(question, values[:40], None, parts_to(40)) == estimated(
        Question(Mean()), values[:40], None, parts_to(40)
    )
    bound = question.bound_for({"values": 1})
    statistic = bound.statistic()
    statistic.update(torch.from_numpy(values[:60, None].copy()), listed=torch.from_numpy(order[:60]))
    statistic.update(torch.from_numpy(values[60:100, None].copy()))
    strays = np.concatenate([order[:60], np.arange(M, M + 40)])
    made = bound.estimate(statistic)
    assert made.stopping_error**2 == pytest.approx(clustered(values[:100], strays), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_errors_cover_the_population_where_prompts_come_again(noise: float):
    """600 answers to 30 prompts: as of independent samples, z is 4.5 and 2.8."""
    found: list[float] = []
    question = Question(Mean(), prompts=M)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        order = np.array(prompt_order(M, seed, 0, 600))
        effects = rng.standard_normal((2, M))
        values = effects[:, order] + noise * rng.standard_normal((2, 600))
        contrasts = Contrasts([estimated(question, x, order, [(0, 600)]) for x in values])
        found.append(contrasts.against(0).differences[1] / contrasts.errors(0, "stopping")[1])
    assert 0.75 < float(np.sqrt(np.mean(np.square(found)))) < 1.1


def told(scores: dict[str, Array], kind: str, rounds: int, **settings: Any) -> Evaluation:
    """An evaluation on these values of each prompt (M,), plus noise where there is any."""
    length = len(next(iter(scores.values())))
    prompts = [f"p{place}" for place in range(length)]
    settings = {"metric": "mean", "batch_size": 5, **settings}
    evaluation = Evaluation([*scores], prompts=prompts, prompts_are=kind, **settings)
    order = np.array(prompt_order(length, 0, 0, 5 * rounds, passes=kind == "list"))
    for place in range(rounds):
        part = order[5 * place : 5 * place + 5]
        for name, values in scores.items():
            evaluation.tell(name, values[part][:, None], prompt_indices=part.tolist())
    return evaluation


def test_a_decision_needs_twenty_prompts():
    scores = {"a": np.arange(10.0), "b": np.arange(10.0) + 3.0 + 0.1 * RNG.standard_normal(10)}
    few = told(scores, "sample", 40).decision()
    assert not few.decided
    assert few.reason == "fewer than 20 prompts of a, b"
    assert few.verdicts[0].verdict == "close"
    scores = {name: np.concatenate([values, values + 1.0]) for name, values in scores.items()}
    assert told(scores, "sample", 40).decision().decided


def test_how_many_more_prompts_would_decide_is_said():
    scores = {"a": EFFECTS[0], "b": EFFECTS[0] + 0.25 + RNG.standard_normal(M)}
    evaluation = told(scores, "sample", 60)
    hardest = evaluation.decision().hardest
    assert hardest is not None
    assert hardest.more_samples is None
    needed = M * ((hardest.needed * hardest.standard_error / hardest.difference) ** 2 - 1.0)
    assert hardest.more_prompts == pytest.approx(needed, abs=1.0)
    said = "More samples of these prompts will not decide it: about "
    assert said in unwrapped(evaluation.report())
    # On the list itself more samples do.
    assert said not in unwrapped(told(scores, "list", 60).report())


def maker(scores: Array, asked: list[str]) -> Callable[..., Array]:
    def make(size: int, seed: int, prompts: list[str]) -> Array:
        del size, seed
        asked.extend(prompts)
        return scores[[NAMES.index(prompt) for prompt in prompts]][:, None]

    return make


SCORES = (np.random.default_rng(1).random(M) < 0.5) * 1.0


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (SCORES[::-1].copy(), "equal on this list, exactly: a, b"),
        (SCORES[::-1] * (np.arange(M) != SCORES[::-1].argmax()), "a is better on this list, exactly"),
    ],
)
def test_a_repeatable_list_ends_with_the_exact_answer(workers: int, other: Array, reason: str):
    asked: dict[str, list[str]] = {"a": [], "b": []}
    made = {name: maker(scores, asked[name]) for name, scores in {"a": SCORES, "b": other}.items()}
    settings: dict[str, Any] = {"metric": WinRate(repeatable=True), "prompts": NAMES, "prompts_are": "list"}
    report = run(made, batch_size=4, workers=workers, progress=False, **settings)
    assert report.state == "decided"
    assert report.decision.reason == reason
    for prompts in asked.values():
        assert sorted(prompts) == sorted(NAMES)  # each once, none beyond the list, which 4 does not divide
    found = {row.generator: row.score for row in report.standings}
    assert found == {"a": SCORES.mean(), "b": other.mean()}
    assert [verdict.verdict for verdict in report.decision.verdicts] == ["equal" if "equal" in reason else "worse"]


def test_a_repeatable_list_decides_before_its_end_and_goes_on_where_it_is_not_to_stop():
    far = {"a": np.ones(200), "b": (np.arange(200) % 3 == 0) * 1.0}
    early = told(far, "list", 12, metric=WinRate(repeatable=True)).decision()
    assert early.decided
    assert "standard errors" in early.reason
    asked: dict[str, list[str]] = {"a": [], "b": []}
    made = {name: maker(scores, asked[name]) for name, scores in {"a": SCORES, "b": SCORES}.items()}
    settings: dict[str, Any] = {"metric": WinRate(repeatable=True), "prompts": NAMES, "prompts_are": "list"}
    report = run(made, stop=False, progress=False, **settings)
    assert (report.state, report.samples) == ("out of budget", 2 * M)


def test_a_second_answer_to_a_repeatable_prompt_changes_nothing():
    evaluation = told({"a": SCORES, "b": SCORES}, "list", 6, metric=WinRate(repeatable=True))
    before = evaluation.estimates()["a"]
    evaluation.tell("a", SCORES[:7, None], prompt_indices=[*range(7)])
    after = evaluation.estimates()["a"]
    assert before is not None
    assert after is not None
    assert (after.value, after.stopping_error) == (before.value, before.stopping_error)
    with pytest.raises(FixError, match="every prompt of the list has been answered"):
        evaluation.ask()


def test_answers_are_repeatable_on_lists_only():
    for settings in ({"prompts": NAMES}, {}):
        with pytest.raises(FixError, match="repeatable: expected prompts_are='list'"):
            Evaluation(["a"], metric=WinRate(repeatable=True), **settings)


def alike(correlation: float, size: int, batches: int) -> list[Array]:
    rng = np.random.default_rng(size)
    shared = np.sqrt(correlation) * rng.standard_normal((batches, 1))
    return [*(shared + np.sqrt(1.0 - correlation) * rng.standard_normal((batches, size)))]


def of_batches(parts: list[Array], **settings: Any) -> Estimate:
    evaluation = Evaluation(["a", "b"], metric="mean", rescore_growth=0.0, **settings)
    for part in parts:
        evaluation.tell("a", part[:, None])
    found = evaluation.estimates()["a"]
    assert found is not None
    return found


def test_batches_that_are_alike_are_named_and_counted():
    parts = alike(0.3, 20, 40)
    values, batches = np.concatenate(parts), np.repeat(np.arange(40), 20)
    plain, counted = of_batches(parts), of_batches(parts, clusters="batch")
    n = len(values)
    expected = clustered(values, batches)
    assert counted.stopping_error is not None
    assert counted.stopping_error**2 == pytest.approx(expected, rel=1e-9)
    assert counted.warnings == ()
    effect = expected / (1 + 5 / 40) / (values.var(ddof=1) / n)
    said = f"samples of a batch are alike: they count as {n / effect:,.0f} independent ones"
    assert plain.warnings == (f"{said} (clusters='batch' counts them so)",)
    assert not of_batches(parts[:19]).warnings
    assert not of_batches(alike(0.0, 20, 40)).warnings
    assert not of_batches(alike(0.3, 1, 40)).warnings


def test_what_batches_add_is_no_part_of_what_seeds_have_in_common():
    """Generators of equal seeds whose batches have effects of their own: those do not cancel in the difference."""
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((40, 10))
    parts = [shared + rng.standard_normal((40, 1)) for _ in range(2)]
    evaluation = Evaluation(["a", "b"], metric="mean", clusters="batch", batch_size=10)
    for row in range(40):
        for name, part in zip("ab", parts, strict=True):
            evaluation.tell(name, part[row][:, None])
    apart = parts[0].mean(1) - parts[1].mean(1)
    error = evaluation.contrast("a", "b").standard_error
    assert error is not None
    assert error**2 > 0.8 * apart.var(ddof=1) / 40


def test_batches_count_from_twenty_on():
    evaluation = Evaluation(["a", "b"], metric="mean", clusters="batch", batch_size=10)
    for place, part in enumerate(alike(0.1, 10, 40)):
        evaluation.tell("ab"[place % 2], part[:, None] + 5.0 * (place % 2))
        if place == 37:
            assert evaluation.decision().reason == "fewer than 20 batches of a, b"
    assert evaluation.decision().decided
