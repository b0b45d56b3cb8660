"""A metric that compares with real data: the mean of one column beyond the real one. Free of torch, for the API."""

from typing import Any

from optimist_client.metrics import Metric, declare


@declare
class ColumnShift(Metric):
    name = "column-shift"
    implementation = "toy_shift_score"
    title = "Column shift"
    arrays = {"features": ""}  # noqa: RUF012
    lower_is_better = True
    needs = frozenset({"reference"})

    reference: Any = None
    column: int = 0
