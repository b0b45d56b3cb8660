"""Parses the answer of the scripts that read the state of an experiment into `ExperimentState`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, cast

from optimist.records import (
    Acceptance,
    Copy,
    ExperimentState,
    GeneratorState,
    LogExtent,
    OpenPick,
    Quarantined,
    Retraction,
    Returned,
    State,
    StoredArtefact,
    Unit,
    WatchedState,
)
from optimist.store.keys import MIXTURE, ROUTES_UNIT

SAME = "same:"
"""Prefix of a count, before the ordinal of another generator: how many batches agree with that one's."""


PREFIX = "retracted_"
"""Prefix of a count that holds the record of a retraction, before the ordinal and a position."""
ACCEPTED = "accepted_"
"""What the field of an acceptance begins with."""


def parse_state(
    answer: Sequence[Any], known: ExperimentState | None = None, told: Sequence[Sequence[bytes]] | None = None
) -> ExperimentState:
    """The state in the answer of `read_state` in reading.lua.

    told: the told intervals of each generator, as state.lua answers them; None: they were not read.

    known: a state read before, whose `held` estimates, mixture and model were left out; these, and its open picks, are
    taken from it.
    """
    decision, leased, *flat, mixture, mixture_body, model = answer
    counts, names, states, controls, estimates, errors, quarantined, returned, snapshots, named_copies = map(
        _pairs, flat
    )
    slices = _slices(returned)
    quarantined, copied = _quarantined(quarantined), _named_copies(named_copies)
    by_generator, retracted, accepted = _by_generator(counts), _retractions(counts), _acceptances(counts)
    known_picks = {} if known is None else {pick.number: pick for pick in known.open_picks}
    generators: list[GeneratorState] = []
    for ordinal in sorted(map(int, names)):
        g = str(ordinal)
        count = by_generator[g]
        seq, estimate = _estimate(estimates.get(g), ordinal, known)
        generators.append(
            GeneratorState(
                ordinal=ordinal,
                name=names[g],
                samples=count["samples"],
                batches=count["batches"],
                seq=count["seq"],
                due_samples=count["due_samples"],
                due_seq=count["due_seq"],
                estimate_seq=seq,
                estimate=estimate,
                estimate_made=counts[f"made_{g}"] if estimate else "",
                scoring_error=errors.get(g),
                handed=count["handed"],
                returned=slices.get(ordinal, []),
                state=cast(State, states.get(g, "active")),
                snapshot_seq=int(snapshots[g].split(" ")[2]) if g in snapshots else 0,
                log_bytes=count["bytes"] - count["snapshot_bytes"],
                quarantined=quarantined.get(ordinal, []),
                quarantined_count=count["quarantined"],
                named_copies=copied.get(ordinal, []),
                copies=count.get("copies", 0),
                duplicates={int(name[len(SAME) :]): agree for name, agree in count.items() if name.startswith(SAME)},
                retracted=count.get("retracted", 0),
                restart=count.get("restart", 0),
                retractions=retracted.get(ordinal, []),
                is_seedless="seedless" in count,
                told=[] if told is None else _intervals(told[ordinal]),
                acceptances=accepted.get(ordinal, []),
            )
        )
    return ExperimentState(
        rounds=int(counts["rounds"]),
        told=int(counts["told"]),
        generators=generators,
        open_picks=sorted((_open_pick(known_picks, *entry) for entry in leased), key=attrgetter("number")),
        decision=None if decision is None else decision.decode(),
        controls=controls,
        instance=counts["instance"],
        keep_log=counts["keep_log"] == "1",
        version=int(counts.get("version", 0)),
        state_token=counts.get("state_token", ""),
        last=counts.get("last", ""),
        labels=tuple(counts.get("labels", "").split()),
        mixture_growth=float(counts["mixture_growth"]) if "mixture_growth" in counts else None,
        mixture=_mixture(mixture, mixture_body, counts, known),
        mixture_error=errors.get(MIXTURE),
        route_growth=float(counts["route_growth"]) if "route_growth" in counts else None,
        model=_model(model, counts, known),
        routes_error=errors.get(ROUTES_UNIT),
    )


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _by_generator(counts: dict[str, str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, value in counts.items():
        generator, colon, count = name.partition(":")
        if colon:
            found.setdefault(generator, {})[count] = int(value)
    return found


def _retractions(counts: dict[str, str]) -> dict[int, list[Retraction]]:
    found: dict[int, list[Retraction]] = {}
    for name, record in counts.items():
        if name.startswith(PREFIX):
            generator = int(name.split("_")[1])
            found.setdefault(generator, []).append(Retraction.from_record(generator, record))
    return {generator: sorted(those, key=attrgetter("seq")) for generator, those in found.items()}


def _acceptances(counts: dict[str, str]) -> dict[int, list[Acceptance]]:
    found: dict[int, list[Acceptance]] = {}
    for name, record in counts.items():
        if name.startswith(ACCEPTED):
            generator = int(name.split("_")[1])
            found.setdefault(generator, []).append(Acceptance.from_record(generator, record))
    return {generator: sorted(those, key=attrgetter("when")) for generator, those in found.items()}


def _open_pick(known: Mapping[int, OpenPick], number: bytes, deadline: bytes, entry: bytes, terms: bytes) -> OpenPick:
    nonce, _, _, key = terms.decode().split(" ", 3)
    pick = known.get(int(number))
    if pick is not None and pick.nonce == nonce:  # a nonce identifies a pick, and a pick never changes
        return pick if pick.deadline == float(deadline) else replace(pick, deadline=float(deadline))
    generator, request_id, _, record = entry.decode().split("\t", 3)
    return OpenPick(int(number), int(generator), request_id, record, float(deadline), nonce, key)


class Held(NamedTuple):
    """The names of what a reader has, as the scripts that read states take them: they leave it out of the answer."""

    estimates: list[str]
    mixture: str
    model: str

    @classmethod
    def from_state(cls, known: ExperimentState) -> Held:
        """What a state read before has."""
        return cls(
            [generator.estimate_made for generator in known.generators],
            "" if known.mixture is None else known.mixture.made,
            "" if known.model is None else known.model.made,
        )


NOTHING_HELD = Held([], "", "")


def _mixture(
    head: bytes, body: bytes, counts: Mapping[str, str], known: ExperimentState | None
) -> StoredArtefact | None:
    """The mixture that picks are made from; an empty head is that of `known` if it still stands."""
    if "mixture_growth" not in counts or "made_mixture" not in counts:
        return None
    if head or known is None:
        return parse_artefact(head or None, body)
    return known.mixture


def _model(head: bytes, counts: Mapping[str, str], known: ExperimentState | None) -> StoredArtefact | None:
    if head or known is None:
        return parse_artefact(head or None)
    return known.model if "made_model" in counts else None


def parse_artefact(head: bytes | None, body: bytes | None = b"") -> StoredArtefact | None:
    """What put_artefact.lua stores of an artefact, "<made> <parts>" and the payload; None without one."""
    if head is None or body is None:
        return None
    made, listed = head.decode().split(" ", 1)
    return StoredArtefact(made, parse_parts(listed), body)


def parse_parts(listed: str) -> dict[int, LogExtent]:
    """The parts of an artefact as parts.lua writes them, by ordinal."""
    each = (map(int, one.split(":")) for one in listed.split(","))
    return {generator: LogExtent(seq, samples) for generator, seq, samples in each}


def _estimate(entry: str | None, ordinal: int, known: ExperimentState | None) -> tuple[int, str | None]:
    """The position of an estimate and its text."""
    if entry is None:
        return 0, None
    if not entry and known is not None:
        return known.generators[ordinal].estimate_seq, known.generators[ordinal].estimate
    seq, text = entry.split(" ", 1)
    return int(seq), text


def parse_watched(answer: Sequence[Any], known: Mapping[Unit, WatchedState]) -> dict[Unit, WatchedState]:
    """The answer of watched.lua; estimates that it left out because they are `known` are taken from there."""
    found: dict[Unit, WatchedState] = {}
    for ordinal, label, made, scoring_error, snapshot, log_bytes, entry in answer:
        unit, name = (int(ordinal), label.decode()), made.decode()
        estimate = entry.decode().partition(" ")[2] or None
        if estimate is None and name and unit in known and known[unit].estimate_made == name:
            estimate = known[unit].estimate
        found[unit] = WatchedState(
            estimate_seq=int(name.partition(" ")[0] or 0),
            estimate=estimate,
            estimate_made=name,
            scoring_error=None if scoring_error is None else scoring_error.decode(),
            snapshot_seq=snapshot,
            log_bytes=int(log_bytes),
        )
    return found


def _slices(returned: dict[str, str]) -> dict[int, list[Returned]]:
    found: dict[int, list[Returned]] = {}
    for pick in sorted(returned, key=int):
        generator, *runs = map(int, returned[pick].split(" "))
        slices = [Returned(int(pick), *run) for run in zip(runs[::2], runs[1::2], strict=True)]
        found.setdefault(generator, []).extend(slices)
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
