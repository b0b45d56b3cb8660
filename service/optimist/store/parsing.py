"""Parses the answer of the scripts that read the state of an experiment into `ExperimentState`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from optimist.records import (
    AcceptanceRecord,
    Copy,
    ExperimentState,
    GeneratorState,
    GeneratorStatus,
    Instant,
    LogExtent,
    OpenPick,
    Quarantined,
    RetractionRecord,
    Returned,
    StoredArtefact,
    UnitState,
    codec,
)
from optimist.turns import aside


class _OfGenerator(Protocol):
    @property
    def generator(self) -> int: ...


One = TypeVar("One", bound=_OfGenerator)
COUNTED = ("samples", "batches", "seq", "due_samples", "due_seq", "handed", "answered", "unanswered")
"""Counts of a generator, as its state and the hash `counts` name them, in the order of `read_changes` (reading.lua)."""
SAME = "same:"
"""Prefix of a count, before the ordinal of another generator: the number of batches that agree with its batches."""


@dataclass(frozen=True, slots=True)
class CachedState:
    """A state that was read before."""

    stored: ExperimentState
    instant: Instant | None
    """Instant at which it equalled the stored state; None: everything is to be read again."""
    touched: Collection[int | str] = ()
    """Parts that the caller has changed since: the ordinals of generators, and "worker:<name>"."""


class Reads(NamedTuple):
    """The arguments of reading.lua."""

    since: int | str
    since_token: str
    since_rounds: int
    renewed: Sequence[int | str]
    held: Sequence[str]


def reading(cached: CachedState | None) -> Reads:
    """Arguments of a script for reading the parts that a caller lacks."""
    instant = None if cached is None else cached.instant
    version, token, rounds = ("", "", 0) if instant is None else instant
    renewed = [] if cached is None or instant is None else [*cached.touched]
    return Reads(version, token, rounds, renewed, [] if cached is None or instant else names_held(cached.stored))


async def parse_state(
    answer: Sequence[Any], cached: ExperimentState | None = None, told: Sequence[Sequence[bytes]] | None = None
) -> ExperimentState:
    """The state in the answer of `read_state` in reading.lua; a large one is parsed in a thread.

    told: the told intervals of each generator, as state.lua answers them; None: they were not read.

    cached: a state read before; its open picks and the artefacts of `names_held` are taken from it.
    """
    leased, names = answer[1], answer[3]
    return await aside(len(leased) + len(names) // 2, _parsed, answer, cached, told)


def parse_changes(answer: Sequence[Any], cached: CachedState) -> ExperimentState | None:
    """The state with the changes in the answer of `read_changes` in reading.lua; None where all of it must be read.

    Generators without a change are the same objects as before.
    """
    if cached.instant is None or answer[0] != b"changes":
        return None
    _, (rounds, told, version, token, last), leased, changed, workers, now = answer
    stored = cached.stored
    before = {pick.number: pick for pick in stored.open_picks if pick.number <= cached.instant.rounds}
    if any(entry is None and int(number) not in before for number, _, entry, _ in leased):
        return None  # one that the caller has taken for ended
    open_picks = [_open_pick(before, *entry) for entry in leased]
    # A worker whose first pick was foreseen, and not opened, has no count.
    counted = {name.decode().partition(":")[2]: count for name, count in workers}
    kept = {worker: batches for worker, batches in stored.of_workers.items() if worker not in counted}
    generators = list(stored.generators)
    for g, counts, returned, units in changed:
        ordinal = int(g)
        generators[ordinal] = _renewed(generators[ordinal], counts, returned, units)
    return replace(
        stored,
        rounds=int(rounds),
        told=int(told),
        generators=generators,
        open_picks=sorted(open_picks, key=attrgetter("number")),
        version=int(version),
        state_token=token.decode(),
        last=_text(last) or "",
        of_workers=kept | {worker: int(count) for worker, count in counted.items() if count is not None},
        read_at=float(now),
    )


def _renewed(
    cached: GeneratorState, counts: Sequence[bytes | None], returned: bytes | None, units: Sequence[Sequence[Any]]
) -> GeneratorState:
    *numbers, size = (int(count or 0) for count in counts)
    ordinal = cached.ordinal
    return replace(
        cached,
        **dict(zip(COUNTED, numbers, strict=True)),
        returned=[] if returned is None else _slices({f"{ordinal}": returned.decode()})[ordinal],
        units={unit[1].decode(): _unit(unit[2:], size, cached.units.get(unit[1].decode())) for unit in units},
    )


def _parsed(
    answer: Sequence[Any], cached: ExperimentState | None, told: Sequence[Sequence[bytes]] | None
) -> ExperimentState:
    decision, leased, *flat, labels, units, mixture, model, mixture_error, model_error, retracted, accepted, now = (
        answer
    )
    counts, names, states, controls, quarantined, returned, named_copies = map(_pairs, flat)
    slices = _slices(returned)
    quarantined, copied = _quarantined(quarantined), _named_copies(named_copies)
    by_generator = _by_generator(counts)
    retractions, acceptances = _records(RetractionRecord, retracted), _records(AcceptanceRecord, accepted)
    cached_picks = {} if cached is None else {pick.number: pick for pick in cached.open_picks}
    units_of = _units(units, by_generator, cached)
    generators: list[GeneratorState] = []
    for ordinal in sorted(map(int, names)):
        g = str(ordinal)
        count = by_generator[g]
        generators.append(
            GeneratorState(
                ordinal=ordinal,
                name=names[g],
                **{name: count.get(name, 0) for name in COUNTED},
                units=units_of[ordinal],
                returned=slices.get(ordinal, []),
                state=cast(GeneratorStatus, states.get(g, "active")),
                quarantined=quarantined.get(ordinal, []),
                quarantined_count=count["quarantined"],
                named_copies=copied.get(ordinal, []),
                copies=count.get("copies", 0),
                duplicates={int(name[len(SAME) :]): agree for name, agree in count.items() if name.startswith(SAME)},
                retracted=count.get("retracted", 0),
                restart=count.get("restart", 0),
                retractions=retractions.get(ordinal, []),
                is_seedless="seedless" in count,
                told=[] if told is None else _intervals(told[ordinal]),
                acceptances=acceptances.get(ordinal, []),
            )
        )
    return ExperimentState(
        rounds=int(counts["rounds"]),
        told=int(counts["told"]),
        generators=generators,
        open_picks=sorted((_open_pick(cached_picks, *entry) for entry in leased), key=attrgetter("number")),
        decision=_text(decision),
        controls=controls,
        instance=counts["instance"],
        keep_log=counts["keep_log"] == "1",
        version=int(counts.get("version", 0)),
        state_token=counts.get("state_token", ""),
        last=counts.get("last", ""),
        labels=tuple(label.decode() for label in labels),
        limited=tuple(counts.get("limited", "").split()),
        of_workers=by_generator.get("worker", {}),
        mixture_growth=float(counts["mixture_growth"]) if "mixture_growth" in counts else None,
        mixture=_artefact(mixture, cached and cached.mixture),
        mixture_error=_text(mixture_error),
        model_growth=float(counts["model_growth"]) if "model_growth" in counts else None,
        model=_artefact(model, cached and cached.model),
        model_error=_text(model_error),
        read_at=float(now),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _by_generator(counts: dict[str, str]) -> dict[str, dict[str, int]]:
    by_generator: dict[str, dict[str, int]] = {}
    for name, value in counts.items():
        generator, colon, count = name.partition(":")
        if colon:
            by_generator.setdefault(generator, {})[count] = int(value)
    return by_generator


def _records(kind: type[One], stream: Sequence[Any]) -> dict[int, list[One]]:
    """The records of a stream, by generator."""
    by_generator: dict[int, list[One]] = {}
    for _, entry in stream:
        record = codec.from_entry(kind, entry)
        by_generator.setdefault(record.generator, []).append(record)
    return by_generator


def _open_pick(
    cached: Mapping[int, OpenPick], number: bytes, deadline: bytes, entry: bytes | None, terms: bytes | None
) -> OpenPick:
    pick = cached.get(int(number))
    if entry is None or terms is None:
        assert pick is not None
        return pick if pick.deadline == float(deadline) else replace(pick, deadline=float(deadline))
    nonce, _, _, opened, key = terms.decode().split(" ", 4)
    if pick is not None and pick.nonce == nonce:  # a nonce identifies a pick, and a pick never changes
        return pick if pick.deadline == float(deadline) else replace(pick, deadline=float(deadline))
    generator, request_id, *_, record = entry.decode().split("\t", 6)
    return OpenPick(int(number), int(generator), request_id, record, float(deadline), nonce, key, float(opened))


def names_held(cached: ExperimentState) -> list[str]:
    """The names of the estimates, mixture and model of a state read before: scripts leave their contents out."""
    artefacts = [artefact.made for artefact in (cached.mixture, cached.model) if artefact is not None]
    return artefacts + [u.made for g in cached.generators for u in g.units.values() if u.estimate is not None]


def _units(
    answer: Sequence[Sequence[Any]], counts: Mapping[str, Mapping[str, int]], cached: ExperimentState | None
) -> dict[int, dict[str, UnitState]]:
    """The state of each generator by each metric in the answer of `read_units` in reading.lua."""
    units: dict[int, dict[str, UnitState]] = {}
    before = {} if cached is None else {unit.made: unit for g in cached.generators for unit in g.units.values()}
    for ordinal, label, *facts in answer:
        made, size = facts[1], counts[str(ordinal)]["bytes"]
        cached_unit = None if made is None else before.get(made.decode())
        units.setdefault(ordinal, {})[label.decode()] = _unit(facts, size, cached_unit)
    return units


def _unit(facts: Sequence[Any], size: int, held: UnitState | None) -> UnitState:
    """A unit in the answer of `read_unit` in reading.lua. size: bytes of all bodies; held: where the contents of its
    estimate are taken from, if they are left out."""
    seq, made, note, snapshot, covered, payload = facts
    name = "" if made is None else made.decode()
    return UnitState(
        estimate_seq=int(seq or 0),
        estimate=_text(payload) if payload is not None or held is None or held.made != name else held.estimate,
        made=name,
        scoring_error=_text(note),
        snapshot_seq=int(snapshot or 0),
        log_bytes=size - int(covered or 0),
    )


def _artefact(answer: Sequence[Any], cached: StoredArtefact | None) -> StoredArtefact | None:
    """An artefact in the answer of `read_artefact` in reading.lua; it has only the name of the cached artefact."""
    made, listed, payload = (*answer, None, None, None)[:3]
    return cached if made and not listed else parse_artefact(made, listed, payload or b"")


def parse_artefact(made: bytes | None, listed: bytes | None, payload: bytes | None) -> StoredArtefact | None:
    """An artefact as put_artefact.lua stores it; None without one."""
    if made is None or listed is None or payload is None:
        return None
    return StoredArtefact(made.decode(), parse_parts(listed.decode()), payload)


def parse_parts(listed: str) -> dict[int, LogExtent]:
    """The parts of an artefact as parts.lua writes them, by ordinal."""
    parts = (map(int, part.split(":")) for part in listed.split(","))
    return {generator: LogExtent(seq, samples) for generator, seq, samples in parts}


def _slices(returned: dict[str, str]) -> dict[int, list[Returned]]:
    slices: dict[int, list[Returned]] = {}
    for generator, text in returned.items():
        runs = list(map(int, text.split(" ")))
        slices[int(generator)] = [Returned(*run) for run in zip(runs[::2], runs[1::2], strict=True)]
    return slices


def _intervals(told: Sequence[bytes]) -> list[tuple[int, int]]:
    bounds = (map(int, interval.split()) for interval in told)
    return [(start, stop) for start, stop in bounds]


def _quarantined(quarantined: dict[str, str]) -> dict[int, list[Quarantined]]:
    by_generator: dict[int, list[Quarantined]] = {}
    for generator, seq, reason in sorted((*map(int, name.split(":")), reason) for name, reason in quarantined.items()):
        by_generator.setdefault(generator, []).append(Quarantined(seq, reason))
    return by_generator


def _named_copies(named_copies: dict[str, str]) -> dict[int, list[Copy]]:
    by_generator: dict[int, list[Copy]] = {}
    for generator, seq, stored in sorted((*map(int, name.split(":")), stored) for name, stored in named_copies.items()):
        by_generator.setdefault(generator, []).append(Copy.from_stored(seq, stored))
    return by_generator
