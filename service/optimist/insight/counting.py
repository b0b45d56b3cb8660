"""Counts asks and tells for the Prometheus metrics."""

from __future__ import annotations

from optimist.insight.metrics import ASKS, DUPLICATES, LATE, PICKS, SAMPLES, TELLS
from optimist.records import Settled
from optimist_client.models import AskReply

_WITH, _WITHOUT = ASKS.labels("picks"), ASKS.labels("none")
_FRESH, _STALE = PICKS.labels("false"), PICKS.labels("true")
_FOR_PICK, _APPENDED = TELLS.labels("pick"), TELLS.labels("append")


def count_ask(reply: AskReply) -> None:
    """Count an ask, and the picks it got."""
    (_WITH if reply.picks else _WITHOUT).inc()
    for pick in reply.picks:
        (_STALE if pick.stale else _FRESH).inc()


def count_tell(settled: Settled) -> None:
    """Count an accepted batch; a repeat counts only as a duplicate."""
    if settled.duplicate:
        DUPLICATES.inc()
        return
    (_FOR_PICK if settled.pick else _APPENDED).inc()
    SAMPLES.inc(settled.rows)
    if settled.late:
        LATE.inc()
