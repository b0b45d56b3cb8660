"""Stored mixtures of an experiment as users see them. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass

from optimist.experiments.state import PolicyState
from optimist.numerics.mixtures.mixture import Mixture
from optimist.policies import shown_mixture
from optimist.records import StoredMixture
from optimist_client import models

OLD = 0.25
"""By which part the samples have grown when a mixture is shown as stale."""


@dataclass(frozen=True)
class KnownMixture:
    """A mixture as it is stored, and what it holds."""

    stored: StoredMixture
    mixture: Mixture

    @classmethod
    def of(cls, stored: StoredMixture | None, known: KnownMixture | None = None) -> KnownMixture | None:
        """The stored one, None without one; `known` if that is the same, which is then not parsed again.

        Raises ValueError, KeyError or TypeError if it cannot be read.
        """
        if stored is None or (known is not None and known.stored.made == stored.made):
            return None if stored is None else known
        return cls(stored, Mixture.from_dict(json.loads(stored.payload)))


def mixture_of(state: PolicyState, known: KnownMixture | None = None, label: str = "") -> models.Mixture | None:
    """A mixture by the metric of this label, as users see it; without `known` the one that picks are made from."""
    if known is None and state.goal.mixture is not None and state.stored.mixture is not None:
        known = KnownMixture(state.stored.mixture, state.goal.mixture)
    if known is None:
        return None
    parts = known.stored.parts
    metric = state.config.metrics[label] if label else state.config.metric
    return shown_mixture(
        known.mixture,
        metric,
        state.goal.stopping,
        state.stored.told,
        experiment=state.config.name,
        label=metric.shown_label,
        positions=[parts[g.ordinal].seq if g.ordinal in parts else 0 for g in state.stored.generators],
        stale=state.stored.has_outgrown(known.stored, OLD),
    )
