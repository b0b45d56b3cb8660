"""Sentences of a report with the goal "cheapest": which generator is the cheapest that is good enough, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from optimist_client.models.decisions import LimitVerdict, about, listed, lowered, shown

if TYPE_CHECKING:
    from optimist_client.models.reports import Report


def cost_ratio(report: Report, generator: str, other: str | None) -> str:
    """The cost of a sample of one generator beside another's, as the end of a sentence; "" if it is not known, or about
    the same."""
    costs = {row.generator: row.cost_per_sample for row in report.standings}
    own, others = costs.get(generator), costs.get(other or "")
    if not own or not others or max(own / others, others / own) < 1.05:
        return ""
    if own < others:
        return f", at 1/{others / own:.2g} of the cost of {other}"
    return f", at {own / others:.2g} times the cost of {other}"


def cheapest_answer(report: Report) -> str:
    """The answer so far, in a sentence."""
    decision, best = report.decision, report.decision.best
    told, unless = f"after {report.samples:,} samples", f", {decision.unless}" if decision.unless else ""
    likely = f"with {decision.confidence_text} confidence " if decision.confidence_text else ""
    if decision.none_meets:
        return f"None is good enough, {likely}{told}: every generator misses a limit{unless}."
    if best is None:
        return f"No answer yet {told}: not every generator has a score."
    how = "; ".join(verdict.text for verdict in _of(report, best) if verdict.text)
    how = how and f": {how}"
    cost = cost_ratio(report, best, _best_score(report))
    if decision.decided:
        return f"{best} is the cheapest that is good enough, {likely}{told}{how}{cost}{unless}."
    if all(verdict.verdict == "met" for verdict in _of(report, best)) and _of(report, best):
        open_ = _open(report)
        also = f"; {listed(open_, len(open_) + 1)} {'is' if len(open_) == 1 else 'are'} open" if open_ else ""
        return f"Not decided {report.until}: {best} is good enough {told}{how}{cost}{also}."
    return f"Not decided {report.until}: {best} seems to be the cheapest that is good enough {told}{how}."


def cheapest_why(report: Report, max_names: int = 5) -> str:
    """Why it was or was not decided: `max_names` generators that miss a limit, and what open ones would take."""
    said: list[str] = []
    for names, verb, code in ((_cheaper(report, "not met"), "is not", "not met"), (_open(report), "is open", "open")):
        for name in names[:max_names]:
            verdicts = [verdict for verdict in _of(report, name) if verdict.verdict == code]
            texts = [text for verdict in verdicts if (text := verdict.text)]
            said.append(f"{name} {verb}{': ' if texts else ''}{'; '.join(texts)}{_more(verdicts)}.")
        if len(names) > max_names:
            said.append(f"So {'are' if verb == 'is open' else 'are also not'} {len(names) - max_names:,} more.")
    reason = report.decision.reason
    return " ".join(said) or f"{reason[:1].upper()}{reason[1:]}."


def cheapest_sentences(report: Report, warnings: Iterable[str]) -> list[str]:
    """The sentences of a report, with these warnings."""
    said = [cheapest_answer(report)]
    if report.decision.limits:
        said.append(cheapest_why(report))
    return [*said, *warnings, *([] if report.hint is None else [report.hint])]


def what_would_decide(limits: Sequence[LimitVerdict], max_names: int = 5) -> list[str]:
    """Sentences on what each generator that is open would be decided by now, and on the samples that it takes."""
    refused = {verdict.generator for verdict in limits if verdict.verdict == "not met"}
    open_ = [limit for limit in limits if limit.verdict == "open" and limit.generator not in refused and limit.text]
    said: list[str] = []
    for verdict in open_[:max_names]:
        more = _more([verdict])
        if verdict.is_fixed:
            said.append(f"{verdict.generator}: {verdict.text}{more}.")
        elif verdict.upper is not None and verdict.lower is not None:
            low, high = shown(max(verdict.lower, 0.0), verdict.scale), shown(verdict.upper, verdict.scale)
            would = f"{verdict.generator} would be good enough now if {high} was allowed"
            said.append(f"{would}{f', and not if less than {low} was' if verdict.lower > 0.0 else ''}{more}.")
    return said


def _of(report: Report, generator: str) -> list[LimitVerdict]:
    return [verdict for verdict in report.decision.limits if verdict.generator == generator]


def _best_score(report: Report) -> str | None:
    """The generator with the best score."""
    sign = 1.0 if report.lower_is_better else -1.0
    scores = [(sign * row.score, row.generator) for row in report.standings if row.score is not None]
    return min(scores)[1] if scores else None


def _cheaper(report: Report, verdict: str) -> list[str]:
    """The generators of which some limit has this verdict, where they are not dearer than the named one."""
    costs = {row.generator: row.cost_per_sample for row in report.standings}
    max_cost = costs.get(report.decision.best or "")
    names = dict.fromkeys(limit.generator for limit in report.decision.limits if limit.verdict == verdict)
    if max_cost is None:
        return [*names]
    return [name for name in names if (cost := costs.get(name)) is None or cost <= max_cost or math.isnan(cost)]


def _open(report: Report) -> list[str]:
    """The generators that no limit refuses, and of which one is open, where the answer may depend on them."""
    if report.decision.decided:
        return []
    refused = {limit.generator for limit in report.decision.limits if limit.verdict == "not met"}
    return [name for name in _cheaper(report, "open") if name not in refused]


def _more(verdicts: Iterable[LimitVerdict]) -> str:
    ranges = [verdict.more_samples for verdict in verdicts if verdict.more_samples is not None]
    if not ranges:
        return ""
    return f"; {lowered(about((max(low for low, _ in ranges), max(high for _, high in ranges))))} more samples"
