"""What the parameters of a request name."""

from __future__ import annotations

from optimist.api.problems import invalid
from optimist_client.metrics import Metric
from optimist_client.models import Experiment


def metric_called(experiment: Experiment, name: str) -> tuple[Metric, str]:
    """The metric with this label, "" for the one that decides, and its label as the store has it: "" for that one.

    Raises `ApiError` 422 for another label.
    """
    metrics = experiment.config.metrics
    primary = next(iter(metrics))
    found = metrics.get(name or primary)
    if found is None:
        raise invalid(f"metric: expected one of {', '.join(metrics)}; got {name!r}")
    return found, "" if name in ("", primary) else name
