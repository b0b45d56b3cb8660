"""A judge on every sample that is told, and people on some: `Evaluation.audits` and `answer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist.estimates.audited import differing
from optimist.experiments.report import report_of
from optimist.local.evaluation import Evaluation
from optimist_client.errors import FixError, NotFoundError
from optimist_client.metrics import Mean

N, STEP = 600, 100
rng = np.random.default_rng(11)
HARD = rng.standard_normal(N)
PEOPLE = {name: HARD + shift + 0.7 * rng.standard_normal(N) for name, shift in (("ada", 0.3), ("bob", 0.0))}
JUDGE = {name: 0.8 * each + 0.4 * rng.standard_normal(N) for name, each in PEOPLE.items()}
METRIC = Mean(reads="human", proxy="judge", range=(-9, 9))


def told() -> Evaluation:
    evaluation = Evaluation(["ada", "bob"], metric=METRIC)
    for start in range(0, N, STEP):
        for name, judge in JUDGE.items():
            evaluation.tell(name, {"judge": judge[start : start + STEP, None]})
    return evaluation


def answer(evaluation: Evaluation, *audits: int) -> None:
    for audit in audits:
        evaluation.answer(audit, {name: each[audit] for name, each in PEOPLE.items()})


def test_all_generators_in_question_get_samples_that_people_can_compare():
    """An unfair judge, or one by which generators are unrelated, must not leave one of them without audits."""
    evaluation = Evaluation(["ada", "bob", "eve"], metric=Mean(reads="human", proxy="judge"))
    noise = np.random.default_rng(3)
    for _ in range(90):
        name = evaluation.ask()
        evaluation.tell(name, {"judge": noise.standard_normal((5, 1)) + {"ada": -0.5, "bob": 0.0, "eve": 0.5}[name]})
    assert {evaluation.counts(name) for name in evaluation.generators} == {(150, 30)}


def test_scores_are_called_the_judges_and_nothing_is_claimed_before_people_answer():
    """Also where only some generators have answers, of which none can be compared with the others."""
    evaluation = Evaluation(["ada", "bob"], metric=Mean(reads="human", proxy="judge"))
    for name, judge in JUDGE.items():
        evaluation.tell(name, {"judge": judge[:, None] + 50.0 * (name == "ada")})
    report = evaluation.report()
    assert report.title == "Mean (judge; no answers yet)"
    assert f"ada leads after 1,200 samples: {report.title} " in report.answer
    decision = report.decision
    assert (decision.decided, decision.confidence, decision.verdicts) == (False, None, ())
    assert decision.reason == "fewer than 20 audits of ada, bob"
    assert report.standings[0].lower is None
    for audit in evaluation.audits(25):
        evaluation.answer(audit, {"bob": PEOPLE["bob"][audit]})
    report = evaluation.report()
    assert report.title == "Mean (human), else the judge's"
    assert (report.decision.decided, report.decision.verdicts) == (False, ())
    answer(evaluation, *evaluation.audits(25))
    assert evaluation.report().title == "Mean (human)"


def test_people_decide_by_some_samples_and_it_is_what_a_table_says():
    evaluation = told()
    assert evaluation.decision().reason == "fewer than 20 audits of ada, bob"
    answered: list[int] = []
    hinted: list[tuple[int, int, int]] = []
    while not (decision := evaluation.decision()).decided:
        if decision.hardest is not None and decision.hardest.more_audits is not None:
            hinted.append((len(answered), *decision.hardest.more_audits))
            assert "more prompts that people score would decide it." in " ".join(f"{evaluation.report()}".split())
        audits = evaluation.audits(5)
        answer(evaluation, *audits)
        answered += audits
    assert 20 <= len(answered) == len({*answered}) < 200
    assert evaluation.best == "ada"
    assert any(low <= len(answered) - then <= high for then, low, high in hinted)
    is_known = np.isin(np.arange(N), answered)
    sets = {name: {"judge": JUDGE[name], "human": np.where(is_known, PEOPLE[name], np.nan)} for name in PEOPLE}
    found = optimist.contrast(sets, METRIC, paired=True)
    (apart,) = found.contrasts
    assert evaluation.contrast("bob", "ada").difference == pytest.approx(apart.difference, rel=1e-9)
    assert evaluation.contrast("bob", "ada").standard_error == pytest.approx(apart.standard_error, rel=1e-9)
    assert evaluation.judge == found.judge
    assert evaluation.report().decision.decided


def test_several_judges_are_told_by_an_array_each_and_their_mean_counts():
    apart = np.random.default_rng(5).standard_normal(N)
    evaluation = Evaluation(["ada", "bob"], metric=Mean(reads="human", proxy=["large", "small"]), stop=False)
    alone = Evaluation(["ada", "bob"], metric=Mean(reads="human", proxy="judge"), stop=False)
    for name, judge in JUDGE.items():
        by_two = {"large": (judge + apart)[:, None], "small": (judge - apart)[:, None]}
        evaluation.tell(name, by_two)
        alone.tell(name, {"judge": (by_two["large"] + by_two["small"]) / 2.0})
    for each in (evaluation, alone):
        answer(each, *range(30))
    assert evaluation.report().standings == alone.report().standings
    assert evaluation.judge == alone.judge
    with pytest.raises(FixError, match="expected the tensors large, small; found large"):
        evaluation.tell("ada", {"large": JUDGE["ada"][:, None]})


def test_audits_stay_until_they_are_answered_in_any_order_to_the_same_bits(tmp_path: Path):
    one, other = told(), told()
    audits = one.audits(40)
    assert one.audits(40) == audits == other.audits(40)
    answer(one, *audits)
    answer(other, *audits[:7])
    assert other.audits(33) == audits[7:]
    other.save(tmp_path / "saved.npz")
    other = Evaluation.load(tmp_path / "saved.npz")
    answer(other, *reversed(audits[7:]), *audits)
    assert [each and each.audited for each in one.estimates().values()] == [
        each and each.audited for each in other.estimates().values()
    ]
    values = [[each and (each.score, each.stopping_error) for each in of.estimates().values()] for of in (one, other)]
    assert values[0] == values[1]
    assert not {*one.audits(N)} & {*audits}
    assert len(one.audits(N)) == N - 40


def test_audits_that_doubt_chose_stay_in_their_order(tmp_path: Path):
    evaluation = Evaluation(["ada", "bob"], metric=Mean(reads="human", proxy="judge", doubt="unsure"), stop=False)
    for name, judge in JUDGE.items():
        evaluation.tell(name, {"judge": judge[:, None], "unsure": np.abs(HARD)[:, None]})
    answer(evaluation, *evaluation.audits(45))
    audits = evaluation.audits(20)
    evaluation.save(tmp_path / "saved.npz")
    assert evaluation.audits(20) == Evaluation.load(tmp_path / "saved.npz").audits(20) == audits
    assert evaluation.audits(7) == audits[:7]


def test_what_is_no_answer_changes_nothing():
    evaluation = told()
    answer(evaluation, *(audits := evaluation.audits(25)))
    before = evaluation.estimates()
    with pytest.raises(FixError, match=r"it has the answer .*, got 1"):
        evaluation.answer(audits[0], {"bob": PEOPLE["bob"][audits[0]], "ada": 1.0})
    with pytest.raises(FixError, match="expected a sample that the judge has scored, got index 600"):
        evaluation.answer(N, {"ada": 1.0})
    with pytest.raises(FixError, match="expected a score from -9 to 9, got 10"):
        evaluation.answer(evaluation.audits(1)[0], {"bob": 1.0, "ada": 10.0})
    with pytest.raises(FixError, match=r"expected a score of at most .* in size, got nan"):
        evaluation.answer(evaluation.audits(1)[0], {"ada": float("nan")})
    index: Any
    for index in (-1, 2.5, "5", True, None):
        with pytest.raises(FixError, match="audit: expected a whole number, at least 0, got"):
            evaluation.answer(index, {"ada": 1.0})
    score: Any
    for score in ("good", None, True, np.ones(1), 10**400):
        with pytest.raises(FixError, match="score of 'bob': expected a number, got"):
            evaluation.answer(evaluation.audits(1)[0], {"ada": 1.0, "bob": score})
    with pytest.raises(NotFoundError):
        evaluation.answer(audits[0], {"eve": 1.0})
    assert evaluation.estimates() == before
    plain = Evaluation(["ada"], metric="mean")
    plain.tell("ada", np.zeros((2, 1)))
    with pytest.raises(FixError, match="expected a metric with a proxy"):
        plain.audits()


@pytest.mark.parametrize(
    ("prompts", "settings"),
    [([], {}), (["only"], {"prompts": ["only"]}), (["a", "b"], {"prompts": ["a", "b"], "prompts_are": "list"})],
)
def test_missing_answers_are_named_whatever_the_prompts(prompts: list[str], settings: dict[str, Any]):
    """The samples of one prompt alone say nothing about other prompts, so that the judge's mean has no error."""
    evaluation = Evaluation(["ada", "bob"], metric=METRIC, stop=False, **settings)
    for name, judge in JUDGE.items():
        listed = [index % len(prompts) for index in range(STEP)] if prompts else None
        evaluation.tell(name, {"judge": judge[:STEP, None]}, prompt_indices=listed)
    missing = "people's answers are missing, so the score is the judge's mean: a decision needs 20 audits"
    assert f"Warning: all generators: {missing}." in " ".join(f"{evaluation.report()}".split())
    answer(evaluation, *evaluation.audits(20))
    estimates = [each for each in evaluation.estimates().values() if each is not None]
    assert [each.units for each in estimates] == 2 * [(20, "audits")]
    assert not any(each.warnings or each.is_exact for each in estimates)
    assert all(each.stopping_error for each in estimates)


