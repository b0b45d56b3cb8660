"""The fields of a config that hold metrics: objects with a name and settings."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from optimist_client.errors import FixError
from optimist_client.metrics import FID, Metric, declared
from optimist_client.metrics.base import metric_of, setting_names
from optimist_client.validation import IDENTIFIER, brief, is_mapping


def example_of(kind: type[Metric]) -> str:
    """The form of a metric on the wire, with what an experiment must give of it."""
    return json.dumps(
        {"name": kind.name} | {name: "…" for name in kind.model_fields if name in kind.needs}, ensure_ascii=False
    )


def kind_of(value: object) -> type[Metric] | None:
    """The class of a metric, of one on the wire, or of one's name; None where it is none of these."""
    if isinstance(value, Metric):
        return type(value)
    name = value.get("name") if is_mapping(value) else value
    return declared().get(name) if isinstance(name, str) else None


def check_placed(data: Mapping[str, Any], fields: Collection[str]) -> None:
    """Raise FixError if the data of a config, whose `fields` are these, hold settings of a metric beside it."""
    settings = setting_names().difference(fields)
    if beside := [name for name in data if name in settings]:
        kind = kind_of(data.get("metric")) or FID
        raise FixError(f"{', '.join(beside)}: expected in the metric, an object such as {example_of(kind)}")


def _from_wire(value: Any) -> Metric:
    if isinstance(value, Metric | Mapping):
        return metric_of(value)
    kind = kind_of(value) or FID
    raise FixError(f"expected an object such as {example_of(kind)}; got {brief(value)}")


MetricField = Annotated[
    Metric,
    PlainValidator(_from_wire),
    PlainSerializer(Metric.on_the_wire),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": [*declared()]}},
            "required": ["name"],
            "examples": [{"name": "fid", "reference": "real"}],
        }
    ),
]
"""A metric as an object with its `name` and its settings."""


def check_watched(primary: Metric, watch: Sequence[Metric], *, has_prompts: bool) -> None:
    """Raise FixError if a metric does not name its reference, or a watched one lacks a setting."""
    for metric in (primary, *watch):
        reference = metric.setting("reference")
        if reference is not None and not (isinstance(reference, str) and re.fullmatch(IDENTIFIER, reference)):
            expected = f"reference: expected the name of an uploaded reference for {metric.shown_label!r}"
            raise FixError(f"{expected}, got {brief(reference)}")
    for metric in watch:
        given = {name for name in metric.needs if metric.setting(name) is not None}
        # Columns that are not given are those of the array, which another metric or a reference determines.
        given |= {"prompts", *metric.arrays.values()} if has_prompts else {*metric.arrays.values()}
        if missing := metric.needs - given:
            raise FixError(f"watch: metric {metric.shown_label!r} needs {', '.join(sorted(missing))}")


def check_labels(metrics: Sequence[Metric]) -> None:
    """Raise FixError if two metrics have the same label."""
    labels = [metric.shown_label for metric in metrics]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise FixError(f"watch: expected a label of its own for each metric; {', '.join(twice)} is given twice")
