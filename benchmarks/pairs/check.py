"""Whether a run on tables is the run of `Evaluation`."""

from __future__ import annotations

from collections.abc import Mapping

from outcomes import run_on
from problems import Problem
from races import DELTA, Run, paired
from streams import BATCH, GROWTH, Table, places_of

from optimist import Evaluation


def check(problem: Problem, tables: Mapping[str, Table]) -> None:
    """Compare them on stream 0. Raises AssertionError if a pick, a best generator or the end differ."""
    expected = run_on(problem, tables, 0, paired)
    assert evaluated(problem, len(expected.best)) == expected, "the tables do not give the picks of Evaluation"


def evaluated(problem: Problem, batches: int) -> Run:
    """Stream 0 through `Evaluation`, until it decides or has had so many batches."""
    evaluation = Evaluation(
        problem.generators,
        metric=problem.question.metric,
        policy="top-two",
        delta=DELTA,
        batch_size=BATCH,
        rescore_growth=GROWTH,
    )
    rows = {name: problem.rows(name, places_of(problem, 0)) for name in problem.generators}
    taken = dict.fromkeys(problem.generators, 0)
    best: list[str | None] = []
    while len(best) < batches:
        name = evaluation.ask()
        first = taken[name]
        taken[name] += BATCH
        batch = {array: tensor[first : taken[name]] for array, tensor in rows[name].items()}
        evaluation.tell(name, batch, start=first)
        decision = evaluation.decision(explain=False)
        best.append(decision.best)
        if decision.decided:
            return Run(tuple(best), True, taken)
    return Run(tuple(best), False, taken)
