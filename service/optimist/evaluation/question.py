"""What an evaluation asks: metric, kernels and bound, made once the batches have told their dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from optimist.bounds import Bound, make_bound
from optimist.kernels import is_open, rows_to_fit
from optimist.metrics import Reference, fit_kernel, make_metric
from optimist_client.config import TENSORS, check_metric

KERNELS = {"kernel": "features", "prompt_kernel": "prompts"}
"""Which tensor of a batch each kernel looks at."""


@dataclass(frozen=True)
class Question:
    """Metric and bound by name, with their settings; free of the batches' dimensions.

    `kernel` and `prompt_kernel` are mappings as `make_feature_map` takes them; with `sigma` "median", or without the
    landmarks that they need, they are open until `fitted`. Raises ValueError for settings that do not go together.
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

    def __post_init__(self) -> None:
        settings = ("reference", "truncation", *KERNELS)
        given = {name for name in settings if getattr(self, name) is not None}
        check_metric(self.metric, self.bound, given | ({"order"} if self.order != 1.0 else set()))
        # Nonsense is refused before there is a batch. The cosine kernel's width is the dimension, no less than t.
        if not self.is_exact:
            guessed = self.closed({field: {"name": "gaussian", "sigma": 1.0} for field in self.open_kernels})
            guessed.bound_for({"features": self.truncation or 1, "prompts": 1})

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors of a batch, in the order that the statistic takes them."""
        return TENSORS[self.metric]

    @property
    def is_exact(self) -> bool:
        """Whether the kernel is asked for by its n × n matrix, which one batch has but no stream."""
        return self.kernel is not None and self.kernel.get("features", 1) is None

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

    def fitted(self, rows: Mapping[str, Tensor]) -> Question:
        """The question with its open kernels fixed by the samples' `rows` (n, …) of each tensor."""
        return self.closed(
            {field: fit_kernel(kernel, rows[KERNELS[field]]) for field, kernel in self.open_kernels.items()}
        )

    def closed(self, kernels: Mapping[str, Mapping[str, Any]]) -> Question:
        """The question with these settings of the kernels, by field, in place of their own."""
        changes = {field: {**self.kernels[field], **settings} for field, settings in kernels.items()}
        return replace(self, **changes) if changes else self

    def bound_for(self, widths: Mapping[str, int]) -> Bound:
        """The bound for batches whose tensors have these columns; the reference tells its own.

        Raises ValueError where they do not go with the settings, or a kernel is still open.
        """
        metric = make_metric(
            self.metric,
            next(iter(widths.values())),
            reference=self.reference,
            order=self.order,
            truncation=self.truncation,
            kernel=self.kernel,
            prompt_dimension=widths.get("prompts"),
            prompt_kernel=self.prompt_kernel,
        )
        return make_bound(self.bound, metric, self.delta, **self.options)
