"""Which generator is the best one for which prompts, and what routing gains over the best single generator."""

from __future__ import annotations

from typing import Literal

from optimist_client.metrics import Scale
from optimist_client.wire import Answer, GeneratorName, Identifier, optional


class RouteScore(Answer):
    """What one generator scores on prompts of one type."""

    generator: GeneratorName
    score: float | None
    """Expected score, on the metric's scale; None where nothing is known."""
    error: float | None
    traffic: float
    """Share of the told prompts of this type that it was given."""


class RouteType(Answer):
    """Prompts that are alike: a cluster of contexts."""

    share: float
    """Of all told prompts."""
    examples: list[str]
    """Texts of prompts such as these, those nearest to the centre first; empty where no texts were sent."""
    winner: GeneratorName
    lead: float | None
    """By how much the winner is better than the second best generator on these prompts, at least 0, `price` times cost
    included; None where it is not known."""
    lead_error: float | None
    gain: float | None
    """By how much routing is better than the best single generator on these prompts, as in `Routes.gain`."""
    gain_error: float | None
    scores: list[RouteScore]
    """In the order of the experiment."""


class RouteShare(Answer):
    """One generator in all traffic."""

    generator: GeneratorName
    samples: int
    traffic: float
    """Share of the told samples."""
    routed: float
    """Share of the prompts that the newest model would give it without exploration."""


class RouteSavings(Answer):
    """What routing costs, in the unit of the experiment's costs."""

    cost: float
    """Cost of a prompt, on average, as it was routed."""
    single_cost: float
    """Cost of a prompt with always the best single generator."""
    dearest_cost: float
    """Cost of a prompt with always the dearest generator."""
    saved: float
    """Saved so far, against always the best single generator; below 0 where routing cost more."""
    saved_dearest: float
    """Saved so far, against always the dearest generator."""


class Routes(Answer):
    """What is known of routing. Scores, gains and errors are on the metric's natural scale. A gain above 0 means that
    routing is better, whatever the metric's direction."""

    experiment: Identifier | None = optional()
    """None if it was made in memory."""
    title: str
    lower_is_better: bool
    scale: Scale
    best: GeneratorName
    """The best single generator."""
    best_score: float
    score: float
    """Expected score of routed prompts."""
    gain: float | None
    """By how much a prompt that is routed without exploration scores more, `price` times its cost included, than with
    always the best single generator; None where it is not known."""
    error: float | None
    """Standard error of the gain. None where `basis` is "model"."""
    basis: Literal["doubly robust", "model"]
    """Where the gain comes from: from the recorded probabilities of the picks, corrected by what was told; or, under a
    policy without randomness, from the regressions alone, which has no interval."""
    price: float
    prompts: int
    """Told prompts that this rests on, a uniform sample of all."""
    types: list[RouteType]
    """By share, the largest first."""
    shares: list[RouteShare]
    savings: RouteSavings | None = optional()
    """None where generators have no costs."""
    positions: list[int]
    """Of each generator of the experiment, in order, the log position up to which it was made; 0: not part of it."""
    samples: int
    """Samples of all generators that it was made from."""
    stale: bool = False
    """Whether samples have grown by a quarter since."""
    warnings: tuple[str, ...] = ()
