"""The sources of a simulation's samples: arrays, files, exported experiments, live generators, Gaussians."""

from optimist.simulation.sources.base import ArraySource, Draw, Rows, Source, SourceSet, Stream
from optimist.simulation.sources.digits import digits
from optimist.simulation.sources.files import GaussianSource, experiment, files
