"""The conditions that must hold after all faults: exactly once, no leaks, and the numbers of a serial replay."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from redis import Redis

from .questions import GENERATORS, Question, relative_differences
from .survivors import Survivors
from .wire import Client, Refused
from .workers import Ledger, tell

TOLERANCES = {"score": 1e-12, "standard_error": 1e-9, "lower": 1e-9, "upper": 1e-9}
"""The largest allowed relative difference of a report from the serial replay of the batches that must be there."""
REFERENCES = re.compile(r"optimist:references|optimist:reference:.*")
"""Keys that remain when every experiment is deleted."""

OF_THE_SERVICE = (b"optimist:format", b"optimist:probe", b"optimist:scorers")
"""Keys that exist independently of experiments."""


async def settle_doubts(client: Client, questions: Sequence[Question], ledger: Ledger) -> int:
    """Tell again all doubtful batches, so that the acknowledged set is exact; return how many were never answered.

    Doubtful are batches that were never answered, and those that were answered while Redis rolled back, where it is
    unknown whether before or after.
    """
    by_name = {question.name: question for question in questions}
    doubtful = len(ledger.unresolved)
    unsure = {
        key: ledger.picks[key]
        for key, entries in ledger.acknowledged.items()
        if any(first < last for first, last in (entry.epochs for entry in entries))
    }
    for pick in (ledger.unresolved | unsure).values():
        try:
            await tell(client, by_name[pick.key[0]], pick, ledger)
        except Refused as error:
            if not (ledger.was_retracted(pick, error) or ledger.drop(pick, error)):
                ledger.violations.append(str(error))
    return doubtful


def _is_calm(report: dict[str, Any]) -> bool:
    """Whether no pick is open, and all due estimates of all metrics are made."""
    return not report["open_picks"] and all(one["scored"] for one in (report, *report.get("watched", {}).values()))


async def calm(client: Client, questions: Sequence[Question], seconds: float) -> dict[str, Any]:
    """Reports by experiment, once all due estimates are made and no pick is open, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        reports = {q.name: (await client.call("GET", f"/v1/experiments/{q.name}/report")).content for q in questions}
        if all(_is_calm(report) for report in reports.values()):
            return reports
        if time.monotonic() > deadline:
            return reports
        await asyncio.sleep(0.2)


def check_counts(reports: dict[str, Any], survivors: Survivors) -> list[str]:
    """Every expected batch counts once, and nothing else counts; no pick is open, and no estimate is missing."""
    wrong: list[str] = []
    for name, report in reports.items():
        told = survivors.rounds(name)
        if report["rounds"] != told:
            wrong.append(f"{name}: {told} rounds were acknowledged, {report['rounds']} are counted")
        if report["open_picks"]:
            wrong.append(f"{name}: {report['open_picks']} picks are open for ever")
        if not report["scored"]:
            wrong.append(f"{name}: estimates that are due have not been made")
        for standing in report["standings"]:
            arm = name, standing["generator"]
            log = survivors.logs.get(arm, {})
            counted = survivors.counted(arm)
            rows = sum(map(len, counted.values()))
            entries = log.keys() | survivors.retracted.get(arm, {}).keys()
            if entries != set(range(1, len(entries) + 1)):
                missing = sorted(set(range(1, max(entries) + 1)) - entries)
                wrong.append(f"{arm}: log positions are not dense: {missing[:5]} missing, {len(log)} acknowledged")
            if (standing["batches"], standing["samples"]) != (len(counted), rows):
                wrong.append(
                    f"{arm}: {len(counted)} batches of {rows} samples were acknowledged, "
                    f"{standing['batches']} of {standing['samples']} are counted"
                )
            wrong += [f"{arm}: {warning}" for warning in standing["warnings"] if warning.startswith("not scored")]
    return wrong


