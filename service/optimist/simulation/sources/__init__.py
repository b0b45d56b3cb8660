"""Where a simulation's samples come from: arrays, files, exported experiments, live generators, Gaussians."""

from optimist.simulation.sources.arrays import ArraySource
from optimist.simulation.sources.base import Bed, Draw, Rows, Source, Stream
from optimist.simulation.sources.digits import digits
from optimist.simulation.sources.experiments import experiment
from optimist.simulation.sources.files import files
from optimist.simulation.sources.gaussian import GaussianSource

__all__ = [
    "ArraySource",
    "Bed",
    "Draw",
    "GaussianSource",
    "Rows",
    "Source",
    "Stream",
    "digits",
    "experiment",
    "files",
]
