"""log Vendi of orders 0 < α < 2 by the effective ridge: the estimate of experiments of rules 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from optimist.numerics.kernel.entropy import log_vendi
from optimist.numerics.kernel.influence import (
    EntropyInfluence,
    collapsed,
    few_rows_inflation,
    has_collapsed,
    inside,
)
from optimist.numerics.kernel.spectrum import floored_at, second_order, shares_of, slopes
from optimist.numerics.kernel.statistic import KernelStatistic
from optimist.numerics.spectra.effective_ridge import debiased_entropy

if TYPE_CHECKING:
    from optimist.numerics.kernel.score import VendiScore


def by_ridge(metric: VendiScore, statistic: KernelStatistic, *common: Tensor) -> EntropyInfluence:
    """The effective ridge (`debiased_entropy`) with the influence function of the plug-in, from n ≥ 2 samples.

    With f the derivative of H in each eigenvalue, dH = Σ f(g_i) d g_i and d g_i = u_iᵀ(φφᵀ − C)u_i, so
    IF = φᵀ f(C) φ up to a constant. The second-order variance takes the divided differences of f. sd_stop adds
    0.3 · (estimate − plug-in), for α < 1 all of it: there most of the score comes from eigenvalues that few samples
    show, and the correction was measured to be as uncertain as it is large.
    """
    n, order = statistic.samples, metric.order
    eigenvalues, shares, *of_common = shares_of(statistic, *common)
    plug_in = log_vendi(eigenvalues, order)
    if has_collapsed(eigenvalues):
        return collapsed(plug_in, statistic, *common)
    found = debiased_entropy(eigenvalues, n, metric.width, order)
    estimate = inside(metric, found.value)
    floored = floored_at(eigenvalues)
    derivative = slopes(floored, order)
    doubt = 0.3 if order >= 1.0 else 1.0
    return EntropyInfluence(
        plug_in=plug_in,
        estimate=estimate,
        influence=shares @ derivative,
        inflation=few_rows_inflation(n),
        second_order=second_order(floored, derivative, order),
        extrapolated=found.extrapolated,
        stopping_doubt=doubt * (estimate - plug_in),
        repeated=int((eigenvalues < floored).sum()) if n <= metric.width else 0,
        common=[each @ derivative for each in of_common],
    )
