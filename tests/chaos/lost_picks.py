"""Tells of picks that rollbacks have lost, for numbers that were given again since: none may be acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from .questions import Question
from .wire import Client, Refused
from .workers import Ledger, Picked

EVERY = 0.1
"""Seconds between two searches for such a pick."""


@dataclass
class LostPicks:
    """Tells one lost pick after each rollback, once with its own batch, once with that of the pick that has its number.

    The other pick was told by then. A service that compares only contents would acknowledge the equal batch.
    """

    client: Client
    ledger: Ledger
    questions: Sequence[Question]
    told: list[int] = field(default_factory=list)
    """Of each rollback, in order, how many tells were refused."""

    async def run(self) -> None:
        """Tell until cancelled. An answer other than 410 is a violation."""
        while True:
            await asyncio.sleep(EVERY)
            epoch = len(self.told)
            if epoch < self.ledger.epoch and (found := self._find(epoch)) is not None:
                self.told.append(0)
                await self._tell(*found)

    def _find(self, epoch: int) -> tuple[Picked, Picked] | None:
        """A pick made before the rollback that ended this epoch, and one of its number that was told after it."""
        before = {pick.key[:2]: pick for pick in self.ledger.picks.values() if pick.epochs[1] <= epoch}
        for key, entries in reversed(self.ledger.acknowledged.items()):
            after, lost = self.ledger.picks[key], before.get(key[:2])
            is_present = any(entry.epochs == (self.ledger.epoch, self.ledger.epoch) for entry in entries)
            if lost is not None and after.epochs[0] > epoch and is_present:
                return lost, after
        return None

    async def _tell(self, lost: Picked, after: Picked) -> None:
        [question] = [question for question in self.questions if question.name == lost.key[0]]
        query = urlencode({"nonce": lost.nonce})
        path = f"/v1/experiments/{question.name}/picks/{lost.number}/batch?{query}"
        for told in (after.told, lost.told):
            try:
                reply = await self.client.call("POST", path, question.body(told.generator, told.size, told.seed))
            except Refused as error:
                if error.status != 410:
                    self.ledger.violations.append(f"a lost pick was not refused as one: {error}")
                self.told[-1] += 1
            else:
                self.ledger.violations.append(f"{lost} is lost, {told} was acknowledged for it: {reply.content}")
