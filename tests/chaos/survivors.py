"""Which acknowledged batches remain after rollbacks, and whether the logs in Redis hold exactly these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from redis import Redis

from optimist.estimates.estimate import is_due
from optimist_client import tensors

from .questions import GENERATORS, Question, Replayed
from .retractions import Found
from .rollback import Rollback
from .workers import Acknowledged, Key, Ledger, Told

Arm = tuple[str, str]
"""Experiment and generator."""


NOTHING: Found = MappingProxyType({})


@dataclass
class Survivors:
    """The acknowledged batches that must exist: for each generator the pick number and batch by log position.

    `lost`: the number of other acknowledged batches, all acknowledged after the time that a rollback returned to.
    """

    logs: dict[Arm, dict[int, tuple[int, Told]]] = field(default_factory=lambda: defaultdict(dict))
    uncounted: dict[Arm, dict[int, int | None]] = field(default_factory=lambda: defaultdict(dict))
    """How many rows of each were answered not to count; None where that is not known."""
    lost: int = 0
    violations: list[str] = field(default_factory=list)
    retracted: Found = field(default_factory=dict)

    def rounds(self, experiment: str) -> int:
        """The number of those batches in an experiment."""
        return sum(len(log) for (name, _), log in self.logs.items() if name == experiment)

    def counted(self, arm: Arm) -> dict[int, range]:
        """The batches of a generator that are not retracted, by log position: which of their rows count."""
        gone = set(self.retracted.get(arm, {}).values())
        return {at: rows for at, (_, rows) in self.parts(arm).items() if at not in gone}

    def parts(self, arm: Arm) -> dict[int, tuple[Told, range]]:
        """The batches of a generator by log position, and which of their rows count, told one after the other: those
        of an index that was told before, and not retracted, do not. Raises ValueError for rows with gaps."""
        log, retracted = self.logs.get(arm, {}), self.retracted.get(arm, {})
        found: dict[int, tuple[Told, range]] = {}
        indices: set[int] = set()
        for position in sorted([*log, *retracted]):
            if position in retracted:
                if retracted[position] in found:
                    indices.difference_update(_indices(*found[retracted[position]]))
                continue
            told = log[position][1]
            rows = [row for row in range(told.size) if told.start is None or told.start + row not in indices]
            if not rows or rows[-1] - rows[0] != len(rows) - 1:
                raise ValueError(f"{arm}: the rows of {told} at {position} that count are {rows}")
            found[position] = told, range(rows[0], rows[-1] + 1)
            indices.update(_indices(*found[position]))
        return found

    def replayed(self, experiment: str, growth: float) -> dict[str, list[Replayed]]:
        """Each batch by generator, in log order, up to the last estimate that is due."""
        return {name: self._replayed((experiment, name), growth) for name in GENERATORS}

    def _replayed(self, arm: Arm, growth: float) -> list[Replayed]:
        parts, retracted = self.parts(arm), self.retracted.get(arm, {})
        batches: dict[int, tuple[Told, range]] = {}
        samples = last_due = 0
        due: list[tuple[Told, range]] = []
        for position in sorted([*parts, *retracted]):
            if position in retracted:
                gone = batches.pop(retracted[position], None)
                samples -= 0 if gone is None else len(gone[1])
                last_due = samples if samples >= 2 else 0
                due = list(batches.values()) if last_due else []
                continue
            batches[position] = parts[position]
            samples += len(parts[position][1])
            if is_due(samples, last_due, growth):
                last_due, due = samples, list(batches.values())
        return [(told.size, told.seed, told.start, rows) for told, rows in due]


def _indices(told: Told, rows: range) -> set[int]:
    """The indices of these rows of a batch."""
    return set() if told.start is None else {told.start + row for row in rows}


def find_survivors(reports: dict[str, Any], ledger: Ledger, retracted: Found = NOTHING) -> Survivors:
    """The batches that the reports must be based on.

    Of several batches acknowledged at one position, the one of the latest epoch exists. The others must have been lost
    by a rollback, and so must those beyond the end of the reported log; all batches that cannot have been lost must
    exist. retracted: the retractions in the logs.
    """
    found = Survivors(retracted=retracted)
    ends = {(n, s["generator"]): s["batches"] for n, report in reports.items() for s in report["standings"]}
    ends = {arm: batches + 2 * len(retracted.get(arm, {})) for arm, batches in ends.items()}
    by_position: dict[tuple[Arm, int], list[tuple[Key, Acknowledged]]] = defaultdict(list)
    for key, entries in ledger.acknowledged.items():
        for entry in entries:
            by_position[(key[0], entry.told.generator), entry.position].append((key, entry))
    for (arm, position), those in sorted(by_position.items(), key=lambda item: item[0]):
        if position in retracted.get(arm, {}):  # a retraction stands there
            found.violations += [
                f"{arm}: a retraction stands at {position}, where {key} was acknowledged for good"
                for key, entry in those
                if not _may_be_lost(entry, ledger.rollbacks)
            ]
            continue
        newest = max((entry.epochs[1], entry.epochs[0]) for _, entry in those)
        winners = [(key, entry) for key, entry in those if entry.epochs == newest[::-1]]
        batch = winners[0][0][1], winners[0][1].told
        for key, entry in those:
            if (key[1], entry.told) == batch:
                continue
            if (key, entry) in winners and entry.epochs[0] == entry.epochs[1]:
                found.violations.append(f"{arm}: {batch} and {key} were acknowledged at {position} in one epoch")
            elif not _may_be_lost(entry, ledger.rollbacks):
                found.violations.append(f"{arm}: {batch} stands at {position}, where {key} was acknowledged for good")
        if position <= ends.get(arm, 0) or not all(_may_be_lost(entry, ledger.rollbacks) for _, entry in winners):
            found.logs[arm][position] = batch
            found.uncounted[arm][position] = winners[0][1].uncounted
    found.lost = len(ledger.acknowledged) - sum(map(len, found.logs.values()))
    found.violations += [
        f"{arm}: the batch at {position} is retracted, and was never acknowledged"
        for arm, entries in retracted.items()
        for position in entries.values()
        if position not in found.logs.get(arm, {})
    ]
    found.violations += _told_twice(found)
    found.violations += [
        f"{arm}: {uncounted} rows of the batch at {position} were answered not to count, of which {rows} count"
        for arm, answered in found.uncounted.items()
        for position, (told, rows) in found.parts(arm).items()
        if (uncounted := answered[position]) not in (None, told.size - len(rows))
    ]
    return found


def check_logs(redis: Redis, questions: Sequence[Question], ledger: Ledger, survivors: Survivors) -> list[str]:
    """The untrimmed part of each log holds each pick once, and only batches of its own generator."""
    handed: dict[tuple[str, int], set[Told]] = defaultdict(set)
    for pick in ledger.picks.values():
        handed[pick.key[0], pick.number].add(pick.told)
    wrong: list[str] = []
    for question in questions:
        numbers: Counter[int] = Counter()
        for g, name in enumerate(GENERATORS):
            log = cast(list[tuple[bytes, dict[bytes, bytes]]], redis.xrange(f"optimist:{{{question.name}}}:log:{g}"))
            for identity, fields in log:
                if b"retracts" in fields:
                    continue
                at, number = int(identity.split(b"-")[0]), int(fields[b"pick"])
                numbers[number] += 1
                where = f"{question.name}/{name}: at {at} the log holds pick {number}"
                made = [told for told in handed[question.name, number] if _is_of(fields[b"body"], question, told)]
                if not made:
                    wrong.append(f"{where}, and a batch that was never made for it")
                elif all(told.generator != name for told in made):
                    wrong.append(f"generators mixed: {where}, and a batch of {made[0].generator}")
                elif (there := survivors.logs[question.name, name].get(at)) and there not in [
                    (number, t) for t in made
                ]:
                    wrong.append(f"{where}, where pick {there[0]} was acknowledged")
        wrong += [f"{question.name}: pick {n} stands in the logs {k} times" for n, k in numbers.items() if k > 1]
    return wrong


def _may_be_lost(entry: Acknowledged, rollbacks: Sequence[Rollback]) -> bool:
    """Whether Redis ever returned to a time before this was acknowledged."""
    return any(rollback.to < entry.at for rollback in rollbacks[entry.epochs[0] :])


def _told_twice(survivors: Survivors) -> list[str]:
    """No pick counts twice: after a loss another pick has its number; otherwise a repeat gets the first answer."""
    places: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (name, generator), log in survivors.logs.items():
        for position, (number, _) in log.items():
            places[name, number].append(f"{generator} at {position}")
    return [f"pick {key} counts twice: {', '.join(found)}" for key, found in places.items() if len(found) > 1]


def _is_of(body: bytes, question: Question, told: Told) -> bool:
    batch, found = question.batch(told.generator, told.size, told.seed), tensors.decode(body)
    return batch.keys() == found.keys() and all(np.array_equal(batch[name], found[name]) for name in batch)
