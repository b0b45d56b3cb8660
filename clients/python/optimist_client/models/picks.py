"""Asking for picks and telling their batches."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from optimist_client.models.decisions import DecisionInfo
from optimist_client.models.experiments import State
from optimist_client.models.waits import WaitReason
from optimist_client.problem import Problem
from optimist_client.wire import Answer, GeneratorName, Identifier, RequestId, Wire, WorkerName, optional

MAX_PICKS = 250
"""Picks of one ask. To open a thousand at once would hold the service for 10 ms and more, while others wait."""
MAX_BATCHES = 64
"""Batches of one request: reading so many holds the service for as long."""
# Only the first error is reported: a body may have millions of numbers.
ContextNumbers = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, fail_fast=True)]
"""The embedding of a prompt."""


class AskRequest(Wire):
    """A worker's request for picks."""

    worker: WorkerName | None = None
    """Unique per loop. A worker that asks again gets its open picks again, up to `count`; None: always new picks."""
    request_id: RequestId | None = None
    """Makes the request idempotent: if it is repeated after a lost reply, it returns the same picks."""
    count: Annotated[int, Field(ge=1, le=MAX_PICKS)] = 1
    generators: Annotated[list[GeneratorName], Field(min_length=1, max_length=1000, fail_fast=True)] | None = None
    """The generators that this worker can sample; None: all."""
    contexts: Annotated[list[ContextNumbers], Field(min_length=1, max_length=1000, fail_fast=True)] | None = optional()
    """With the goal "route", the embedding of each prompt that a pick is wanted for. There is one pick for each, in
    this order; `count` is left out. A worker that asks again with the same `request_id` gets the same picks, with
    another one new picks. A body of JSON has at most 1 MiB and 65,536 values; more contexts go as safetensors."""
    prompts: (
        Annotated[list[Annotated[str, StringConstraints(max_length=4096)]], Field(min_length=1, max_length=1000)] | None
    ) = optional()
    """The text of each of these prompts, for reports; "" for one without a text. None: no texts are kept."""


class Pick(Answer):
    """One decision: draw `size` samples from `generator` with `seed`, then tell them under `number`."""

    experiment: Identifier
    instance: str
    """`Experiment.instance`. It is told with the batch; a later experiment of the same name then refuses it."""
    number: int
    """The round, counted from 1."""
    generator: GeneratorName
    size: int
    prompts: list[str] | None = None
    """The prompt of each sample, in order, if the experiment has prompts."""
    prompts_start: int | None = None
    """Position of the prompts in the seeded order that every generator goes through."""
    prompt_indices: list[int] | None = optional()
    """Places of the prompts in the experiment's list, where the score is about exactly this list."""
    start: int | None = optional()
    """Index of the first sample in the generator's sequence, usually a multiple of the batch size. Index i means the
    same prompt, and in a paired experiment the same seed, for every generator. None with the goal
    "route"."""
    seed: int
    """Seed for the generator's randomness, the same in every repeat of a pick. Sample `start` + i of the sequence has
    the seed (`seed` + i) mod 2³². In a paired experiment picks of the same `start` have the same seed."""
    positions: list[int]
    """Log position of the estimate that was used of each generator that is not retired, in order; 0: none. With the
    goal "mixture", the positions up to which the mixture was made that was used."""
    mixture: str | None = optional()
    """The name of this mixture, which no other one of the experiment has."""
    batches: list[int]
    """Batches told of each of these generators; the next two fields count what was pending under open picks."""
    pending_samples: list[int]
    pending_batches: list[int]
    excluded: list[GeneratorName] = Field(default_factory=list)
    """Generators that could not be picked: paused, or not among the worker's."""
    retired: list[GeneratorName] = Field(default_factory=list)
    """The generators that were retired when the pick was made."""
    costs: list[float | None] | None = optional()
    """The cost of one sample of each of these generators, as it was when the pick was made; None where costs are not
    known or not weighed."""
    model: str | None = optional()
    """With the goal "route", the name of the model of contexts that was used; None before the first."""
    probability: float | None = optional()
    """With the goal "route", the probability with which this generator was drawn for its context; None where no chance
    was involved, or in the warm-up, when generators take turns."""
    price: float | None = optional()
    """With a `ceiling` or `at_least`, what a unit of cost was worth in units of the score when this pick was made."""
    told: int
    """Batches told to the experiment when the pick was made."""
    stale: bool
    """True if the pick was made without estimates that it waited for, or the mixture, after `max_wait`."""
    worker: str | None = None
    request_id: str
    """The `request_id` of the request that it answers."""
    opened: float
    """Unix time."""
    nonce: str
    """Told with the batch, because Redis can give the number to another pick after it loses its last writes."""


class AskReply(Answer):
    """Picks; none if the experiment has ended (`ended`), or if open picks use up its budget or may change its decision
    (`retry_after`). Of an ask with contexts, budget and limits may leave picks for the first contexts only;
    `retry_after` is set then, too."""

    picks: list[Pick]
    state: State
    ended: bool
    decision: DecisionInfo
    retry_after: float | None = None
    """Seconds after which to ask again: open picks may be given up until then."""
    waited_for: WaitReason | None = optional()
    """Reason why the ask waited, or got fewer picks than it asked for; left out where neither is so."""


class TellReply(Answer):
    """A batch was accepted and is durable. A repeat of the same tell gets the same reply.

    No index of a generator counts twice. Where another batch was told with some of them before, as when the pick's
    lease had ended and its slice went to another worker, only the other rows count.
    """

    pick: int
    generator: GeneratorName
    samples: int
    """Samples of the generator, this batch included."""
    batches: int
    position: int | None
    """The batch's position in the generator's log, counted from 1; None where none of its rows counts."""
    late: bool
    """True if the pick's lease had ended."""
    duplicate: bool = False
    """True if nothing was stored now: the batch was told before, or all of its indices were."""
    uncounted: int = 0
    """Number of its rows that do not count, because their indices were told before."""
    findings: list[str] = optional([])
    """Anomalies of the batch: "repeats the batch at position 3", "is about 255 times larger than its others: pixels
    0–255 instead of 0–1?". It counts until somebody retracts it. A repeat says nothing."""
    next: AskReply | None = None


class TellAllReply(Answer):
    """The outcome of each of several batches, by the number of its pick: it was accepted, or refused."""

    replies: dict[int, TellReply]
    problems: dict[int, Problem]
