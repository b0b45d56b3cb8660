"""The fields of a config that hold metrics: by name or as an object, with their form on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from optimist_client.metrics import Metric, declared, find


def metric_of(value: Any) -> str | Metric:
    """The name of a metric whose settings are fields of the config, or a metric as an object."""
    if isinstance(value, str):
        return value if find(value).flat else find(value)()
    if isinstance(value, Mapping):
        return find(value.get("name")).model_validate(value)
    if isinstance(value, Metric):
        return value
    raise ValueError(f"expected the name of a metric, or an object with its name and settings; got {value!r}")


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
