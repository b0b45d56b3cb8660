"""Entropies of a spectrum, between the sample's own entropy and a leave-one-out cross entropy (rules/estimates.md).

−tr C log C = ∫₀^∞ [D − 1/(1 + x)] dx,   tr C = 1
    tr C^α = (sin πα / π) ∫₀^∞ x^{α−1} D dx,   0 < α < 1
    tr C^α = (sin π(α−1) / π) ∫₀^∞ x^{α−2} (1 − xD) dx,   1 < α < 2

The second is λ^α = (sin πα / π) ∫₀^∞ x^{α−1} λ/(λ + x) dx summed, the third the same of λ · λ^{α−1}; their logarithms
over 1 − α go to the first as α → 1. Beyond the grid 1 − xD falls as 1/x.

φ_i are n rows of norm 1 and width p, C = (1/n) Σ φφᵀ their covariance with eigenpairs (g_k, v_k), and
C_{−i} = C − φ_iφ_iᵀ/n the same without row i, whose resolvents follow from one eigenproblem:

    Q_i(w) = φ_iᵀ (C_{−i} + w)⁻¹ φ_i = n l_i/r_i
    l_i = Σ_k s_ik g_k/(g_k + w),   r_i = 1 − l_i,   s_ik = (v_kᵀφ_i)²/(n g_k)

Q = mean Q_i is unbiased for any law of the rows, repeats and unequal clusters included. From it come

- the curve of the population's degrees of freedom: D₋ at the ridge x = w Q/D₋. Its entropy is the *ridge* estimate L;
- the cross entropy h + K of the rows with a model of the others, (C_{−i} + wI)/trace, at the w = λ where it is least.

On average the population's entropy lies between the sample's, h, which is too low (concavity), and the cross entropy,
which is too high (Klein's inequality).

The estimate is L less a part of K, which was fitted on real and synthetic features, as is its systematic error.

Rows of a mixture have unequal shares ω_i of C = Σ ω_i φ_iφ_iᵀ. Then C_{−i} = C − ω_i φ_iφ_iᵀ, n l_i is l_i/ω_i, means
are weighted, and n is the effective number 1/Σ ω_i².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def entropy_of_curve(freedom: Tensor, x: Tensor, rank: int, order: float) -> float:
    """log Vendi of order α, 0 < α < 2, of the curve D (W) at ascending x (W), which below x[0] is a power law.

    No population has more than `rank` eigenvalues.
    """
    below = _tail_by_power(freedom, x, rank, order)
    curve = freedom * x if order <= 1.0 else 1.0 - freedom * x
    inner = float(torch.trapezoid(curve * x ** (order - 1.0), x.log()))
    start, top = float(x[0]), float(x[-1])
    if order == 1.0:
        return inner - math.log1p(top) + below
    scale = math.sin(math.pi * order) / math.pi
    above = top ** (order - 1.0) * (1.0 - top * float(freedom[-1])) / (2.0 - order)
    if order < 1.0:
        rest = inner + top ** (order - 1.0) / (1.0 - order) - above
    else:
        rest = start ** (order - 1.0) / (1.0 - order) - inner - above
    # Samples with nothing in common leave a trace of zero for α > 1; no spectrum's is below rank^{1 − α}.
    trace = max(scale * (rest + below), rank ** min(1.0 - order, 0.0))
    return math.log(trace) / (1.0 - order)


def _tail_by_power(freedom: Tensor, x: Tensor, rank: int, order: float) -> float:
    """∫₀^xs x^{α−1} D dx for D = Ds (xs/x)^s, with the slope s of the factor of 4 above xs, and never past rank."""
    fourfold = int((x >= 4.0 * x[0]).to(torch.uint8).argmax())
    start, full = float(x[0]), float(freedom[0])
    slope = math.log(full / float(freedom[fourfold])) / math.log(float(x[fourfold]) / start)
    slope = min(max(slope, 0.0), 0.9)
    # log(xc/xs), where the power law meets D = rank.
    reach = -math.log(rank / full) / max(slope, 0.001)
    q = order - slope
    law = full * (-math.expm1(q * reach) / q if q != 0.0 else -reach)
    return start**order * (law + rank * math.exp(order * reach) / order)


POINTS, LOWEST, HIGHEST = 121, 1e-5, 1e4
"""The grid of w: geometric, from LOWEST/p to HIGHEST times the largest eigenvalue."""
PULL, POWER = 0.33, 8
"""E = L − PULL · u (1 − t^POWER) K. Fitted."""
SEEN_DOUBT, UNSEEN_DOUBT, LOW_ORDER_DOUBT = 0.03, 0.07, 1.2
"""The systematic error over K. Fitted."""


@dataclass(frozen=True)
class BracketedEntropy:
    """An entropy with its components, in log."""

    estimate: float
    plug_in: float
    """h, of the sample."""
    gap: float
    """K: the cross entropy is h + K. Of other orders than 1 it is scaled as L − h."""
    ridge: float
    """L."""
    unseen: float
    """u: the part of a further sample outside the span of the others, 0 … 1."""
    evenness: float
    """t: the weight of the uniform law in the best model, 0 … 1; near 1 if the rows are nearly orthogonal."""
    systematic: float
    """The standard deviation of the error that further repeats of the sample would not show."""
    influence: Tensor
    """The out-of-sample influence of each row (b), up to a constant."""


@dataclass(frozen=True)
class RowShares:
    """Rows (b) of unequal weight."""

    shares: Tensor
    """ω (b,), > 0: the weight of each row in C."""
    means: Tensor
    """(b,) of sum 1: the weight of each row in means; ω where all rows are kept."""
    keeps_all: bool
    """True if all rows of C are kept."""
    spans: bool
    """True if the s_ik of each row sum to 1, as entries of a Gram matrix's eigenvectors do."""
    left: Tensor
    """(b,): loss of the trace of C with each row and the rows that leave with it; else ω."""
    raised: Callable[[Tensor], Tensor] | None = None
    """A function of ridges w (W,): the increase of Q_i (b, W) by these."""


