"""Limits the memory that a scorer keeps between turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from optimist.scoring.experiments import Experiments
from optimist.scoring.record import Record, Subject


def kept(records: Iterable[Record[Any]], experiments: Experiments) -> int:
    """Bytes of warm statistics, copies for mixtures and routes among them, and of the feature maps and references."""
    return sum(record.bytes for record in records) + experiments.bytes


def cool_down(records: Collection[Record[Any]], experiments: Experiments, limit: float) -> None:
    """Drop the least recently used parts until the rest takes at most `limit` bytes; those at work keep theirs.

    A feature map was last used when the latest generator of its experiment and metric was. It is dropped after the
    statistics of all of them, which refer to it; a reference is dropped with the last bound that uses it.
    """
    left = kept(records, experiments)
    if left <= limit:
        return
    used: dict[Subject, float] = {}
    for record in records:
        used[record.subject] = max(used.get(record.subject, 0.0), record.worked)
    busy = {record.subject for record in records if record.state == "working"}
    droppable = [record for record in records if record.bytes and record.state != "working"]
    statistics = [(record.worked, False, record.subject, record) for record in droppable]
    maps = [(used.get(subject, 0.0), True, subject, None) for subject in experiments.warm if subject not in busy]
    for _, _, subject, record in sorted([*statistics, *maps], key=lambda entry: entry[:3]):
        if left <= limit:
            return
        if record is not None:
            left -= record.bytes
            record.cool()
        else:
            left -= experiments.cool(subject)
            for one in records:
                if one.subject == subject:
                    one.seconds = None  # unknown again: the next turn has to build the bound
