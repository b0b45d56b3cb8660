"""Settings of a simulation, the same for every policy."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimist_client.errors import FixError
from optimist_client.tolerance import Tolerance
from optimist_client.wire import Cost, GeneratorName, Wire

MAX_ROUNDS = 10_000_000
"""Maximum rounds in all trials of a policy together. They are kept in memory and take about 500 MB."""


class Plan(Wire):
    """Number of trials, and the settings that all policies share."""

    rounds: Annotated[int, Field(ge=1)] = 1000
    """Batches per trial; prompts per trial with the goal "route"."""
    batch_size: Annotated[int, Field(ge=1)] = 5
    """Samples per batch."""
    trials: Annotated[int, Field(ge=1)] = 20
    """Trials per policy, each with its own random draw."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of all random draws."""
    shuffle: bool = True
    """True if samples are drawn in a random order. Otherwise all trials see the same samples in the given order."""
    paired: bool | None = None
    """True if row i of every generator has the same seed or prompt, so that scores are compared by row; by default as
    the sources say, for files unpaired."""
    prompts_are: Literal["list"] | None = None
    """"list": row i of every generator is its answer to prompt i of a list, and the score is that on exactly these
    prompts; rows are then paired. By default rows are drawn from a law."""
    stop: bool = False
    """True if a trial ends when the stopping rule decides."""
    delta: float = 0.05
    """Accepted probability of a wrong decision; samples may bring another default."""
    tolerance: Tolerance = 0.0
    """A difference that does not matter: a number on the metric's scale, or a share as 1%; samples may bring another
    default."""
    good_enough: Tolerance | None = None
    """With the goal "cheapest": how much worse than the best a good generator may be, a number or a share as 2%."""
    costs: dict[GeneratorName, Cost] = Field(default_factory=dict)
    """With the goal "cheapest": cost of a sample, by generator."""
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """With the goal "route": value of a unit of cost in units of the score."""
    tries: Annotated[int, Field(ge=1, le=100)] = 1
    """With the goal "route": a generator is called for its prompt until it succeeds, at most so often; scores are the
    probabilities of it."""
    ceiling: float | None = None
    """With the goal "route": maximum average cost of a prompt, in the unit of the costs."""
    at_least: float | None = None
    """With the goal "route": the part of the best single generator's mean score that is kept, such as 0.95, at the
    least cost."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.rounds * self.trials > MAX_ROUNDS:
            expected = f"rounds, trials: expected at most {MAX_ROUNDS:,} rounds in total"
            raise FixError(f"{expected}, got {self.rounds:,} × {self.trials:,}")
        return self
