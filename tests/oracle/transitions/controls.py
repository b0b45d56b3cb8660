"""The experiment as a whole: created, controlled, decided, deleted; and its generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from optimist.records import COST, Conflict, Full, GeneratorStatus, NotFound
from tests.oracle.oracle import Oracle
from tests.oracle.rows import (
    CONTROLS,
    GENERATORS,
    RETURNED,
    ROOT,
    GeneratorRow,
    RootRow,
)

STOPPED = "stopped"
"""The control with which no picks are opened."""


def create(oracle: Oracle, root: RootRow, names: Sequence[str], seedless: Set[str] = frozenset()) -> bool:
    """Whether the experiment is new; False if it exists with the same config. Raises Conflict if it has another one."""
    if (standing := oracle.tables.root) is not None:
        if standing.config == root.config:
            return False
        raise Conflict("an experiment of this name exists with another configuration")
    oracle.put(ROOT, "", root)
    for g, name in enumerate(names):
        oracle.put(GENERATORS, g, GeneratorRow(name, name in seedless))
    return True


def delete(oracle: Oracle) -> bool:
    """Whether there was an experiment; it is gone afterwards."""
    if oracle.tables.root is None:
        return False
    oracle.clear()
    return True


def root_of(oracle: Oracle, instance: str = "") -> RootRow:
    """What the experiment has once; instance: the one that the caller means, "" for any. Raises NotFound."""
    root = oracle.tables.root
    if root is None:
        raise NotFound("there is no such experiment")
    if instance not in ("", root.instance):
        raise NotFound("the experiment was deleted and made again since")
    return root


def generator_of(oracle: Oracle, g: int) -> GeneratorRow:
    """The generator of this ordinal. Raises NotFound."""
    root_of(oracle)
    if g not in oracle.tables.generators:
        raise NotFound("there is no such generator")
    return oracle.tables.generators[g]


def control(oracle: Oracle, fields: Mapping[str, str]) -> None:
    """Set controls; an empty value removes one."""
    root_of(oracle)
    for name, value in fields.items():
        if value or name in oracle.tables[CONTROLS]:
            oracle.put(CONTROLS, name, value or None)


def set_state(oracle: Oracle, g: int, state: GeneratorStatus) -> None:
    """Pause, resume or retire a generator. Raises Conflict if no active one would remain, or to bring one back."""
    generator = generator_of(oracle, g)
    if generator.state == state:
        return
    if generator.state == "retired":
        raise Conflict("a retired generator stays retired")
    active = [other for other, row in oracle.tables.generators.items() if row.state == "active"]
    if active == [g]:
        raise Conflict("no active generator would remain")
    oracle.put(GENERATORS, g, generator._replace(state=state))
    if state == "retired" and g in oracle.tables[RETURNED]:
        oracle.put(RETURNED, g, None)


def add_generator(oracle: Oracle, name: str, most: int, cost: float | None = None, *, is_seedless: bool = False) -> int:
    """The ordinal of the generator of this name, which is added if there is none; cost: of one of its samples.

    Raises Conflict for the name of a retired one, Full if there are `most` already.
    """
    root_of(oracle)
    generators = oracle.tables.generators
    for g, row in generators.items():
        if row.name == name:
            if row.state == "retired":
                raise Conflict("the generator of this name was retired: choose another name")
            return g
    if (g := len(generators)) >= most:
        raise Full(f"expected at most {most} generators")
    oracle.put(GENERATORS, g, GeneratorRow(name, is_seedless))
    if cost is not None:
        oracle.put(CONTROLS, f"{COST}{name}", repr(cost))
    return g


def latch(oracle: Oracle, payload: str, stands: bool, decided: Sequence[int]) -> bool:
    """Whether this is the decision now; False if another one was made first, or something of its basis stands no
    longer.

    stands: whether what the decision was made from still stands. decided: up to which position of each generator's log
    batches took part.
    """
    root = root_of(oracle)
    if root.decision is not None:
        return root.decision == payload
    if stands:
        oracle.put(ROOT, "", root._replace(decision=payload, decided=tuple(decided)))
    return stands


def reopen(oracle: Oracle, decision: str) -> bool:
    """Whether there is no decision now: this one is dropped; False if there is another one."""
    root = root_of(oracle)
    if root.decision == decision:
        oracle.put(ROOT, "", root._replace(decision=None, decided=()))
        return True
    return root.decision is None
