"""The wire models: what the service and the SDK say to each other as JSON. The service imports them from here."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from optimist_client import display
from optimist_client.config import ExperimentConfig
from optimist_client.metrics import Scale
from optimist_client.wire import (
    Answer,
    Cost,
    CostLimit,
    EmbeddingName,
    GeneratorName,
    Identifier,
    Wire,
    WorkerName,
    optional,
)

State = Literal["warming up", "running", "decided", "out of budget", "stopped"]
GeneratorState = Literal["active", "paused", "retired"]
"""A paused generator is not picked but may be named best; a retired one is out of the contest for good."""


class ReferenceInfo(Answer):
    """A reference that is stored: real-data moments that experiments compare with."""

    name: Identifier
    dimension: int
    samples: int | None = None
    """How many real samples the moments come from, where the uploader said or sent the features."""
    embedding: EmbeddingName | None = None
    """What made the features, where the uploader said."""
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = optional()
    """Root mean square of the real features' entries; None where the reference was uploaded to an earlier service."""
    digest: str
    created: float


class Experiment(Answer):
    """An experiment as the service keeps it: its config and what was pinned when it was created."""

    config: ExperimentConfig
    dimension: int
    """Width of the feature vectors that tells must have, or number of classes."""
    reference_digest: str | None = None
    reference_scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = optional()
    """`ReferenceInfo.scale` of its reference."""
    created: float
    instance: str
    """Tells it from an earlier or later experiment of its name."""
    rules: Annotated[int, Field(ge=1)] = 1
    """Which defaults and formulas hold (`config.RULES`): those of the time when it was created, for good."""
    bandwidths: dict[str, float] = Field(default_factory=dict)
    """The σ of each kernel that was "median", by its field, once the first samples have fixed it."""

    @field_validator("config", mode="before")
    @classmethod
    def _known_fields(cls, config: Any) -> Any:
        """A later service's config may have fields that are not known here; a request's may not."""
        if not isinstance(config, dict):
            return config
        return {name: value for name, value in config.items() if name in ExperimentConfig.model_fields}

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each array that a batch must hold."""
        first, *others = self.config.kind.arrays.items()
        return {first[0]: self.dimension} | {array: self.config.setting(field) for array, field in others}


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


class DecisionInfo(Answer):
    """Which generator is best, how sure that is, and whether picks have ended."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str
    warnings: Annotated[tuple[str, ...], Field(exclude_if=lambda value: not value)] = ()
    """Why it may not be what it seems: batches that repeat earlier ones, generators that look identical."""


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


class Standing(Answer):
    """One generator in the report. Errors and bounds are on the metric's natural scale, None where unknown."""

    generator: GeneratorName
    state: GeneratorState
    score: float | None
    error: float | None
    lower: float | None
    upper: float | None
    samples: int
    batches: int
    pick_ratio: float
    pending: int
    """Samples on their way under open picks."""
    scored_samples: int
    """Samples the score is made of."""
    warnings: tuple[str, ...] = ()
    damaged: bool = False
    """Whether it cannot be scored, or batches that cannot be read are left out; `warnings` say which."""
    cost_per_sample: float | None = optional()
    cost: float | None = optional()
    """Samples told times the cost of one, as it is now; None where it has no cost."""


class Regret(Answer):
    """Regret(T) = Σ_t gap of the generator picked at t, by the estimates of now (equations.md §5)."""

    total: float
    average: float


class Curve(Answer):
    """Estimates of a generator as they were made, on the natural scale; None where unknown or infinite."""

    told: list[int]
    """Batches told to the whole experiment when each was made."""
    samples: list[int]
    """Samples each is made of."""
    scores: list[float | None]
    lower: list[float | None]
    upper: list[float | None]


class GeneratorProgress(Answer):
    """One generator, retired or not, at the checkpoints of `Progress`."""

    generator: GeneratorName
    batches: list[int]
    """Batches told so far, by checkpoint: pick shares, regret and pick ratio follow from these."""
    curve: Curve


