"""Batches retracted during a run, and what of that Redis must hold in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from redis import Redis

from .questions import GENERATORS, Question
from .rollback import Rollback
from .wire import Client, Refused
from .workers import Ledger

Arm = tuple[str, str]
"""Experiment and generator."""
Found = Mapping[Arm, Mapping[int, int]]
"""By generator: the position of the retracted batch, by the position of the retraction."""
NEWEST = 60
"""A batch is drawn from so many that were acknowledged last: of others the log is trimmed."""


@dataclass
class Asked:
    """A retraction that was asked for; when it was answered, and in which epoch, if it was accepted."""

    arm: Arm
    position: int
    at: float | None = None
    epoch: int = 0


@dataclass
class Retractor:
    """Retracts acknowledged batches drawn from `random`, one after every `every` of them, until it is cancelled."""

    client: Client
    ledger: Ledger
    random: random.Random
    every: float
    asked: list[Asked] = field(default_factory=list)
    refused: int = 0
    """How many were no longer possible."""

    async def run(self) -> None:
        """Retract until cancelled. A refusal for another reason than a trimmed or lost batch is a violation."""
        while True:
            await asyncio.sleep(0.05)
            if len(self.ledger.acknowledged) < self.every * (len(self.asked) + 1):
                continue
            present = (self.ledger.epoch, self.ledger.epoch)
            newest = list(self.ledger.acknowledged.items())[-NEWEST:]
            known = [(key, one[0]) for key, one in newest if len(one) == 1 and one[0].epochs == present]
            if not known:
                continue
            (name, _, _), told = self.random.choice(known)
            one = Asked((name, told.told.generator), told.position)
            self.asked.append(one)
            path = f"/v1/experiments/{name}/generators/{told.told.generator}/batches/{told.position}"
            try:
                reply = await self.client.call("DELETE", path, {"reason": "chaos"})
            except Refused as error:
                self.refused += 1
                if error.status != 409 and self.ledger.epoch == present[0]:
                    self.ledger.violations.append(str(error))
                continue
            if self.ledger.epochs(reply.sent) == present:
                one.at, one.epoch = time.monotonic(), self.ledger.epoch

    def check(self, found: Found) -> list[str]:
        """Whatever is retracted was asked for, once; and what was answered is retracted, unless a rollback lost it."""
        wrong: list[str] = []
        wanted = {(one.arm, one.position) for one in self.asked}
        for arm, entries in found.items():
            positions = sorted(entries.values())
            if len(set(positions)) < len(positions):
                wrong.append(f"{arm}: batches are retracted twice: {positions}")
            wrong += [f"{arm}: {at} is retracted, nobody asked for it" for at in positions if (arm, at) not in wanted]
        for one in self.asked:
            if one.at is None or one.position in found.get(one.arm, {}).values():
                continue
            if not _may_be_lost(one.at, self.ledger.rollbacks[one.epoch :]):
                wrong.append(f"{one.arm}: the batch at {one.position} was retracted for good, and counts")
        return wrong


def found_in(redis: Redis, questions: Sequence[Question]) -> Found:
    """The retractions that Redis holds."""
    found: dict[Arm, dict[int, int]] = {}
    for question in questions:
        stream = cast(list[tuple[bytes, dict[bytes, bytes]]], redis.xrange(f"optimist:{{{question.name}}}:retractions"))
        for _, one in stream:
            entries = found.setdefault((question.name, GENERATORS[int(one[b"generator"])]), {})
            entries[int(one[b"seq"])] = int(one[b"position"])
    return found


def _may_be_lost(at: float, rollbacks: Sequence[Rollback]) -> bool:
    return any(rollback.to < at for rollback in rollbacks)
