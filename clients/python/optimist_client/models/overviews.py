"""The list of experiments, each in a few words."""

from __future__ import annotations

from optimist_client.goals import Goal
from optimist_client.models.decisions import DecisionInfo
from optimist_client.models.experiments import State
from optimist_client.wire import Answer, GeneratorName, Identifier, optional


class Rival(Answer):
    """The generator that is next to the best one in the list of experiments."""

    generator: GeneratorName
    score: float
    lower: float | None = optional()
    upper: float | None = optional()


class Summary(Answer):
    """An experiment in the list of experiments."""

    name: Identifier
    goal: Goal = optional("best")
    metric: str
    title: str
    """The metric's name for display."""
    created: float
    tags: list[str] = optional([])
    note: str = optional("")
    """The first 200 characters of its note."""
    generators: int
    """Number of generators that are not retired."""
    state: State
    damaged: bool
    """Whether a generator cannot be scored, or some batches cannot be read."""
    decision: DecisionInfo
    score: float | None
    """Score of the best generator so far."""
    error: float | None
    lower: float | None = optional()
    upper: float | None = optional()
    """Ends of the score's interval, as in `Standing`."""
    rival: Rival | None = optional()
    """The generator with the second best score; None where no best one is asked for."""
    samples: int
    budget: int | None
    cost: float | None = optional()
    """Cost of all samples told; None if no generator has a cost."""
    decision_cost: float | None = optional()
    """As in `Report`."""


class Overview(Answer):
    """A part of the service's `total` experiments, newest first."""

    total: int
    experiments: list[Summary]
