"""The configuration of an experiment: metric, bound, policy, and the papers' presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from optimist_client.embeddings import spelled_out
from optimist_client.errors import FixError
from optimist_client.goals import (
    BestPolicyName,
    DeclaredGoal,
    GoalName,
    MixturePolicyName,
    RoutePolicyName,
    declared_goals,
    find_goal,
)
from optimist_client.labels import Note, Tags
from optimist_client.limits import Limit, LimitField
from optimist_client.metric_fields import MetricField, check_labels, check_placed, check_watched, kind_of
from optimist_client.metrics import Metric
from optimist_client.metrics.base import ArrayName, Dimension
from optimist_client.previews import MAX_PREVIEWS, check_previews
from optimist_client.tolerance import Tolerance
from optimist_client.validation import is_mapping
from optimist_client.wire import Cost, CostLimit, EmbeddingName, GeneratorName, Identifier, Prompt, Wire, flag, optional

BoundName = str
"""A name of `Metric.bounds`; `check_bound` checks it."""
PolicyName = Literal[BestPolicyName, MixturePolicyName, RoutePolicyName]

RULES = 1
"""The version of the defaults and formulas, which an experiment keeps from its creation.

A service refuses experiments of a later version than this one. Until the first tag a change of formulas does not raise
it: the fixture of tests/system/compatibility is made anew, and CHANGELOG.md says so.
"""

MAX_WATCHED = 16
"""Metrics that an experiment can watch."""
MAX_PROMPTS = 20_000
"""Prompts of an experiment, and of a file of `optimist evaluate`."""

MAX_MAGNITUDE = 1e6
"""Default of `max_magnitude`."""


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


PromptsAre = Literal["sample", "list"]


class ExperimentConfig(Wire):
    """One question: which of these generators is best by this metric, at this confidence, within this budget?

    `policy` may be one of `presets()`, which sets a policy, a bound, a warm-up and a rescore growth.
    """

    name: Identifier
    generators: Annotated[list[GeneratorName], Field(min_length=1, max_length=1000)]
    metric: MetricField
    """The metric that decides, an object with `name` and settings, such as `{"name": "fid", "reference": "real"}`. The
    SDK reference lists the settings of each metric."""
    watch: Annotated[list[MetricField], Field(max_length=MAX_WATCHED)] = optional([])
    """Further metrics of the same samples; they are reported, with the bound "influence", and decide
    nothing but where `limits` or `cost_metric` name them. Each has a `label`, unique in the experiment, by which
    reports name it."""
    embedding: EmbeddingName | None = None
    """Name of the embedding that produces the array of the metric that decides; tells that name another one are
    refused. None: not checked."""
    embeddings: dict[ArrayName, EmbeddingName] | None = optional()
    """Embedding of each array, where arrays have embeddings of their own; then `embedding` is None."""
    prompts: Annotated[list[Prompt], Field(min_length=1, max_length=MAX_PROMPTS)] | None = None
    """Texts or ids of the prompts that picks name: every generator goes through them in the same seeded order."""
    prompts_are: PromptsAre = optional("sample")
    """Prompts that the score is about: `sample`, prompts like these; `list`, exactly these. Means, and scores of order
    2, have narrower intervals on a list, above all after whole passes through it; others are of independent samples.
    Where prompts come again, errors on a `sample` count prompts instead of samples."""
    clusters: Literal["batch"] | None = optional()
    """Groups of alike samples, which count instead of samples: `batch`, the samples of a batch, as where all come from
    one server, or of one random state. Prompts that come again need no setting."""
    goal: GoalName = optional("best")
    """Question of the experiment: `best`, the best generator; `cheapest`, the least costly generator that meets
    `good_enough` and all `limits`; `mixture`, the weights of the best mixture; `route`, the best generator for each
    prompt, by its `context`."""
    good_enough: Tolerance | None = optional()
    """With the goal "cheapest", how much worse than the best generator a good one may be, by the metric that decides: a
    difference, or a share such as "2%"."""
    limits: dict[Identifier, LimitField] = optional({})
    """With the goal "cheapest", limits that a good generator meets, by the labels of metrics, also of those in `watch`:
    "within 2% of best", "within 0.01 of production" (a generator), "< 1.0" or "> 0.8"."""
    cost_metric: Identifier | None = optional()
    """With the goal "cheapest", the label of a metric whose score is the cost of a sample, instead of `costs`."""
    context: Dimension | None = optional()
    """Width of the contexts that asks bring with the goal "route": of the embeddings of prompts."""
    context_features: Annotated[int, Field(ge=2, le=2000, multiple_of=2)] = optional(256)
    """r, the random features of a context in which scores are linear, an even number. (r + 32)² times the number of
    generators is at most 5 million."""
    context_bandwidth: Annotated[float, Field(ge=1e-30, le=1e30)] | Literal["median"] = optional("median")
    """Bandwidth of the Gaussian kernel of the contexts; "median" is fixed once, by the first 64 contexts, whose
    principal components, at most 32, are then used beside the random features."""
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = optional(0.0)
    """Price of a unit of cost in units of the score, with the goal "route"; every generator then needs a cost."""
    ceiling: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = optional()
    """With the goal "route": the average cost of a prompt, at most. Every generator then needs a cost."""
    at_least: Annotated[float, Field(gt=0, le=1)] | None = optional()
    """With the goal "route", instead of a ceiling: the part of the best single generator's mean score that is kept, at
    the least cost. Every generator then needs a cost."""
    tries: Annotated[int, Field(ge=1, le=100)] = optional(1)
    """With the goal "route": how often a worker may call a generator for one prompt until it succeeds. It is the size
    of every pick, which may be told fewer rows."""
    policy: PolicyName = "top-two"
    """Rule of picks; by default "ogd" for the goal "mixture", and "optimistic" for the goal "route"; else "ucb" under
    bounds without standard errors."""
    bound: BoundName = "influence"
    bound_options: BoundOptions = Field(default_factory=BoundOptions)
    delta: Annotated[float, Field(ge=1e-12, lt=1)] = 0.05
    """δ: the accepted probability of naming a wrong generator. Intervals cover 1 − δ."""
    tolerance: Tolerance = 0.0
    """A difference in score that does not matter; for all metrics but `fid`, a difference of its logarithm.

    As a text such as "1%" it is a share of the best score. 1 % is recommended, because training a model again moves its
    FID by 1 to 2 %. With 0, the default, an experiment with two equal generators runs until its budget is spent.
    """
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Samples of a pick, until it grows."""
    grow: bool = optional(True)
    """True if picks grow with their generator's samples: to 1 % of these, in multiples of `batch_size`, at most 64, and
    at most a quarter of the lease. False: every pick has `batch_size` samples, as where `rescore_growth` is 0 (in the
    presets of the papers), where `prompts_are` a "list" or batches are `clusters`, and with the goal "route"."""
    warmup: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Batches per generator before the policy decides; None: 2 (`is`: 4), or 1 for the papers' bounds."""
    rescore_growth: Annotated[float, Field(ge=0, le=1)] = 0.04
    """A generator is rescored when its samples have grown by this fraction; 0, as always where the metric is
    `repeatable`, rescores after every batch."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Total number of samples after which no more picks are made; by default there is no limit."""
    max_batches_per_worker: Annotated[int, Field(ge=1, le=2**31)] | None = optional()
    """Maximum number of batches of a worker, those retracted since included; by default there is no limit. With a
    limit, one that is broken, or faster than all others, does not decide the answer alone. Every ask names its worker
    then, and gets no more picks once its batches and open picks are so many. A batch that comes after its lease is
    refused where it would be one too many. Batches without a pick are of no worker."""
    costs: dict[GeneratorName, Cost] | None = optional()
    """Cost of one sample of each generator, in any unit; a generator that is left out has no known cost."""
    max_cost: CostLimit | None = optional()
    """Total cost after which no more picks are made; every generator then needs a cost. None: no limit."""
    stop: bool = True
    """True if picks end once the answer is sure."""
    allow_extra: bool = flag()
    """True if a batch may have more rows than its pick asked for; they count towards the budget."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_wait: Annotated[float, Field(ge=0, le=60)] = 2.0
    """Seconds that an ask waits for estimates, after which it is answered from those that exist.

    It waits where an estimate lacks more than a tenth of its generator's batches, and for all that are due where
    they may end the experiment, or `rescore_growth` is 0. Picks of the warm-up wait for nothing.
    """
    keep_log: bool = False
    """True if every batch is kept, so that the experiment can be replayed; otherwise the log is trimmed."""
    lease: Annotated[float, Field(ge=1, le=7 * 86400)] = 900.0
    """Seconds after which a pick no longer counts as open; a later tell is accepted and marked late, less the samples
    that another worker has told meanwhile.

    The service refuses a new experiment whose lease exceeds `OPTIMIST_MAX_LEASE`, an hour by default.
    """

    audit_overlap: Annotated[float, Field(ge=0, le=1)] = optional(0.0)
    """Share of the audits that two people score, where people audit a judge (`proxy`), to show how far they agree.
    Their mean counts."""
    max_audits: Annotated[int, Field(ge=20, multiple_of=5)] | None = optional()
    """Number of audits, where people audit a judge, after which nobody is asked, and no picks are made; None: no limit.
    The answers count in fives."""
    label_cost: Cost | None = optional()
    """Cost of a person's score of one sample, where people audit a judge, in the unit of `costs`. The judge's own cost
    is part of the cost of a sample. Reports then say what was spent, and what the judge saves."""
    previews: Annotated[int, Field(ge=0, le=MAX_PREVIEWS)] = optional(0)
    """Number of previews of samples (thumbnails, or texts of at most 64 KiB) kept of each generator; 0: none. Times the
    number of generators it is at most 4,096."""
    tags: Tags = optional([])
    """Words to find it by. Neither these nor the note are part of the question: they can change, and an experiment that
    exists keeps those it has."""
    note: Note = optional("")
    max_magnitude: Annotated[float, Field(gt=1, allow_inf_nan=False)] = optional(MAX_MAGNITUDE)
    """A batch is refused if a value exceeds the usual size by this factor. The usual size is the root mean square of
    the earlier batches."""
    on_anomaly: Literal["hold", "ignore"] = optional("hold")
    """Effect of a batch on another scale than others on the decision that rests on it, such as pixels from 0 to 255
    among pixels from 0 to 1. "hold": the decision is provisional until somebody retracts or accepts the batch.
    "ignore": no batch is compared with others in this way."""
    refuse_copies: bool = optional(False)
    """True if a batch that repeats an earlier one of its generator is refused; otherwise it counts, with a warning."""
    paired: bool = optional(True)
    """True if sample i of every generator gets the same seed (and prompt), and generators are compared by the samples
    that they have in common. False: every generator gets seeds of its own, and its score is independent of the
    others'."""
    seeds: bool | dict[GeneratorName, bool] = optional(True)
    """True if a generator makes the same sample again from the same seed (and prompt); False for all, or by generator,
    where it ignores seeds, as many APIs do. Its batches then count without indices: it is not compared by common
    samples, and a batch counts whole, whatever others have told. A generator that is left out takes seeds."""
    weigh_costs: bool = optional(True)
    """True if `top-two` samples expensive generators less, where every active generator has a cost above 0."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: Any) -> Any:
        """The config with the settings of its preset. Settings of the metric that stand beside it are refused."""
        if not is_mapping(data):
            return data
        check_placed(data, cls.model_fields)
        goal: object = data.get("goal", cls.model_fields["goal"].default)
        # Another one is refused by the validation of the field.
        asks = declared_goals().get(goal) if isinstance(goal, str) else None
        return data if asks is None else asks.with_defaults(data, kind_of(data.get("metric")))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.generators)) < len(self.generators):
            raise FixError("generators: expected distinct names")
        if unknown := sorted(set(self.costs or {}) - set(self.generators)):
            raise FixError(f"costs: no generator is called {', '.join(unknown)}")
        check_seeds(self.seeds, self.generators)
        if self.max_cost is not None and (unpriced := [g for g in self.generators if g not in (self.costs or {})]):
            raise FixError(f"max_cost: every generator needs a cost; {', '.join(unpriced)} have none")
        metric = self.metric
        metric.check_decides()
        check_labels([metric, *self.watch])
        self.check_stored()
        metric.check_bound(self.bound)
        metric.check_tolerance(self.tolerance)
        metric.check_options(self.bound, self.bound_options.given())
        self.asks.check(self)
        check_previews(self.previews, len(self.generators))
        check_prompts_are(self.prompts_are, self.prompts is not None, self.bound)
        self._check_clusters()
        if (self.audit_overlap or self.max_audits or self.label_cost is not None) and not metric.is_audited:
            of = "audit_overlap, max_audits, label_cost"
            raise FixError(f"{of}: expected a metric with a proxy, a judge that people audit")
        embedding, embeddings = spelled_out(self.embedding, self.embeddings, self.metrics.values())
        object.__setattr__(self, "embedding", embedding)
        object.__setattr__(self, "embeddings", embeddings)
        return self

    def _check_clusters(self) -> None:
        """Raise FixError where answers cannot be repeatable, or batches no clusters."""
        for metric in self.metrics.values():
            metric.check_repeatable(are_list=self.prompts_are == "list")
        if self.metric.is_repeatable:
            object.__setattr__(self, "rescore_growth", 0.0)  # so that there is an estimate at the end of the list
        if self.clusters is not None and self.prompts is not None:
            raise FixError("clusters: with prompts, samples of one prompt are alike; expected None")
        if self.clusters is not None and self.bound != "influence":
            raise FixError(f"clusters: {self.clusters!r} needs the bound 'influence', got {self.bound!r}")

    def check_stored(self) -> None:
        """Raise FixError unless each metric says what a service must know of it before there are samples."""
        metric = self.metric
        settings = {name: getattr(self if name == "prompts" else metric, name) for name in metric.needs}
        if missing := sorted(name for name, value in settings.items() if value is None):
            raise FixError(f"metric {metric.name!r} needs {', '.join(missing)}")
        check_watched(metric, self.watch, has_prompts=self.prompts is not None)

    @property
    def asks(self) -> type[DeclaredGoal]:
        """The goal."""
        return find_goal(self.goal)

    @property
    def how(self) -> str:
        """The way the numbers of a report are made, in a sentence."""
        watched = "".join(f", {metric.shown_title} is also measured" for metric in self.watch)
        shared = "" if self.paired and not self.asks.has_contexts else "; samples of their own seeds"
        return (
            f"Scores by {self.metric.shown_title}{watched}; intervals at δ = {self.delta:g} by the bound "
            f"{self.bound!r}; policy {self.policy!r}, batches of {self.batch_size}, seed {self.seed}{shared}."
        )

    @property
    def seedless(self) -> frozenset[str]:
        """The generators that ignore seeds."""
        return seedless_of(self.seeds, self.generators)

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by their labels, the one that decides first."""
        return {metric.shown_label: metric for metric in (self.metric, *self.watch)}

    @cached_property
    def clusters_of_prompts(self) -> Sequence[int]:
        """The cluster of each prompt, by its index: a repeated one of a `sample` has the cluster of its first index."""
        prompts = self.prompts or []
        if self.prompts_are == "list":
            return range(len(prompts))
        firsts: dict[str, int] = {}
        return [firsts.setdefault(prompt, index) for index, prompt in enumerate(prompts)]

    @property
    def all_limits(self) -> list[tuple[str, Limit]]:
        """The label of a metric and a limit on its score, for each limit."""
        enough = [] if self.good_enough is None else [(self.metric.shown_label, Limit("best", self.good_enough))]
        return [*enough, *self.limits.items()]

    @property
    def also_deciding(self) -> list[str]:
        """The labels of the watched metrics by which is decided."""
        needed = {label for label, _ in self.all_limits} | {self.cost_metric}
        return [metric.shown_label for metric in self.watch if metric.shown_label in needed]

    @property
    def keeps_budget(self) -> bool:
        """True if a router finds a price of cost by itself, so that it keeps a ceiling or a share of the score."""
        return self.ceiling is not None or self.at_least is not None

    @property
    def embedding_names(self) -> dict[str, str]:
        """The name of the embedding of each array that has one."""
        if self.embedding is None:
            return dict(self.embeddings or {})
        return {self.metric.first_name: self.embedding}

    def known_prompts(self, metric: Metric) -> int | None:
        """The number of prompts, if errors by `metric` allow for which prompt each sample is of; else None."""
        is_known = self.prompts_are == "sample" or metric.scores_lists
        if self.prompts is None or not is_known or (metric is self.metric and self.bound != "influence"):
            return None
        return len(self.prompts)


