"""Workers that ask, sample and tell until every experiment has ended, and the ledger of what they were answered."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .questions import GENERATORS, Question
from .wire import Client, NoAnswer, Refused, Reply

Key = tuple[str, int]
"""Experiment and number of a pick."""


@dataclass(frozen=True, slots=True)
class Told:
    """A batch as it was sent: enough to make it again."""

    generator: str
    size: int
    seed: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A batch that was answered with 2xx, and where it stands in its generator's log."""

    told: Told
    position: int


@dataclass(frozen=True, slots=True)
class Picked:
    """A pick as it was handed out: to whom, for which batch, and by the estimates at which log positions."""

    worker: str
    told: Told
    positions: tuple[int, ...]


@dataclass
class Blow:
    """Something that was done to the service, and how long until it served again: seconds, None until then."""

    kind: str
    at: float
    known: dict[tuple[str, str], int]
    """The last log position acknowledged of each generator when it happened."""
    next_tell: float | None = None
    next_estimate: float | None = None


@dataclass
class Ledger:
    """What the workers were told, and what is still open to doubt."""

    picks: dict[Key, Picked] = field(default_factory=dict)
    acknowledged: dict[Key, Acknowledged] = field(default_factory=dict)
    unresolved: dict[Key, Told] = field(default_factory=dict)
    """Sent, and not answered yet; what a killed worker leaves here is told again in the end."""
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    blows: list[Blow] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds from the first try to the answer, of every tell."""
    late: int = 0
    duplicates: int = 0
    stale: int = 0

    def strike(self, kind: str) -> None:
        """Note that something was done to the service now."""
        self.blows.append(Blow(kind, time.monotonic(), dict(self.last)))

    def told(self, question: Question, number: int, told: Told, reply: Reply) -> None:
        """Note the answer to a tell. One that contradicts an earlier one is a violation."""
        key, answer = (question.name, number), reply.content
        entry = Acknowledged(told, answer["position"])
        if self.acknowledged.setdefault(key, entry) != entry:
            self.violations.append(f"{key} was acknowledged as {self.acknowledged[key]}, then as {entry}")
        if (answer["pick"], answer["generator"]) != (number, told.generator):
            self.violations.append(f"{key}, told as {told}, was answered with {answer}")
        self.unresolved.pop(key, None)
        arm = (question.name, told.generator)
        self.last[arm] = max(self.last.get(arm, 0), entry.position)
        self.late += answer["late"]
        self.duplicates += answer["duplicate"]
        self.waits.append(reply.seconds)
        now = time.monotonic()
        for blow in self.blows:
            if blow.next_tell is None and reply.sent >= blow.at:
                blow.next_tell = now - blow.at

    def picked(self, question: Question, pick: dict[str, Any], sent: float) -> None:
        """Note a pick asked for at `sent`. One that another was given, or that has changed, is a violation."""
        key, positions = (question.name, pick["number"]), tuple(pick["positions"])
        entry = Picked(pick["worker"], Told(pick["generator"], pick["size"], pick["seed"]), positions)
        if self.picks.setdefault(key, entry) != entry:
            self.violations.append(f"{key} was handed out as {self.picks[key]}, then as {entry}")
        self.stale += pick["stale"]
        now = time.monotonic()
        for blow in self.blows:
            # A position that nobody knew of then: an estimate of a batch that came since, or hardly before.
            if (
                blow.next_estimate is None
                and sent >= blow.at
                and any(
                    position > blow.known.get((question.name, name), 0)
                    for name, position in zip(GENERATORS, positions, strict=True)
                )
            ):
                blow.next_estimate = now - blow.at


class Worker:
    """One loop over the experiments, beginning with another one each; `sampling` seconds a batch on average."""

    def __init__(self, name: str, port: int, questions: Sequence[Question], ledger: Ledger, sampling: float) -> None:
        self.name = name
        self.client = Client(port)
        self._questions = questions
        self._ledger = ledger
        self._sampling = sampling
        self._requests = itertools.count()

    async def run(self) -> None:
        """Work until all experiments have ended. Cancelling it is its kill -9: the connection goes, and no goodbye."""
        try:
            for question in self._questions:
                await self._run(question)
        except NoAnswer as error:
            self._ledger.violations.append(f"{self.name}: {error}")
        finally:
            self.client.abort()

    async def _run(self, question: Question) -> None:
        """Rounds of one experiment until it has ended."""
        reply = await self._ask(question)
        while not reply.content["ended"]:
            if not reply.content["picks"]:  # the whole budget is on its way
                await asyncio.sleep(reply.content["retry_after"])
                reply = await self._ask(question)
                continue
            pick = reply.content["picks"][0]
            self._ledger.picked(question, pick, reply.sent)
            await asyncio.sleep(self._sampling * random.expovariate(1.0))
            try:
                told = await tell(self.client, question, pick, self._ledger, f"?next=1&worker={self.name}")
                reply = replace(told, content=told.content["next"])
            except Refused as error:
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


async def tell(client: Client, question: Question, pick: dict[str, Any], ledger: Ledger, parameters: str = "") -> Reply:
    """Tell a pick its batch until there is an answer, and note it. Raises Refused and NoAnswer as the client does."""
    told = Told(pick["generator"], pick["size"], pick["seed"])
    path = f"/v1/experiments/{question.name}/picks/{pick['number']}/batch{parameters}"
    if (question.name, pick["number"]) not in ledger.acknowledged:
        ledger.unresolved[question.name, pick["number"]] = told
    reply = await client.call("POST", path, question.body(told.generator, told.size, told.seed))
    ledger.told(question, pick["number"], told, reply)
    return reply
