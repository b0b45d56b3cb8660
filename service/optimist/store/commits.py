"""The steps of experiments whose tables Python changes. Nothing of the service calls it yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimist.records.commits import TAIL, TURN, Answer, Guard, Head, Loaded, Request, Write
from optimist.records.tables import RESIDENT, WHOLE, rows_in
from optimist.store import keys
from optimist.store.scripts import Argument, Commands


class Commits:
    """The part of `Store` about such steps."""

    _commands: Commands

    async def load_tables(self, experiment: str) -> Loaded:
        """All resident tables of one moment; of an experiment that there is not, none."""
        parts = ("head", *(table.name for table in RESIDENT))
        seq, chain, time, hashes = await self._commands.script(
            "load", [self._commands.key(experiment, part) for part in parts]
        )
        rows = {table.name: _texts(found) for table, found in zip(RESIDENT, hashes, strict=True)}
        return Loaded(Head(int(seq), chain.decode()), float(time), rows_in(rows))

    async def commit(self, experiment: str, request: Request) -> Answer:
        """Write a step if the experiment is as it was decided from, durable when this returns. It may be sent again."""
        places: dict[str, int] = {"head": 1, "tail": 2}

        def place(part: str) -> int:
            return places.setdefault(part, len(places) + 1)

        reads = [
            {
                "place": place(guard.part),
                "kind": _kind(guard),
                "field": guard.field,
                "rule": guard.rule.value,
                "value": guard.value,
            }
            for guard in request.guards
        ]
        writes = [argument for write in request.writes for argument in _packed(write, place)]
        word, seq, chain, time, missed, values = await self._commands.script(
            "commit",
            [self._commands.key(experiment, part) for part in places],
            expected_seq=request.head.seq,
            expected_chain=request.head.chain,
            new=request.chain,
            entry=request.entry,
            kept=TAIL,
            frees=int(request.frees),
            who=request.who,
            takes_turn=int(request.claims),
            seconds=TURN,
            channel=keys.DUE,
            experiment=self._commands.full(experiment),
            reads=reads,
            writes=writes,
        )
        return Answer(
            is_done=word == b"done",
            head=Head(int(seq), chain.decode()),
            time=float(time),
            values=[_value(guard, found) for guard, found in zip(request.guards, values, strict=True)],
            missed=None if missed is None else [(fields[1].decode(), fields[3].decode()) for _, fields in missed],
            waits=word == b"wait",
        )


def _kind(guard: Guard) -> str:
    if guard.part.startswith("curve:"):
        return "list"
    if guard.part.startswith("log:"):
        return "entry" if guard.field else "first"
    return "whole" if guard.field == WHOLE else "field"


def _packed(write: Write, place: Any) -> list[Argument]:
    arguments = write.arguments
    if write.command == "RING":
        limit, count, *rest = arguments
        arguments = (limit, count, *map(place, rest[: int(count)]), *rest[int(count) :])
    return [len(arguments), write.command, place(write.part or "head"), *arguments]


def _value(guard: Guard, found: Any) -> Any:
    if isinstance(found, list):
        return [one.decode() for one in found] if _kind(guard) == "list" else _texts(found)
    return None if found is None else found.decode()


def _texts(found: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in zip(found[::2], found[1::2], strict=True)}
