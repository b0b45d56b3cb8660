"""Audits: what people are asked, who has it, and what they said."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from optimist.records import (
    MAX_AUDITS,
    MAX_COMMENTED,
    MAX_RATERS,
    MAX_SAID,
    Audit,
    AuditsState,
    Lease,
    Said,
    WantedAudit,
    codec,
)
from optimist.store import keys
from optimist.store.scripts import Argument, Commands
from optimist.turns import aside

LEASE = 600.0
"""Seconds for which somebody has an audit: a long text takes minutes to read."""

MAX_HELD = 500
"""Audits that an access key has at once, under all names: a hundred people on the page for raters, each with five."""


class StoredAudits:
    """The part of `Store` about audits. instance, and errors: as of `Picks`."""

    _commands: Commands

    async def audits(self, experiment: str) -> AuditsState:
        """All audits of an experiment."""
        parts = [self._commands.key(experiment, part) for part in ("audits", "audit_leases")]
        stored, leased = await self._commands.call_many(
            [("HGETALL", parts[0]), ("ZRANGE", parts[1], 0, -1, "WITHSCORES")]
        )
        return await aside(len(stored), _parsed, stored, leased)

    async def audit(self, experiment: str, id_: str) -> Audit | None:
        """One of them; None if there is none."""
        stored = await self._commands.call("HGET", self._commands.key(experiment, "audits"), id_)
        return None if stored is None else Audit.from_stored(id_, stored.decode())

    async def ask_audits(
        self,
        experiment: str,
        rater: str,
        count: int,
        wanted: Sequence[WantedAudit],
        *,
        known: int,
        instance: str,
        holder: str = "",
    ) -> tuple[list[str], bool]:
        """Give a rater up to `count` of the wanted audits, in their order, for `LEASE` seconds.

        The rater keeps current leases. Nobody gets an audit that enough other raters have or answered. An experiment
        has at most `MAX_AUDITS`. known: the number of audits that were known when these were chosen. holder: the
        access key, which has at most `MAX_HELD` under all names; "" for none. Returns the ids, and whether new ones
        were left out, as others had got new ones since: the caller is to choose again.
        """
        answer = await self._commands.experiment_script(
            "ask_audits",
            experiment,
            instance=instance,
            rater=rater,
            holder=holder,
            count=count,
            seconds=LEASE,
            most=MAX_AUDITS,
            most_raters=MAX_RATERS,
            most_held=MAX_HELD,
            known=known,
            wanted=[
                {
                    "id": audit.id,
                    "index": audit.index,
                    "weight": repr(audit.weight),
                    "raters": audit.raters,
                    "places": " ".join(map(str, audit.places)),
                }
                for audit in wanted
            ],
        )
        return [id_.decode() for id_ in answer[0]], bool(answer[1])

    async def answer(
        self,
        experiment: str,
        id_: str,
        rater: str,
        scores: Sequence[float] | Mapping[int, float] | None,
        comment: str = "",
        *,
        batch: int,
        instance: str,
    ) -> tuple[int, bool]:
        """Note what a rater says of an audit: of each sample in the order in which they were shown, or by generator;
        None takes back what they said.

        batch: after how many answers of a generator an estimate is due. Returns how many audits are answered, and
        whether a decision can rest on this answer. Raises NotFound for an audit that this
        rater never had, Retracted for a sample that was retracted, Refused for scores of other samples, Conflict where
        the experiment keeps no more.
        """
        named: list[Mapping[str, Argument]] = []
        if isinstance(scores, Mapping):
            named = [{"generator": g, "score": repr(float(score))} for g, score in scores.items()]
        elif scores is not None:
            named = [{"generator": "", "score": repr(float(score))} for score in scores]
        answered, can_count = await self._commands.experiment_script(
            "answer",
            experiment,
            instance=instance,
            id=id_,
            rater=rater,
            comment=comment,
            takes_back=int(scores is None),
            scores=named,
            most=MAX_SAID,
            most_bytes=MAX_COMMENTED,
            batch=batch,
            channel=keys.DUE,
            experiment=self._commands.full(experiment),
        )
        return int(answered), bool(can_count)

    async def said(self, experiment: str) -> list[Said]:
        """All records of scores, in their order."""
        stored = await self._commands.call("XRANGE", self._commands.key(experiment, "audit_records"), "-", "+")
        return await aside(len(stored), _records, stored)

    async def told(self, experiment: str, generators: Sequence[int]) -> list[list[tuple[int, int]]]:
        """The indices that were told of each generator, as disjoint intervals, start and stop, ascending."""
        parts = [self._commands.key(experiment, f"told:{g}") for g in generators]
        answers = await self._commands.call_many([("ZRANGE", part, 0, -1) for part in parts])
        return [[(int(start), int(stop)) for start, stop in map(bytes.split, intervals)] for intervals in answers]


def _records(stored: Sequence[tuple[bytes, Mapping[bytes, bytes]]]) -> list[Said]:
    return [codec.from_entry(Said, [part for field in entry.items() for part in field]) for _, entry in stored]


def _parsed(stored: Mapping[bytes, bytes], leased: Sequence[tuple[bytes, float]]) -> AuditsState:
    audits = (Audit.from_stored(id_.decode(), text.decode()) for id_, text in stored.items())
    return AuditsState({audit.id: audit for audit in audits}, _leases(leased))


def _leases(stored: Sequence[tuple[bytes, float]]) -> dict[Lease, float]:
    now = time.time()
    leases: dict[Lease, float] = {}
    for member, deadline in stored:
        id_, rater, _ = member.decode().split("\t")
        # By this machine's clock, which may differ from Redis's: only shown.
        if (left := float(deadline) - now) > 0.0:
            leases[Lease(id_, rater)] = left
    return leases
