"""Configs and experiments for tests, of a metric by name with settings, as `create_experiment` takes it."""

from __future__ import annotations

from typing import Any

from optimist.experiments.admission import columns_of
from optimist_client.config import RULES
from optimist_client.metrics.base import setting_names
from optimist_client.models import Experiment, ExperimentConfig


def on_wire(**fields: Any) -> dict[str, Any]:
    """The request with these fields, none of which is checked; the metric is "fid" unless they say otherwise."""
    settings = {name: fields.pop(name) for name in setting_names() & fields.keys()}
    metric = fields.pop("metric", "fid")
    return {**fields, "metric": {"name": metric, **settings} if isinstance(metric, str) else metric}


def config_of(**fields: Any) -> ExperimentConfig:
    """The config of these fields; where the metric is "fid", its reference is "normal" unless they say otherwise."""
    if fields.get("metric", "fid") == "fid":
        fields.setdefault("reference", "normal")
    return ExperimentConfig.model_validate(on_wire(**fields))


def experiment_of(config: ExperimentConfig, **pinned: Any) -> Experiment:
    """The experiment of this config; its references have 4 columns unless `columns` are given."""
    if "columns" not in pinned:
        named = [label for label, metric in config.metrics.items() if metric.setting("reference") is not None]
        pinned["columns"] = columns_of(config, dict.fromkeys(named, 4))
    usual = {"scales": {}, "references": {}, "created": 0.0, "instance": "i", "rules": RULES}
    return Experiment(config=config, **{**usual, **pinned})
