"""Logged batches some of whose rows do not count, because their indices were told before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optimist.estimation.paired import CommonRows
from optimist.estimation.stored import batch_of, prompt_indices_of
from optimist.records import LogEntry
from optimist_client import tensors

ROWS = 9
BODY = {"features": np.arange(2.0 * ROWS).reshape(ROWS, 2)}


def entry(**changes: object) -> LogEntry:
    named = {**BODY, tensors.IDS: tensors.pack_ids([f"id {row}" if row % 2 else "" for row in range(ROWS)])}
    whole = LogEntry(3, 7, ROWS, tensors.digest(named), tensors.encode(named), prompts="8,7,6,5,4,3,2,1,0")
    return replace(whole, **changes)


def runs_of(rows: set[int]) -> tuple[int, ...]:
    starts = [row for row in sorted(rows) if row - 1 not in rows]
    stops = [row + 1 for row in sorted(rows) if row + 1 not in rows]
    return tuple(number for start, stop in zip(starts, stops, strict=True) for number in (start, stop - start))


@given(st.sets(st.integers(0, ROWS - 1), min_size=1), st.integers(250, 256))
def test_only_the_rows_that_count_are_read(rows: set[int], start: int):
    counted = runs_of(rows)
    told = entry(rows=len(rows), counted=counted if len(rows) < ROWS else ())
    batch, ids = batch_of(told)
    kept = sorted(rows)
    np.testing.assert_array_equal(batch["features"].numpy(), BODY["features"][kept])
    assert ids == [f"id {row}" if row % 2 else f"7:{row}" for row in kept]
    listed = prompt_indices_of(told)
    assert listed is not None
    assert listed.tolist() == [8 - row for row in kept]

    together, single = CommonRows({"features": 2}, is_listed=True), CommonRows({"features": 2}, is_listed=True)
    indices = tuple(number + start if place % 2 == 0 else number for place, number in enumerate(counted))
    CommonRows.check(indices, len(rows))
    together.add(batch, indices, listed)
    for place, row in enumerate(kept):
        single.add({"features": batch["features"][place : place + 1]}, (start + row, 1), listed[place : place + 1])
    for name, tensor in together.state().items():
        assert torch.equal(tensor, single.state()[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 2, "counted": (0, 3)},
        {"rows": 2, "counted": (8, 2)},
        {"rows": 2, "counted": (0, 1, 0, 1)},
        {"rows": 0, "counted": (0, 0)},
        {"rows": 2, "counted": (0,)},
        {"rows": 8},
    ],
)
def test_rows_that_cannot_count_are_refused(changes: dict[str, object]):
    with pytest.raises(ValueError):
        batch_of(entry(**changes))
