"""The settings of an evaluation in memory, with the names and checks of an experiment's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from optimist.estimation.arrays import reference_scales
from optimist_client.config import RULES, ExperimentConfig
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.metrics.base import kernel_hint, setting_hint
from optimist_client.models import Experiment
from optimist_client.validation import in_words, meant

OF_SERVICES = frozenset(
    {"embedding", "embeddings", "allow_extra", "grow", "max_wait", "keep_log", "lease", "previews", "refuse_copies"}
    | {"max_batches_per_worker", "audit_overlap", "max_audits"}
)
"""The fields of a config that mean something to a service only."""


SETTINGS = ExperimentConfig.model_fields.keys() - OF_SERVICES - {"name", "generators", "metric", "watch"}
"""The settings of an experiment in memory beside its generators and metrics; `ExperimentConfig` describes each."""
_EXPECTED = f"; expected some of {', '.join(sorted(SETTINGS))}"
_BESIDE = frozenset(
    {"metric", "reference", "watch", "device", "embed", "max_samples", "timeout", "workers", "progress"}
)
"""Arguments of `Evaluation` and `run` that may be misspelt, too."""


class MemoryConfig(ExperimentConfig):
    """The config of an experiment in memory: its metrics hold their real data, and batches tell their columns."""

    generators: Annotated[list[str], Field(min_length=1)]
    """Any names, as they stand in no URL."""
    grow: bool = False
    """Picks of one process gain nothing by being large."""

    def check_stored(self) -> None:
        """Nothing has to be known before there are samples."""


def experiment_of(
    name: str, generators: Sequence[str], metrics: Sequence[Metric], settings: Mapping[str, Any]
) -> Experiment:
    """The experiment in memory with these settings, where None means not given; the first metric decides.

    Raises FixError as the config of a service does, and for settings that only a service has.
    """
    if foreign := sorted(settings.keys() - SETTINGS):
        why = "only a service has it" if OF_SERVICES.issuperset(foreign) else "unknown"
        hint = kernel_hint(foreign) or setting_hint(foreign) or meant(foreign[0], SETTINGS | _BESIDE)
        raise FixError(f"{', '.join(foreign)}: {why}{hint or _EXPECTED}")
    given = {setting: _plain(value) for setting, value in settings.items() if value is not None}
    primary, *watch = metrics
    fields = {"name": name, "generators": list(generators), "metric": primary, "watch": watch, **given}
    try:
        config = MemoryConfig.model_validate(fields, strict=True)
    except ValidationError as error:
        raise FixError(in_words(error)) from None
    parts: dict[str, Any] = {"config": config, "columns": {}, "scales": reference_scales(metrics), "references": {}}
    return Experiment.model_construct(**parts, created=0.0, instance="memory", rules=RULES)


def _plain(value: Any) -> Any:
    """A setting in Python's own types."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [*value] if isinstance(value, Sequence) and not isinstance(value, str) else value
