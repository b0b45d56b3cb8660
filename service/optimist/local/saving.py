"""An evaluation as one file: an `.npz` without pickles, which holds all arrays and one JSON text.

The file holds what the evaluation was made with and what it is now: real data, statistics, reservoirs, estimates. An
evaluation that was loaded continues as the one that was saved would have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.estimation.metric_estimators import Arrays
from optimist.metrics.vendi.kernels import KernelSettings
from optimist.references.real_data import RealData
from optimist_client.errors import FixError
from optimist_client.metrics import Metric, find
from optimist_client.replacing import replaced

FORMAT = 1
"""The version of the file's layout."""
_TEXT = "evaluation"
"""The array with the JSON text, as bytes."""
_ARRAYS = ("omegas", "landmarks")
"""The settings of a kernel that are arrays."""


def write(file: Path, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file, which takes the place of an earlier one only once it is complete. Raises OSError."""
    text = json.dumps({"format": FORMAT, **values}, allow_nan=False)
    with replaced(file) as part, part.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **{_TEXT: np.frombuffer(text.encode(), np.uint8), **arrays})


def read(file: Path) -> tuple[dict[str, Any], Arrays]:
    """The values and arrays that `write` was given. Raises FixError for another file, or one of a later version."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        values = json.loads(arrays.pop(_TEXT).tobytes())
        version = values["format"]
    except FileNotFoundError:
        raise FixError(f"{file}: no such file") from None
    # A damaged file may raise errors of zipfile, zlib or numpy, depending on where it is damaged.
    except Exception as error:
        raise FixError(f"{file}: expected a file that Evaluation.save wrote: {error}") from None
    if version != FORMAT:
        raise FixError(f"{file}: expected format {FORMAT}, found {version}: a newer version wrote it")
    return values, arrays


def metric_parts(metric: Metric, prefix: str) -> tuple[dict[str, Any], Arrays]:
    """The settings of a metric for JSON, and its arrays, whose names begin with `prefix`.

    Raises FixError if it holds what a metric has made of real data, instead of the data.
    """
    kernels = {name: metric.setting(name) for name in metric.kernels}
    without = metric.model_copy(update={"reference": None, **dict.fromkeys(kernels)})
    settings = json.loads(without.model_dump_json(exclude_unset=True))
    values: dict[str, Any] = {name: value for name, value in settings.items() if name not in ("reference", *kernels)}
    arrays: Arrays = {}
    for name, kernel in kernels.items():
        if kernel is None:
            continue
        kernel = KernelSettings.from_kernel(kernel, name)
        values[name] = json.loads(kernel.model_dump_json(exclude=set(_ARRAYS), exclude_unset=True))
        parts = {part: getattr(kernel, part) for part in _ARRAYS}
        arrays |= {f"{prefix}/{name}/{part}": array for part, array in parts.items() if array is not None}
    data = metric.setting("reference")
    if data is not None:
        if not isinstance(data, RealData):
            raise FixError(f"metric {metric.name!r}: its reference cannot be saved: expected real data")
        arrays |= {f"{prefix}/reference/{part}": array for part, array in data.arrays.items()}
    return values, arrays


def metric_from(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str) -> Metric:
    """The inverse of `metric_parts`."""
    kind, settings = find(values["name"]), {name: value for name, value in values.items() if name != "name"}
    for name in kind.kernels:
        if name in settings:
            own = {part: arrays[f"{prefix}/{name}/{part}"] for part in _ARRAYS if f"{prefix}/{name}/{part}" in arrays}
            settings[name] = KernelSettings.from_kernel({**settings[name], **own}, name)
    metric = kind.of(settings)
    within = f"{prefix}/reference/"
    parts = {name.removeprefix(within): array for name, array in arrays.items() if name.startswith(within)}
    return metric.model_copy(update={"reference": RealData.from_arrays(parts)}) if parts else metric
