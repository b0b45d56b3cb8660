"""A metric as users bring one: the mean of one column of the features. Free of torch, for the API."""

from optimist_client.metrics import Metric, declare


@declare
class ColumnMean(Metric):
    name = "column-mean"
    implementation = "toy_score"
    title = "Column mean"
    arrays = {"features": "dimension"}  # noqa: RUF012
    lower_is_better = True
    needs = frozenset({"dimension"})

    dimension: int | None = None
    column: int = 0
