"""Makes the scores of the declared metrics of pairs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from optimist.metrics.implementations import Setting
from optimist.metrics.pairs.exact import exact_spectra
from optimist.metrics.pairs.maps import pair_maps
from optimist.metrics.pairs.score import ConditionalVendi, ConditionedScore, InformationVendi
from optimist.metrics.vendi.declared import of_exact
from optimist_client.errors import FixError
from optimist_client.metrics.pairs import OfPairs

_SCORES: tuple[type[ConditionedScore], ...] = (ConditionalVendi, InformationVendi)


def make(declared: OfPairs, setting: Setting) -> ConditionedScore:
    """The score by both kernels' feature maps. Raises FixError without a kernel, or if one is still open."""
    if declared.kernel is None or declared.prompt_kernel is None:
        raise FixError(f"the metric {declared.name!r} needs a kernel of the samples, and one of the prompts")
    widths = setting.widths["features"], setting.widths["prompts"]
    maps = pair_maps(declared.kernel, declared.prompt_kernel, *widths, setting.device)
    return _score(declared)(*maps, declared.order, setting.prompts)


def exact(declared: OfPairs, arrays: Mapping[str, Tensor]) -> float:
    """The plug-in log score of one batch by the exact kernels (equations.md §4)."""
    kernels = of_exact(declared.kernel) | of_exact(declared.prompt_kernel, "prompt_")
    return _score(declared).of_spectra(exact_spectra(**arrays, **kernels), declared.order)


def _score(declared: OfPairs) -> type[ConditionedScore]:
    return next(score for score in _SCORES if score.declared is type(declared))
