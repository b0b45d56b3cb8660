"""One generator in the standings of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from pydantic import computed_field

from optimist_client.metrics import Scale
from optimist_client.models.decisions import even, format_score, listed, score_decimals
from optimist_client.models.experiments import GeneratorStatus
from optimist_client.wire import Answer, GeneratorName, flag, optional

NOT_SCORED = "not scored: "
"""The start of the warning that says why a generator cannot be scored."""


class AnswersChanged(Answer):
    """The result of a test on a router's generator whose answers are no longer as they were."""

    position: int
    """Log position of about the last batch before the change: what `retract` takes as `until`."""
    pick: int | None
    """The first pick after it, about; None where it was told without one."""
    samples: int
    """Samples since."""
    shift: float
    """Mean difference of their scores from the scores that were expected of the generator as it was."""
    standard_error: float
    """Standard error of the shift."""

    @computed_field
    @property
    def text(self) -> str:
        """The change in words, as it stands among the warnings."""
        since = f"batch {self.position + 1:,}" if self.pick is None else f"pick {self.pick:,}"
        way = "higher" if self.shift > 0.0 else "lower"
        shift = f"{abs(self.shift):.2g} (standard error {self.standard_error:.1g})"
        return (
            f"its answers have changed since about {since}: scores are {shift} {way} than expected "
            f"({self.samples:,} samples); retract(generator=…, until={self.position}) drops its samples from before"
        )


class Standing(Answer):
    """One generator in the report. Scores, standard errors and the ends of intervals are on the metric's natural scale;
    None if unknown. An interval covers the generator's own score with probability 1 − δ, whatever the others do."""

    generator: GeneratorName
    state: GeneratorStatus
    score: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    below_noise: bool = flag()
    """True if the estimate is below the smallest possible score, which `score` is then."""
    unclipped: tuple[float | None, float | None, float | None] | None = optional()
    """Score, lower and upper end as they were estimated, where one is below the smallest possible score; None for an
    infinite one."""
    samples: int
    batches: int
    pick_ratio: float
    pending: int
    """Samples pending under open picks."""
    scored_samples: int
    """Number of samples behind the score."""
    warnings: tuple[str, ...] = ()
    incomplete: bool = False
    """True if it cannot be scored, or unreadable batches are left out; `warnings` says which."""
    change: AnswersChanged | None = optional()
    """Only with the goal "route": that its answers have changed, once a test says so; `warnings` says it, too."""
    bracket: tuple[float, float] | None = optional()
    """Two values between which the true score lies on average, beside the interval: the score of the samples as they
    are, which is too low, and one from predicting each sample by the others, which is too high. Only for scores of
    orders below 2."""
    design_effect: float | None = optional()
    """Factor by which the variance of the score is larger than by independent samples, as samples of a batch or prompt
    are alike; only above 1.5, from 20 batches or prompts on."""
    cost_per_sample: float | None = optional()
    cost: float | None = optional()
    """Samples told times the current cost per sample; None without a cost."""

    def compared_error(self, scale: Scale) -> float:
        """The error on the scale on which scores are compared; 0 if it is not known."""
        of = self.score if scale == "log" else 1.0
        return self.standard_error / of if self.standard_error and of else 0.0

    @property
    def unscored(self) -> str:
        """Why it has no score and cannot have one; "" elsewhere."""
        reasons = (text.removeprefix(NOT_SCORED) for text in self.warnings if text.startswith(NOT_SCORED))
        return next(reasons, "") if self.score is None else ""

    @property
    def score_text(self) -> str:
        """The score as it is shown everywhere, such as "1.901", or "0 (below noise)"; "…" without one."""
        return self._texts()[0]

    @property
    def interval_text(self) -> str:
        """The interval as it is shown everywhere, such as "1.82 to 1.98"; "…" without one."""
        return self._texts()[1]

    def _texts(self, decimals: int = 0) -> tuple[str, str]:
        """Score and interval, with at least so many decimals."""
        shown = partial(format_score, error=self.standard_error, decimals=decimals)
        score = "…" if self.score is None else shown(self.score, below_noise=self.below_noise)
        low, high = (None if end is None else shown(end) for end in (self.lower, self.upper))
        return score, f"{low or '-∞'} to {high or '∞'}" if low or high else "…"

    @staticmethod
    def columns(rows: Sequence[Standing]) -> list[tuple[str, str]]:
        """The score and the interval of each, with the same decimals."""
        decimals = even(score_decimals(row.standard_error) for row in rows if row.score is not None)
        return [row._texts(decimals) for row in rows]

    def overlaps(self, other: Standing) -> bool:
        """True if the intervals of the two scores have a value in common; False if one is not known."""
        if self.lower is None or self.upper is None or other.lower is None or other.upper is None:
            return False
        return self.lower <= other.upper and other.lower <= self.upper


def ranked(
    standings: Iterable[Standing],
    best: str | None,
    *,
    lower_is_better: bool,
    differences: Mapping[str, float] = MappingProxyType({}),
) -> list[Standing]:
    """The standings sorted by score, the one called `best` before equal ones, which are in the order of their
    `differences` from it, and those without a score last."""
    sign = 1 if lower_is_better else -1

    def sort_key(row: Standing) -> tuple[bool, bool, float, float]:
        apart = differences.get(row.generator, math.inf)
        return row.score is None, row.generator != best, sign * (row.score or 0.0), apart

    return sorted(standings, key=sort_key)


def unscored(standings: Iterable[Standing]) -> str:
    """Why no generator has a score where one cannot be scored, such as "a: all rows are equal"; "" elsewhere."""
    rows = list(standings)
    if any(row.score is not None for row in rows):
        return ""
    return next((f"{row.generator}: {row.unscored}" for row in rows if row.unscored), "")


def row_warnings(standings: Sequence[Standing]) -> list[str]:
    """The warnings about generators that are not retired, one for each kind: of several that differ behind the colon,
    as in numbers of samples, the kind alone."""
    rows = [row for row in standings if row.state != "retired"]
    kinds: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for text in row.warnings:
            kinds.setdefault(text.partition(": ")[0], {}).setdefault(text, []).append(row.generator)
    said: list[str] = []
    for kind, texts in kinds.items():
        names = list(dict.fromkeys(name for several in texts.values() for name in several))
        whose = "all generators" if len(names) == len(rows) > 1 else listed(names, len(names) + 1)
        said.append(f"{whose}: {kind if len(texts) > 1 else next(iter(texts))}")
    return said
