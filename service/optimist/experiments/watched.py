"""The watched metrics of an experiment at one moment, and their part of the report. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimist.experiments.standings import standing_of
from optimist.experiments.state import PolicyState, needed_to_fit
from optimist.numerics.estimate import Estimate
from optimist.policies.reports import watched_report
from optimist.records import Unit, WatchedState
from optimist_client.metrics import Metric
from optimist_client.models import WatchedReport


class WatchedEstimates:
    """What the store has of every generator by every watched metric, with the estimates."""

    def __init__(self, stored: Mapping[Unit, WatchedState], known: WatchedEstimates | None = None) -> None:
        """known: an earlier one, from which unchanged estimates are taken instead of being parsed again.

        Raises ValueError, KeyError or TypeError if an estimate cannot be read.
        """
        self.stored = stored
        self._parsed: dict[Unit, Estimate] = {}
        for unit, state in stored.items():
            if state.estimate is None:
                continue
            before = None if known is None else known.stored.get(unit)
            if known is not None and before is not None and before.estimate == state.estimate:
                self._parsed[unit] = known._parsed[unit]
            else:
                self._parsed[unit] = Estimate.from_dict(json.loads(state.estimate))

    def of(self, generator: int, label: str) -> tuple[WatchedState, Estimate | None]:
        """What is known of a generator by a metric: as it is stored, and the estimate."""
        return self.stored.get((generator, label), _NOTHING), self._parsed.get((generator, label))


_NOTHING = WatchedState()


def watched_reports(state: PolicyState, watched: WatchedEstimates) -> dict[str, WatchedReport]:
    """The standings by each watched metric, and whether it would decide, in the order of the config."""
    _, *metrics = state.config.metrics.items()
    return {label: _report(state, label, metric, watched) for label, metric in metrics}


def _report(state: PolicyState, label: str, metric: Metric, watched: WatchedEstimates) -> WatchedReport:
    found = [watched.of(generator.ordinal, label) for generator in state.contenders]
    arms = [replace(arm, estimate=estimate) for arm, (_, estimate) in zip(state.arms, found, strict=True)]
    counted = state.stored.counted
    return watched_report(
        label,
        metric,
        arms,
        [
            standing_of(arm, generator, counted, damage=stored.damage)
            for arm, generator, (stored, _) in zip(arms, state.contenders, found, strict=True)
        ],
        delta=state.config.delta,
        told=state.stored.told,
        scored=_is_scored(state, metric, [stored.estimate_seq for stored, _ in found]),
    )


def _is_scored(state: PolicyState, metric: Metric, positions: Sequence[int]) -> bool:
    """Whether every estimate that is due and can be made has been made."""
    needed = 0 if any(positions) else needed_to_fit(metric, len(state.stored.active))
    if any(generator.samples < needed for generator in state.stored.active):
        return True
    return all(seq >= generator.due_seq for generator, seq in zip(state.contenders, positions, strict=True))
