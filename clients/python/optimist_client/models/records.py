"""Records of samples: what was told of each beside its rows."""

from __future__ import annotations

from typing import Any

from optimist_client.wire import Answer, GeneratorName


class SampleRecord(Answer):
    """The record that `Pick.tell(records=…)` told of one sample that counts, and which sample it is."""

    generator: GeneratorName
    position: int
    """Position of its batch in the generator's log."""
    pick: int | None
    """The number of the pick that it was told for; None without one."""
    row: int
    """Its row in the batch, counted from 0."""
    index: int | None
    """Its index in the generator's sequence; None where the worker named none."""
    id: str | None
    record: Any
    """Any value of JSON, such as {"prompt": …, "answer": …, "reason": …}."""
