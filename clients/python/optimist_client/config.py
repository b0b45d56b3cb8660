"""What an experiment asks: metric, kernel, bound, policy, and the papers' presets of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from optimist_client.wire import Cost, CostLimit, EmbeddingName, GeneratorName, Identifier, Prompt, Wire, flag, optional

MetricName = Literal["fid", "is", "rke", "vendi", "conditional-vendi", "information-vendi"]
BoundName = Literal["influence", "theorem", "authors", "naive"]
PolicyName = Literal["top-two", "ucb", "thompson", "greedy", "uniform"]

RULES = 2
"""The defaults and formulas that an experiment created now has for good; one that was stored without has 1.

2: batches are checked for absurd rows, for more rows than were asked for, and for copies; the bandwidth "median" is the
median of the generators' own medians.
"""

MAX_MAGNITUDE = 1e6
"""`max_magnitude` where it is not given."""

TENSORS: dict[str, tuple[str, ...]] = {
    "fid": ("features",),
    "is": ("probabilities",),
    "rke": ("features",),
    "vendi": ("features",),
    "conditional-vendi": ("features", "prompts"),
    "information-vendi": ("features", "prompts"),
}
"""The tensors that a batch of each metric holds, in the order that its statistic takes them."""

_OF_PAIRS = frozenset({"dimension", "kernel", "order", "prompt_dimension", "prompt_kernel", "prompts"})

METRIC_FIELDS: dict[str, frozenset[str]] = {
    "fid": frozenset({"reference"}),
    "is": frozenset({"dimension"}),
    "rke": frozenset({"dimension", "kernel"}),
    "vendi": frozenset({"dimension", "kernel", "order", "truncation"}),
    "conditional-vendi": _OF_PAIRS,
    "information-vendi": _OF_PAIRS,
}
"""Which fields of the config each metric takes."""

BOUND_OPTIONS: dict[str, dict[str, frozenset[str]]] = {
    "fid": {
        "influence": frozenset(),
        "theorem": frozenset({"sigma2", "tau", "mean_gap"}),
        "authors": frozenset({"M", "kappa"}),
        "naive": frozenset({"sigma2", "mean_gap"}),
    },
    "is": {"influence": frozenset(), "theorem": frozenset(), "naive": frozenset()},
    "rke": {"influence": frozenset(), "theorem": frozenset()},
    "vendi": {"influence": frozenset(), "theorem": frozenset()},
    "conditional-vendi": {"influence": frozenset()},
    "information-vendi": {"influence": frozenset()},
}
"""Which bounds each metric has, and the options they take; meaning and defaults are in equations.md."""

PRESETS: dict[str, dict[str, str]] = {
    "fid-ucb": {"metric": "fid", "bound": "theorem"},
    "fd-ucb": {"metric": "fid", "bound": "authors"},
    "is-ucb": {"metric": "is", "bound": "theorem"},
    "rke-ucb": {"metric": "rke", "bound": "theorem"},
    "vendi-ucb": {"metric": "vendi", "bound": "theorem"},
    "naive-ucb": {"bound": "naive"},
    "greedy": {"policy": "greedy"},
}
"""The papers' algorithms by their names: policy `ucb` on that bound, one batch of warm-up, every batch rescored.

