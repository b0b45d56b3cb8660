"""The fields of a config that hold metrics: by name or as an object, with their form on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from optimist_client.metrics import Metric, declared, find
from optimist_client.validation import IDENTIFIER, brief


def metric_of(value: Any) -> str | Metric:
    """The name of a metric whose settings are fields of the config, or a metric as an object."""
    if isinstance(value, str):
        return value if find(value).flat else find(value)()
    if isinstance(value, Mapping):
        settings = {str(name): setting for name, setting in value.items() if name != "name"}
        return find(value.get("name")).of(settings)
    if isinstance(value, Metric):
        return value
    raise ValueError(f"expected the name of a metric, or an object with its name and settings; got {brief(value)}")


def kind_of(metric: str | Metric) -> type[Metric]:
    """The class of a metric given by name or as an object."""
    return find(metric) if isinstance(metric, str) else type(metric)


def _on_the_wire(metric: str | Metric) -> Any:
    # Through JSON text, because pydantic writes infinity as a string there.
    return metric if isinstance(metric, str) else json.loads(metric.model_dump_json())


def _watched(value: Any) -> Metric:
    """A watched metric as an object, also one whose settings stand beside the name where it decides."""
    if isinstance(value, str):
        return find(value)()
    metric = metric_of(value)
    return metric if isinstance(metric, Metric) else find(metric)()


MetricField = Annotated[
    str | Metric,
    PlainValidator(metric_of),
    PlainSerializer(_on_the_wire),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [name for name, metric in declared().items() if metric.flat]},
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            ]
        }
    ),
]

WatchedField = Annotated[
    Metric,
    PlainValidator(_watched),
    PlainSerializer(_on_the_wire),
    WithJsonSchema({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
]


def check_watched(primary: Metric, watch: Sequence[Metric], *, has_prompts: bool) -> None:
    """Raise ValueError if the primary metric cannot decide, if a watched one lacks a setting, or if labels repeat."""
    primary.check_decides()
    for metric in (primary, *watch):
        reference = metric.setting("reference")
        if reference is not None and not (isinstance(reference, str) and re.fullmatch(IDENTIFIER, reference)):
            expected = f"reference: expected the name of an uploaded reference for {metric.shown_label!r}"
            raise ValueError(f"{expected}, got {brief(reference)}")
    for metric in watch:
        given = {name for name in metric.needs if metric.setting(name) is not None}
        # Columns that are not given are those of the array, which another metric or a reference determines.
        given |= {"prompts", *metric.arrays.values()} if has_prompts else {*metric.arrays.values()}
        if missing := metric.needs - given:
            raise ValueError(f"watch: metric {metric.shown_label!r} needs {', '.join(sorted(missing))}")
    labels = [metric.shown_label for metric in (primary, *watch)]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ValueError(f"watch: expected a label of its own for each metric; {', '.join(twice)} is given twice")
