"""The scores of pairs of a sample and its prompt."""

from __future__ import annotations

from pydantic import ValidationInfo, field_validator

from optimist_client.errors import FixError
from optimist_client.metrics.base import Dimension, Metric, declare
from optimist_client.metrics.kernel import EntropyOrder, Kernel


class OfPairs(Metric):
    """The base class of the scores of pairs."""

    arrays = {"features": "dimension", "prompts": "prompt_dimension"}
    scale = "log"
    floor = 0.0
    positive = True
    needs = frozenset({"dimension", "kernel", "prompt_dimension", "prompt_kernel", "prompts"})
    kernels = {"kernel": "features", "prompt_kernel": "prompts"}
    offers = frozenset({"modes", "prompt groups"})

    dimension: Dimension | None = None
    """Number of columns of the features; required for an experiment."""
    kernel: Kernel | None = None
    """Kernel of the features; required for an experiment."""
    order: EntropyOrder = 1.0
    """α of the entropies, at least 1e-6."""
    prompt_dimension: Dimension | None = None
    """Number of columns of the prompts' embeddings; required for an experiment."""
    prompt_kernel: Kernel | None = None
    """Kernel of the prompts, with as many features as `kernel`; required for an experiment."""

    @property
    def scores_lists(self) -> bool:
        """Only at order 2."""
        return self.order == 2.0

    @field_validator("prompt_kernel")
    @classmethod
    def _makes_a_pair(cls, prompt_kernel: Kernel | None, info: ValidationInfo) -> Kernel | None:
        kernel: Kernel | None = info.data.get("kernel")
        if prompt_kernel is None or kernel is None:
            return prompt_kernel
        shared = prompt_kernel.model_copy(update={"features": kernel.features})
        if not (kernel.multiplies and shared.multiplies):
            raise FixError("scores of pairs need gaussian kernels, whose product is gaussian, too")
        if "features" in prompt_kernel.model_fields_set and prompt_kernel.features != kernel.features:
            counts = f"{kernel.features}, got {prompt_kernel.features}"
            raise FixError(f"features: expected as many as the kernel's {counts}")
        return shared


@declare
class ConditionalVendi(OfPairs):
    """The diversity of the samples beyond the diversity of their prompts."""

    name = "conditional-vendi"
    implementation = "optimist.metrics.pairs"
    title = "Conditional Vendi"


@declare
class InformationVendi(OfPairs):
    """Information of the samples about their prompts."""

    name = "information-vendi"
    implementation = "optimist.metrics.pairs"
    title = "Information Vendi"
