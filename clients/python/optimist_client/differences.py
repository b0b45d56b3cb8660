"""Differences between an experiment that exists and the one that is asked for under its name, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimist_client.validation import brief, is_list

if TYPE_CHECKING:
    from optimist_client.config import ExperimentConfig
    from optimist_client.models.experiments import Experiment

_FREE = frozenset({"tags", "note"})
"""Fields that are no part of the question, and that somebody may have changed."""


def differences(existing: Experiment, wanted: ExperimentConfig, digests: Mapping[str, str] | None = None) -> list[str]:
    """The fields that differ, each with both values where they are short; [] where the experiment is the wanted one.

    digests: SHA-256 of the contents of references by name (`tensors.digest`), as far as they are known. Settings of
    metrics are named one by one, as in "watch.rke.kernel.sigma (4.0, not 5.0)".
    """
    differing: list[str] = []
    for name in type(wanted).model_fields:
        if name not in _FREE:
            differing += _between(name, getattr(existing.config, name), getattr(wanted, name))
    stored = existing.references
    for name, digest in (digests or {}).items():
        if name in stored and stored[name] != digest:
            differing.append(f"the contents of reference {name!r} (SHA-256 {stored[name]:.12}…, not {digest:.12}…)")
    return differing


def refusal(name: str, differing: Sequence[str]) -> str:
    """The message about an experiment that exists with these differences."""
    fields = ", ".join(differing)
    return (
        f"experiment {name!r} exists with another config, which differs in {fields}: "
        "choose another name, or the same config"
    )


def _between(name: str, stored: Any, asked: Any) -> Iterator[str]:
    """The differences of two values of a field: of two models of one class those of their fields."""
    from pydantic import BaseModel

    if stored == asked:
        return
    if isinstance(stored, BaseModel) and type(stored) is type(asked):
        for field in type(stored).model_fields:
            yield from _between(f"{name}.{field}", getattr(stored, field), getattr(asked, field))
        return
    labels = _labels(stored), _labels(asked)
    if labels[0] is not None and labels[1] is not None:
        if labels[0] == labels[1]:
            for label, before, after in zip(labels[0], stored, asked, strict=True):
                yield from _between(f"{name}.{label}", before, after)
            return
        stored, asked = labels
    yield f"{name} ({brief(stored)}, not {brief(asked)})"


def _labels(values: Any) -> list[str] | None:
    """The labels of metrics; None for anything else than a list of metrics."""
    from optimist_client.metrics import Metric

    if is_list(values) and all(isinstance(value, Metric) for value in values):
        return [value.shown_label for value in values]
    return None
