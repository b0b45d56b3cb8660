"""The best mixture of an experiment's generators: weights, score, gain over the best single generator."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, computed_field

from optimist_client import mixture_display
from optimist_client.metrics import Scale
from optimist_client.models.basis import Basis
from optimist_client.models.decisions import format_range, format_score, recipe, shown
from optimist_client.wire import Answer, GeneratorName, Identifier, RequestId, Wire, optional

ONE = 0.995
"""Weight from which on a mixture is called one generator alone."""
STALE = "More samples, or generators, have come since the mixture was made."


class MixtureWeight(Answer):
    """One generator in a mixture."""

    generator: GeneratorName
    weight: float
    """Share of the mixture's samples, at least 0."""
    samples: int
    """Its samples that the weights were made from."""
    contribution: float
    """Difference by which the best mixture without it is worse, on `Mixture.scale`."""


class Mixture(Answer):
    """The best mixture by one metric. `score`, `lower` and `upper` are on the metric's natural scale; `gain`, `gap` and
    their errors are differences on `scale`, as in `Contrast`."""

    experiment: Identifier | None = optional()
    """None if it was made in memory."""
    label: Identifier
    """Label of the metric."""
    title: str
    lower_is_better: bool
    scale: Scale
    weights: list[MixtureWeight]
    """In the order of the experiment."""
    score: float
    standard_error: float
    lower: float
    """Lower end of the interval of the score, of 1 − δ."""
    upper: float
    best: GeneratorName
    """The best single generator."""
    best_score: float
    gain: float
    """Difference by which the mixture is better than the best single generator; below 0 if it is not."""
    gain_standard_error: float
    gain_lower: float
    """Lower end of the interval of the gain by the stopping rule, which holds at all samples. Above 0 where the
    mixture is better with the confidence of the experiment."""
    gain_upper: float
    confidence: float
    """Confidence that the mixture is better than the best single generator, by a one-sided test of `gain`."""
    gap: float
    """No other mixture is better than this one by more than that, as far as the samples show."""
    gap_bound: float
    """Upper bound of the gap with the confidence of the experiment."""
    samples: int
    """Samples of all generators that it was made from."""
    positions: list[int] = Field(default_factory=list[int])
    """For each generator, in order, the log position up to which the mixture was made; 0: not part of it. Empty
    if it was made in memory."""
    stale: bool = False
    """True if samples have grown by a quarter since, or generators were added or retired."""
    warnings: tuple[str, ...] = ()
    basis: Basis | None = optional()
    """Basis of the mixture, where it was made of sets of samples."""

    @computed_field
    @property
    def gain_text(self) -> str:
        """The gain of the mixture over the best single generator, as it is shown everywhere."""
        if self.is_one_alone:
            return f"No mixture is better than {self.best} alone, as far as the samples show."
        return f"The mixture is {self.gained}."

    @computed_field
    @property
    def gap_text(self) -> str:
        """The bound of what better mixtures gain, as it is shown everywhere."""
        bound = shown(self.gap_bound, self.scale)
        return f"No mixture of these generators is better than this one by more than {bound}."

    @property
    def is_one_alone(self) -> bool:
        """True if no mixture is better than the best single generator alone, as far as the samples show."""
        return self.gain <= 0.0 or any(share.generator == self.best and share.weight >= ONE for share in self.weights)

    @property
    def recipe(self) -> str:
        """The weights as they are shown, the largest first, such as "62% a + 38% b"."""
        return recipe({share.generator: share.weight for share in self.weights})

    @property
    def sentences(self) -> list[str]:
        """The best mixture with its score and gain, or that none is better than a single generator; what is known of
        better ones; warnings."""
        if self.is_one_alone:
            claim = f"{self.gain_text[:-1]}: {self.scored}."
        else:
            claim = f"The best mixture is {self.recipe}: {self.scored}, {self.gained}."
        old = [STALE] if self.stale else []
        return [claim, self.gap_text, *old, *(f"Warning: {warning}." for warning in self.warnings)]

    def repeats(self, sentence: str, reason: str) -> bool:
        """True if a sentence says only what the reason of a decision says: the bound of what other mixtures gain."""
        return sentence == self.gap_text and shown(self.gap_bound, self.scale) in reason

    @property
    def ranking(self) -> list[MixtureWeight]:
        """The generators by weight, the largest first."""
        return sorted(self.weights, key=lambda share: -share.weight)

    def to_pandas(self) -> Any:
        """Weights, samples and contributions as a `pandas.DataFrame`, one row per generator. Needs pandas."""
        return mixture_display.as_frame(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw the weights on matplotlib's `axes`, or on new ones, and return the axes. Needs matplotlib."""
        return mixture_display.as_plot(self, axes)

    def _repr_html_(self) -> str:
        return mixture_display.as_html(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{mixture_display.as_text(self)}"

    @property
    def scored(self) -> str:
        """The score of the mixture with its interval, or of the best generator alone where no mixture is better."""
        if self.is_one_alone:
            return f"{self.title} {self._shown(self.best_score)}"
        return f"{self.title} {self._shown(self.score)} ({self._shown(self.lower)} to {self._shown(self.upper)})"

    @property
    def gained(self) -> str:
        """The gain of the mixture over the best generator alone, as a part of a sentence."""
        by = format_range(self.gain, self.gain_lower, self.gain_upper, self.scale)
        if self.gain_lower > 0.0:
            return f"better than {self.best} alone by {by}"
        return f"too close to call against {self.best} alone: better by {by}"

    def _shown(self, score: float) -> str:
        # No score of mixtures is 0 but for one that is below the smallest possible value.
        return format_score(score, self.standard_error, below_noise=score == 0.0)


class BlendRequest(Wire):
    """The number of samples to make next, from all generators together."""

    size: Annotated[int, Field(ge=1, le=1_000_000)]
    request_id: RequestId | None = optional()
    """Makes the request idempotent: if it is repeated after a lost reply, it returns the same counts."""


class Blend(Answer):
    """The number of samples to take next from each generator, so that all that were handed out make the mixture."""

    counts: dict[GeneratorName, int]
    """Samples by generator, which sum to the size asked for; generators without samples are left out."""
    weights: dict[GeneratorName, float]
