"""An experiment, its generators and its reference, and what may change of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimist_client.config import RULES, ExperimentConfig
from optimist_client.errors import FixError
from optimist_client.labels import Note, Tags
from optimist_client.metrics import Metric
from optimist_client.wire import Answer, Cost, CostLimit, EmbeddingName, GeneratorName, Identifier, Wire, optional

State = Literal["warming up", "running", "decided", "out of budget", "stopped"]
GeneratorStatus = Literal["active", "paused", "retired"]
"""A paused generator is not picked but may be named best. A retired one takes no further part."""


class ReferenceInfo(Answer):
    """A stored reference, which experiments compare with: the moments of real data, and perhaps its rows."""

    name: Identifier
    dimension: int
    samples: int | None = None
    """Number of real samples behind the moments, if the upload gave it or contained the features."""
    embedding: EmbeddingName | None = None
    """The embedding that made the features, if the upload named it."""
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Root mean square of the real features' entries."""
    rows: Annotated[int, Field(ge=2)] | None = optional()
    """Number of rows of features beside the moments; None if it holds the moments alone."""
    bytes: Annotated[int, Field(ge=0)]
    """Its size in Redis."""
    digest: str
    """SHA-256 of the moments, or of the features where rows are held (`tensors.digest`)."""
    created: float


class Experiment(Answer):
    """An experiment as the service stores it: its config and what was fixed when it was created."""

    config: ExperimentConfig
    columns: dict[str, int]
    """The columns of each array that a batch must hold, in the order of the metrics."""
    scales: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """`ReferenceInfo.scale` of the references by the array that is compared with them."""
    references: dict[Identifier, str]
    """The digests of the references of all metrics by name."""
    created: float
    instance: str
    """Distinguishes it from earlier and later experiments of the same name."""
    rules: Annotated[int, Field(ge=1)]
    """The version of the defaults and formulas (`config.RULES`) at its creation; it never changes."""
    bandwidths: dict[str, float] = Field(default_factory=dict)
    """The σ of each kernel with `sigma` "median", once the first samples have fixed it: by the kernel's field, with the
    label of the metric and a dot before it where the metric is watched; that of contexts as "context"."""

    def check_rules(self) -> None:
        """Raise FixError if a newer version created it, by whose `rules` this one cannot go on with it."""
        if self.rules > RULES:
            name = self.config.name
            raise FixError(f"{name!r} has rules {self.rules}, and this version knows rules up to {RULES}: update it")

    @property
    def is_indexed(self) -> bool:
        """True if its samples have indices: every pick names its `start`. Not with the goal "route", where samples are
        of prompts that users bring."""
        return self.config.context is None

    @property
    def is_paired(self) -> bool:
        """True if its generators are compared by the samples that they have in common."""
        return self.is_indexed and self.config.paired and self.config.seeds is not False

    @property
    def end(self) -> int | None:
        """The index at which every generator has answered all that it is asked: the length of a list whose prompts
        have one score each by the metric that decides. None: there is no such end."""
        config = self.config
        return len(config.prompts) if config.prompts is not None and config.metric.is_repeatable else None

    @property
    def grows(self) -> bool:
        """True if picks grow with their generator's samples."""
        config = self.config
        is_apart = config.prompts_are == "sample" and config.clusters is None
        return config.grow and self.is_indexed and is_apart and config.rescore_growth > 0.0

    def widths_of(self, metric: Metric) -> dict[str, int]:
        """The columns of the arrays of one of its metrics, by the metric's own names."""
        return {array: self.columns[name] for array, name in metric.array_names.items()}

    @property
    def mixture_growth(self) -> float | None:
        """The growth of the samples of all generators together at which the mixture is made again; None: only when
        somebody asks. 0 for the published policies: it is made after every batch."""
        return self.config.asks.mixture_growth(self.config.policy)

    @property
    def model_growth(self) -> float | None:
        """The growth of the samples of all generators together at which the model that picks are made from is made
        again; None: picks are made without a model."""
        return self.config.asks.model_growth(self.config)


class GeneratorRequest(Wire):
    """A generator to add."""

    name: GeneratorName
    cost: Cost | None = optional()
    """Cost of one sample; required if the experiment has `max_cost`."""
    seeds: bool | None = optional()
    """True if it makes the same sample again from the same seed; None: unless `seeds` of the config is false."""


class GeneratorChange(Wire):
    """A change of a generator: its state (a retired one stays retired), its cost, or both."""

    state: GeneratorStatus | None = None
    cost: Cost | None = None
    """Cost of one sample; it also applies to the samples told so far."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.state is None and self.cost is None:
            raise FixError("expected a state, a cost, or both")
        return self


class ExperimentChange(Wire):
    """A change of an experiment. Omitted fields keep their values."""

    state: Literal["running", "stopped"] | None = None
    """"stopped" ends the picks; "running" resumes them. After a decision it also sets `stop` to false, unless given."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Total number of samples; a value below the current number of samples ends the picks."""
    max_cost: CostLimit | None = None
    """Maximum cost of all samples; every generator needs a cost."""
    stop: bool | None = None
    max_wait: Annotated[float, Field(ge=0, le=60)] | None = None
    tags: Tags | None = None
    """All its tags from now on; [] for none."""
    note: Note | None = None
