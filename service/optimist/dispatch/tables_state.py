"""The state of an experiment as tables hold it, in the form that policies and reports take. The service does not use it
yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from optimist.experiments.tables import Tables
from optimist.experiments.transitions.indices import pairs, returned_by
from optimist.records import (
    Acceptance,
    Copy,
    ExperimentState,
    GeneratorState,
    OpenPick,
    Origin,
    Quarantined,
    Retraction,
    Returned,
    StoredArtefact,
    UnitState,
)
from optimist.records.tables import ACCEPTANCES, CONTROLS, COPIES, RETRACTIONS, SAME, TOLD
from optimist.store.parsing import parse_artefact


class Beside(NamedTuple):
    """What is stored of an experiment beside its resident tables, by the names of the fields."""

    units: Mapping[str, str]
    estimates: Mapping[str, str]
    artefacts: Mapping[str, bytes]
    quarantined: Mapping[str, str]
    counts: Mapping[str, str]
    """What scorers count."""
    records: Mapping[int, str]
    """Of open picks."""


def state_from(tables: Tables, beside: Beside) -> ExperimentState:
    """The state, by all metrics. It has no version, and no token: the head of the tables stands for both."""
    root = tables.root
    assert root is not None
    first, units = root.labels[0], beside.units
    return ExperimentState(
        rounds=root.rounds,
        told=root.told,
        generators=[_generator(tables, g, root.labels, beside) for g in sorted(tables.generators)],
        open_picks=[
            OpenPick(
                n, pick.generator, pick.request, beside.records[n], pick.deadline, pick.nonce, pick.key, pick.opened
            )
            for n, pick in sorted(tables.picks.items())
        ],
        decision=root.decision,
        controls=dict(tables[CONTROLS]),
        instance=root.instance,
        keep_log=root.keep_log,
        labels=root.labels,
        limited=root.limited,
        mixture_growth=root.mixture_growth,
        mixture=None if root.mixture_growth is None else _artefact(beside, f"mixture:{first}"),
        mixture_error=units.get(f"mixture:{first}:error"),
        route_growth=root.route_growth,
        model=_artefact(beside, f"model:{first}"),
        routes_error=units.get(f"routes:{first}:error"),
    )


def _generator(tables: Tables, g: int, labels: tuple[str, ...], beside: Beside) -> GeneratorState:
    row = tables.generators[g]
    accepted = [Acceptance(h, at, *one) for (h, at), one in tables[ACCEPTANCES].items() if h == g]
    retracted = [Retraction(h, *one) for (h, _), one in tables[RETRACTIONS].items() if h == g]
    unreadable = [(int(name.partition(":")[2]), why) for name, why in beside.quarantined.items() if _is_of(name, g)]
    return GeneratorState(
        ordinal=g,
        name=row.name,
        samples=row.samples,
        batches=row.batches,
        seq=row.seq,
        due_samples=row.due_samples,
        due_seq=row.due_seq,
        units={label: _unit(f"{g}:{label}", row.bytes, beside) for label in labels},
        handed=row.handed,
        returned=[Returned(*run) for run in pairs(returned_by(tables, g))],
        state=row.state,
        quarantined=[Quarantined(*one) for one in sorted(unreadable)],
        quarantined_count=int(beside.counts.get(f"{g}:quarantined", 0)),
        named_copies=[
            Copy(at, Origin(*one[1:]), one.copy_of) for (h, at), one in sorted(tables[COPIES].items()) if h == g
        ],
        copies=row.copies,
        duplicates={other: agree for (h, other), agree in tables[SAME].items() if h == g},
        retracted=row.retracted,
        restart=row.restart,
        retractions=sorted(retracted, key=lambda one: one.seq),
        is_seedless=row.is_seedless,
        told=[(start, tables[TOLD][g, start]) for start in tables.starts.get(g, ())],
        acceptances=sorted(accepted, key=lambda one: one.when),
        answered=row.answered,
        unanswered=row.unanswered,
    )


def _is_of(name: str, g: int) -> bool:
    return name.startswith(f"{g}:")


def _unit(unit: str, logged: int, beside: Beside) -> UnitState:
    facts = beside.units
    return UnitState(
        estimate_seq=int(facts.get(f"{unit}:seq", 0)),
        estimate=beside.estimates.get(unit),
        made=facts.get(f"{unit}:made", ""),
        scoring_error=facts.get(f"{unit}:error"),
        snapshot_seq=int(facts.get(f"{unit}:snapshot_seq", 0)),
        log_bytes=logged - int(facts.get(f"{unit}:snapshot_bytes", 0)),
    )


def _artefact(beside: Beside, name: str) -> StoredArtefact | None:
    facts = beside.artefacts
    return parse_artefact(*(facts.get(f"{name}:{fact}") for fact in ("made", "parts", "payload")))
