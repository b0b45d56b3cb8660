"""log Vendi of blends, of every finite order but 2 (docs/mixtures.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from optimist.numerics.kernel.blended_spectrum import BlendedSpectrum, Part
from optimist.numerics.kernel.spectral_loss import Spectral, spectral_model
from optimist.numerics.kernel.spectrum import second_order, slopes
from optimist.numerics.kernel.statistic import KernelStatistic
from optimist.numerics.mixtures.objective import Blended
from optimist.numerics.mixtures.quadratic import Floats, Quadratic
from optimist.numerics.spectra.cross_entropy import LeaveOneOut, Shares

if TYPE_CHECKING:
    from optimist.numerics.kernel.score import VendiScore


class EntropyObjective:
    RIDGE = 0.0

    def __init__(self, metric, statistics, half=None, common=()):
        self._metric = metric
        self._parts = [Part(s, half) for s in statistics]
        self.samples = tuple(p.count for p in self._parts)

    def model(self, weights, *, published=False):
        if not hasattr(self, "_m"):
            N = sum(self.samples)
            rows = [p.rows for p in self._parts]
            if all(r is not None for r in rows) and N <= self._metric.width:
                X = torch.cat(rows)
                g, V = torch.linalg.eigh(X @ X.T)
                keep = g > 1e-14 * g[-1]
                Z = (V * g.clamp_min(0).sqrt())[:, keep].split(list(self.samples))
                self._m = [z.T @ z / len(z) for z in Z]
            else:
                self._m = [p.moment() for p in self._parts]
        return spectral_model(self._metric.order, self._m, weights, 0.0 if published else self.RIDGE)

    def analyse(self, weights, *, slopes=False):
        order = self._metric.order
        spectrum = BlendedSpectrum(self._parts, weights)
        lever = [spectrum.leverages(i) for i in spectrum.support]
        sizes = [len(x) for x in lever]
        def spread(per):
            return torch.cat([x.new_full((len(x),), v) for x, v in zip(lever, per)])
        blended = Shares(
            spread([spectrum.share(i) for i in spectrum.support]),
            spread([float(weights[i]) / b for i, b in zip(spectrum.support, sizes)]),
            all(b == self.samples[i] for i, b in zip(spectrum.support, sizes)),
        )
        out = LeaveOneOut(spectrum.values, torch.cat(lever), spectrum.count, self._metric.width, blended)
        found = out.entropy(order)
        self.last = found, out, spectrum
        inf = dict(zip(spectrum.support, found.influence.split(sizes)))
        rows, slope = [], []
        for i in range(len(weights)):
            z2 = spectrum.kept(i).square()
            outside = out.influence_outside(order, found.estimate, z2)
            mine = inf.get(i, outside)
            slope.append(-float(mine.mean()))
            rows.append(-float(weights[i]) * mine)
        return Blended(-found.estimate, np.array(slope), tuple(rows), found.systematic**2)
