"""The estimate of one generator: a value with its uncertainty, and a change of its answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from optimist.estimates.audited import AuditedMean
from optimist.estimates.clusters import FEWEST_BATCHES, SHOWN
from optimist.estimates.pairing import Pairing
from optimist.estimates.prompted import PromptedMean
from optimist.estimates.timing import Timing
from optimist.records import codec
from optimist_client.metrics import Scale
from optimist_client.models.decisions import format_score


@dataclass(frozen=True, slots=True)
class Change:
    """The finding of a test that a generator's answers are no longer as they were."""

    position: int
    """Approximate position in the generator's log of the last batch before the change."""
    pick: int
    """The pick of the first batch after it; 0 where it was recorded without one."""
    samples: int
    """Samples since."""
    shift: float
    """Mean score of these samples less the expectation of the generator before the change."""
    standard_error: float
    """Standard error of the shift."""


@codec.record
@dataclass(frozen=True, slots=True)
class Estimate:
    """A generator's score after `samples` samples, with the interval of one bound.

    `value`, `plug_in`, the errors, the bounds and `optimistic` are on `scale`: "linear" for FID, "log" for IS, RKE
    and Vendi. Only `score` is on the metric's natural scale.
    """

    value: float
    """The de-biased value under the `influence` bound, otherwise the plug-in value."""
    plug_in: float
    """The metric's published formula, which is biased. For FID, with the covariance that the bound uses: 1/(n − 1) for
    `influence` and `authors`, as in pytorch-fid; 1/n for `theorem` and `naive`, as in equations.md §1."""
    samples: int
    lower: float
    """Lower end of the 1 − δ interval; −inf if the bound does not limit this side."""
    upper: float
    """Upper end of the 1 − δ interval; +inf if the bound does not limit this side."""
    optimistic: float
    """The end of the interval that a policy ranks by: the lower one for a distance, the upper one for a score."""
    standard_error: float | None = None
    """sd_select of rules/estimates.md, used for ranking; None if the bound has none."""
    stopping_error: float | None = None
    """sd_stop of rules/estimates.md, used for stopping and for the interval; None if the bound has none."""
    scale: Scale = "linear"
    lower_is_better: bool = True
    floor: float | None = 0.0
    """The smallest value that is shown, on the linear scale; None: no limit."""
    warnings: tuple[str, ...] = ()
    bracket: tuple[float, float] | None = None
    """Two values between which the true one lies on average, whatever the samples' law: the plug-in and a cross
    entropy (rules/estimates.md). None if the bound has none: only scores of orders below 2 do."""
    pairing: Pairing | None = None
    """Data for comparisons by index; None if the experiment is not paired, or the metric does not offer it."""
    value_skewness: float | None = None
    """`Analysis.value_skewness`: the skewness of the values, where the estimate is their mean."""
    farthest: tuple[float, float] | None = None
    """`Analysis.farthest`: how far values lie below and above their mean, where neither range nor prompts are known."""
    prompted: PromptedMean | None = None
    """The mean by prompts that come again, where the estimate is one."""
    audited: AuditedMean | None = None
    """The audits, where people decide and a judge has scored all samples."""
    prompts: int | None = None
    """`Analysis.prompts`: how many prompts the errors count as clusters."""
    batches: int | None = None
    """`Analysis.batches`: how many batches the errors count as clusters."""
    design_effect: float | None = None
    """`Analysis.design_effect`: the samples count as `samples` over this."""
    change: Change | None = None
    """The change of the generator's answers, where prompts are routed and a test says that they have changed."""
    censored: int = 0
    """`Analysis.censored`: number of values that are at least the told number, where the estimate is their mean."""
    timing: Timing | None = field(default=None, compare=False)
    """Relation of scores to the time of batches, where the estimate is a mean. No number depends on it."""
    strict: bool = False
    """True if the interval holds at all sample sizes at once, and together with the other generators' intervals."""

    @property
    def score(self) -> float:
        """`value` on the natural scale: a value below `floor` is shown as `floor`, a log score is exponentiated."""
        return self.natural(self.value)

    @property
    def is_unbounded(self) -> bool:
        """True for the mean of a latency, a cost, or the like: lower is better, no value is below 0, and values have no
        known upper limit."""
        return self.farthest is not None and self.lower_is_better and self.value >= self.farthest[0]

    @property
    def is_below_noise(self) -> bool:
        """True if `value` is below `floor`, which is then the `score`."""
        return self.scale == "linear" and self.floor is not None and self.value < self.floor

    def natural(self, value: float) -> float:
        """A number on this estimate's scale, converted to the natural scale."""
        return natural(value, self.scale, self.floor)

    @property
    def units(self) -> tuple[int, str]:
        """Number of independent units behind the errors, and their name."""
        if self.audited is not None:
            return len(self.audited.audits), "audits"
        if self.prompted is not None and self.prompted.kind == "sample":
            return self.prompted.clusters, "prompts"
        if self.prompts is not None:
            return self.prompts, "prompts"
        return (self.samples, "samples") if self.batches is None else (self.batches, "batches")

    @property
    def shown_effect(self) -> float | None:
        """The design effect where it is worth a mention."""
        effect = self.design_effect
        return effect if effect is not None and effect > SHOWN and self.units[0] >= FEWEST_BATCHES else None

    @property
    def shared_effect(self) -> float:
        """Design effect of prompts shared with other generators; 1 without any."""
        return self.design_effect if self.prompts is not None and self.design_effect is not None else 1.0

    @property
    def is_exact(self) -> bool:
        """True if it has no error: every prompt of a list has its one score."""
        return self.prompted is not None and self.prompted.is_complete

    @property
    def point(self) -> tuple[int, float | None, float | None, float | None]:
        """The point for charts: samples, score, lower and upper end on the natural scale, to six digits, also below
        `floor`: a line along the floor would say that the score does not vary.

        None for an infinite number.
        """
        ends = (natural(end, self.scale, None) for end in (self.value, self.lower, self.upper))
        score, lower, upper = (float(f"{end:.6g}") if math.isfinite(end) else None for end in ends)
        return self.samples, score, lower, upper

    @property
    def unclipped(self) -> tuple[float | None, float | None, float | None] | None:
        """Score, lower and upper end as in `point`, where one of them is below `floor`."""
        is_clipped = self.scale == "linear" and self.floor is not None and min(self.value, self.lower) < self.floor
        return self.point[1:] if is_clipped else None

    def __str__(self) -> str:
        """Two lines: the score with its interval, and its samples."""
        error = self.standard_error
        if error is not None and self.scale == "log":
            error *= self.score
        low, high = (
            f"{end}" if math.isinf(end) else format_score(end, error)
            for end in map(self.natural, (self.lower, self.upper))
        )
        score = format_score(self.score, error, below_noise=self.is_below_noise)
        better = "lower" if self.lower_is_better else "higher"
        made = [] if error is None else [f"standard error {error:.2g}"]
        made += [f"plug-in {format_score(self.natural(self.plug_in), error)}", *self.warnings]
        return f"{score} ({low} to {high}), {self.samples:,} samples, {better} is better\n{'; '.join(made)}"

    def is_sound(self) -> bool:
        """True if every number may be stored: the values finite, the errors finite and not negative, no bound NaN."""
        numbers = (self.value, self.plug_in, self.value_skewness or 0.0, *(self.bracket or ()), *(self.farthest or ()))
        errors = [error for error in (self.standard_error, self.stopping_error) if error is not None]
        parts = (self.pairing, self.prompted, self.audited)
        return (
            all(map(math.isfinite, (*numbers, *errors)))
            and all(error >= 0.0 for error in errors)
            and not any(map(math.isnan, (self.lower, self.upper, self.optimistic)))
            and all(part is None or part.is_sound() for part in parts)
        )


def natural(value: float, scale: Scale, floor: float | None = 0.0) -> float:
    """A number on `scale`, converted to the natural scale: at least `floor`; exponentiated if log (inf past e^709)."""
    if scale == "linear":
        return value if floor is None else max(value, floor)
    return math.exp(value) if value < 709.0 else math.inf


def finite(number: float) -> float | None:
    """The number as in reports; None if it is not finite."""
    return number if math.isfinite(number) else None


def is_due(samples: int, last_due: int, growth: float) -> bool:
    """True if an estimate is due after a batch that brought a generator to `samples` (rules/estimates.md).

    The first is due at 2 samples or more (`last_due` = 0), the next whenever the count has grown by `growth`;
    growth 0 makes every batch due. accept.lua applies the same rule in the same arithmetic.
    """
    return samples >= 2 if last_due == 0 else samples >= (1.0 + growth) * last_due
