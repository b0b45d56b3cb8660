"""Workers that ask, sample and tell until every experiment has ended, and the ledger of the answers that they got."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from .questions import GENERATORS, Question
from .rollback import Rollback
from .wire import Client, NoAnswer, Refused, Reply

Key = tuple[str, int, str]
"""Experiment and number of a pick, and what distinguishes picks of that number made before and after a rollback."""
Epochs = tuple[int, int]
"""The first and the last epoch that an answer can be of; an epoch is the number of rollbacks before it."""
SLOWER = 30.0
"""The factor by which a slow batch takes longer than others."""
ROLLED_BACK = frozenset({404, 409, 410})
"""The status of a refused tell whose pick Redis no longer knows."""


@dataclass(frozen=True, slots=True)
class Told:
    """A batch as it was sent, with enough data to make it again."""

    generator: str
    size: int
    seed: int
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A batch that was answered with 2xx at the time `at`, and its position in the generator's log."""

    told: Told
    position: int
    epochs: Epochs
    at: float
    uncounted: int | None = 0
    """How many of its rows do not count; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Picked:
    """A pick as it was given: to which worker, for which batch, and from the estimates at which log positions."""

    key: Key
    worker: str
    told: Told
    positions: tuple[int, ...]
    nonce: str
    epochs: Epochs = field(compare=False)

    @property
    def number(self) -> int:
        """Its number, which a pick after a rollback can have as well."""
        return self.key[1]


@dataclass
class Fault:
    """A fault, and the seconds until the service worked again; None before that."""

    kind: str
    at: float
    known: dict[tuple[str, str], int]
    """The last acknowledged log position of each generator when the fault happened; for a rollback, after it."""
    next_tell: float | None = None
    next_estimate: float | None = None


@dataclass
class Ledger:
    """The answers that the workers got, and the doubtful batches. `rollbacks`: those of the Redis that they use."""

    rollbacks: list[Rollback] = field(default_factory=list)
    picks: dict[Key, Picked] = field(default_factory=dict)
    acknowledged: dict[Key, list[Acknowledged]] = field(default_factory=dict)
    """More than one entry if a rollback may have come in between; none if all entries are known to be lost."""
    unresolved: dict[Key, Picked] = field(default_factory=dict)
    """Sent but not answered yet; what a killed worker leaves here is told again at the end."""
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds from the first attempt to the answer, for every tell."""
    late: int = 0
    duplicates: int = 0
    stale: int = 0
    uncounted: int = 0
    """Batches none of which counts, because others were told with their indices."""
    dropped: int = 0
    """Picks that a rollback removed before they were told."""
    _epoch: int = 0

    @property
    def epoch(self) -> int:
        """The number of rollbacks."""
        return sum(rollback.back is not None for rollback in self.rollbacks)

    def epochs(self, sent: float) -> Epochs:
        """The epochs that an answer received now can be of, to a request sent at `sent` (monotonic seconds)."""
        return min(self.epoch, sum(rollback.gone <= sent for rollback in self.rollbacks)), self.epoch

    def strike(self, kind: str) -> None:
        """Record a fault that happens now."""
        self.faults.append(Fault(kind, time.monotonic(), dict(self.last)))

    def told(self, pick: Picked, reply: Reply) -> None:
        """Record the answer to a tell. An answer that contradicts an earlier one is a violation."""
        key, told, answer = pick.key, pick.told, reply.content
        self.unresolved.pop(key, None)
        self._start_anew()
        now = time.monotonic()
        self.late += answer["late"]
        self.duplicates += answer["duplicate"]
        self.waits.append(reply.seconds)
        if answer["position"] is None:
            self._leave_out(pick, answer)
            return
        entry = Acknowledged(told, answer["position"], self.epochs(reply.sent), now, answer["uncounted"])
        if answer["generator"] != told.generator:
            self.violations.append(f"generators mixed: {key}, told as {told}, was counted for {answer['generator']}")
        elif answer["pick"] != pick.number:
            self.violations.append(f"{key}, told as {told}, was answered with {answer}")
        else:
            self._acknowledge(key, entry)
        arm, is_present = (key[0], told.generator), entry.epochs == (self.epoch, self.epoch)
        if is_present:
            self.last[arm] = max(self.last.get(arm, 0), entry.position)
        for fault in self.faults:
            if fault.next_tell is None and reply.sent >= fault.at:
                fault.next_tell = now - fault.at
            if is_present:
                fault.known.setdefault(arm, entry.position - 1)

    def _leave_out(self, pick: Picked, answer: dict[str, Any]) -> None:
        """Record that nothing of a batch counts. What was acknowledged of it before must have been lost."""
        self.uncounted += 1
        if answer["uncounted"] != pick.told.size or pick.told.start is None:
            self.violations.append(f"{pick.key}, told as {pick.told}, was answered with {answer}")
        if entries := self.acknowledged.get(pick.key):
            if any(entry.epochs[0] >= self.epoch for entry in entries):
                self.violations.append(f"{pick.key} was acknowledged as {entries}, and does not count now")
            entries.clear()

    def picked(self, question: Question, pick: dict[str, Any], sent: float) -> Picked:
        """Record a pick asked for at `sent`. A pick that another worker got, or that has changed, is a violation."""
        self._start_anew()
        epochs, nonce, positions = self.epochs(sent), pick["nonce"], tuple(pick["positions"])
        key = (question.name, pick["number"], nonce)
        # Some generators ignore the seed: odd picks get other samples each time that their number is given.
        seed = zlib.crc32(f"{pick['seed']} {key[2]}".encode()) if pick["number"] % 2 else pick["seed"]
        told = Told(pick["generator"], pick["size"], seed, pick.get("start"))
        entry = Picked(key, pick["worker"], told, positions, nonce, epochs)
        if self.picks.setdefault(key, entry) != entry:
            self.violations.append(f"{key} was handed out as {self.picks[key]}, then as {entry}")
        self.stale += pick["stale"]
        now = time.monotonic()
        for fault in self.faults:
            # A position that was unknown then: an estimate of a batch that came after it, or shortly before.
            if (
                fault.next_estimate is None
                and sent >= fault.at
                and any(
                    position > fault.known.get((question.name, name), position)
                    for name, position in zip(GENERATORS, positions, strict=True)
                )
            ):
                fault.next_estimate = now - fault.at
        return entry

    def drop(self, pick: Picked, error: Refused) -> bool:
        """Forget a pick whose tell was refused, if a rollback after it was made can be the reason."""
        if error.status not in ROLLED_BACK or self.epoch <= pick.epochs[0]:
            return False
        self.unresolved.pop(pick.key, None)
        if pick.key in self.acknowledged:
            self.acknowledged[pick.key].clear()
        self.dropped += 1
        return True

    def was_retracted(self, pick: Picked, error: Refused) -> bool:
        """Record a batch whose tell was refused because it was accepted before, and retracted since."""
        found = re.search(r"the batch was accepted at position (\d+) and retracted since", str(error))
        if found is None:
            return False
        self.unresolved.pop(pick.key, None)
        entry = Acknowledged(pick.told, int(found[1]), (self.epoch, self.epoch), time.monotonic(), None)
        self.acknowledged[pick.key] = [entry]
        return True

    def _acknowledge(self, key: Key, entry: Acknowledged) -> None:
        entries = self.acknowledged.setdefault(key, [])
        for other in list(entries):
            if other.position == entry.position:
                entries.remove(other)
            elif other.epochs[0] >= entry.epochs[1]:
                self.violations.append(f"{key} was acknowledged as {other}, then as {entry}, with no rollback between")
        entries.append(entry)

    def _start_anew(self) -> None:
        """After a rollback logs are shorter, so the positions acknowledged last are no longer valid."""
        if self._epoch == self.epoch:
            return
        self._epoch = self.epoch
        self.last.clear()
        for fault in self.faults:
            if fault.next_estimate is None:
                fault.known.clear()