class OpenPickInfo(Answer):
    """A pick under lease."""

    number: int
    generator: GeneratorName
    size: int
    worker: str | None
    opened: float
    deadline: float
    """Unix times of the service."""
    stale: bool


class Progress(Answer):
    """How an experiment went, as charts draw it: counts at checkpoints, the estimates as they were made, open picks.

    The checkpoints are the multiples of `stride`, a power of two that grows so that there are never more than 256, and
    the newest batch. Those after the number that was asked for are here, and the last before it; of earlier ones, what
    is no multiple of `stride` is to be dropped. Estimates come in the same way. Where the last one before is another
    than the one that is known, Redis has lost batches that were told: nothing known earlier holds.
    """

    instance: str
    """`Experiment.instance`: under another one, nothing known earlier holds."""
    told: int
    """Batches told; the `after` to ask for next. Estimates made just then may come again."""
    stride: int
    rounds: list[int]
    samples: list[int]
    """Samples told in all, by checkpoint."""
    generators: list[GeneratorProgress]
    picks: list[OpenPickInfo]
    """Open picks, the newest 100 at most."""


class Report(Answer):
    """The standings, the regret, the pick ratio and the decision: what a dashboard shows."""

    experiment: Identifier
    metric: str
    title: str = ""
    """The metric's name as people write it."""
    lower_is_better: bool
    scale: Scale = "linear"
    """The scale on which scores are compared: differences, or ratios."""
    offers: list[str] = Field(default_factory=list)
    """What the service can say besides the score: "modes", "prompt groups"."""
    state: State
    ended: bool
    decision: DecisionInfo
    standings: list[Standing]
    samples: int
    rounds: int
    """Batches told."""
    open_picks: int
    budget: int | None
    cost: float | None = optional()
    """Of all samples told whose generator has a cost, retired ones included; None where none has."""
    max_cost: float | None = optional()
    regret: Regret | None
    """None until every generator has an estimate."""
    optimal_pick_ratio: float | None
    """Share of batches that went to the generator now held best."""
    uniform_samples: int | None
    """About how many samples an even split would have needed for the same certainty; None where that is unknown."""
    scored: bool
    """Whether every estimate that is due has been made."""
    progress: Progress | None = None
    """For charts; where the report was asked for with `after`."""

    @property
    def metric_title(self) -> str:
        """The metric's name as people write it; an older service does not say it."""
        return self.title or self.metric.upper()

    @property
    def ranking(self) -> list[Standing]:
        """The standings, best first; those without a score come last."""
        sign = 1 if self.lower_is_better else -1
        return sorted(self.standings, key=lambda row: math.inf if row.score is None else sign * row.score)

    @property
    def sentences(self) -> list[str]:
        """The answer so far, and what uniform sampling would have cost where that is known."""
        warnings = [f"Warning: {warning}." for warning in self.decision.warnings]
        winner = next((row for row in self.standings if row.generator == self.decision.best), None)
        if winner is None or winner.score is None:
            return ["No winner: not every generator has an estimate.", *warnings]
        interval = ""
        if winner.lower is not None and winner.upper is not None:
            interval = f" (interval {winner.lower:.3f} to {winner.upper:.3f})"
        undecided = f"leads, undecided{' at the budget' if self.state == 'out of budget' else ''},"
        verdict = "is best" if self.decision.decided else undecided
        confidence = "" if self.decision.confidence is None else f" with {self.decision.confidence:.1%} confidence"
        answer = (
            f"{winner.generator} {verdict}{confidence} after {self.samples:,} samples: "
            f"{self.metric_title} {winner.score:.3f}{interval}."
        )
        if self.uniform_samples is None:
            return [answer, *warnings]
        ratio = self.uniform_samples / self.samples
        spent = f"about {self.uniform_samples:,} samples ({ratio:.1f} times)"
        return [answer, *warnings, f"Uniform sampling would have spent {spent}."]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        return self.model_dump(mode="json")

    def to_pandas(self) -> Any:
        """The standings as a `pandas.DataFrame`, best first, one row a generator. Needs pandas."""
        return display.as_frame(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw scores and intervals on matplotlib's `axes`, or on new ones, and answer those. Needs matplotlib."""
        return display.as_plot(self, axes)

    def _repr_html_(self) -> str:
        return display.as_html(self)

    def __str__(self) -> str:
        return display.as_text(self)


class GeneratorRequest(Wire):
    """A generator to be added."""

    name: GeneratorName
    cost: Cost | None = optional()
    """What a sample of it costs; an experiment with `max_cost` needs it."""


class GeneratorChange(Wire):
    """What becomes of a generator: paused, active again, or retired for good; or what its samples cost."""

    state: GeneratorState | None = None
    cost: Cost | None = None
    """Cost of a sample: of every one, those already told included."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.state is None and self.cost is None:
            raise ValueError("expected a state, a cost, or both")
        return self


class ExperimentChange(Wire):
    """What may change of an experiment; fields that are left out stay as they are."""

    state: Literal["running", "stopped"] | None = None
    """"stopped": no more picks; "running": picks again, after a decision without stopping at the next."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Samples in all; no less than now is of use."""
    max_cost: CostLimit | None = None
    """Cost of all samples; every generator needs a cost."""
    stop: bool | None = None
    max_wait: Annotated[float, Field(ge=0, le=60)] | None = None


class Shown(Answer):
    """A sample and how much it shows of what it stands under."""

    id: str
    """What it was told with; otherwise "<pick>:<row>", or "@<log position>:<row>" where no pick asked for it."""
    weight: float


class ModeInfo(Answer):
    """A kind of sample that a generator makes: its share of the kernel's spectrum, and samples that show it."""

    share: float
    samples: list[Shown]


class PromptGroupInfo(Answer):
    """A type of prompt: its share of the prompts' spectrum, how many kinds of output it gets, and such samples."""

    share: float
    score: float
    log_score: float
    prompts: list[Shown]


class Modes(Answer):
    """What a generator makes, as its kernel sees it (FKEA), after `samples` samples."""

    generator: GeneratorName
    samples: int
    position: int
    """The log position it was made at."""
    stale: bool = False
    """Whether the log has grown since, and no scorer answered in time."""
    modes: list[ModeInfo]
    prompt_groups: list[PromptGroupInfo] = Field(default_factory=list)
    """The score by type of prompt, for the scores of pairs."""


Role = Literal["viewer", "worker", "admin"]
"""What the holder of an access key may do: read; sample as well; everything in its namespace."""


class Session(Answer):
    """Whom the service takes a caller for."""

    namespace: Identifier
    role: Role
    experiments: list[Identifier]
    """The only ones that the key is good for; none: every one of its namespace."""
    key: str | None
    """Id of the key, None where the service is open."""
    image_hosts: list[str] = Field(default_factory=list)
    """Hosts whose images the dashboard loads without being asked."""


class Problem(BaseModel):
    """An error as RFC 9457 problem details; `action` says whether to fix the request, retry it, or stop."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = ""
    action: Literal["fix", "retry", "stop"] = "fix"


class Summary(Answer):
    """An experiment in a line."""

    name: Identifier
    metric: str
    title: str = ""
    """The metric's name as people write it."""
    created: float
    generators: int
    """Those not retired."""
    state: State
    damaged: bool
    """Whether a generator cannot be scored, or batches of one cannot be read."""
    decision: DecisionInfo
    score: float | None
    """Of the generator that is best so far."""
    error: float | None
    samples: int
    budget: int | None


class Overview(Answer):
    """The experiments of a service, newest first; `total` of them, of which these are a part."""

    total: int
    experiments: list[Summary]
