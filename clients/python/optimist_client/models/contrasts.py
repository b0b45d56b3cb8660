"""The contrast: the difference of two generators, with an error of its own."""

from __future__ import annotations

import math

from pydantic import computed_field

from optimist_client.metrics import Scale
from optimist_client.models.decisions import shown
from optimist_client.wire import Answer, GeneratorName


class Contrast(Answer):
    """How much worse one generator scores than another, on the scale on which scores are compared (`scale`).

    Where the two were sampled with the same seeds or prompts, the error is smaller than those of their scores suggest:
    their intervals may overlap although the order is sure.
    """

    generator: GeneratorName
    against: GeneratorName
    scale: Scale
    difference: float
    """By how much `generator` is worse than `against`, negative if it is better; a difference of logarithms if the
    scale is "log"."""
    error: float | None
    """Standard error of the difference; None while it is unknown."""
    margin: float | None
    """Half the width of the 1 − δ interval of the difference; None while it is unknown."""
    correlation: float
    """Correlation of the chance in the two scores, 0 where nothing is known of it."""
    common: int
    """Samples of the same index that both have, at least; 0 in an experiment that is not paired."""

    @computed_field
    @property
    def text(self) -> str:
        """The difference and its margin as they are shown everywhere, such as "3.2% ± 0.4%"."""
        difference = shown(self.difference, self.scale)
        if self.margin is None or not math.isfinite(self.margin):
            return difference
        return f"{difference} ± {shown(self.margin, self.scale, self.difference)}"
