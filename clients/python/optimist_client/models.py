"""The wire models: what the service and the SDK say to each other as JSON. The service imports them from here."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A name that can stand in a URL: letters, digits, dot, dash and underscore, at most 64."""
GeneratorName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
WorkerName = Annotated[str, StringConstraints(min_length=1, max_length=200)]

BOUND_OPTIONS: dict[str, frozenset[str]] = {
    "influence": frozenset(),
    "theorem": frozenset({"sigma2", "tau", "mean_gap"}),
    "authors": frozenset({"M", "kappa"}),
    "naive": frozenset({"sigma2", "mean_gap"}),
}
"""Which options each bound takes; their meaning and defaults are in equations.md §1."""

State = Literal["warming up", "running", "decided", "out of budget"]


class Wire(BaseModel):
    """Base of all wire models: unknown fields are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BoundOptions(Wire):
    """Constants of the papers' bounds; None means the default of equations.md §1."""

    sigma2: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    M: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    kappa: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tau: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    mean_gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    def given(self) -> dict[str, float]:
        """Only the options that were set."""
        return self.model_dump(exclude_none=True)


class ExperimentConfig(Wire):
    """One question: which of these generators is best by this metric, at this confidence, within this budget?"""

    name: Identifier
    generators: Annotated[list[GeneratorName], Field(min_length=1, max_length=1000)]
    metric: Literal["fid"] = "fid"
    reference: Identifier
    """Name of an uploaded reference."""
    policy: Literal["top-two", "ucb", "thompson", "greedy", "uniform"] = "top-two"
    bound: Literal["influence", "theorem", "authors", "naive"] = "influence"
    bound_options: BoundOptions = BoundOptions()
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Accepted probability of naming a wrong generator; intervals cover 1 − delta."""
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A difference in score that does not matter."""
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 5
    warmup: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Batches per generator before the policy decides; None: 2, or 1 for the papers' bounds."""
    rescore_growth: Annotated[float, Field(ge=0, le=1)] = 0.04
    """A generator is rescored when its samples have grown by this fraction; 0 rescores after every batch."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Samples in all after which no more picks are made; None: no limit."""
    stop: bool = True
    """Whether picks end once the answer is sure."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_wait: Annotated[float, Field(ge=0, le=60)] = 2.0
    """Seconds an ask waits for estimates that are due before it answers with what there is."""
    lease: Annotated[float, Field(ge=1, le=7 * 86400)] = 900.0
    """Seconds after which a pick no longer counts as on its way; a tell after that is accepted and marked late."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.generators)) < len(self.generators):
            raise ValueError("generators: expected distinct names")
        allowed = BOUND_OPTIONS[self.bound]
        foreign = sorted(set(self.bound_options.given()) - allowed)
        if foreign:
            takes = f"takes {', '.join(sorted(allowed))}" if allowed else "takes none"
            raise ValueError(f"bound_options: bound {self.bound!r} {takes}, got {', '.join(foreign)}")
        return self


class ReferenceInfo(Wire):
    """A reference that is stored: real-data moments that experiments compare with."""

    name: Identifier
    dimension: int
    samples: int | None = None
    """How many real samples the moments come from, where the uploader said or sent the features."""
    digest: str
    created: float


class Experiment(Wire):
    """An experiment as the service keeps it: its config and what was pinned when it was created."""

    config: ExperimentConfig
    dimension: int
    """Width of the feature vectors that tells must have."""
    reference_digest: str
    created: float


class AskRequest(Wire):
    """What a worker says when it asks for picks."""

    worker: WorkerName | None = None
    """Unique per loop. A worker that asks again gets its open picks back, up to `count`; None: always new ones."""
    request_id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")] | None = None
    """Makes a repeat of this request after a lost reply return the same picks."""
    count: Annotated[int, Field(ge=1, le=1000)] = 1


class Pick(Wire):
    """One decision: sample `size` samples of `generator` with `seed`, then tell them under `number`."""

    experiment: Identifier
    number: int
    """The round, counted from 1."""
    generator: GeneratorName
    size: int
    seed: int
    """Distinct for every pick, the same for a pick whoever makes it: feed it to the generator's randomness."""
    positions: list[int]
    """Log position of the estimate used of each generator (0: none), in the experiment's order."""
    told: int
    """Batches told to the experiment when the pick was made."""
    stale: bool
    """Whether estimates that were due were not waited for any longer."""
    worker: str | None = None
    request_id: str
    """The ask it answers."""
    opened: float
    """Unix time."""


class DecisionInfo(Wire):
    """Which generator is best, how sure that is, and whether picks have ended."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str


class AskReply(Wire):
    """Picks, or none when the experiment has ended (`ended`) or its budget is all on its way (`retry_after`)."""

    picks: list[Pick]
    state: State
    ended: bool
    decision: DecisionInfo
    retry_after: float | None = None
    """Seconds after which asking again may bring a pick: open picks may still be given up."""


class TellReply(Wire):
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


class GiveUpRequest(Wire):
    """Why a pick is returned."""

    reason: Annotated[str, StringConstraints(max_length=1000)] = ""


class Standing(Wire):
    """One generator in the report. Errors and bounds are on the metric's natural scale, None where unknown."""

    generator: GeneratorName
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
    warnings: list[str] = []


class Regret(Wire):
    """Regret(T) = Σ_t gap of the generator picked at t, by the estimates of now (equations.md §5)."""

    total: float
    average: float


class Report(Wire):
    """The standings, the regret, the pick ratio and the decision: what a dashboard shows."""

    experiment: Identifier
    metric: str
    lower_is_better: bool
    state: State
    ended: bool
    decision: DecisionInfo
    standings: list[Standing]
    samples: int
    rounds: int
    """Batches told."""
    open_picks: int
    budget: int | None
    regret: Regret | None
    """None until every generator has an estimate."""
    optimal_pick_ratio: float | None
    """Share of batches that went to the generator now held best."""
    uniform_samples: int | None
    """About how many samples an even split would have needed for the same certainty; None where that is unknown."""
    scored: bool
    """Whether every estimate that is due has been made."""


class Problem(BaseModel):
    """An error as RFC 9457 problem details; `action` says whether to fix the request, retry it, or stop."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = ""
    action: Literal["fix", "retry", "stop"] = "fix"
