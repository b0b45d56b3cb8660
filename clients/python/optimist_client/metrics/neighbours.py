"""The scores of neighbourhoods of real samples: precision, density and coverage."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optimist_client.metrics.base import declare
from optimist_client.metrics.real_rows import AgainstRows

Neighbours = Annotated[int, Field(ge=1, le=1000)]


class OfNeighbours(AgainstRows):
    """The base class of the scores that compare samples with balls around the rows of real features."""

    floor = 0.0

    neighbours: Neighbours = 5
    """k: the ball around a real row reaches to its k-th nearest real row."""


@declare
class Precision(OfNeighbours):
    """The share of the samples that are as close to a real sample as its own neighbours: fidelity."""

    name = "precision"
    implementation = "optimist.metrics.neighbours"
    title = "Precision"


@declare
class Density(OfNeighbours):
    """In how many neighbourhoods of real samples a sample lies, divided by how many neighbours span one: fidelity."""

    name = "density"
    implementation = "optimist.metrics.neighbours"
    title = "Density"


@declare
class Coverage(OfNeighbours):
    """The share of the real samples that have a generated one in their neighbourhood: diversity."""

    name = "coverage"
    implementation = "optimist.metrics.neighbours"
    title = "Coverage"

    at: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """The number of samples whose coverage it is: the same for all generators, because coverage grows with it. With
    fewer samples than that the score is extrapolated, and its interval is wide."""
