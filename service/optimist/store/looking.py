"""What the script `look` answers, as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from optimist.store.records import GeneratorState, Look, OpenPick, Returned, SetAside, State, Suspect

SAME = "same:"
"""Before another generator's ordinal: the count of a generator's batches that agree with that one's."""


def parse_look(answer: Sequence[Any]) -> Look:
    """The `Look` of one answer."""
    decision, leased, *flat = answer
    counts, names, states, controls, estimates, damaged, aside, returned, snapshots, suspects = map(_pairs, flat)
    slices = _slices(returned)
    set_aside, odd = _set_aside(aside), _suspects(suspects)
    by_generator = _by_generator(counts)
    generators = []
    for ordinal in sorted(map(int, names)):
        g = str(ordinal)
        count = by_generator[g]
        seq, estimate = estimates[g].split(" ", 1) if g in estimates else (0, None)
        generators.append(
            GeneratorState(
                ordinal=ordinal,
                name=names[g],
                samples=count["samples"],
                batches=count["batches"],
                seq=count["seq"],
                due_samples=count["due_samples"],
                due_seq=count["due_seq"],
                estimate_seq=int(seq),
                estimate=estimate,
                damage=damaged.get(g),
                handed=count["handed"],
                returned=slices.get(ordinal, []),
                state=cast(State, states.get(g, "active")),
                snapshot_seq=int(snapshots[g].split(" ")[2]) if g in snapshots else 0,
                log_bytes=count["bytes"] - count["snapshot_bytes"],
                aside=set_aside.get(ordinal, []),
                aside_count=count["aside"],
                suspects=odd.get(ordinal, []),
                large=count.get("large", 0),
                copies=count.get("copies", 0),
                twins={int(name[len(SAME) :]): agree for name, agree in count.items() if name.startswith(SAME)},
            )
        )
    return Look(
        rounds=int(counts["rounds"]),
        told=int(counts["told"]),
        generators=generators,
        open_picks=sorted((_open_pick(*entry) for entry in leased), key=lambda pick: pick.number),
        decision=None if decision is None else decision.decode(),
        controls=controls,
        instance=counts["instance"],
        keep_log=counts["keep_log"] == "1",
        version=int(counts.get("version", 0)),
        mark=counts.get("mark", ""),
        last=counts.get("last", ""),
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


def _open_pick(number: bytes, deadline: bytes, entry: bytes, terms: bytes | None) -> OpenPick:
    generator, request_id, _, record = entry.decode().split("\t", 3)
    nonce, _, _, key = ("", "", "", "") if terms is None else terms.decode().split(" ", 3)
    return OpenPick(int(number), int(generator), request_id, record, float(deadline), nonce, key)


def _slices(returned: dict[str, str]) -> dict[int, list[Returned]]:
    found: dict[int, list[Returned]] = {}
    for pick in sorted(returned, key=int):
        generator, start, size = map(int, returned[pick].split(" "))
        found.setdefault(generator, []).append(Returned(int(pick), start, size))
    return found


def _set_aside(aside: dict[str, str]) -> dict[int, list[SetAside]]:
    found: dict[int, list[SetAside]] = {}
    for generator, seq, reason in sorted((*map(int, name.split(":")), reason) for name, reason in aside.items()):
        found.setdefault(generator, []).append(SetAside(seq, reason))
    return found


def _suspects(suspects: dict[str, str]) -> dict[int, list[Suspect]]:
    found: dict[int, list[Suspect]] = {}
    for generator, seq, stored in sorted((*map(int, name.split(":")), stored) for name, stored in suspects.items()):
        found.setdefault(generator, []).append(Suspect.of(seq, stored))
    return found