def test_what_people_and_the_judge_cost_and_what_people_alone_would_have():
    """ρ² and the share that is saved are those of the sentence before; N/n = √(ρ² c_h/((1 − ρ²) c_f))."""
    how: dict[str, Any] = {"metric": METRIC, "stop": False, "label_cost": 2.0}
    priced = Evaluation(["ada", "bob"], costs={"ada": 0.02, "bob": 0.04}, **how)
    unpriced = Evaluation(["ada", "bob"], **how)
    for evaluation in (priced, unpriced):
        for name, judge in JUDGE.items():
            evaluation.tell(name, {"judge": judge[:, None]})
        assert evaluation.judge == ()
        answer(evaluation, *evaluation.audits(30))
    means = [each.audited for each in priced.estimates().values() if each is not None and each.audited is not None]
    found = differing(*means)
    assert found is not None
    alone, rho = 60 / (1 - found.saved), found.correlation**2
    spent, best = priced.judge[1:3]
    shown = f"{alone:.0f} scores, for {float(f'{2 * alone:.3g}'):,g}"
    assert spent == (
        f"people gave 60 scores for 120, the judged samples 36; without the judge it would take about {shown}"
    )
    cheapest = (rho * 2.0 / ((1 - rho) * 0.03)) ** 0.5
    of_each = "judged samples for each that people score"
    assert best == f"at these costs about {cheapest:.2g} {of_each} are cheapest; there are {N // 30}"
    assert unpriced.judge[1:] == (f"people gave 60 scores for 120; without the judge it would take about {shown}",)
    assert f"{best[0].upper()}{best[1:]}." in " ".join(f"{priced.report()}".split())
    hint = report_of(priced.state, 1).hint
    assert hint is not None
    assert "more prompts that people score would decide it. People's scores would then cost" in hint
    # A sample of bob has no known cost, so that the samples have none together.
    in_part, cheap = (
        Evaluation(["ada", "bob"], **how, costs=costs) for costs in ({"ada": 0.02}, {"ada": 900.0, "bob": 900.0})
    )
    for evaluation in (in_part, cheap):
        for name, judge in JUDGE.items():
            evaluation.tell(name, {"judge": judge[:15, None]})
        answer(evaluation, *evaluation.audits(15))
    (said,) = in_part.judge[1:]
    assert said == "people gave 30 scores for 60; without the judge it would take about 30 scores, for 60"
    (best,) = cheap.judge[2:]
    assert best == "at these costs about 1 judged sample for each that people score is cheapest; there is 1"
    free = Evaluation(["ada", "bob"], metric=METRIC, stop=False, label_cost=0.0)
    assert free.state.config.label_cost == 0.0
