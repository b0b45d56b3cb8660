"""Margins by which a candidate may be worse than the baseline: a tolerance for each metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from optimist_client.errors import FixError

if TYPE_CHECKING:
    from optimist_client.models.reports import Report

Margin = float | str | Mapping[str, float | str]
"""A difference on the scale on which scores are compared, or a share of the baseline's score such as "1%"; of several
metrics by their labels."""


def by_label(margin: Margin, labels: Sequence[str]) -> dict[str, float | str]:
    """The margin of each metric; one without a label is that of all these metrics. Raises FixError."""
    from optimist_client import tolerance  # not before: pydantic takes long to import

    if not isinstance(margin, Mapping):
        return dict.fromkeys(labels, tolerance.checked(margin, "margin: "))
    if not margin:
        raise FixError("margin: expected one metric or more, got none")
    return {label: tolerance.checked(each, f"margin: {label!r}: ") for label, each in margin.items()}


def parsed(texts: Iterable[str], labels: Sequence[str]) -> dict[str, float | str]:
    """The margins in texts such as "1%", that of all these metrics, and "fid=2%". Raises FixError."""
    from optimist_client import tolerance

    margins: dict[str, float | str] = {}
    for text in texts:
        label, equals, value = text.rpartition("=")
        margin = tolerance.parsed(value, "margin: ")
        margins |= {label: margin} if equals else dict.fromkeys(labels, margin)
    return margins


class Steps:
    """The samples that a gate makes until it looks again: batches of both generators, and a tenth of all so far."""

    def __init__(self, batch: int, max_samples: int | None) -> None:
        """batch: samples that are made of one generator at a time. max_samples: samples of all steps together."""
        self._both = 2 * batch
        self._left = max_samples
        self._told, self._ended = 0, False

    def next(self) -> int:
        """The samples of the next step; 0 at the end."""
        step = max(self._told // (10 * self._both), 1) * self._both
        return 0 if self._ended else step if self._left is None else min(step, self._left)

    def made(self, step: int, report: Report) -> None:
        """Note the report after a step of so many samples."""
        self._told, self._ended = report.samples, report.ended
        self._left = None if self._left is None else self._left - step


def check_both(candidate: str, baseline: str, generators: Mapping[str, object]) -> None:
    """Raise FixError unless there are functions of these two, and no others."""
    if {candidate, baseline} != {*generators}:
        got = ", ".join(generators) or "none"
        raise FixError(f"generators: expected functions of {candidate} and {baseline}, got {got}")
