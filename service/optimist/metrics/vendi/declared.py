"""Makes the scores of the declared metrics with one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from optimist.metrics.implementations import Setting
from optimist.metrics.vendi.bounds import KernelTheoremBound
from optimist.metrics.vendi.entropy import log_vendi
from optimist.metrics.vendi.exact import exact_spectrum
from optimist.metrics.vendi.maps import make_feature_map
from optimist.metrics.vendi.score import RenyiKernelEntropy, VendiScore
from optimist.metrics.vendi.settings import KernelSettings
from optimist_client.errors import FixError
from optimist_client.metrics import RKE, Kernel, Vendi

BOUNDS = {"theorem": KernelTheoremBound}


def make(declared: RKE | Vendi, setting: Setting) -> VendiScore:
    """The score by the kernel's feature map. Raises FixError without a kernel, or if it is still open."""
    if declared.kernel is None:
        raise FixError(f"the metric {declared.name!r} needs a kernel, such as dict(name='gaussian', sigma=10.0)")
    feature_map = make_feature_map(declared.kernel, setting.widths["features"], setting.device)
    if isinstance(declared, RKE):
        return RenyiKernelEntropy(feature_map, setting.prompts)
    return VendiScore(feature_map, declared.order, declared.truncation, setting.prompts)


def exact(declared: RKE | Vendi, arrays: Mapping[str, Tensor]) -> float:
    """The plug-in log score of one batch by the exact kernel (equations.md §3)."""
    spectrum = exact_spectrum(arrays["features"], **of_exact(declared.kernel))
    if isinstance(declared, RKE):
        return log_vendi(spectrum, 2.0)
    return log_vendi(spectrum, declared.order, declared.truncation)


def of_exact(kernel: Kernel | None, prefix: str = "") -> dict[str, Any]:
    """Kernel and bandwidth as arguments of `exact_spectrum` and `exact_spectra`."""
    settings = KernelSettings.of(kernel)
    found = {f"{prefix}kernel": settings.name}
    return found if settings.sigma is None else {**found, f"{prefix}sigma": settings.sigma}
