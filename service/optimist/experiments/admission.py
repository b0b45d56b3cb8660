"""Limits on the size of a new experiment: the width of its batches, and the feature maps that every scorer holds."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.references.open_kernels import map_size, rows_to_fit
from optimist_client import tensors
from optimist_client.errors import FixError
from optimist_client.goals import COMPONENTS
from optimist_client.metrics import Kernel, Metric
from optimist_client.metrics.mean import check_unaudited
from optimist_client.models import Experiment, ExperimentConfig

INDEXED = "people audit samples by their indices, and samples of a router, and of generators without seeds, have none"


def columns_of(config: ExperimentConfig, references: Mapping[str, int]) -> dict[str, int]:
    """The columns of each array that a batch must hold, in the order of the metrics.

    references: the dimensions of the metrics' references, by label. Raises FixError where nothing says the columns of
    an array, or where two metrics that read it expect different ones, and where people would have to audit what
    they cannot.
    """
    check_unaudited(config.watch, "a watched metric")
    if config.metric.is_audited and (config.context is not None or config.seedless):
        raise FixError(f"proxy: {INDEXED}")
    declared: dict[str, tuple[int, str]] = {}
    for label, metric in config.metrics.items():
        given = [(array, columns, f"metric {label!r}") for array, columns in metric.widths.items()]
        if label in references:
            given.append((metric.first_array(), references[label], f"the reference of {label!r}"))
        for array, columns, whose in given:
            name = metric.array_names[array]
            standing, before = declared.setdefault(name, (columns, whose))
            if standing != columns:
                sizes = f"{before} has {standing}, {whose} {columns}"
                raise FixError(f"{name}: metrics that read one array must agree on its columns; {sizes}")
    for label, metric in config.metrics.items():
        if missing := [array for array, name in metric.array_names.items() if name not in declared]:
            raise FixError(f"metric {label!r}: expected the columns of {', '.join(missing)} in its settings")
    names = dict.fromkeys(name for metric in config.metrics.values() for name in metric.array_names.values())
    return {name: declared[name][0] for name in names}


def check_maps(experiment: Experiment, limit: int) -> None:
    """Raise FixError where a feature map of the experiment would hold more than `limit` numbers, or all together.

    Metrics with the same kernels on the same arrays count once.
    """
    sizes: dict[str, int] = {}
    for label, metric in experiment.config.metrics.items():
        kernels = kernels_of(metric)
        if not kernels:
            continue
        try:
            size = _map_size(metric, experiment.widths_of(metric), limit)
        except ValueError as error:
            whose = "" if metric not in experiment.config.watch else f"watch: {label}: "
            raise FixError(f"{whose}{error}") from None
        sizes[f"{kernels} {metric.array_names}"] = size
    total = sum(sizes.values())
    if total > limit:
        raise FixError(f"watch: expected feature maps of at most {limit:,} numbers together, got {total:,}")


def _map_size(metric: Metric, widths: Mapping[str, int], limit: int) -> int:
    kernels = [metric.setting(name) for name in metric.kernels]
    # Scores of pairs have a third map, as long as the other two together; both kernels have as many features.
    size = map_size(kernels[0], sum(widths[array] for array in metric.kernels.values()))
    if size > limit:
        columns = "dimension" if len(kernels) == 1 else "(dimension + prompt_dimension)"
        each = f"({columns} + features)" if kernels[0].name == "nystrom" else columns
        of = " and ".join(metric.kernels)
        raise FixError(f"{of}: expected a feature map of at most {limit:,} numbers, got {each} × features = {size:,}")
    return size


def kernels_of(metric: Metric) -> dict[str, Kernel]:
    """The kernels of a metric by the setting that holds them."""
    return {name: kernel for name in metric.kernels if (kernel := metric.setting(name)) is not None}


def needed_to_fit(metric: Metric, active: int) -> int:
    """Samples that each of `active` generators must have before open kernels of the metric can be fixed."""
    return rows_to_fit(kernels_of(metric).values(), active)


def has_open_contexts(config: ExperimentConfig) -> bool:
    """True if the first contexts fix how they become columns."""
    return config.asks.has_contexts and config.context_bandwidth == "median"


def fits_contexts(config: ExperimentConfig, metric: Metric) -> bool:
    """True if the first contexts fix how they become columns, and this metric is the one they are stored with."""
    return has_open_contexts(config) and metric.shown_label == config.metric.shown_label


def check_fitted(experiment: Experiment, metric: Metric, fitted: bytes) -> None:
    """Raise FixError unless what the first samples fixed is what the open kernels of a metric left to them, and the
    bandwidth and components of contexts, which are fixed with the metric that decides."""
    shapes = {name: array.shape for name, array in tensors.decode(fitted).items()}
    expected: dict[str, tuple[int, ...]] = {}
    if fits_contexts(experiment.config, metric):
        width = experiment.config.context or 0
        components = min(shapes.get("context.directions", (0,))[0], COMPONENTS)
        expected = {"context.sigma": (1,), "context.origin": (width,), "context.directions": (components, width)}
    widths = experiment.widths_of(metric)
    for field, kernel in kernels_of(metric).items():
        if kernel.is_open:
            expected[f"{field}.sigma"] = (1,)
            if kernel.name == "nystrom":
                expected[f"{field}.landmarks"] = (kernel.features, widths[metric.kernels[field]])
    if shapes != expected:
        raise FixError(f"what the first samples fixed: expected arrays {expected}, found {shapes}")


def too_wide(experiment: Experiment, limit: int) -> str:
    """The reason to refuse a new experiment whose batches or contexts are wider than `limit`; "" where none are."""
    widths = experiment.columns | ({} if experiment.config.context is None else {"context": experiment.config.context})
    wide = [f"{name}: expected at most {limit} columns, got {n}" for name, n in widths.items() if n > limit]
    return "; ".join(wide)
