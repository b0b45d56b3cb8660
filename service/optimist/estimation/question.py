"""The question of an evaluation: a declared metric with a bound, which is built once the dimensions are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from optimist.anomalies.batches import check_number, check_text, check_whole
from optimist.arrays import Floats
from optimist.estimation.arrays import real_data_of
from optimist.estimation.clustered import ClusterKind
from optimist.estimation.learner import Learner
from optimist.metrics.bound import Bound
from optimist.metrics.implementations import Setting, make_bound, make_metric, make_reference
from optimist.metrics.threads import few_threads
from optimist.metrics.vendi.kernels import KernelSettings, fit_kernel, with_settings
from optimist.references.open_kernels import rows_to_fit
from optimist.references.real_data import RealData, Reference
from optimist_client.config import check_prompts_are
from optimist_client.errors import FixError
from optimist_client.metrics import Metric, find
from optimist_client.metrics.base import metric_of
from optimist_client.metrics.texts import parsed

AnyArray = TypeVar("AnyArray")
SMALLEST_KERNEL = KernelSettings(sigma=1.0, features=1)
"""Replaces every kernel while the other settings are checked: a feature map can take seconds and gigabytes."""


@dataclass(frozen=True)
class Question:
    """A declared metric and a bound with its options, independent of the dimensions of the batches.

    A metric with a reference holds the converted real data, a `Reference`, on `device`, where the bound is built,
    too. Kernels with `sigma` "median", or without the landmarks that they need, are open until `fitted` fixes them.
    Raises FixError for inconsistent settings.
    """

    metric: Metric
    bound: str = "influence"
    delta: float = 0.05
    options: Mapping[str, float | None] = field(default_factory=dict)
    device: torch.device | str = "cpu"
    prompts: int | None = None
    """Number of prompts, if the metric gets each sample's prompt."""
    are_list: bool = False
    """True if the score is about exactly these prompts, instead of prompts like these."""
    clusters: Literal["batch"] | None = None
    """`ExperimentConfig.clusters`."""
    paired: bool = True
    """True if estimates carry the data of comparisons by index, under the bound "influence"."""
    generators: int = 1
    """Number of generators for which the intervals of a strict bound hold together."""
    learner: Learner | None = None
    """Learner of the model that picks are made from, where this metric decides."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", with_settings(self.metric))
        check_number("delta", self.delta)
        self.metric.check_bound(check_text("bound", self.bound))
        self.metric.check_options(self.bound, self.options)
        for option, value in self.options.items():
            if value is not None:
                check_number(option, value)
        for name, array in self.metric.kernels.items():
            if name not in self.kernels:
                such_as = f"such as dict(sigma=10.0), as text {self.metric.name}:{name}.sigma=10"
                raise FixError(f"metric {self.metric.name!r} needs {name}, a kernel of its {array}, {such_as}")
        # The other checks are in the constructors of score and bound: build them at the smallest size.
        smallest = {**dict.fromkeys(self.kernels, SMALLEST_KERNEL), "truncation": None}
        self._make(dict.fromkeys(self.arrays, 1), self._with(smallest))
        if self.is_exact:
            self._check_exact()

    @property
    def is_paired(self) -> bool:
        """True if estimates carry a `Pairing`, as far as the metric offers it."""
        return self.paired and self.bound == "influence"

    @property
    def counts(self) -> ClusterKind | None:
        """Kind of clusters that errors count; None: samples are independent, or prompts are a list."""
        return self.clusters if self.prompts is None or self.are_list else "prompt"

    @property
    def reference(self) -> Reference | None:
        """The reference of the metric; None if it has none."""
        return self.metric.setting("reference")

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each array, for arrays where the settings or the reference determine it."""
        of_kernels = {array: self.kernels[field].dimension for field, array in self.metric.kernels.items()}
        widths = {array: columns for array, columns in of_kernels.items() if columns is not None} | self.metric.widths
        return widths if self.reference is None else {**widths, self.metric.first_array(): self.reference.dimension}

    @property
    def reads(self) -> dict[str, str]:
        """The name that each of the metric's own arrays has in a batch."""
        return self.metric.array_names

    def own(self, batch: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """The arrays of a batch that the metric reads, by its own names."""
        return {own: batch[name] for own, name in self.reads.items()}

    @property
    def arrays(self) -> tuple[str, ...]:
        """The metric's own arrays, in the order that the statistic takes them."""
        return tuple(self.metric.arrays)

    @property
    def kernels(self) -> dict[str, KernelSettings]:
        """The kernels by the setting that holds them."""
        return {name: kernel for name in self.metric.kernels if (kernel := self.metric.setting(name)) is not None}

    @property
    def is_exact(self) -> bool:
        """True if a kernel is computed as an n × n matrix, by samples in memory."""
        return any(kernel.is_exact for kernel in self.kernels.values())

    @property
    def open_kernels(self) -> dict[str, KernelSettings]:
        """The kernels that only samples can fix."""
        return {name: kernel for name, kernel in self.kernels.items() if kernel.is_open}

    @property
    def is_open(self) -> bool:
        """True if a kernel, or the learner, is open until samples fix it."""
        return bool(self.open_kernels) or (self.learner is not None and self.learner.is_open)

    def rows_to_fit(self, generators: int) -> int:
        """The samples that each of `generators` must have before the open kernels can be fixed."""
        return rows_to_fit(self.open_kernels.values(), generators)

    def batches_to_fit(self, generators: int) -> int:
        """The batches that each of `generators` must have before the learner can be fixed."""
        return 0 if self.learner is None else self.learner.to_fit(generators)

    def fitted(self, rows: Mapping[str, Sequence[Tensor]], firsts: Sequence[Floats] = ()) -> Question:
        """The question with its open kernels fixed by the first rows (n, …) of each generator, by array.

        firsts: what fixes an open learner of the first prompts (n, d) of each generator.
        """
        kernels = {
            name: fit_kernel(kernel, *rows[self.metric.kernels[name]]) for name, kernel in self.open_kernels.items()
        }
        learner = self.learner if self.learner is None or not firsts else self.learner.fitted(firsts)
        return replace(self, metric=self._with(kernels) if kernels else self.metric, learner=learner)

    def closed(self, kernels: Mapping[str, Mapping[str, Any]], learner: Learner | None = None) -> Question:
        """The question with these settings of its kernels, by field, and perhaps the learner replaced."""
        changes = {name: self.kernels[name].model_copy(update=dict(changed)) for name, changed in kernels.items()}
        return replace(self, metric=self._with(changes), learner=learner or self.learner)

    def on_clusters(self, count: int) -> Question:
        """The question where samples come in so many clusters, which are the prompts of a list if there is one; 0: in
        none. Raises FixError where a list has no prompts, or the metric no score on one.
        """
        self.metric.check_repeatable(are_list=self.are_list)
        check_prompts_are("list" if self.are_list else "sample", count > 0, self.bound)
        if self.are_list and not self.metric.scores_lists:
            raise FixError(f"prompts_are: metric {self.metric.name!r} has no score on a list; expected 'sample'")
        return replace(self, prompts=count or None)

    def bound_for(self, widths: Mapping[str, int]) -> Bound:
        """The bound for batches whose arrays have these columns.

        Raises FixError if they do not fit the settings, or if a kernel is still open.
        """
        return self._make(widths, self.metric)

    def _check_exact(self) -> None:
        if self.bound != "influence":
            raise FixError(f"kernel: features='exact', the kernel itself, has no bound {self.bound!r}")
        if self.prompts is not None and self.are_list:
            raise FixError("kernel: features='exact', the kernel itself, has no scores on a list of prompts")

    def _make(self, widths: Mapping[str, int], metric: Metric) -> Bound:
        made = make_metric(metric, Setting(widths, self.device, self.prompts, self.are_list, self.clusters))
        # Strict intervals decide by themselves, so that all of them must hold at once.
        delta = self.delta / self.generators if self.bound in metric.strict else self.delta
        return make_bound(self.bound, made, delta, **self.options)

    def _with(self, changes: Mapping[str, Any]) -> Metric:
        accepted = {name: value for name, value in changes.items() if name in self.metric.settings()}
        return self.metric.model_copy(update=accepted)


def declared_of(metric: str | Metric, device: torch.device | str = "cpu", **settings: Any) -> Metric:
    """The metric that a caller gave as an object, or as text with its settings, where None means not given.

    Kernels may be mappings with arrays, which the wire does not allow (`KernelSettings`). The reference becomes what
    the metric makes of it on the device. Raises FixError for an unknown metric, for settings that it does not take,
    and for a reference that does not suffice.
    """
    return prepared(with_real_data(metric, **settings), device)


def with_real_data(metric: str | Metric, **settings: Any) -> Metric:
    """The metric as from `declared_of`, but with its reference as `RealData`, which `prepared` converts."""
    if not isinstance(metric, Metric):
        metric, own = parsed(check_text("metric", metric))
        settings |= own
    # Numbers may be numpy's, which pydantic would refuse; strings are refused.
    if "order" in settings:
        settings["order"] = check_number("order", settings["order"])
    chosen = {name: value for name, value in settings.items() if value is not None and (name, value) != ("order", 1.0)}
    if not isinstance(metric, Metric):
        kind = find(metric)
        kind.check_settings(set(chosen))
        if "truncation" in chosen:
            chosen["truncation"] = check_whole("truncation", chosen["truncation"], 1)
        for name in kind.kernels.keys() & chosen.keys():
            chosen[name] = KernelSettings.from_kernel(chosen[name], name)
    made = metric_of(metric, **chosen)
    reference = made.setting("reference")
    if reference is None or isinstance(reference, Reference):
        return made
    return made.model_copy(update={"reference": real_data_of(reference)})


def prepared(metric: Metric, device: torch.device | str = "cpu") -> Metric:
    """The metric with its reference converted from the real data. Raises FixError if these do not suffice."""
    data = metric.setting("reference")
    if not isinstance(data, RealData):
        return metric
    with few_threads(data.dimension, data.samples or 0):
        made = make_reference(metric, data, device)
    made.hashes = data.hashes
    return metric.model_copy(update={"reference": made})


def by_label(metrics: Sequence[Any]) -> dict[str, Metric]:
    """The metrics by their labels. Raises FixError if two have the same, or one is no object."""
    if foreign := [metric for metric in metrics if not isinstance(metric, Metric)]:
        raise FixError(f"metric: expected metrics as objects, such as FID(reference=…); got {foreign[0]!r}")
    labels = [metric.shown_label for metric in metrics]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise FixError(f"watch: expected a label of its own for each metric; {', '.join(twice)} is given twice")
    return dict(zip(labels, metrics, strict=True))
