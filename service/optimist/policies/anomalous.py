"""Batches on another scale as decisions and reports name them. The service and `Evaluation` share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from optimist.numerics.anomalies import Anomaly, Levels, anomalies, in_words
from optimist_client.models import AnomalousBatches


def found_among(arrays: Mapping[str, Sequence[Levels]], references: Mapping[str, float]) -> dict[str, list[Anomaly]]:
    """The anomalies by array. arrays: the levels of all generators by each; references: the levels of real rows."""
    found = {array: anomalies(levels, references.get(array)) for array, levels in arrays.items()}
    return {array: those for array, those in found.items() if those}


def finding(array: str, anomaly: Anomaly, arrays: int) -> str:
    """What is odd about one batch; the array is named where batches have several."""
    return _of_array(array, arrays) + in_words(anomaly.difference, anomaly.against)


def grouped(found: Mapping[str, Iterable[Anomaly]], names: Sequence[str], arrays: int) -> tuple[AnomalousBatches, ...]:
    """The anomalies, those of a generator that are odd in the same way together. names: of the generators."""
    groups: dict[tuple[int, str, bool, bool], list[Anomaly]] = {}
    for array, those in found.items():
        for one in those:
            groups.setdefault((one.generator, array, one.is_general, one.difference > 0), []).append(one)
    return tuple(
        AnomalousBatches(
            generator=names[generator],
            positions=tuple(sorted(one.position for one in those)),
            whole=is_general,
            finding=_of_array(array, arrays) + in_words(median(one.difference for one in those), those[0].against),
        )
        for (generator, array, is_general, _), those in sorted(groups.items())
    )


def _of_array(array: str, arrays: int) -> str:
    return f"in {array!r} " if arrays > 1 else ""
