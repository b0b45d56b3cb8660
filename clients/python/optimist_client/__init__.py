"""The Python SDK of Optimist: `Optimist(url).create_experiment(…).run(…)`, or `AsyncOptimist` for asyncio."""

from optimist_client.client import AsyncOptimist, Optimist
from optimist_client.errors import (
    Busy,
    Conflict,
    Fix,
    GeneratorError,
    NotFound,
    OptimistError,
    Retry,
    Stop,
    Unreachable,
)
from optimist_client.experiment import AsyncExperiment, Experiment
from optimist_client.models import ExperimentConfig, Report
from optimist_client.pick import AsyncPick, Pick

__all__ = [
    "AsyncExperiment",
    "AsyncOptimist",
    "AsyncPick",
    "Busy",
    "Conflict",
    "Experiment",
    "ExperimentConfig",
    "Fix",
    "GeneratorError",
    "NotFound",
    "Optimist",
    "OptimistError",
    "Pick",
    "Report",
    "Retry",
    "Stop",
    "Unreachable",
]
