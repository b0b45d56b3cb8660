"""What an experiment asks: metric, kernel, bound, policy, and the papers' presets of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from optimist_client.wire import GeneratorName, Identifier, Wire

MetricName = Literal["fid", "is", "rke", "vendi"]
BoundName = Literal["influence", "theorem", "authors", "naive"]
PolicyName = Literal["top-two", "ucb", "thompson", "greedy", "uniform"]

METRIC_FIELDS: dict[str, frozenset[str]] = {
    "fid": frozenset({"reference"}),
    "is": frozenset({"dimension"}),
    "rke": frozenset({"dimension", "kernel"}),
    "vendi": frozenset({"dimension", "kernel", "order", "truncation"}),
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
}
"""Which bounds each metric has, and the options they take; meaning and defaults are in equations.md."""

PRESETS: dict[str, dict[str, str]] = {
    "fid-ucb": {"metric": "fid", "bound": "theorem"},
    "fd-ucb": {"metric": "fid", "bound": "authors"},
    "is-ucb": {"metric": "is", "bound": "theorem"},
    "rke-ucb": {"metric": "rke", "bound": "theorem"},
    "vendi-ucb": {"metric": "vendi", "bound": "theorem"},
    "naive-ucb": {"bound": "naive"},
}
"""The papers' algorithms by their names: policy `ucb` on that bound, one batch of warm-up, every batch rescored."""


def resolve_preset(policy: str, metric: str) -> dict[str, Any]:
    """The settings a preset stands for, {} for a plain policy. Raises ValueError when it is of another metric."""
    if policy not in PRESETS:
        return {}
    preset = PRESETS[policy]
    if preset.get("metric", metric) != metric:
        raise ValueError(f"preset {policy!r} is of metric {preset['metric']!r}, not {metric!r}")
    return {"policy": "ucb", "bound": preset["bound"], "warmup": 1, "rescore_growth": 0.0}


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


class Kernel(Wire):
    """The kernel of RKE and Vendi: `gaussian` by random Fourier features, or `cosine` (equations.md §3)."""

    name: Literal["gaussian", "cosine"] = "gaussian"
    sigma: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Bandwidth of the Gaussian kernel exp(−‖x − y‖²/(2σ²))."""
    features: Annotated[int, Field(ge=1, le=8192)] = 1000
    """r, the number of random frequencies: φ has 2r entries."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Every process draws the same frequencies from it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name == "gaussian" and self.sigma is None:
            raise ValueError("sigma: the gaussian kernel needs a bandwidth greater than 0")
        if self.name == "cosine" and self.sigma is not None:
            raise ValueError("sigma: the cosine kernel has no bandwidth")
        return self

    def width(self, dimension: int) -> int:
        """Entries of φ for features of this dimension: the largest rank that the kernel's covariance can have."""
        return dimension if self.name == "cosine" else 2 * self.features


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
    order: Annotated[float, Field(gt=0)] = 1.0
    """α of the Vendi score; "Infinity" for the largest eigenvalue alone."""
    truncation: Annotated[int, Field(ge=1)] | None = None
    """t of the truncated Vendi score: only the t largest eigenvalues count."""
    kernel: Kernel | None = None
    policy: PolicyName = "top-two"
    bound: BoundName = "influence"
    bound_options: BoundOptions = BoundOptions()
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
    stop: bool = True
    """Whether picks end once the answer is sure."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_wait: Annotated[float, Field(ge=0, le=60)] = 2.0
    """Seconds an ask waits for estimates that are due before it answers with what there is."""
    lease: Annotated[float, Field(ge=1, le=7 * 86400)] = 900.0
    """Seconds after which a pick no longer counts as on its way; a tell after that is accepted and marked late."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("policy"), str):
            return data
        settings = resolve_preset(data["policy"], data.get("metric", "fid"))
        if settings and data.get("bound", settings["bound"]) != settings["bound"]:
            raise ValueError(f"preset {data['policy']!r} has bound {settings['bound']!r}, not {data['bound']!r}")
        return {**settings, **data, **({"policy": settings["policy"]} if settings else {})}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.generators)) < len(self.generators):
            raise ValueError("generators: expected distinct names")
        of_metrics = frozenset().union(*METRIC_FIELDS.values())
        check_metric(self.metric, self.bound, {name for name in of_metrics if self._is_given(name)})
        needed = {"reference", "dimension", "kernel"} & METRIC_FIELDS[self.metric]
        missing = sorted(name for name in needed if getattr(self, name) is None)
        if missing:
            raise ValueError(f"metric {self.metric!r} needs {', '.join(missing)}")
        if self.bound == "theorem" and self.order < 1:
            raise ValueError(f"order: no theorem bounds the Vendi score of order {self.order:g}; it needs at least 1")
        if self.kernel is not None and self.dimension is not None and self.truncation is not None:
            width = self.kernel.width(self.dimension)
            if self.truncation > width:
                raise ValueError(f"truncation: expected at most the kernel's {width} features, got {self.truncation}")
        options = BOUND_OPTIONS[self.metric][self.bound]
        foreign = sorted(set(self.bound_options.given()) - options)
        if foreign:
            takes = f"takes {', '.join(sorted(options))}" if options else "takes none"
            raise ValueError(f"bound_options: bound {self.bound!r} {takes}, got {', '.join(foreign)}")
        return self

    def _is_given(self, name: str) -> bool:
        return getattr(self, name) != type(self).model_fields[name].default