`greedy` takes any bound; without one it ranks by the plug-in score, as the papers' does.
"""


def resolve_preset(policy: str, metric: str, bound: str | None = None) -> dict[str, Any]:
    """The settings a preset stands for, {} for a plain policy; `bound` is the one that was asked for, if any.

    Raises ValueError when the preset is of another metric or bound.
    """
    if policy not in PRESETS:
        return {}
    preset = PRESETS[policy]
    if preset.get("metric", metric) != metric:
        raise ValueError(f"preset {policy!r} is of metric {preset['metric']!r}, not {metric!r}")
    # Where the metric has a published bound, its value is the plug-in score.
    plug_in = "theorem" if "theorem" in BOUND_OPTIONS.get(metric, {}) else "influence"
    fixed = preset.get("bound", bound or plug_in)
    if bound not in (None, fixed):
        raise ValueError(f"preset {policy!r} has bound {fixed!r}, not {bound!r}")
    return {"policy": preset.get("policy", "ucb"), "bound": fixed, "warmup": 1, "rescore_growth": 0.0}


def check_metric(metric: str, bound: str, given: set[str]) -> None:
    """Raise ValueError when `metric` does not take a field that is `given`, or does not have that bound."""
    if metric not in METRIC_FIELDS:
        raise ValueError(f"unknown metric {metric!r}: one of {', '.join(METRIC_FIELDS)}")
    foreign = sorted(given - METRIC_FIELDS[metric])
    if foreign:
        takes = ", ".join(sorted(METRIC_FIELDS[metric]))
        raise ValueError(f"metric {metric!r} takes {takes}; it does not take {', '.join(foreign)}")
    if bound not in BOUND_OPTIONS[metric]:
        raise ValueError(f"metric {metric!r} has the bounds {', '.join(BOUND_OPTIONS[metric])}; got {bound!r}")


Bandwidth = Annotated[float, Field(ge=1e-29, le=1e30, strict=True)]
"""σ of a kernel: within these limits its frequencies, normals divided by σ, are of a size that is taken."""


class Kernel(Wire):
    """A kernel by its feature map: `gaussian` by random Fourier features, `nystrom` or `cosine` (equations.md §3)."""

    name: Literal["gaussian", "nystrom", "cosine"] = "gaussian"
    sigma: Bandwidth | Literal["median"] | None = None
    """Bandwidth of the Gaussian kernel exp(−‖x − y‖²/(2σ²)); "median": that of the generators' median distances."""
    features: Annotated[int, Field(ge=1, le=8192)] = 1000
    """r random frequencies (φ has 2r entries), or the number of landmarks that `nystrom` keeps of the first samples."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Every process draws the same frequencies from it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name != "cosine" and self.sigma is None:
            raise ValueError(f"sigma: the {self.name} kernel needs a bandwidth greater than 0, or 'median'")
        if self.name == "cosine" and self.sigma is not None:
            raise ValueError("sigma: the cosine kernel has no bandwidth")
        # Not those that were set: a kernel that was stored names all of its fields.
        drawn = [name for name in ("features", "seed") if getattr(self, name) != type(self).model_fields[name].default]
        if self.name == "cosine" and drawn:
            raise ValueError(
                f"{', '.join(drawn)}: the cosine kernel draws nothing, its features are the rows themselves"
            )
        return self

    def width(self, dimension: int) -> int:
        """Entries of φ for features of this dimension: the largest rank that the kernel's covariance can have."""
        return {"gaussian": 2 * self.features, "nystrom": self.features, "cosine": dimension}[self.name]


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
    """One question: which of these generators is best by this metric, at this confidence, within this budget?

    `policy` may be given as one of `PRESETS`, which stands for a policy, a bound, a warm-up and a rescore growth.
    """

    name: Identifier
    generators: Annotated[list[GeneratorName], Field(min_length=1, max_length=1000)]
    metric: MetricName = "fid"
    reference: Identifier | None = None
    """Name of an uploaded reference; `fid` needs one."""
    dimension: Annotated[int, Field(ge=1, le=16_384)] | None = None
    """Width of the features, or number of classes; metrics without a reference need it."""
    embedding: EmbeddingName | None = None
    """What makes the tensors of a batch; tells that do not name the same are refused. None: not checked."""
    order: Annotated[float, Field(ge=1e-6)] = 1.0
    """α of the Vendi score, 1e-6 or more; "Infinity" for the largest eigenvalue alone."""
    truncation: Annotated[int, Field(ge=1)] | None = None
    """t of the truncated Vendi score: only the t largest eigenvalues count."""
    kernel: Kernel | None = None
    prompt_dimension: Annotated[int, Field(ge=1, le=16_384)] | None = None
    """Width of the prompts' embeddings, for the scores of pairs."""
    prompt_kernel: Kernel | None = None
    """Kernel of the prompts, of as many features as `kernel`."""
    prompts: Annotated[list[Prompt], Field(min_length=1, max_length=20_000)] | None = None
    """Texts or ids of the prompts that picks name: every generator goes through them in the same seeded order."""
    policy: PolicyName = "top-two"
    bound: BoundName = "influence"
    bound_options: BoundOptions = Field(default_factory=BoundOptions)
    delta: Annotated[float, Field(ge=1e-12, lt=1)] = 0.05
    """Accepted probability of naming a wrong generator; intervals cover 1 − delta."""
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A difference in score that does not matter; for all metrics but `fid`, in its logarithm."""
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 5
    warmup: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Batches per generator before the policy decides; None: 2 (`is`: 4), or 1 for the papers' bounds."""
    rescore_growth: Annotated[float, Field(ge=0, le=1)] = 0.04
    """A generator is rescored when its samples have grown by this fraction; 0 rescores after every batch."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Samples in all after which no more picks are made; None: no limit."""
    costs: dict[GeneratorName, Cost] | None = optional()
    """What a sample of each generator costs, in any unit; those that are left out have no known cost."""
    max_cost: CostLimit | None = optional()
    """Cost of all samples after which no more picks are made; every generator needs a cost then. None: no limit."""
    stop: bool = True
    """Whether picks end once the answer is sure."""
    allow_extra: bool = flag()
    """Whether a batch may have more rows than its pick asked for; they count towards the budget."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_wait: Annotated[float, Field(ge=0, le=60)] = 2.0
    """Seconds an ask waits for estimates that are due before it answers with what there is."""
    keep_log: bool = False
    """Whether every batch is kept, so that the experiment can be replayed; otherwise the log is trimmed."""
    lease: Annotated[float, Field(ge=1, le=7 * 86400)] = 900.0
    """Seconds after which a pick no longer counts as on its way; a tell after that is accepted and marked late.

    The service refuses a new experiment with a longer one than its `OPTIMIST_MAX_LEASE`, an hour by default.
    """

    max_magnitude: Annotated[float, Field(gt=1, allow_inf_nan=False)] = optional(MAX_MAGNITUDE)
    """Batches with a value of more than so many times the usual size, the root mean square of what was told before, are
    refused; from a thousand times on they are warned about."""
    refuse_copies: bool = optional(False)
    """Whether a batch is refused that repeats an earlier one of its generator; otherwise it counts, with a warning."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        policy, metric, bound = data.get("policy"), data.get("metric", "fid"), data.get("bound")
        # What is no text is refused by the fields themselves.
        if not isinstance(policy, str) or not isinstance(metric, str) or not isinstance(bound, str | None):
            return data
        settings = resolve_preset(policy, metric, bound)
        return {**settings, **data, **({"policy": settings["policy"]} if settings else {})}

    @field_validator("prompt_kernel")
    @classmethod
    def _as_many_features(cls, prompt_kernel: Kernel | None, info: ValidationInfo) -> Kernel | None:
        kernel: Kernel | None = info.data.get("kernel")
        if prompt_kernel is None or kernel is None or prompt_kernel.features == kernel.features:
            return prompt_kernel
        if "features" in prompt_kernel.model_fields_set:
            raise ValueError(f"features: expected as many as the kernel's {kernel.features}")
        return prompt_kernel.model_copy(update={"features": kernel.features})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.generators)) < len(self.generators):
            raise ValueError("generators: expected distinct names")
        if unknown := sorted(set(self.costs or {}) - set(self.generators)):
            raise ValueError(f"costs: no generator is called {', '.join(unknown)}")
        if self.max_cost is not None and (unpriced := [g for g in self.generators if g not in (self.costs or {})]):
            raise ValueError(f"max_cost: every generator needs a cost; {', '.join(unpriced)} have none")
        of_metrics = frozenset().union(*METRIC_FIELDS.values())
        check_metric(self.metric, self.bound, {name for name in of_metrics if self._is_given(name)})
        needed = METRIC_FIELDS[self.metric] - {"order", "truncation"}
        missing = sorted(name for name in needed if getattr(self, name) is None)
        if missing:
            raise ValueError(f"metric {self.metric!r} needs {', '.join(missing)}")
        if self.bound == "theorem" and self.order < 1:
            raise ValueError(f"order: no theorem bounds the Vendi score of order {self.order:g}; it needs at least 1")
        if self.kernel is not None and self.dimension is not None and self.truncation is not None:
            width = self.kernel.width(self.dimension)
            if self.truncation > width:
                raise ValueError(f"truncation: expected at most the kernel's {width} features, got {self.truncation}")
        if self.prompt_kernel is not None and {"gaussian"} != {kernel.name for kernel in self.kernels.values()}:
            raise ValueError("kernel: scores of pairs need gaussian kernels, whose product is one again")
        options = BOUND_OPTIONS[self.metric][self.bound]
        foreign = sorted(set(self.bound_options.given()) - options)
        if foreign:
            takes = f"takes {', '.join(sorted(options))}" if options else "takes none"
            raise ValueError(f"bound_options: bound {self.bound!r} {takes}, got {', '.join(foreign)}")
        return self

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels of the metric by the field that holds them."""
        both = {"kernel": self.kernel, "prompt_kernel": self.prompt_kernel}
        return {name: kernel for name, kernel in both.items() if kernel is not None}

    def _is_given(self, name: str) -> bool:
        return getattr(self, name) != type(self).model_fields[name].default
