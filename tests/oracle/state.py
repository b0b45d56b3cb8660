"""The state of an experiment as tables hold it, in the form that policies and reports take."""

from __future__ import annotations

from optimist.records import (
    AcceptanceRecord,
    Copy,
    ExperimentState,
    GeneratorState,
    OpenPick,
    Origin,
    Quarantined,
    RetractionRecord,
    Returned,
    StoredArtefact,
    UnitState,
)
from optimist.store.parsing import parse_artefact
from tests.oracle.rows import (
    ACCEPTANCES,
    ARTEFACTS,
    CONTROLS,
    COPIES,
    ESTIMATES,
    QUARANTINED,
    RECORDS,
    RETRACTIONS,
    SAME,
    TOLD,
    UNITS,
    WORKERS,
)
from tests.oracle.tables import Tables
from tests.oracle.transitions.indices import pairs, returned_by


def state_from(tables: Tables) -> ExperimentState:
    """The state, by all metrics. It has no version, and no token."""
    root = tables.root
    assert root is not None
    first, units, records = root.labels[0], tables[UNITS], tables[RECORDS]
    return ExperimentState(
        rounds=root.rounds,
        told=root.told,
        generators=[_generator(tables, g, root.labels) for g in sorted(tables.generators)],
        open_picks=[
            OpenPick(n, pick.generator, pick.request, records[n], pick.deadline, pick.nonce, pick.key, pick.opened)
            for n, pick in sorted(tables.picks.items())
        ],
        decision=root.decision,
        controls=dict(tables[CONTROLS]),
        instance=root.instance,
        keep_log=root.keep_log,
        labels=root.labels,
        limited=root.limited,
        of_workers=dict(tables[WORKERS]),
        mixture_growth=root.mixture_growth,
        mixture=None if root.mixture_growth is None else _artefact(tables, f"mixture:{first}"),
        mixture_error=units.get(f"mixture:{first}:error"),
        model_growth=root.model_growth,
        model=_artefact(tables, f"model:{first}"),
        model_error=units.get(f"model:{first}:error"),
    )


def _generator(tables: Tables, g: int, labels: tuple[str, ...]) -> GeneratorState:
    row = tables.generators[g]
    accepted = [AcceptanceRecord(h, at, *one) for (h, at), one in tables[ACCEPTANCES].items() if h == g]
    retracted = [RetractionRecord(h, *one) for (h, _), one in tables[RETRACTIONS].items() if h == g]
    unreadable = [(seq, why) for (h, seq), why in tables[QUARANTINED].items() if h == g]
    return GeneratorState(
        ordinal=g,
        name=row.name,
        samples=row.samples,
        batches=row.batches,
        seq=row.seq,
        due_samples=row.due_samples,
        due_seq=row.due_seq,
        units={label: _unit(tables, f"{g}:{label}", row.bytes) for label in labels},
        handed=row.handed,
        returned=[Returned(*run) for run in pairs(returned_by(tables, g))],
        state=row.state,
        quarantined=[Quarantined(*one) for one in sorted(unreadable)],
        quarantined_count=len(unreadable),
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


def _unit(tables: Tables, unit: str, logged: int) -> UnitState:
    facts = tables[UNITS]
    return UnitState(
        estimate_seq=int(facts.get(f"{unit}:seq", 0)),
        estimate=tables[ESTIMATES].get(unit),
        made=facts.get(f"{unit}:made", ""),
        scoring_error=facts.get(f"{unit}:error"),
        snapshot_seq=int(facts.get(f"{unit}:snapshot_seq", 0)),
        log_bytes=logged - int(facts.get(f"{unit}:snapshot_bytes", 0)),
    )


def _artefact(tables: Tables, name: str) -> StoredArtefact | None:
    facts = (tables[ARTEFACTS].get(f"{name}:{fact}") for fact in ("made", "parts", "payload"))
    return parse_artefact(*(None if fact is None else fact.encode() for fact in facts))