def seedless_of(seeds: bool | Mapping[str, bool], generators: Sequence[str]) -> frozenset[str]:
    """The generators that ignore seeds, of those with these names."""
    if isinstance(seeds, bool):
        return frozenset(() if seeds else generators)
    return frozenset(name for name in generators if not seeds.get(name, True))


def check_seeds(seeds: object, generators: Sequence[str]) -> None:
    """Raise FixError unless `seeds` is a bool, or one for each of some of these generators."""
    if isinstance(seeds, bool):
        return
    if not is_mapping(seeds) or not all(isinstance(takes_seed, bool) for takes_seed in seeds.values()):
        raise FixError(f"seeds: expected True, False, or one of them by generator, got {seeds!r}")
    if unknown := sorted(set(seeds) - set(generators)):
        raise FixError(f"seeds: no generator is called {', '.join(unknown)}")


def check_prompts_are(prompts_are: str, has_prompts: bool, bound: str) -> None:
    """Raise FixError if `prompts_are` is unknown, or is "list" where there is no list or no interval of its own."""
    if prompts_are not in ("sample", "list"):
        raise FixError(f"prompts_are: expected 'sample' or 'list', got {prompts_are!r}")
    if prompts_are == "list" and not has_prompts:
        raise FixError("prompts_are: 'list' needs prompts, in files and arrays those that cluster names; found none")
    if prompts_are == "list" and bound != "influence":
        raise FixError(f"prompts_are: 'list' needs the bound 'influence', got {bound!r}")
