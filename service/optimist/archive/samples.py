"""The records of samples in the log of an archive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from optimist.archive.file import Archive
from optimist.records import LogEntry
from optimist_client import tensors


def records_of(archive: Archive) -> Iterator[dict[str, Any]]:
    """What was told of each sample that counts, generator by generator, in the order of the logs.

    A log that is not kept holds the newest batches only.
    """
    for ordinal, generator in enumerate(archive.state("").generators):
        gone = {one.position for one in generator.retractions}
        for page in archive.log(ordinal):
            for entry in page:
                if entry.seq > generator.restart and entry.seq not in gone and entry.retracts is None:
                    yield from _of_entry(generator.name, entry)


def _of_entry(generator: str, entry: LogEntry) -> Iterator[dict[str, Any]]:
    arrays = tensors.decode(entry.body)
    if tensors.RECORDS not in arrays:
        return
    records = tensors.unpack_ids(arrays[tensors.RECORDS], tensors.RECORDS)
    ids = tensors.unpack_ids(arrays[tensors.IDS]) if tensors.IDS in arrays else [""] * len(records)
    counted, indices = _spread(entry.counted) or [*range(len(records))], _spread(entry.indices)
    for place, row in enumerate(counted):
        if records[row]:
            known = {"generator": generator, "position": entry.seq, "pick": entry.pick or None, "row": row}
            index = indices[place] if place < len(indices) else None
            yield known | {"index": index, "id": ids[row] or None, "record": json.loads(records[row])}


def _spread(runs: tuple[int, ...]) -> list[int]:
    """The numbers in runs of first and length."""
    return [number for first, count in [*pairwise(runs)][::2] for number in range(first, first + count)]
