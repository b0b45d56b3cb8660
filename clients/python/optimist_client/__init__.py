"""The Python SDK of Optimist: `Optimist(url).create_experiment(…).run(…)`, or `AsyncOptimist` for asyncio.

Names are loaded on first use, so that importing one module, such as `tensors` or an embedder, does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist_client.client import AsyncListedExperiment, AsyncOptimist, ListedExperiment, Optimist
    from optimist_client.errors import (
        BusyError,
        ConflictError,
        FixError,
        GeneratorError,
        NotFoundError,
        OptimistError,
        RetryError,
        StopError,
        UnreachableError,
    )
    from optimist_client.experiment import AsyncExperiment, Experiment
    from optimist_client.models import ExperimentConfig, Report
    from optimist_client.pick import AsyncPick, Pick

__all__ = [
    "AsyncExperiment",
    "AsyncListedExperiment",
    "AsyncOptimist",
    "AsyncPick",
    "BusyError",
    "ConflictError",
    "Experiment",
    "ExperimentConfig",
    "FixError",
    "GeneratorError",
    "ListedExperiment",
    "NotFoundError",
    "Optimist",
    "OptimistError",
    "Pick",
    "Report",
    "RetryError",
    "StopError",
    "UnreachableError",
]

_HOMES = {
    "client": ("AsyncListedExperiment", "AsyncOptimist", "ListedExperiment", "Optimist"),
    "experiment": ("AsyncExperiment", "Experiment"),
    "models": ("ExperimentConfig", "Report"),
    "pick": ("AsyncPick", "Pick"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'optimist_client' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"optimist_client.{_HOME_OF.get(name, 'errors')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
