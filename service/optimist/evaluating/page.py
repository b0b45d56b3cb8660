"""The page of an evaluation: its answer, and answers side by side to the prompts on which models differ most."""

from __future__ import annotations

from optimist.evaluating.asked import AnswerRow
from optimist.evaluating.play import EvaluationResult
from optimist.evaluating.told import RoutingGain, answer_of, routing_of, spent_of, table_of, title_of, warnings_of
from optimist.leaderboards.page import SHOWN, DifferingQuestion, section
from optimist.routing.gain.reports import RouteReport
from optimist_client.chat.calls import text_of
from optimist_client.display import as_notes, as_page, as_table


def page_of(result: EvaluationResult, routing: RoutingGain = None) -> str:
    """The page, which needs no other file."""
    body = as_notes([answer_of(result), *warnings_of(result), spent_of(result)]) + as_table(table_of(result))
    if routing is not None:
        body += "<h2>Each prompt to the right model</h2>" + as_notes(routing_of(result, routing))
        if isinstance(routing, RouteReport):
            body += "".join(map(as_table, routing.tables))
    if shown := differing(result, SHOWN):
        body += "<h2>Prompts on which models differ most</h2>" + "".join(map(section, shown))
    return as_page(title_of(result), body)


def differing(result: EvaluationResult, count: int) -> list[DifferingQuestion]:
    """The prompts whose scores differ most between models, with the answers of all models that have one."""
    by_prompt: dict[str, dict[str, AnswerRow]] = {}
    for model in result.plan.models:
        for id in result.questions:
            row = result.rows.get((model, id))
            if row is not None and not row.error:  # the worst score of no answer says nothing of the prompt
                by_prompt.setdefault(id, {})[model] = row
    apart = {id: _range([row.value for row in rows.values()]) for id, rows in by_prompt.items()}
    # Of those that differ as much, the ones that more models have answered.
    chosen = sorted((id for id in apart if apart[id] > 0.0), key=lambda id: (-apart[id], -len(by_prompt[id])))
    return [
        DifferingQuestion(
            "",
            id,
            _cut(text_of(result.questions[id].prompt)),
            {model: (row.value, _shown(row)) for model, row in by_prompt[id].items()},
        )
        for id in chosen[:count]
    ]


def _range(values: list[float]) -> float:
    return max(values) - min(values)


def _shown(row: AnswerRow) -> str:
    """The answer, and what the judge said of it."""
    said = _cut(row.answer)
    return f"{said}\n\nJudge: {_cut(row.reasons[-1])}" if row.reasons else said


def _cut(text: str, longest: int = 4000) -> str:
    return text if len(text) <= longest else f"{text[:longest]} …"
