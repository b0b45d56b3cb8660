"""Picks opened, renewed and ended, and batches that come without one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from optimist.store import keys
from optimist.store.commands import Commands
from optimist.store.records import AskGroup, NewPick, Opened, Settled

APPENDED_SECONDS = 24 * 3600
"""How long an idempotency key is remembered, unless as many newer ones as settled picks are remembered came since."""


class Picks:
    """The part of `Store` about picks and batches.

    instance, where a method takes it: `Look.instance` of the experiment that is meant. It raises NotFound where that
    one was deleted, and another one made under its name.
    """

    _commands: Commands
    _settled_limit: int

    async def open_picks(
        self,
        experiment: str,
        expected_rounds: int,
        groups: Sequence[AskGroup],
        lease_seconds: float,
        *,
        instance: str | None = None,
        who: str = "",
    ) -> Opened | None:
        """Open the picks of several asks at once, numbered from expected_rounds + 1 in order.

        None: nothing was opened, because it is the turn of somebody else than `who` (see `take_turn`), or because since
        `look` other picks were opened, a decision was latched, the experiment was stopped, a generator was paused or
        retired, or a slice to be handed out `again` went: look again.
        `repeated`: some of these asks had their picks before; nothing was opened, and only theirs are given. A call
        whose reply was lost is answered that way when it is sent again.
        Raises ValueError for a group without picks, for a request id that holds a tab, and for a request id or an
        `again` that comes twice; NotFound for an unknown generator.
        """
        requests = [group.request_id for group in groups]
        if len(set(requests)) < len(requests) or any("\t" in request for request in requests):
            raise ValueError("request ids must differ from one another and hold no tab")
        if not all(group.picks for group in groups):
            raise ValueError("an ask opens at least one pick")
        again = [pick.again for group in groups for pick in group.picks if pick.again is not None]
        if len(set(again)) < len(again):
            raise ValueError("a returned slice is handed out once")
        sizes = (part for group in groups for part in (group.request_id, len(group.picks)))
        picks = (part for group in groups for pick in group.picks for part in _arguments(pick))
        outcome, *answers = await self._commands.experiment_script(
            *("open_picks", experiment, expected_rounds, lease_seconds, who, len(groups), *sizes, *picks),
            instance=instance,
        )
        if outcome == b"moved":
            return None
        numbers = {
            request.decode(): [int(number) for number in listed.split(b",")]
            for request, listed in zip(answers[::2], answers[1::2], strict=True)
        }
        return Opened(numbers, repeated=outcome == b"repeated")

    async def renew_leases(self, experiment: str, numbers: Sequence[int], seconds: float) -> list[int]:
        """Let picks pend for at least `seconds` from now; returns those that still did, the others stay as they are."""
        return await self._commands.experiment_script("renew_leases", experiment, seconds, *numbers)

    async def settle(
        self, experiment: str, pick: int, digest: str, rows: int, body: bytes, *, instance: str | None = None
    ) -> Settled:
        """Accept a batch for a pick: log, counts, due position and history in one step; durable when this returns.

        A lease that ran out, a latched decision, or a generator that was paused or retired, does not keep a batch from
        counting. digest: of the decoded arrays, not empty: the same digest again gets the first answer again.
        Raises Conflict if the pick was told with another digest or given up, Gone if how it ended is no longer
        remembered, NotFound if it was never opened.
        """
        _check_batch(digest, rows)
        answer, duplicate = await self._commands.experiment_script(
            *(
                "settle",
                experiment,
                pick,
                digest,
                rows,
                body,
                keys.DUE,
                self._commands.full(experiment),
                self._settled_limit,
            ),
            instance=instance,
        )
        return Settled(**json.loads(answer), duplicate=bool(duplicate))

    async def give_up(self, experiment: str, pick: int, reason: str, *, instance: str | None = None) -> None:
        """Return a pick unsampled; again is as good as once.

        Raises Conflict if it was told, Gone if how it ended is no longer remembered, NotFound if it was never opened.
        """
        await self._commands.experiment_script(
            "give_up", experiment, pick, reason, self._settled_limit, instance=instance
        )

    async def append(
        self,
        experiment: str,
        generator: int,
        key: str,
        digest: str,
        rows: int,
        body: bytes,
        *,
        instance: str | None = None,
    ) -> Settled:
        """Accept a batch that no pick asked for; counts like a told one and is durable when this returns.

        key: the caller's, the same for a repeat, which gets the first answer again; another generator's is another key.
        It is remembered for `APPENDED_SECONDS` or until `settled_limit` newer ones came, whichever is shorter; after
        that, a repeat counts.
        Raises Conflict for a key that came with another digest, NotFound for an unknown generator.
        """
        _check_batch(digest, rows)
        if not key:
            raise ValueError("a batch without a pick has a key")
        answer, duplicate = await self._commands.experiment_script(
            *("append", experiment, generator, key, digest, rows, body, keys.DUE, self._commands.full(experiment)),
            *(self._settled_limit, APPENDED_SECONDS),
            instance=instance,
        )
        return Settled(**json.loads(answer), duplicate=bool(duplicate))


def _check_batch(digest: str, rows: int) -> None:
    if not digest or "\t" in digest or rows < 1:
        raise ValueError("a batch has at least one row, and a digest without tabs")


def _arguments(pick: NewPick) -> tuple[str | int, ...]:
    taken = "" if pick.start is None else f"{pick.start} {pick.size}"
    return pick.generator, taken, "" if pick.again is None else pick.again, pick.record
