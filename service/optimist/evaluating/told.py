"""The answer of an evaluation: which model, what is to be known first, what was spent and saved, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optimist.evaluating.asked import JUDGE, amounts
from optimist.evaluating.ledger import Tally
from optimist.evaluating.play import DOLLARS, SCORE, SECONDS, EvaluationResult
from optimist.routing.gain.reports import RouteReport
from optimist_client.errors import FixError
from optimist_client.layout import Page, Table
from optimist_client.models.decisions import UNTIL

RoutingGain = RouteReport | FixError | None
"""The gain of routing, or why it is not known; None where nobody asked."""


def shown(result: EvaluationResult, routing: RoutingGain = None) -> Page:
    """The answer as text."""
    parts: list[str | Table] = [answer_of(result), *warnings_of(result), spent_of(result), "", table_of(result)]
    if routing is not None:
        parts += ["", *routing_of(result, routing)]
        for table in routing.tables if isinstance(routing, RouteReport) else ():
            parts += ["", table]
    return Page(parts)


def routing_of(result: EvaluationResult, routing: RouteReport | FixError) -> list[str]:
    """The verdict whether sending each prompt to the right model is better than the best model alone, in sentences."""
    more = "" if not result.plan.stop else " With `stop: false` in the file every model is asked every prompt."
    if isinstance(routing, FixError):
        return [f"What routing would gain is not known: {routing}.{more}"]
    gain = routing.gain
    is_open = gain.lower is None or gain.upper is None or gain.lower <= 0.0 <= gain.upper
    by = f"By the answers to {gain.prompts:,} of {len(result.questions):,} prompts, for further prompts such as these."
    said = [f"{routing.sentence} {by}{more if is_open and gain.error else ''}", " ".join(routing.notes)]
    if gain.cost is not None and gain.single_cost is not None:
        alone = f"{1000 * gain.single_cost:.3g} with {gain.best} alone"
        said.append(f"1,000 prompts would cost ${1000 * gain.cost:.3g} routed, ${alone}.")
    return said


def answer_of(result: EvaluationResult) -> str:
    """Which model is the best one, or the cheapest that is good enough, as one sentence; and why not, where not."""
    report = result.report
    said = " ".join(filter(None, (report.answer, report.why)))
    hardest = report.decision.hardest
    if hardest is not None and len(result.questions) <= hardest.holds_until:  # no model is asked as often
        said = said.replace(UNTIL.format(hardest.holds_until), "")
    for label in (SCORE, SECONDS, DOLLARS):  # what a mean is of says more than that it is one
        said = said.replace(f"Mean ({label})", label)
    return f"{result.stopped[:1].upper()}{result.stopped[1:]}. {said}" if result.stopped else said


def title_of(result: EvaluationResult) -> str:
    """The answer in a few words."""
    decision = result.report.decision
    if decision.none_meets:
        return "No model is good enough"
    if decision.best is None:
        return "No answer yet"
    if not decision.decided:
        return f"No answer yet: {decision.best} leads"
    return f"{decision.best}: the {'cheapest that is good enough' if decision.limits else 'best'}"


def warnings_of(result: EvaluationResult) -> list[str]:
    """Warnings to read before the answer is believed."""
    said: list[str] = []
    for who, tally in result.tallies.items():
        tried, failed = tally.calls - tally.cut_off - tally.paused, tally.unanswered
        if failed > 0.05 * tried:
            kinds = {
                "failed": tally.failed,
                f"late, after {result.plan.timeout:g} s": tally.late,
                "refused": tally.refused,
            }
            parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
            last = f" The last error: {tally.last}." if tally.last else ""
            share = f"{100 * failed / tried:.3g}%"
            said.append(f"{who}: {failed:,} of {tried:,} requests brought no answer ({share}): {parts}.{last}")
    if late := {who: tally.late for who, tally in result.tallies.items() if tally.late and who != JUDGE}:
        said.append(f"Late answers have the worst score; seconds of {' and '.join(late)} are at least what is shown.")
    refusals = sum(row.refusals for row in result.rows.values())
    if refusals:
        unjudged = sum(row.refusals == 2 * max(result.judgements, 1) for row in result.rows.values())
        said.append(
            f"The judge gave no score in {refusals:,} replies; {unjudged:,} answers have the worst one for that."
        )
    return said


def spent_of(result: EvaluationResult) -> str:
    """The dollars spent of what asking everything would have cost; requests whose cost is not known."""
    calls, dollars = spent(result)
    total, all_dollars = total_of(result)
    paid = f"${dollars:,.2f}" if all_dollars is None else amounts(dollars, all_dollars)
    said = f"Spent: {calls:,} of {max(calls, total):,} calls, {paid} that asking every model every prompt takes."
    if paused := sum(tally.paused for tally in result.tallies.values()):
        said += f" {paused:,} {_calls(paused)} told to wait (HTTP 429), and sent again."
    if cut := sum(tally.cut_off for tally in result.tallies.values()):
        said += f" {cut:,} {_calls(cut)} cut off as the command was killed: what they cost is not known."
    return said


def _calls(count: int) -> str:
    return "call was" if count == 1 else "calls were"


def spent(result: EvaluationResult) -> tuple[int, float]:
    """Requests and dollars of all runs."""
    tallies = result.tallies.values()
    return sum(tally.calls for tally in tallies), sum(tally.dollars for tally in tallies)


def total_of(result: EvaluationResult) -> tuple[int, float | None]:
    """Requests and dollars of asking every model every prompt; no dollars before each model has answered."""
    prompts, models = len(result.questions), [*result.plan.models]
    pairwise = result.plan.score.pairwise
    judged = len(models) if pairwise is None else len(models) - 1
    calls = prompts * (len(models) + judged * result.judgements)
    means = [_mean(result.tallies.get(name)) for name in (*models, *([JUDGE] if result.judgements else []))]
    if None in means:
        return calls, None
    weights = [1] * len(models) + ([judged * result.judgements] if result.judgements else [])
    return calls, prompts * sum(weight * (mean or 0.0) for weight, mean in zip(weights, means, strict=True))


def _mean(tally: Tally | None) -> float | None:
    """Dollars of a request that was answered; None where there was no request."""
    return None if tally is None else tally.dollars / max(tally.answered, 1)


def table_of(result: EvaluationResult) -> Table:
    """A row for each model: its score, seconds and dollars of an answer, prompts and requests."""
    watched = {
        label: {row.generator: row for row in report.standings} for label, report in result.report.watched.items()
    }
    score = "score" if result.plan.score.pairwise is None else "share of wins"
    head = ("model", score, "interval", "seconds", "dollars per 1,000", "prompts", "calls", "failed")
    lines = list[tuple[str, ...]]()
    for row in result.report.in_order:
        tally = result.tallies.get(row.generator)
        late = ">= " if tally is not None and tally.late else ""
        dollars, seconds = (watched[label][row.generator].score for label in (DOLLARS, SECONDS))
        is_exact = row.lower is not None and row.lower == row.upper
        lines.append(
            (
                row.generator,
                row.score_text,
                "exact" if is_exact else row.interval_text,
                "…" if seconds is None else f"{late}{seconds:.3g}",
                "…" if dollars is None else f"{1000 * dollars:.3g}",
                f"{row.samples:,}",
                f"{0 if tally is None else tally.calls:,}",
                f"{0 if tally is None else tally.unanswered:,}",
            )
        )
    return Table(head, lines, first_to_go=("prompts", "interval"))


def to_dict(result: EvaluationResult, routing: RoutingGain = None) -> dict[str, Any]:
    """Plain values for JSON."""
    calls, dollars = spent(result)
    all_calls, all_dollars = total_of(result)
    return {
        "answer": answer_of(result),
        "warnings": warnings_of(result),
        "spent": {"calls": calls, "dollars": dollars},
        "everything": {"calls": all_calls, "dollars": all_dollars},
        "requests": {who: tally._asdict() for who, tally in result.tallies.items()},
        "report": result.report.to_dict(),
        "routing": {"error": f"{routing}"} if isinstance(routing, FixError) else routing and routing.to_dict(),
    }


def records_of(result: EvaluationResult) -> Iterator[dict[str, Any]]:
    """A record of each answer: the prompt, what was said, why it has its score, and what it took."""
    for (model, id), row in result.rows.items():
        prompt, (sent, made) = result.questions[id].prompt, row.tokens
        named = {"model": model, "id": id, "prompt": prompt, "answer": row.answer, "score": row.value}
        took = {"input_tokens": sent, "output_tokens": made, "seconds": row.seconds, "dollars": row.dollars}
        yield {**named, "reasons": row.reasons, **took, "error": row.error}
