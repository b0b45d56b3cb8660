"""The metrics of a comparison, with what they need of real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.estimation.question import with_real_data
from optimist.metrics.vendi.kernels import KernelSettings, fit_kernel, with_settings
from optimist.references.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import Metric, find, texts

_ARRAYS = frozenset({"features", "probabilities"})
"""The arrays that embedders make."""
_MEDIAN = {"name": "gaussian", "sigma": "median"}


def declared(metric: str | Metric, settings: Mapping[str, Any]) -> Metric:
    """The metric for embeddings of samples, without what follows from real data: its settings are checked.

    metric: a text as of `texts.parsed`, which takes `settings`, too, or an object.

    Raises FixError for wrong settings, or if it reads what embedders do not make.
    """
    kind = kind_of(metric)
    if foreign := set(kind.arrays) - _ARRAYS:
        raise FixError(f"metric {kind.name!r} reads {', '.join(sorted(foreign))}, which is no embedding of samples")
    if not isinstance(metric, str):
        with_settings(metric)
        return metric
    name, own = texts.parsed(metric)
    chosen = {**settings, **own}
    return with_real_data(name, **{"kernel": _MEDIAN, **chosen} if "kernel" in kind.needs else chosen)


def of_samples(metric: Metric, real: RealData | None) -> Metric:
    """The metric as of `declared`, with real data where it needs them and has none.

    Kernels whose bandwidth is "median" get the bandwidth of the real rows, so that they can be scored from the first
    samples on. Raises FixError if it needs a reference and there is none.
    """
    name = metric.name
    is_missing = "reference" in metric.settings() and metric.setting("reference") is None and real is not None
    complete = with_real_data(metric.model_copy(update={"reference": real}) if is_missing else metric)
    if "reference" in metric.needs and complete.setting("reference") is None:
        raise FixError(f"metric {name!r} needs real samples to compare with: reference")
    if real is None or real.rows is None:
        return complete
    rows = torch.from_numpy(real.rows[:1000])
    kernels = {field: complete.setting(field) for field in complete.kernels}
    fitted = {
        field: fit_kernel(KernelSettings.from_kernel(kernel), rows)
        for field, kernel in kernels.items()
        if kernel is not None and kernel.sigma == "median" and kernel.name == "gaussian"
    }
    return complete.model_copy(update=fitted) if fitted else complete


def real_data(rows: NDArray[np.floating], metrics: Sequence[str | Metric]) -> RealData:
    """Real data of these rows (m, d), which are kept while a metric needs them or a bandwidth follows from them."""
    data = RealData.of_rows("reference", rows)
    kinds = map(kind_of, metrics)
    if any(kind.reference_rows or kind.kernels for kind in kinds):
        return data
    return data.without_rows()


def kind_of(metric: str | Metric) -> type[Metric]:
    """The class of a metric given as a text or an object. Raises FixError for an unknown one."""
    return find(texts.parsed(metric)[0]) if isinstance(metric, str) else type(metric)
