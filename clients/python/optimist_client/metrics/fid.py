"""The Fréchet distance."""

from __future__ import annotations

from typing import Any

from optimist_client.metrics.base import Metric, declare


@declare
class FID(Metric):
    """The distance between the distributions of the generator's features and of real features."""

    name = "fid"
    implementation = "optimist.metrics.fid.declared"
    title = "FID"
    arrays = {"features": ""}
    lower_is_better = True
    floor = 0.0
    positive = True
    bounds = {
        "influence": frozenset(),
        "theorem": frozenset({"sigma2", "tau", "mean_gap"}),
        "authors": frozenset({"M", "kappa"}),
        "naive": frozenset({"sigma2", "mean_gap"}),
    }
    presets = {"fid-ucb": "theorem", "fd-ucb": "authors"}
    needs = frozenset({"reference"})
    offers = frozenset({"mixtures"})

    reference: Any = None
    """The name of an uploaded reference, or real data in a form that `create_experiment` and `Evaluation` accept."""
