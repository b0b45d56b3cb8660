"""The contrast: the difference of two generators, with an error of its own."""

from __future__ import annotations

import math

from pydantic import computed_field

from optimist_client.metrics import Scale
from optimist_client.models.decisions import shown_with
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
        return shown_with(self.difference, self._known_margin, self.scale)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of the difference lies on one side of 0."""
        margin = self._known_margin
        return margin is not None and abs(self.difference) > margin

    @property
    def _known_margin(self) -> float | None:
        return self.margin if self.margin is not None and math.isfinite(self.margin) else None

    def __str__(self) -> str:
        """The contrast as a sentence, with the one that is behind first."""
        first, second = self.generator, self.against
        if self.difference < 0.0:
            first, second = second, first
        apart = shown_with(abs(self.difference), self._known_margin, self.scale)
        said = f"{first} is behind {second} by {apart}"
        if self._known_margin is None:
            return f"{said}, with an error that is not known yet"
        if self.error:
            level = math.erf(self._known_margin / self.error / math.sqrt(2.0))
            said += f" ({100.0 * level:.3g} % interval{'' if self.excludes_zero else ', which includes 0'})"
        if not self.common:
            return f"{said}; no samples in common"
        return f"{said}; correlation {self.correlation:.2f} over {self.common:,} common samples"
