"""States that two readers must agree on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import ExperimentState
from optimist_client.models import AskRequest
from optimist_client.models.picks import MAX_PICKS


def plain(stored: ExperimentState) -> ExperimentState:
    """What a process must know of a state without reading it: deadlines are known only roughly, logs not at all; and
    which batches agree, which only reports say, once the generators are read again."""
    return replace(
        stored,
        open_picks=[replace(pick, deadline=0.0) for pick in stored.open_picks],
        generators=[
            replace(
                one,
                told=[],
                duplicates={},
                units={label: replace(unit, log_bytes=0, snapshot_seq=0) for label, unit in one.units.items()},
            )
            for one in stored.generators
        ],
    )


def comparable(state: PolicyState) -> tuple[object, ...]:
    """All that picks and reports are made from."""
    stored, open_picks = state.stored, state.open_picks
    picks = [open_picks[leased.number] for leased in stored.open_picks]
    workers = sorted({pick.worker for pick in picks if pick.worker is not None})
    owned = [open_picks.owned(AskRequest(worker=worker, count=MAX_PICKS)) for worker in workers]
    owned += [open_picks.owned(AskRequest(request_id=pick.request_id, count=MAX_PICKS)) for pick in picks]
    counts = [open_picks.of_key[""], len(open_picks), *map(open_picks.of_worker, workers)]
    cost_left = None if state.cost_left is None else pytest.approx(state.cost_left - state.pending_cost)
    left = state.samples_left, cost_left
    return plain(stored), picks, owned, counts, left, state.arms, state.estimates, state.goal, report_of(state)
