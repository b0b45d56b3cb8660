"""The sources of a simulation's samples: arrays, files, exported experiments, live generators, Gaussians."""

from optimist.simulation.sources.arrays import ArraySource
from optimist.simulation.sources.base import Draw, Rows, Source, SourceSet, Stream
from optimist.simulation.sources.digits import digits
from optimist.simulation.sources.experiments import experiment
from optimist.simulation.sources.files import files
from optimist.simulation.sources.gaussian import GaussianSource

__all__ = [
    "ArraySource",
    "Draw",
    "GaussianSource",
    "Rows",
    "Source",
    "SourceSet",
    "Stream",
    "digits",
    "experiment",
    "files",
]
