"""Parses the answer of the scripts that read the state of an experiment into `ExperimentState`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from optimist.records import (
    Acceptance,
    Copy,
    ExperimentState,
    GeneratorState,
    Instant,
    LogExtent,
    OpenPick,
    Quarantined,
    Retraction,
    Returned,
    State,
    StoredArtefact,
    UnitState,
    codec,
)
from optimist.turns import aside


class _OfGenerator(Protocol):
    @property
    def generator(self) -> int: ...


One = TypeVar("One", bound=_OfGenerator)
SAME = "same:"
"""Prefix of a count, before the ordinal of another generator: how many batches agree with that one's."""


@dataclass(frozen=True, slots=True)
class Known:
    """A state that was read before."""

    stored: ExperimentState
    instant: Instant | None
    """When it was equal to the one in the store; None: everything is to be read again."""
    touched: Collection[int | str] = ()
    """What the caller has changed in it since: the ordinals of generators, and "worker:<name>"."""


class Reading(NamedTuple):
    """The arguments of reading.lua."""

    since: int | str
    since_token: str
    since_rounds: int
    renewed: Sequence[int | str]
    held: Sequence[str]


def reading(known: Known | None) -> Reading:
    """What a script takes to read what a caller lacks."""
    instant = None if known is None else known.instant
    version, token, rounds = ("", "", 0) if instant is None else instant
    renewed = [] if known is None or instant is None else [*known.touched]
    return Reading(version, token, rounds, renewed, [] if known is None or instant else names_held(known.stored))


async def parse_state(
    answer: Sequence[Any], known: ExperimentState | None = None, told: Sequence[Sequence[bytes]] | None = None
) -> ExperimentState:
    """The state in the answer of `read_state` in reading.lua; a large one is parsed in a thread.

    told: the told intervals of each generator, as state.lua answers them; None: they were not read.

    known: a state read before; its open picks, and what it `names_held`, are taken from it.
    """
    leased, names = answer[1], answer[3]
    return await aside(len(leased) + len(names) // 2, _parsed, answer, known, told)


def parse_changes(answer: Sequence[Any], known: Known) -> ExperimentState | None:
    """The state with what has changed since by the answer of `read_changes` in reading.lua; None where it must be read
    whole.

    Generators without a change are the same objects as before.
    """
    if known.instant is None or answer[0] != b"changes":
        return None
    _, (rounds, told, version, token, last), leased, changed, workers, now = answer
    stored = known.stored
    before = {pick.number: pick for pick in stored.open_picks if pick.number <= known.instant.rounds}
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
    known: GeneratorState, counts: Sequence[bytes | None], returned: bytes | None, units: Sequence[Sequence[Any]]
) -> GeneratorState:
    numbers = (int(each or 0) for each in counts)
    samples, batches, seq, due_samples, due_seq, handed, answered, unanswered, size = numbers
    ordinal = known.ordinal
    return replace(
        known,
        samples=samples,
        batches=batches,
        seq=seq,
        due_samples=due_samples,
        due_seq=due_seq,
        handed=handed,
        answered=answered,
        unanswered=unanswered,
        returned=[] if returned is None else _slices({f"{ordinal}": returned.decode()})[ordinal],
        units={one[1].decode(): _unit(one[2:], size, known.units.get(one[1].decode())) for one in units},
    )


