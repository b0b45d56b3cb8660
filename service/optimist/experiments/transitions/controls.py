"""The experiment as a whole: created, controlled, decided, deleted; and its generators."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set

from optimist.experiments.drafts import Draft
from optimist.records import COST, Conflict, Full, NotFound, State, Unavailable
from optimist.records.tables import (
    CONTROLS,
    COUNTS,
    GENERATORS,
    RETURNED,
    ROOT,
    UNITS,
    WHOLE,
    GeneratorRow,
    RootRow,
    Table,
)

STOPPED = "stopped"
"""The control with which no picks are opened."""


def create(draft: Draft, root: RootRow, config: str, names: Sequence[str], seedless: Set[str] = frozenset()) -> bool:
    """Whether the experiment is new; False if it exists with the same config. Raises Conflict if it has another one.

    config: as JSON; `RootRow.config` is made of it.
    """
    root = root._replace(config=hashlib.sha1(config.encode()).hexdigest())
    if draft.deletes:
        raise Unavailable("the experiment of this name is being deleted: try again")
    if (standing := draft.tables.root) is not None:
        if standing.config == root.config:
            return False
        raise Conflict("an experiment of this name exists with another configuration")
    draft.grows = True
    draft.put(ROOT, "", root)
    draft.write("SET", "config", config)
    draft.write("RPUSH", "labels", *root.labels)
    for g, name in enumerate(names):
        _enrol(draft, g, GeneratorRow(name, name in seedless))
    return True


def _enrol(draft: Draft, g: int, generator: GeneratorRow) -> None:
    draft.put(GENERATORS, g, generator)
    for count in ("quarantined", "quarantined_seq"):  # scorers count on
        draft.put(COUNTS, f"{g}:{count}", "0")


def delete(draft: Draft) -> bool:
    """Whether there was an experiment; it is gone afterwards."""
    if (root := draft.tables.root) is None or draft.deletes:
        return False
    units = draft.known((UNITS, WHOLE)) or {}
    draft.deletes = draft.frees = True
    for name, unique in units.items():
        unit, _, fact = name.rpartition(":")
        for number in range(int(units[f"{unit}:{fact}_chunks"]) if fact in ("snapshot", "upload") else 0):
            draft.write("UNLINK", f"snapshot:{unit}:{unique}:{number}")
    for label in root.labels:
        draft.write("UNLINK", f"fitted:{label}")
        for made in (*draft.tables.generators, "mixture", "model", "routes"):
            draft.write("UNLINK", f"curve:{made}:{label}")
    return True


def root_of(draft: Draft, instance: str = "") -> RootRow:
    """What the experiment has once; instance: the one that the caller means, "" for any. Raises NotFound."""
    root = draft.tables.root
    if root is None or draft.deletes:
        raise NotFound("there is no such experiment")
    if instance not in ("", root.instance):
        raise NotFound("the experiment was deleted and made again since")
    return root


def generator_of(draft: Draft, g: int) -> GeneratorRow:
    """The generator of this ordinal. Raises NotFound."""
    root_of(draft)
    if g not in draft.tables.generators:
        raise NotFound("there is no such generator")
    return draft.tables.generators[g]


def control(draft: Draft, fields: Mapping[str, str]) -> None:
    """Set controls; an empty value removes one."""
    root_of(draft)
    draft.grows, draft.frees = draft.grows or any(fields.values()), draft.frees or not any(fields.values())
    for name, value in fields.items():
        if value or name in draft.tables[CONTROLS]:
            draft.put(CONTROLS, name, value or None)


def set_state(draft: Draft, g: int, state: State) -> None:
    """Pause, resume or retire a generator. Raises Conflict if no active one would remain, or to bring one back."""
    generator = generator_of(draft, g)
    if generator.state == state:
        return
    if generator.state == "retired":
        raise Conflict("a retired generator stays retired")
    active = [other for other, row in draft.tables.generators.items() if row.state == "active"]
    if active == [g]:
        raise Conflict("no active generator would remain")
    draft.put(GENERATORS, g, generator._replace(state=state))
    if state == "retired" and g in draft.tables[RETURNED]:
        draft.put(RETURNED, g, None)


def add_generator(draft: Draft, name: str, most: int, cost: float | None = None, *, is_seedless: bool = False) -> int:
    """The ordinal of the generator of this name, which is added if there is none; cost: of one of its samples.

    Raises Conflict for the name of a retired one, Full if there are `most` already.
    """
    root_of(draft)
    generators = draft.tables.generators
    for g, row in generators.items():
        if row.name == name:
            if row.state == "retired":
                raise Conflict("the generator of this name was retired: choose another name")
            return g
    if (g := len(generators)) >= most:
        raise Full(f"expected at most {most} generators")
    draft.grows = True
    _enrol(draft, g, GeneratorRow(name, is_seedless))
    if cost is not None:
        draft.put(CONTROLS, f"{COST}{name}", repr(cost))
    return g


def latch(
    draft: Draft, payload: str, basis: Mapping[tuple[Table[str, str], str], str | None], decided: Sequence[int]
) -> bool:
    """Whether this is the decision now; False if another one was made first, or something of its basis stands no
    longer.

    basis: what the decision was made from, by table and key, as it must stand. decided: up to which position of each
    generator's log batches took part.
    """
    root = root_of(draft)
    if root.decision is not None:
        return root.decision == payload
    stands = [draft.expects(table, key, value) for (table, key), value in basis.items()]
    if not all(stands):
        return False
    draft.grows = True
    draft.put(ROOT, "", root._replace(decision=payload, decided=tuple(decided)))
    return True


def reopen(draft: Draft, decision: str) -> bool:
    """Whether there is no decision now: this one is dropped; False if there is another one."""
    root = root_of(draft)
    if root.decision == decision:
        draft.frees = True
        draft.put(ROOT, "", root._replace(decision=None, decided=()))
        return True
    return root.decision is None