class Worker:
    """One loop over the experiments, each loop starting with another one.

    A batch takes `sampling` seconds on average, `SLOWER` times as long for the share `slow` of them.
    """

    def __init__(
        self, name: str, port: int, questions: Sequence[Question], ledger: Ledger, sampling: float, slow: float
    ) -> None:
        self.name = name
        self.client = Client(port)
        self._questions = questions
        self._ledger = ledger
        self._sampling = sampling
        self._slow = slow
        self._requests = itertools.count()

    async def run(self) -> None:
        """Work until all experiments have ended. Cancelling it acts like kill -9: the connection is dropped."""
        try:
            rollbacks = -1
            while rollbacks < len(self._ledger.rollbacks):  # an experiment that had ended can continue after it
                rollbacks = len(self._ledger.rollbacks)
                for question in self._questions:
                    await self._run(question)
        except NoAnswer as error:
            self._ledger.violations.append(f"{self.name}: {error}")
        finally:
            self.client.abort()

    async def _run(self, question: Question) -> None:
        """Run rounds of one experiment until it has ended."""
        reply = await self._ask(question)
        while not reply.content["ended"]:
            if not reply.content["picks"]:  # the whole budget is pending
                await asyncio.sleep(reply.content["retry_after"])
                reply = await self._ask(question)
                continue
            pick = self._ledger.picked(question, reply.content["picks"][0], reply.sent)
            slower = SLOWER if random.random() < self._slow else 1.0
            await asyncio.sleep(slower * self._sampling * random.expovariate(1.0))
            try:
                told = await tell(self.client, question, pick, self._ledger, next="1", worker=self.name)
                reply = replace(told, content=told.content["next"])
            except Refused as error:
                if not (self._ledger.was_retracted(pick, error) or self._ledger.drop(pick, error)):
                    await self._complain(error)
                reply = await self._ask(question)

    async def _ask(self, question: Question) -> Reply:
        request = {"worker": self.name, "request_id": f"{self.name}-{question.name}-{next(self._requests)}"}
        while True:
            try:
                return await self.client.call("POST", f"/v1/experiments/{question.name}/picks", request)
            except Refused as error:
                await self._complain(error)

    async def _complain(self, error: Refused) -> None:
        self._ledger.violations.append(f"{self.name}: {error}")
        await asyncio.sleep(0.5)


async def tell(client: Client, question: Question, pick: Picked, ledger: Ledger, **parameters: str) -> Reply:
    """Tell the batch of a pick until there is an answer; record it. Raises Refused and NoAnswer as the client does."""
    told = pick.told
    query = urlencode({**parameters, "nonce": pick.nonce})
    path = f"/v1/experiments/{question.name}/picks/{pick.number}/batch?{query}"
    ledger.unresolved[pick.key] = pick
    reply = await client.call("POST", path, question.body(told.generator, told.size, told.seed))
    ledger.told(pick, reply)
    return reply
