"""The progress of an experiment: the data of its charts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optimist_client.wire import Answer, GeneratorName, optional


class Curve(Answer):
    """The estimates of a generator in the order they were made, on the natural scale, also below the smallest possible
    score; None if unknown or infinite."""

    told: list[int]
    """Batches told to the whole experiment when each was made."""
    samples: list[int]
    """Number of samples behind each estimate."""
    scores: list[float | None]
    lower: list[float | None]
    upper: list[float | None]


class GeneratorProgress(Answer):
    """One generator, retired or not, at the checkpoints of `Progress`."""

    generator: GeneratorName
    batches: list[int]
    """Batches told so far, by checkpoint. Pick shares, regret and pick ratio are computed from them."""
    curve: Curve
    watched: Annotated[dict[str, Curve], Field(exclude_if=lambda value: not value)] = Field(default_factory=dict)
    """The curves by the watched metrics, by their labels."""


class MixtureCurve(Answer):
    """The best mixture each time that it was made, in order. Scores are on the natural scale, gains and gaps on
    `Report.scale`, as in `Mixture`; None if unknown or infinite."""

    told: list[int]
    """Batches told to the whole experiment when each was made."""
    samples: list[int]
    """Samples of all generators behind each."""
    weights: dict[GeneratorName, list[float]]
    """The weight of each generator of the experiment, in its order; 0 where it was no part of the mixture."""
    scores: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    best: list[GeneratorName]
    """The best single generator."""
    best_scores: list[float | None]
    gains: list[float | None]
    gain_standard_errors: list[float | None]
    gaps: list[float | None]
    """Difference by which another mixture may be better than each, as far as the samples show."""


class RouteCurve(Answer):
    """Gains of routing each time that its table was made, in order, as in `Routes`; None if unknown."""

    told: list[int]
    """Batches told to the whole experiment when each was made."""
    samples: list[int]
    """Samples of all generators behind each."""
    gains: list[float | None]
    lower: list[float | None]
    """Lower ends of their intervals, as `Routes.lower`."""
    upper: list[float | None]
    scores: list[float | None]
    """Expected scores of routed prompts."""
    best: list[GeneratorName]
    """The best single generator."""
    best_scores: list[float | None]


class OpenPickInfo(Answer):
    """A pick whose lease has not ended."""

    number: int
    generator: GeneratorName
    size: int
    worker: str | None
    opened: float
    deadline: float
    """Unix times of the service."""
    stale: bool


class Progress(Answer):
    """The data of the charts: counts at checkpoints, estimates in the order they were made, open picks.

    The checkpoints are the newest batch and the multiples of `stride`, a power of two that grows so that there are at
    most 256 of them. The reply has the checkpoints after the requested number and the last one before it. The client
    drops earlier checkpoints that are not multiples of `stride`. The same applies to estimates. If the last checkpoint
    before the requested number differs from the client's, Redis has lost batches: the client drops all earlier data.
    """

    instance: str
    """`Experiment.instance`; if it differs from the client's, the client drops all earlier data."""
    told: int
    """Batches told; the next request's `after`. The newest estimates may be repeated then."""
    stride: int
    rounds: list[int]
    samples: list[int]
    """Total samples told, by checkpoint."""
    generators: list[GeneratorProgress]
    mixture: MixtureCurve | None = optional()
    """The best mixture by the metric that decides; only with the goal "mixture". The points are those after the
    requested number of batches, and the last one before it."""
    routes: RouteCurve | None = optional()
    """Gains of routing; only with the goal "route". The points are as those of `mixture`."""
    picks: list[OpenPickInfo]
    """At most the newest 100 open picks."""
