"""Pages of the lists of experiments, each in a few words, and of references."""

from __future__ import annotations

from pydantic import computed_field

from optimist_client.goals import Best, known_goal
from optimist_client.models.decisions import DecisionInfo, recipe, state_text
from optimist_client.models.experiments import ReferenceInfo, State
from optimist_client.wire import Answer, GeneratorName, Identifier, flag, optional


class Rival(Answer):
    """The generator that is next to the best one in the list of experiments."""

    generator: GeneratorName
    score: float
    lower: float | None = optional()
    upper: float | None = optional()


class Summary(Answer):
    """An experiment in the list of experiments."""

    name: Identifier
    goal: str = optional(Best.name)
    metric: str
    title: str
    """The metric's name for display."""
    created: float
    active: float | None = optional()
    """As in `Report`."""
    open_picks: int = 0
    tags: list[str] = optional([])
    note: str = optional("")
    """The first 200 characters of its note."""
    generators: int
    """Number of generators that are not retired."""
    generator_names: list[GeneratorName]
    """The first 16 of them."""
    prompts: int | None = optional()
    """Number of prompts; None without prompts."""
    prompts_digest: str | None = optional()
    """SHA-256 of the prompts as a JSON list: experiments with equal ones have the same prompts in the same order."""
    state: State
    incomplete: bool
    """True if a generator cannot be scored, or some batches cannot be read."""
    decision: DecisionInfo
    """The decision of the report, without warnings and verdicts, and of a mixture the weights of at least 0.5 %."""
    score: float | None
    """Score of the best generator so far; with the goal "mixture" that of the best mixture."""
    below_noise: bool = flag()
    """As in `Standing`."""
    standard_error: float | None
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
    """`decision_cost` of `Report`."""

    unscored: str = optional("")
    """Why it cannot be scored: "a: …"; "" elsewhere."""

    @computed_field
    @property
    def state_text(self) -> str:
        """The state as it is shown everywhere: also "provisional" and "cannot be scored"."""
        return state_text(self.state, self.decision, self.unscored)

    @computed_field
    @property
    def leader(self) -> str:
        """The best mixture or generator so far; "" if there is none."""
        best = None if known_goal(self.goal).names_mixture else self.decision.best
        return recipe(self.decision.weights) or best or ""

    @computed_field
    @property
    def leader_is(self) -> str:
        """The title of a leader that is not the best generator: "best mixture", "best alone"; else ""."""
        return known_goal(self.goal).leader_is


class ExperimentPage(Answer):
    """A page of the list of experiments, newest first."""

    experiments: list[Summary]
    next: str | None
    """The `cursor` of the next page, which may be empty; None: there are no more."""


class ReferencePage(Answer):
    """A page of the list of references, newest first."""

    references: list[ReferenceInfo]
    next: str | None
    """`next` of `ExperimentPage`."""
