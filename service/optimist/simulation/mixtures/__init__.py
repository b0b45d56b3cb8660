"""Simulations of the goal "mixture": what the samples drawn, and the weights named, lose against the best blend."""

from optimist.simulation.mixtures.compare import compare
from optimist.simulation.mixtures.result import MixtureResult
from optimist.simulation.mixtures.run import MixtureRun, MixtureSummary
from optimist.simulation.mixtures.truth import TrueBlends, checked_truth

__all__ = ["MixtureResult", "MixtureRun", "MixtureSummary", "TrueBlends", "checked_truth", "compare"]
