"""How large a new experiment may be: the width of its batches, and the feature maps that every scorer holds."""

from __future__ import annotations

from optimist.numerics.kernel.open_kernels import map_size
from optimist_client import tensors
from optimist_client.metrics import Kernel, Metric
from optimist_client.models import Experiment, ExperimentConfig


def check_maps(config: ExperimentConfig, most: int) -> None:
    """Raise ValueError where a feature map of the experiment would hold more than `most` numbers."""
    kernels = list(config.kernels.values())
    if not kernels:
        return
    # Scores of pairs have a third map, as long as the other two together; both kernels have as many features.
    found = map_size(kernels[0], sum(config.declared.widths.values()))
    if found > most:
        columns = "dimension" if len(kernels) == 1 else "(dimension + prompt_dimension)"
        each = f"({columns} + features)" if kernels[0].name == "nystrom" else columns
        of = " and ".join(config.kernels)
        raise ValueError(f"{of}: expected a feature map of at most {most:,} numbers, got {each} × features = {found:,}")


def kernels_of(metric: Metric) -> dict[str, Kernel]:
    """The kernels of a metric by the setting that holds them."""
    return {name: kernel for name in metric.kernels if (kernel := metric.setting(name)) is not None}


def check_fitted(experiment: Experiment, metric: Metric, fitted: bytes) -> None:
    """Raise ValueError unless what the first samples fixed is what the open kernels of a metric left to them."""
    expected: dict[str, tuple[int, ...]] = {}
    widths = experiment.widths_of(metric)
    for field, kernel in kernels_of(metric).items():
        if kernel.is_open:
            expected[f"{field}.sigma"] = (1,)
            if kernel.name == "nystrom":
                expected[f"{field}.landmarks"] = (kernel.features, widths[metric.kernels[field]])
    found = {name: array.shape for name, array in tensors.decode(fitted).items()}
    if found != expected:
        raise ValueError(f"what the first samples fixed: expected arrays {expected}, found {found}")


def too_wide(experiment: Experiment, most: int) -> str:
    """What a new experiment is refused with whose batches are wider than `most`; "" where none are."""
    wide = [f"{name}: expected at most {most} columns, got {n}" for name, n in experiment.widths.items() if n > most]
    return "; ".join(wide)
