"""The contrast: the difference of two generators, with an interval of its own."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import computed_field

from optimist_client.metrics import Scale
from optimist_client.models.decisions import even, format_range, range_decimals
from optimist_client.wire import Answer, GeneratorName


class Contrast(Answer):
    """Difference by which one generator scores worse than another, on the scale that scores are compared on (`scale`).

    Where the two were sampled with the same seeds or prompts, the interval is narrower than those of their scores
    suggest: these may overlap although the order is sure.
    """

    generator: GeneratorName
    against: GeneratorName
    scale: Scale
    difference: float
    """Difference by which `generator` is worse than `against`, negative if it is better; of logarithms if the scale is
    "log"."""
    standard_error: float | None
    """Standard error of the difference; None while it is unknown."""
    lower: float | None
    """Lower end of the interval of the difference. In an experiment it is that of the stopping rule: all intervals hold
    with probability 1 − δ, for all rivals of the best generator and however often somebody looks. Between samples that
    are there (`contrast`) it holds for this difference alone. None while it is unknown, and without bound."""
    upper: float | None
    """Upper end of the same interval."""
    correlation: float
    """Correlation of the chance in the two scores, 0 where nothing is known of it."""
    common: int
    """Samples of the same index that both have, at least; 0 in an experiment that is not paired."""

    @computed_field
    @property
    def text(self) -> str:
        """The difference and its interval as they are shown everywhere, such as "3.2% (2.8 to 3.6%)"."""
        return self._text()

    def _text(self, decimals: int = 0) -> str:
        return format_range(self.difference, self.lower, self.upper, self.scale, decimals)

    @staticmethod
    def column(rows: Sequence[Contrast]) -> list[str]:
        """The texts of several contrasts, with the same decimals."""
        needed = (range_decimals(row.difference, row.lower, row.upper, row.scale) for row in rows)
        decimals = even(number for number in needed if number is not None)
        return [row._text(decimals) for row in rows]

    @property
    def half_width(self) -> float | None:
        """Half of the width of the interval; None where an end is not known."""
        return None if self.lower is None or self.upper is None else 0.5 * (self.upper - self.lower)

    @property
    def excludes_zero(self) -> bool:
        """True if the interval of the difference lies on one side of 0."""
        return (self.lower is not None and self.lower > 0.0) or (self.upper is not None and self.upper < 0.0)

    def __str__(self) -> str:
        """The contrast as a sentence, with the worse one first."""
        first, second, lower, upper = self.generator, self.against, self.lower, self.upper
        if self.difference < 0.0:
            first, second = second, first
            lower, upper = (None if end is None else -end for end in (self.upper, self.lower))
        said = f"{first} is worse than {second} by {format_range(abs(self.difference), lower, upper, self.scale)}"
        if lower is None and upper is None:
            return f"{said}, with an interval that is not known yet"
        if not self.excludes_zero:
            said += ", which may be chance"
        if not self.common:
            return f"{said}; no samples in common"
        return f"{said}; correlation {self.correlation:.2f} over {self.common:,} common samples"
