"""Asking for picks and telling their batches."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from optimist_client.models.experiments import DecisionInfo, State
from optimist_client.wire import Answer, GeneratorName, Identifier, Wire, WorkerName, optional


class AskRequest(Wire):
    """What a worker says when it asks for picks."""

    worker: WorkerName | None = None
    """Unique per loop. A worker that asks again gets its open picks back, up to `count`; None: always new ones."""
    request_id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")] | None = None
    """Makes a repeat of this request after a lost reply return the same picks."""
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    generators: Annotated[list[GeneratorName], Field(min_length=1)] | None = None
    """Those that this worker can sample; None: all."""


class Pick(Answer):
    """One decision: sample `size` samples of `generator` with `seed`, then tell them under `number`."""

    experiment: Identifier
    instance: str
    """`Experiment.instance`; told with the batch, it keeps it out of a later experiment of the same name."""
    number: int
    """The round, counted from 1."""
    generator: GeneratorName
    size: int
    prompts: list[str] | None = None
    """The prompt of each sample to make, in order, where the experiment holds prompts."""
    prompts_start: int | None = None
    """Their position in the seeded order that every generator goes through."""
    seed: int
    """Distinct for every pick, the same for a pick whoever makes it: feed it to the generator's randomness."""
    positions: list[int]
    """Log position of the estimate used of each generator that is not retired (0: none), in the experiment's order."""
    batches: list[int]
    """Batches told of each of them, and what was on its way under open picks, when the pick was made."""
    pending_samples: list[int]
    pending_batches: list[int]
    excluded: list[GeneratorName] = Field(default_factory=list)
    """Those of them that could not be picked: paused, or not the worker's."""
    retired: list[GeneratorName] = Field(default_factory=list)
    """Those that were retired by then; the others of the experiment, as far as there are `positions`, were not."""
    told: int
    """Batches told to the experiment when the pick was made."""
    stale: bool
    """Whether estimates that were due were not waited for any longer."""
    worker: str | None = None
    request_id: str
    """The ask it answers."""
    opened: float
    """Unix time."""
    nonce: str | None = optional()
    """Told with the batch: Redis, having lost its last writes, may give the number to another pick.

    None: an older service made the pick, which is told without.
    """


class AskReply(Answer):
    """Picks, or none when the experiment has ended (`ended`) or its budget is all on its way (`retry_after`)."""

    picks: list[Pick]
    state: State
    ended: bool
    decision: DecisionInfo
    retry_after: float | None = None
    """Seconds after which asking again may bring a pick: open picks may still be given up."""


class TellReply(Answer):
    """A batch was accepted and is durable. A repeat of the same tell gets the same reply."""

    pick: int
    generator: GeneratorName
    samples: int
    """Samples of the generator, this batch included."""
    batches: int
    position: int
    """The batch's position in the generator's log, counted from 1."""
    late: bool
    """Whether the pick's lease had run out."""
    duplicate: bool = False
    next: AskReply | None = None