class LeaveOneOut:
    """The resolvents of n rows, and everything that depends on them alone.

    `eigenvalues` g (k), descending, > 0, k = min(n, `rank`); `weights` s (b, k) of the last b rows; `count` = n;
    `rank` = p. `mixed`: the shares of these rows where they are not equal, s_ik = ω_i (v_kᵀφ_i)²/g_k; `count` is then
    the effective number.
    """

    def __init__(
        self, eigenvalues: Tensor, weights: Tensor, count: float, rank: int, mixed: RowShares | None = None
    ) -> None:
        self.eigenvalues, self.weights, self.count, self.rank = eigenvalues, weights, count, rank
        self._mixed = mixed
        self._keeps_all = len(weights) == count if mixed is None else mixed.keeps_all
        self._spans_rows = len(eigenvalues) >= count if mixed is None else mixed.spans
        g = eigenvalues[:, None]
        low, high = math.log(LOWEST / rank), math.log(HIGHEST * float(eigenvalues[0]))
        self.logs = torch.linspace(low, high, POINTS, dtype=g.dtype, device=g.device)
        self.w = w = self.logs.exp()
        self._held, self._free = held, free = g / (g + w), w / (g + w)
        leverage, rest = self._leverage(weights)
        self.ratios = self._per_share(leverage) / rest
        """Q_i (b, W)."""
        if mixed is not None and mixed.raised is not None:
            self.ratios = self.ratios + mixed.raised(w)
        self.mean = self._mean(self.ratios)
        freedom = held.sum(0)
        # The kept rows need not have the mean leverage of all rows, which is D/n.
        fit = freedom / self._mean_per_share(leverage)
        self.freedom = (freedom - fit * self._mean((weights @ (held * free)) / rest)).clamp_min(1e-9)
        """D₋ (W), of n − 1 rows."""
        self.x = (w * fit * self.mean / self.freedom).cummax(0).values
        """The ridge (W) at which the population has these degrees of freedom."""
        self.unseen = min(1.0, float(w[0] * self.mean[0]))

    @cached_property
    def best(self) -> tuple[int, float, float]:
        """The least cross entropy: the grid's point, and λ and the cross entropy there, between the points."""
        w, logs = self.w, self.logs
        change = (self.mean - 1.0 / (1.0 + w)) * w
        above = torch.cumulative_trapezoid(change.flip(0), -logs.flip(0))
        integral = torch.cat([above.flip(0), above.new_zeros(1)]) + math.log1p(1.0 / float(w[-1]))
        values = (integral - w.log1p() + self._mean_log_trace(w)).tolist()
        at = min(range(POINTS), key=values.__getitem__)
        log, lowest = float(logs[at]), values[at]
        if 0 < at < POINTS - 1:
            before, after = values[at - 1], values[at + 1]
            curvature = before - 2.0 * lowest + after
            if curvature > 0.0:
                offset = 0.5 * (before - after) / curvature
                log, lowest = log + offset * float(logs[1] - logs[0]), lowest - 0.25 * (before - after) * offset
        return at, math.exp(log), lowest

    def ridge(self, order: float) -> float:
        """L of the order, 0 < α < 2, not clipped."""
        # Beyond 0.8 n degrees of freedom a power law takes the curve's place; 12 points are used at least.
        reliable = (self.freedom <= 0.8 * self.count).to(torch.uint8)
        start = min(int(reliable.argmax()), POINTS - 12)
        freedom, x = self.freedom[start:], self.x[start:]
        return entropy_of_curve(freedom, x, self.rank, order)

    @cached_property
    def first(self) -> BracketedEntropy:
        """The entropy of order 1."""
        g = self.eigenvalues
        total = g / g.sum()
        plug_in = -float((total * total.log()).sum())
        _, penalty, lowest = self.best
        inside = plug_in if self._keeps_all else -float(self._mean_per_share(self.weights @ (g * g.log())))
        gap = max(lowest - inside, 0.0)
        top = min(plug_in + gap, math.log(self.rank))
        evenness = self.rank * penalty / (1.0 + self.rank * penalty)
        ridge = _within(plug_in, self.ridge(1.0), top)
        pulled = PULL * self.unseen * (1.0 - evenness**POWER) * gap
        return BracketedEntropy(
            estimate=_within(plug_in, ridge - pulled, top),
            plug_in=plug_in,
            gap=gap,
            ridge=ridge,
            unseen=self.unseen,
            evenness=evenness,
            systematic=self._doubt * gap,
            influence=self._influence(1.0, 0.0, self.ratios, self._left),
        )

    def entropy(self, order: float) -> BracketedEntropy:
        """The entropy of order α, 0 < α < 2: the estimate divides h … L as at order 1."""
        first = self.first
        if order == 1.0:
            return first
        plug_in = math.log(float((self.eigenvalues**order).sum())) / (1.0 - order)
        ridge = _within(plug_in, self.ridge(order), math.log(self.rank))
        part, gap = 1.0, 0.0
        if first.ridge > first.plug_in:
            part = (first.estimate - first.plug_in) / (first.ridge - first.plug_in)
            gap = first.gap * (ridge - plug_in) / (first.ridge - first.plug_in)
        estimate = plug_in + part ** min(1.0, 2.0 - order) * (ridge - plug_in)
        return BracketedEntropy(
            estimate=estimate,
            plug_in=plug_in,
            gap=gap,
            ridge=ridge,
            unseen=self.unseen,
            evenness=first.evenness,
            systematic=self._doubt * (1.0 + LOW_ORDER_DOUBT * max(0.0, 1.0 - order)) * gap,
            influence=self._influence(order, estimate, self.ratios, self._left),
        )

    def influence(self, order: float, estimate: float, weights: Tensor) -> Tensor:
        """`BracketedEntropy.influence` (m) of any of the n rows, by their weights (m, k); `estimate` is that found."""
        leverage, rest = self._leverage(weights)
        return self._influence(order, estimate, self._per_share(leverage) / rest, self._left)

    def influence_of_kept(self, order: float, estimate: float) -> Tensor:
        """The influence (b,) of the rows behind this object, as `influence` has it."""
        return self._influence(order, estimate, self.ratios, self._left)

    def influence_in_mixture(
        self, order: float, estimate: float, seen: Tensor, share: float, left: float, raised: Tensor | None = None
    ) -> Tensor:
        """The influence (m,) of any rows of a mixture by their squares (v_kᵀφ)² (m, k); `share`: ω, 0 of rows outside
        C.

        left, raised (W,): as in `RowShares`, of each of these rows.
        """
        beyond = (1.0 - seen.sum(-1)).clamp_min(0.0)
        ratios = (seen @ (self._held / self.eigenvalues[:, None])).addcdiv(beyond[:, None], self.w)
        ratios = ratios / (1.0 - share * ratios).clamp_min(1e-9)
        ratios = ratios if raised is None else ratios + raised
        return self._influence(order, estimate, ratios, torch.full_like(beyond, left))

    def _influence(self, order: float, estimate: float, ratios: Tensor, left: Tensor | None) -> Tensor:
        """The influence of rows from their Q_i (m, W) and the trace's loss with them (m,), None: all the same."""
        if order == 1.0:
            at, penalty, _ = self.best
            influence = ratios.new_zeros(len(ratios))
            if at < POINTS - 1:
                influence = torch.trapezoid(ratios[:, at:] * self.w[at:], self.logs[at:])
            # The trace of equal rows is a constant.
            return influence if left is None else influence + (1.0 - left + self.rank * penalty).log()
        if order > 1.0:
            power = self._power_above_1(order - 1.0, ratios, left)
        else:
            power = self._power_below_1(1.0 - order, ratios, left)
        return order / (1.0 - order) * math.exp((order - 1.0) * estimate) * power

    def _leverage(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """l_i and r_i (m, W) of rows with these weights (m, k)."""
        leverage = weights @ self._held
        if self._spans_rows:
            return leverage, (weights @ self._free).clamp_min(1e-15)
        return leverage, (1.0 - leverage).clamp_min(1e-9)

    @property
    def _left(self) -> Tensor | None:
        return None if self._mixed is None else self._mixed.left

    def _mean(self, values: Tensor) -> Tensor:
        """The mean over the kept rows (b, …)."""
        return values.mean(0) if self._mixed is None else self._mixed.means @ values

    def _per_share(self, values: Tensor) -> Tensor:
        """Values of the kept rows (b, W), each divided by the row's share."""
        return self.count * values if self._mixed is None else values / self._mixed.shares[:, None]

    def _mean_per_share(self, values: Tensor) -> Tensor:
        """The mean of values of the kept rows (b, …), each divided by the row's share."""
        if self._mixed is None:
            return self.count * values.mean(0)
        return (self._mixed.means / self._mixed.shares) @ values

    def _mean_log_trace(self, ridge: Tensor) -> Tensor:
        """The mean of log tr(C_{−i} + wI) at ridges w (W)."""
        if self._mixed is None:
            return ((self.count - 1) / self.count + self.rank * ridge).log()
        return self._mean(((1.0 - self._mixed.left)[:, None] + self.rank * ridge).log())

    @property
    def _doubt(self) -> float:
        return math.hypot(SEEN_DOUBT, UNSEEN_DOUBT * self.unseen)

    def _power_above_1(self, s: float, ratios: Tensor, left: Tensor | None) -> Tensor:
        """φ_iᵀ C_{−i}^s φ_i (b), 0 < s < 1, for C_{−i} of trace 1."""
        w, seen = self.w, 1.0 - self.w * ratios
        inner = torch.trapezoid(seen * w**s, self.logs)
        ends = seen[:, 0] * w[0] ** s / s + seen[:, -1] * w[-1] ** s / (1.0 - s)
        whole = self.count / (self.count - 1) if left is None else 1.0 / (1.0 - left)
        return math.sin(math.pi * s) / math.pi * whole**s * (inner + ends)

    def _power_below_1(self, s: float, ratios: Tensor, left: Tensor | None) -> Tensor:
        """φ_iᵀ (C_{−i} + λI)^{−s} φ_i (b), 0 < s < 1, for C_{−i} + λI of trace 1: the model of the cross entropy."""
        w, (_, penalty, _) = self.w, self.best
        position = ((w + penalty).log() - self.logs[0]) / (self.logs[1] - self.logs[0])
        position = position.clamp(0.0, POINTS - 1.0)
        before = position.long().clamp_max(POINTS - 2)
        logs = ratios.log()
        shifted = torch.lerp(logs[:, before], logs[:, before + 1], position - before).exp()
        inner = torch.trapezoid(shifted * w ** (1.0 - s), self.logs)
        ends = shifted[:, 0] * w[0] ** (1.0 - s) / (1.0 - s) + shifted[:, -1] * w[-1] ** (1.0 - s) / s
        trace = ((self.count - 1) / self.count if left is None else 1.0 - left) + self.rank * penalty
        return math.sin(math.pi * s) / math.pi * trace**s * (inner + ends)


def _within(low: float, value: float, high: float) -> float:
    return min(max(value, low), high)
