"""The Inception score."""

from __future__ import annotations

from optimist_client.metrics.base import Dimension, Metric, declare


@declare
class InceptionScore(Metric):
    """Clarity of each sample's class, and variety of the classes."""

    name = "is"
    implementation = "optimist.metrics.inception"
    title = "Inception Score"
    arrays = {"probabilities": "dimension"}
    simplex = frozenset({"probabilities"})
    scale = "log"
    floor = 0.0
    positive = True
    bounds = {"influence": frozenset(), "theorem": frozenset(), "naive": frozenset()}
    presets = {"is-ucb": "theorem"}
    needs = frozenset({"dimension"})
    warmup = 4

    dimension: Dimension | None = None
    """Number of classes; required for an experiment."""
