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

    def without_data(self, metric: Given) -> Given:
        """The metric with the name of its reference in place of data; anything else as it is."""
        from optimist_client.metrics import Metric
        from optimist_client.references import names_file

        if not isinstance(metric, Metric):
            return metric
        reference = metric.setting("reference")
        if reference is None or (isinstance(reference, str) and not names_file(reference)):
            return metric
        return metric.model_copy(update={"reference": self._named(reference, metric.reference_rows)})

    def _named(self, reference: Any, keep_rows: bool) -> str:
        for upload in self.uploads:
            if upload.data is reference and upload.keep_rows == keep_rows:
                return upload.name
        number = len(self.uploads) + 1
        name = f"{self._experiment:.54}-reference" if number == 1 else f"{self._experiment:.50}-reference-{number}"
        self.uploads.append(Upload(name, reference, keep_rows))
        return name
