"""The Python SDK of Optimist: `Optimist(url).create_experiment(…).picks()`."""

from optimist_client.client import Optimist
from optimist_client.errors import Conflict, Fix, NotFound, OptimistError, Retry, Stop
from optimist_client.experiment import Experiment, Pick
from optimist_client.models import ExperimentConfig, Report

__all__ = [
    "Conflict",
    "Experiment",
    "ExperimentConfig",
    "Fix",
    "NotFound",
    "Optimist",
    "OptimistError",
    "Pick",
    "Report",
    "Retry",
    "Stop",
]