def _parsed(
    answer: Sequence[Any], known: ExperimentState | None, told: Sequence[Sequence[bytes]] | None
) -> ExperimentState:
    decision, leased, *flat, labels, units, mixture, model, mixture_error, model_error, retracted, accepted, now = (
        answer
    )
    counts, names, states, controls, quarantined, returned, named_copies = map(_pairs, flat)
    slices = _slices(returned)
    quarantined, copied = _quarantined(quarantined), _named_copies(named_copies)
    by_generator = _by_generator(counts)
    retractions, acceptances = _records(Retraction, retracted), _records(Acceptance, accepted)
    known_picks = {} if known is None else {pick.number: pick for pick in known.open_picks}
    units_of = _units(units, by_generator, known)
    generators: list[GeneratorState] = []
    for ordinal in sorted(map(int, names)):
        g = str(ordinal)
        count = by_generator[g]
        generators.append(
            GeneratorState(
                ordinal=ordinal,
                name=names[g],
                samples=count["samples"],
                batches=count["batches"],
                seq=count["seq"],
                due_samples=count["due_samples"],
                due_seq=count["due_seq"],
                units=units_of[ordinal],
                handed=count["handed"],
                returned=slices.get(ordinal, []),
                state=cast(State, states.get(g, "active")),
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
                answered=count.get("answered", 0),
                unanswered=count.get("unanswered", 0),
            )
        )
    return ExperimentState(
        rounds=int(counts["rounds"]),
        told=int(counts["told"]),
        generators=generators,
        open_picks=sorted((_open_pick(known_picks, *entry) for entry in leased), key=attrgetter("number")),
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
        mixture=_artefact(mixture, known and known.mixture),
        mixture_error=_text(mixture_error),
        model_growth=float(counts["model_growth"]) if "model_growth" in counts else None,
        model=_artefact(model, known and known.model),
        model_error=_text(model_error),
        read_at=float(now),
    )


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode()


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _by_generator(counts: dict[str, str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, value in counts.items():
        generator, colon, count = name.partition(":")
        if colon:
            found.setdefault(generator, {})[count] = int(value)
    return found


def _records(kind: type[One], stream: Sequence[Any]) -> dict[int, list[One]]:
    """The records of a stream, by generator."""
    found: dict[int, list[One]] = {}
    for _, entry in stream:
        one = codec.from_entry(kind, entry)
        found.setdefault(one.generator, []).append(one)
    return found


def _open_pick(
    known: Mapping[int, OpenPick], number: bytes, deadline: bytes, entry: bytes | None, terms: bytes | None
) -> OpenPick:
    pick = known.get(int(number))
    if entry is None or terms is None:
        assert pick is not None
        return pick if pick.deadline == float(deadline) else replace(pick, deadline=float(deadline))
    nonce, _, _, opened, key = terms.decode().split(" ", 4)
    if pick is not None and pick.nonce == nonce:  # a nonce identifies a pick, and a pick never changes
        return pick if pick.deadline == float(deadline) else replace(pick, deadline=float(deadline))
    generator, request_id, *_, record = entry.decode().split("\t", 6)
    return OpenPick(int(number), int(generator), request_id, record, float(deadline), nonce, key, float(opened))


def names_held(known: ExperimentState) -> list[str]:
    """The names of the estimates, mixture and model of a state read before: scripts leave their contents out."""
    artefacts = [one.made for one in (known.mixture, known.model) if one is not None]
    return artefacts + [one.made for g in known.generators for one in g.units.values() if one.estimate is not None]


def _units(
    found: Sequence[Sequence[Any]], counts: Mapping[str, Mapping[str, int]], known: ExperimentState | None
) -> dict[int, dict[str, UnitState]]:
    """The state of each generator by each metric in the answer of `read_units` in reading.lua."""
    units: dict[int, dict[str, UnitState]] = {}
    before = {} if known is None else {unit.made: unit for g in known.generators for unit in g.units.values()}
    for ordinal, label, *facts in found:
        made, size = facts[1], counts[str(ordinal)]["bytes"]
        held = None if made is None else before.get(made.decode())
        units.setdefault(ordinal, {})[label.decode()] = _unit(facts, size, held)
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


def _artefact(found: Sequence[Any], known: StoredArtefact | None) -> StoredArtefact | None:
    """An artefact in the answer of `read_artefact` in reading.lua; only its name is there if it is the known one."""
    made, listed, payload = (*found, None, None, None)[:3]
    return known if made and not listed else parse_artefact(made, listed, payload or b"")


def parse_artefact(made: bytes | None, listed: bytes | None, payload: bytes | None) -> StoredArtefact | None:
    """What put_artefact.lua stores of an artefact; None without one."""
    if made is None or listed is None or payload is None:
        return None
    return StoredArtefact(made.decode(), parse_parts(listed.decode()), payload)


def parse_parts(listed: str) -> dict[int, LogExtent]:
    """The parts of an artefact as parts.lua writes them, by ordinal."""
    each = (map(int, one.split(":")) for one in listed.split(","))
    return {generator: LogExtent(seq, samples) for generator, seq, samples in each}


def _slices(returned: dict[str, str]) -> dict[int, list[Returned]]:
    found: dict[int, list[Returned]] = {}
    for generator, text in returned.items():
        runs = list(map(int, text.split(" ")))
        found[int(generator)] = [Returned(*run) for run in zip(runs[::2], runs[1::2], strict=True)]
    return found


def _intervals(told: Sequence[bytes]) -> list[tuple[int, int]]:
    each = (map(int, interval.split()) for interval in told)
    return [(start, stop) for start, stop in each]


def _quarantined(quarantined: dict[str, str]) -> dict[int, list[Quarantined]]:
    found: dict[int, list[Quarantined]] = {}
    for generator, seq, reason in sorted((*map(int, name.split(":")), reason) for name, reason in quarantined.items()):
        found.setdefault(generator, []).append(Quarantined(seq, reason))
    return found


def _named_copies(named_copies: dict[str, str]) -> dict[int, list[Copy]]:
    found: dict[int, list[Copy]] = {}
    for generator, seq, stored in sorted((*map(int, name.split(":")), stored) for name, stored in named_copies.items()):
        found.setdefault(generator, []).append(Copy.from_stored(seq, stored))
    return found
