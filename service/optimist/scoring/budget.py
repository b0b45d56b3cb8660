"""Limits the memory that a scorer keeps between turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from optimist.scoring.experiments import Experiments
from optimist.scoring.record import GeneratorRecord


def kept(records: Iterable[GeneratorRecord], experiments: Experiments) -> int:
    """Bytes of all warm statistics, and of the feature maps and references that they need."""
    return sum(record.bytes for record in records) + experiments.bytes


def cool_down(records: Collection[GeneratorRecord], experiments: Experiments, limit: float) -> None:
    """Drop the least recently used parts until the rest takes at most `limit` bytes; working generators keep theirs.

    A feature map was last used when the latest generator of its experiment was. It is dropped after the statistics of
    all of them, which refer to it; a reference is dropped with the last bound that uses it.
    """
    left = kept(records, experiments)
    if left <= limit:
        return
    used: dict[str, float] = {}
    for record in records:
        used[record.name] = max(used.get(record.name, 0.0), record.worked)
    busy = {record.name for record in records if record.state == "working"}
    droppable = [record for record in records if record.warm is not None and record.state != "working"]
    statistics = [(record.worked, False, record.name, record) for record in droppable]
    maps = [(used.get(name, 0.0), True, name, None) for name in experiments.warm if name not in busy]
    for _, _, name, record in sorted([*statistics, *maps], key=lambda entry: entry[:3]):
        if left <= limit:
            return
        if record is not None:
            left -= record.bytes
            record.cool()
        else:
            left -= experiments.cool(name)
            for one in records:
                if one.name == name:
                    one.seconds = None  # unknown again: the next turn has to build the bound
