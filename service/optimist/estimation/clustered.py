"""Cluster of each sample of a generator (its prompt or its batch), and errors that allow for clusters.

Samples of a cluster may be alike. The variance of an estimate then exceeds the variance by as many independent samples
by the design effect. The influences of the first indices and of the newest samples show it (rules/calibration.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.clusters import FEW, Alike, alike, alike_warning
from optimist.metrics.base import Analysis
from optimist.metrics.cluster_sums import UNKNOWN
from optimist.metrics.state import LastRows, Stateful

ClusterKind = Literal["prompt", "batch"]
"""Kind of the clusters."""


class Clusters(Stateful):
    """The clusters of a generator's samples, as far as their influence is known, and how many samples they have."""

    held = ("samples", "count", "_squares", "_counts", "_newest", "_common")

    def __init__(self, by: ClusterKind, is_declared: bool, common: int) -> None:
        """is_declared: whether errors allow for them; else they are only looked at, for a warning.

        common: the number of first indices whose rows have a known influence.
        """
        self.by: ClusterKind = by
        self.is_declared = is_declared
        self.samples = 0
        self.count = 0
        """Clusters. A sample of unknown prompt is one."""
        self._squares = 0  # Σ c² over the samples c of each
        self._counts = torch.zeros(0, dtype=torch.int64)  # of each prompt; none by batch
        # Metrics give at most as many influences. Columns: cluster, and index or UNKNOWN.
        self._newest = LastRows(torch.zeros(0, 2, dtype=torch.int64), 512)
        self._common = torch.full((common,), UNKNOWN)  # the cluster of each first index that was told

    @property
    def uneven(self) -> float:
        """Σ c²/n: 1 where each sample is a cluster."""
        return self._squares / self.samples

    def add(self, indices: Tensor, prompts: Tensor | None) -> None:
        """Add a batch. indices: of each row (n,), UNKNOWN without; prompts: of each row (n,), None where not known."""
        rows = len(indices)
        clusters = self._by_prompt(prompts, rows) if self.by == "prompt" else self._as_batch(rows)
        self._newest.append(torch.stack([clusters, indices], dim=1))
        firsts = (indices >= 0) & (indices < len(self._common))
        firsts &= self._common[torch.where(firsts, indices, 0)] == UNKNOWN if len(self._common) else firsts
        self._common[indices[firsts]] = clusters[firsts]
        self.samples += rows

    @property
    def _counted(self) -> dict[str, Any]:
        """Clusters that errors count, as fields of an analysis."""
        return {"prompts" if self.by == "prompt" else "batches": self.count}

    @property
    def prompts(self) -> NDArray[np.int32] | None:
        """The prompt of each first index, −1 where it was not told or is not known; None for batches."""
        return self._common.clamp_min(UNKNOWN).numpy().astype(np.int32) if self.by == "prompt" else None

    def allowed_for(self, analysis: Analysis, indices: Tensor | None = None) -> Analysis:
        """The analysis with errors that allow for the clusters, or with a warning if the clusters are undeclared.

        indices: of the rows (m,) behind `influence`; None without.
        """
        if self.uneven == 1.0:
            return replace(analysis, **self._counted) if self.is_declared else analysis
        seen = self._seen(analysis, indices)
        if self.is_declared:
            # Without influences the samples of a cluster count as a single sample.
            effect = self.uneven if seen is None else max(seen.effect, 1.0)
            factor = effect * (1.0 + FEW / self.count) / (1.0 + FEW / self.samples)
            widened = _widened(analysis, factor, is_shared=self.by == "prompt")
            return replace(widened, design_effect=effect, **self._counted)
        if seen is None or not (warnings := alike_warning(seen, self.samples, self.count)):
            return analysis
        return replace(analysis, design_effect=seen.effect, warnings=(*analysis.warnings, *warnings))

    def _seen(self, analysis: Analysis, indices: Tensor | None) -> Alike | None:
        """Similarity of samples of a cluster, by the influences of an analysis; None without influences."""
        clusters, values = list[Tensor](), list[Tensor]()
        if analysis.influence is not None and indices is not None:
            clusters.append(self._common[indices])
            values.append(analysis.influence.cpu())
        if analysis.recent is not None:
            newest = self._newest.tensor
            count = min(len(newest), len(analysis.recent))
            newest, recent = newest[len(newest) - count :], analysis.recent.cpu()[len(analysis.recent) - count :]
            alone = (newest[:, 1] < 0) | (newest[:, 1] >= len(self._common))  # others are among the first indices
            clusters.append(newest[alone, 0])
            values.append(recent[alone])
        if not clusters:
            return None
        return alike(torch.cat(values).double().numpy(), torch.cat(clusters).numpy(), self.uneven)

    def _as_batch(self, rows: int) -> Tensor:
        self.count += 1
        self._squares += rows * rows
        return torch.full((rows,), self.count)

    def _by_prompt(self, prompts: Tensor | None, rows: int) -> Tensor:
        prompts = torch.full((rows,), UNKNOWN) if prompts is None else prompts
        listed = prompts[prompts != UNKNOWN]
        before = self._counts
        if len(listed) and int(listed.max()) >= len(before):
            before = torch.cat([before, before.new_zeros(int(listed.max()) + 1 - len(before))])
        self._counts = before + torch.bincount(listed, minlength=len(before))
        singles = rows - len(listed)
        self.count += int((self._counts > 0).sum() - (before > 0).sum()) + singles
        self._squares += int((self._counts.square() - before.square()).sum()) + singles
        # Samples of unknown prompts are different clusters, and none of a prompt.
        return torch.where(prompts == UNKNOWN, UNKNOWN - 1 - self.samples - torch.arange(rows), prompts)


def _widened(analysis: Analysis, factor: float, *, is_shared: bool) -> Analysis:
    """The analysis whose variances by sampling are `factor` ≥ 1 times as large.

    is_shared: True if generators with the same clusters share the added error; else it is independent.
    """
    grown: dict[str, Any] = {}
    for kind in ("selection", "stopping"):
        error, part = getattr(analysis, f"{kind}_error"), getattr(analysis, f"systematic_{kind}")
        added = math.sqrt(max((error - part) * (error + part), 0.0) * (factor - 1.0))
        grown[f"{kind}_error"] = math.hypot(error, added)
        if not is_shared:
            grown[f"systematic_{kind}"] = math.hypot(part, added)
    if is_shared and analysis.jackknife is not None:
        grown["jackknife"] = analysis.jackknife * math.sqrt(factor)
    return replace(analysis, **grown)
