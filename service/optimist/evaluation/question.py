"""What an evaluation asks: metric, kernels and bound, made once the batches have told their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from optimist.numerics.bound import Bound
from optimist.numerics.bounds import make_bound
from optimist.numerics.checks import check_number, check_text, check_whole
from optimist.numerics.fid.reference import Reference
from optimist.numerics.kernel.maps import fit_kernel
from optimist.numerics.kernel.open_kernels import is_open, rows_to_fit
from optimist.numerics.kernel.settings import KernelSettings, pair_settings
from optimist.numerics.registry import make_metric
from optimist_client.config import BOUND_OPTIONS, RULES, TENSORS, check_metric

KERNELS = {"kernel": "features", "prompt_kernel": "prompts"}
"""Which tensor of a batch each kernel looks at."""
SMALLEST_KERNEL = {"sigma": 1.0, "features": 1}
"""Stands for any kernel where only the other settings are looked at: making a map can take seconds and gigabytes."""


@dataclass(frozen=True)
class Question:
    """Metric and bound by name, with their settings; free of the batches' dimensions.

    `kernel` and `prompt_kernel` are mappings as `make_feature_map` takes them; with `sigma` "median", or without the
    landmarks that they need, they are open until `fitted`. What is made of them lives on `device`, as the reference
    must. `rules` says how the bandwidth "median" is found (`fit_kernel`). Raises ValueError for settings that do not go
    together.
    """

    metric: str
    bound: str = "influence"
    delta: float = 0.05
    reference: Reference | None = None
    order: float = 1.0
    truncation: int | None = None
    kernel: Mapping[str, Any] | None = None
    prompt_kernel: Mapping[str, Any] | None = None
    options: Mapping[str, float] = field(default_factory=dict)
    device: torch.device | str = "cpu"
    rules: int = RULES

    def __post_init__(self) -> None:
        check_number("order", self.order)
        check_number("delta", self.delta)
        if check_whole("rules", self.rules, 1) > RULES:
            raise ValueError(f"rules: expected at most {RULES}, got {self.rules}")
        metric, bound = check_text("metric", self.metric), check_text("bound", self.bound)
        given = {name for name in ("reference", "truncation", *KERNELS) if getattr(self, name) is not None}
        check_metric(metric, bound, given | ({"order"} if self.order != 1.0 else set()))
        taken = BOUND_OPTIONS[metric][bound]
        for option, value in self.options.items():
            if option not in taken:
                takes = ", ".join(sorted(taken)) or "none"
                raise ValueError(f"metric {metric!r} and bound {bound!r} take the options {takes}; got {option}")
            if value is not None:
                check_number(option, value)
        # What is left is for the makers to say, of a metric as small as they come.
        self._make({"features": 1, "prompts": 1}, dict.fromkeys(self.settings, SMALLEST_KERNEL))
        self._check_truncation()
        if self.is_exact and bound != "influence":
            raise ValueError(f"kernel: features=None, the exact kernel, has no interval: no bound {bound!r}")

    @cached_property
    def settings(self) -> dict[str, KernelSettings]:
        """The kernels' settings, checked, by field. Raises ValueError where they make no sense."""
        if self.kernel is not None and self.prompt_kernel is not None:
            return dict(zip(KERNELS, pair_settings(self.kernel, self.prompt_kernel), strict=True))
        return {field: KernelSettings.of(kernel, field) for field, kernel in self.kernels.items()}

    @property
    def widths(self) -> dict[str, int]:
        """The columns of those tensors whose columns the settings tell."""
        known = {KERNELS[field]: found.dimension for field, found in self.settings.items()}
        known["features"] = self.reference.dimension if self.reference is not None else known.get("features")
        return {tensor: columns for tensor, columns in known.items() if columns is not None}

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors of a batch, in the order that the statistic takes them."""
        return TENSORS[self.metric]

    @property
    def is_exact(self) -> bool:
        """Whether the kernel is asked for by its n × n matrix, which one batch has but no stream."""
        return "kernel" in self.settings and self.settings["kernel"].features is None

    @property
    def kernels(self) -> dict[str, Mapping[str, Any]]:
        """The kernels by the field that holds them."""
        return {field: kernel for field in KERNELS if (kernel := getattr(self, field)) is not None}

    @property
    def open_kernels(self) -> dict[str, Mapping[str, Any]]:
        """Those of them that only samples can fix."""
        return {field: kernel for field, kernel in self.kernels.items() if is_open(kernel)}

    def rows_to_fit(self, generators: int) -> int:
        """See `kernels.rows_to_fit`."""
        return rows_to_fit(self.open_kernels.values(), generators)

    def fitted(self, rows: Mapping[str, Sequence[Tensor]]) -> Question:
        """The question with its open kernels fixed by the first rows (n, …) of each generator, by tensor."""
        return self.closed(
            {
                field: fit_kernel(kernel, *rows[KERNELS[field]], rules=self.rules)
                for field, kernel in self.open_kernels.items()
            }
        )

    def closed(self, kernels: Mapping[str, Mapping[str, Any]]) -> Question:
        """The question with these settings of the kernels, by field, in place of their own."""
        changes = {field: {**self.kernels[field], **settings} for field, settings in kernels.items()}
        return replace(self, **changes) if changes else self

    def bound_for(self, widths: Mapping[str, int]) -> Bound:
        """The bound for batches whose tensors have these columns; the reference tells its own.

        Raises ValueError where they do not go with the settings, or a kernel is still open.
        """
        return self._make(widths, self.kernels, self.truncation)

    def _make(
        self, widths: Mapping[str, int], kernels: Mapping[str, Mapping[str, Any]], truncation: int | None = None
    ) -> Bound:
        metric = make_metric(
            self.metric,
            next(iter(widths.values())),
            reference=self.reference,
            order=self.order,
            truncation=truncation,
            kernel=kernels.get("kernel"),
            prompt_dimension=widths.get("prompts"),
            prompt_kernel=kernels.get("prompt_kernel"),
            device=self.device,
        )
        return make_bound(self.bound, metric, self.delta, **self.options)

    def _check_truncation(self) -> None:
        if self.truncation is None:
            return
        check_whole("truncation", self.truncation, 1)
        width = self.settings["kernel"].width
        if width is not None and self.truncation > width:
            raise ValueError(f"truncation must lie between 1 and the {width} features, not {self.truncation}")