def check_picks(ledger: Ledger) -> list[str]:
    """No pick was made from older estimates than the one before it: no stale estimate replaced a newer one."""
    wrong: list[str] = []
    newest: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
    # Picks are numbered in the order of the states they were made from: a replica with an outdated state opens nothing.
    # A rollback takes estimates away, and it is unknown on which side of it the answers of that time were made.
    for pick in sorted(ledger.picks.values(), key=lambda pick: pick.key):
        epoch, last = pick.epochs
        if epoch < last:
            continue
        before, positions = newest.get((pick.key[0], epoch), (0, ()))
        # A retraction takes an estimate away, until a newer one is made.
        if any(0 < now < then for now, then in zip(pick.positions, positions, strict=bool(before))):
            wrong.append(f"{pick.key} knew the estimates at {pick.positions}, pick {before} at {positions}")
        highest = [max(now, then) for now, then in zip(pick.positions, positions or pick.positions, strict=True)]
        newest[pick.key[0], epoch] = pick.number, tuple(highest)
    return wrong


def check_numbers(
    reports: dict[str, Any], questions: Sequence[Question], survivors: Survivors, growth: float
) -> tuple[list[str], dict[str, float]]:
    """Violations, and the largest relative difference of each number from a serial replay of the expected batches."""
    wrong: list[str] = []
    worst: dict[str, float] = defaultdict(float)
    for question in questions:
        log = survivors.replayed(question.name, growth)
        # After a retraction estimates are due at other counts: there only the last one is made, from all up to it.
        anew = {name: batches for name, batches in log.items() if survivors.retracted.get((question.name, name))}
        replayed, again = question.replay(log, growth), question.replay(anew, 0.0)
        report = reports[question.name]
        for label, estimates in replayed.items():
            estimates |= {name: found for name, found in again[label].items() if name in anew}
            for standing in report["standings"] if label is None else report["watched"][label]["standings"]:
                arm, estimate = f"{question.name}/{standing['generator']}", estimates[standing["generator"]]
                arm += "" if label is None else f" by {label}"
                if estimate is None or estimate.samples != standing["scored_samples"]:
                    due = None if estimate is None else estimate.samples
                    wrong.append(f"{arm}: scored at {standing['scored_samples']} samples, was due at {due}")
                    continue
                for number, difference in relative_differences(standing, estimate).items():
                    worst[number] = max(worst[number], difference)
                    if not difference <= TOLERANCES[number]:
                        wrong.append(f"{arm}: {number} is {difference:.1e} away from the serial replay")
    return wrong, dict(worst)


def check_keys(redis: Redis, questions: Sequence[Question]) -> list[str]:
    """Every key belongs to an existing experiment, to one of its generators, or to the references."""
    names = {question.name for question in questions}
    wrong: list[str] = []
    chunks: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key in _keys(redis):
        tagged = re.fullmatch(
            r"optimist:\{(?P<name>[^}]+)\}:(?P<part>[a-z_]+)(?::(?P<g>\d+))?(?::mixture|:routes)?"
            r"(?::(?P<label>[a-z][a-z-]*))?(?::(?P<upload>[0-9a-f]{32}):\d+)?",
            key,
        )
        # The process that looks for messages is noted even where nobody gets any.
        if key in {"optimist:experiments", "optimist:messenger"} or REFERENCES.fullmatch(key):
            continue
        if tagged is None or tagged["name"] not in names or int(tagged["g"] or 0) >= len(GENERATORS):
            wrong.append(f"key {key} has no owner")
        elif tagged["upload"] is not None and redis.ttl(key) == -1:
            chunks[tagged["name"], tagged["g"], tagged["label"] or ""].add(tagged["upload"])
    wrong += [f"{arm}: {len(uploads)} snapshots are kept" for arm, uploads in chunks.items() if len(uploads) > 1]
    return wrong


async def check_deleting(client: Client, redis: Redis, questions: Sequence[Question]) -> list[str]:
    """Deleted experiments leave no keys, and the scorers do not recreate any; it needs no list of keys."""
    for question in questions:
        await client.call("DELETE", f"/v1/experiments/{question.name}")
    await asyncio.sleep(2.0)  # the scorers check every experiment once a second
    left = [key for key in _keys(redis) if not REFERENCES.fullmatch(key) and redis.ttl(key) == -1]
    return [f"key {key} outlives its experiment" for key in left]


def _keys(redis: Redis) -> list[str]:
    return sorted(key.decode() for key in redis.scan_iter(count=1000) if key not in OF_THE_SERVICE)
