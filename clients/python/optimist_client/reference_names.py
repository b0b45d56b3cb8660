"""Names for the real data that the metrics of a new experiment are given, under which it is uploaded."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

Given = TypeVar("Given")


class Upload(NamedTuple):
    """Real data to be uploaded as the reference `name`."""

    name: str
    data: Any
    keep_rows: bool


class ReferenceNames:
    """Replaces real data by names: "<experiment>-reference", then "<experiment>-reference-2" and so on.

    Metrics that are given the same object share one reference, if they agree in whether they need its rows.
    """

    def __init__(self, experiment: Any) -> None:
        # Another name than a text is refused with the rest of the config.
        self._experiment = experiment if isinstance(experiment, str) else ""
        self.uploads: list[Upload] = []

    def named(self, reference: Any, metric: Any) -> Any:
        """The name for the `reference` of a metric, or the reference itself if it is not data."""
        from optimist_client.metrics import declared
        from optimist_client.references import names_file

        if reference is None or (isinstance(reference, str) and not names_file(reference)):
            return reference
        kind = declared().get(metric) if isinstance(metric, str) else type(metric)
        keep_rows = getattr(kind, "reference_rows", False)
        for upload in self.uploads:
            if upload.data is reference and upload.keep_rows == keep_rows:
                return upload.name
        number = len(self.uploads) + 1
        name = f"{self._experiment:.54}-reference" if number == 1 else f"{self._experiment:.50}-reference-{number}"
        self.uploads.append(Upload(name, reference, keep_rows))
        return name

    def without_data(self, metric: Given) -> Given:
        """The metric with the name of its reference in place of data; anything else as it is."""
        from optimist_client.metrics import Metric

        if not isinstance(metric, Metric) or metric.setting("reference") is None:
            return metric
        return metric.model_copy(update={"reference": self.named(metric.setting("reference"), metric)})
