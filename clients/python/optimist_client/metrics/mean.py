"""Means of one number for each sample."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from optimist_client.errors import FixError
from optimist_client.metrics.base import ArrayName, Metric, declare
from optimist_client.validation import brief, is_collection
from optimist_client.wire import flag, optional

FiniteValue = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
Range = tuple[FiniteValue, FiniteValue]
DOUBT = "doubt"
"""The metric's own name for the array of a judge's doubt."""
_LARGEST = "of a latency the largest value is its time-out, of a cost what a call may cost at most"
_HOLDS = "bound 'betting' then holds whatever values have not come yet"


class OfValues(Metric):
    """The base class of means."""

    arrays = {"values": ""}
    bounds = {"influence": frozenset(), "empirical-bernstein": frozenset(), "betting": frozenset()}
    strict = frozenset({"empirical-bernstein", "betting"})
    repeats = True
    offers = frozenset({"routes"})

    repeatable: bool = flag()
    """True if a prompt's answer always has the same score, as at temperature 0, where `prompts_are` a "list". No
    generator is then asked for more than the list, at whose end its scores are exact."""
    proxy: ArrayName | Annotated[list[ArrayName], Field(min_length=2, max_length=16)] | None = optional()
    """The array that a judge's scores are in, where `reads` names what people say of some of the samples: the score is
    the mean by the people, and the judge only makes its error smaller. Batches bring the judge's scores alone. Of
    several judges, each with an array of its own, the mean counts, and their spread is the doubt."""
    doubt: ArrayName | None = optional()
    """The array of how unsure the judge is of each sample, in any unit, instead of the spread of several judges: people
    are asked more often where it foretells them badly."""

    @model_validator(mode="after")
    def _are_apart(self) -> Self:
        if self.doubt is not None and self.proxy is None:
            raise FixError("doubt: expected a proxy, the judge that is unsure")
        self.check_apart(self.reads)
        return self

    def check_apart(self, people: str | None) -> None:
        """Raise FixError where what people say, judges and doubt are not in arrays, or fields, of their own."""
        names = [*self.array_names.values()]
        if people is not None and self.is_audited:
            names = [people, *names]
        if len(set(names)) < len(names):
            raise FixError(f"people, judges, doubt: expected names of their own, got {', '.join(names)}")

    @property
    def array_names(self) -> dict[str, str]:
        """Arrays of a batch; where there is a judge, those of its scores, and of its doubt as `DOUBT`."""
        if self.proxy is None:
            return super().array_names
        proxies = [self.proxy] if isinstance(self.proxy, str) else self.proxy
        first = self.first_array()
        names = {f"{first} {index}" if index else first: name for index, name in enumerate(proxies)}
        return names if self.doubt is None else {**names, DOUBT: self.doubt}

    @property
    def first_name(self) -> str:
        """The array of the first judge's scores where there is a judge."""
        return self.array_names[self.first_array()]

    @property
    def answers_between(self) -> tuple[float, float] | None:
        """The least and the largest number that people may say; None: any."""
        return None

    @property
    def widths(self) -> dict[str, int]:
        """One column of each."""
        return dict.fromkeys(self.array_names, 1)

    @property
    def scores_lists(self) -> bool:
        """Always."""
        return True

    def check_bound(self, bound: str) -> None:
        """Raise FixError if there is no such bound, or if it needs a range and there is none."""
        super().check_bound(bound)
        if self.proxy is not None and bound != "influence":
            raise FixError(f"proxy: expected the bound 'influence', got {bound!r}")
        if bound in self.strict and not self.limits:
            raise FixError(
                f"range: bound {bound!r} needs the least and the largest value that a sample can have; {_LARGEST}"
            )


def check_unaudited(metrics: Iterable[Metric], where: str) -> None:
    """Raise FixError where one of the metrics has a judge, as people are not asked here.

    where: the caller, for the message.
    """
    for metric in metrics:
        if metric.is_audited:
            asks = "`contrast` takes people's scores; `Evaluation.audits`, and an experiment of a service, ask for them"
            raise FixError(f"metric {metric.shown_label!r}: proxy: {where} asks no people; {asks}")


@declare
class Mean(OfValues):
    """The mean of a number per sample: a reward, CLIPScore, an aesthetic score, pass@1, latency."""

    name = "mean"
    implementation = "optimist.metrics.mean"
    title = "Mean"

    higher_is_better: bool = True
    """True if the generator with the highest mean is best."""
    range: Range | None = None
    """The least and the largest value that a sample can have: of a latency the time-out, of a cost what a call may cost
    at most. A batch with a value outside of it is refused. The bounds `empirical-bernstein` and `betting` need it: they
    hold whatever values have not come yet, which no bound does without a range."""
    timed: bool = flag()
    """True if values depend on the time that an answer takes, as latency, tokens, cost and failures do. Pending answers
    are then slower than told ones: once the stopping rule is satisfied, no picks are opened, open picks are awaited,
    and the rule is applied again. Means whose batches show such a dependence are treated so without this setting."""
    censored_at: FiniteValue | None = optional()
    """The value as which a call that was cut off is told, such as the seconds of its time-out: values from this on mean
    "at least this". They count as they are told. The report says how many there are, that the mean is at least what is
    shown, and where that might change the decision."""

    @field_validator("range", mode="before")
    @classmethod
    def _are_two(cls, limits: object) -> object:
        if limits is not None and not (is_collection(limits) and len(limits) == 2):
            raise FixError(f"expected the least and the largest value, such as (0, 10); got {brief(limits)}")
        if is_collection(limits) and any(end is None or end in (math.inf, -math.inf) for end in limits):
            raise FixError(f"expected two finite numbers, got {brief(limits)}: {_LARGEST}; {_HOLDS}")
        return limits

    @field_validator("range")
    @classmethod
    def _in_order(cls, limits: Range | None) -> Range | None:
        if limits is not None and not limits[0] < limits[1]:
            raise FixError(f"expected the least value and a larger one, got {limits[0]:g} and {limits[1]:g}")
        return limits

    @property
    def lower_is_better(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The opposite of `higher_is_better`."""
        return not self.higher_is_better

    @property
    def positive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if the range begins at 0 or above."""
        return self.range is not None and self.range[0] >= 0.0

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The range; where there is a judge, whose scores may have another one, none."""
        return {} if self.range is None or self.proxy is not None else {"values": self.range}

    @property
    def answers_between(self) -> tuple[float, float] | None:
        """The range."""
        return self.range


@declare
class WinRate(OfValues):
    """Rate of wins against a baseline: the mean of 1 (win), 1/2 (tie) and 0, or of a judge's probability."""

    name = "win-rate"
    implementation = "optimist.metrics.mean"
    title = "Win rate"
    positive = True

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """0 to 1."""
        return {own: (0.0, 1.0) for own in self.array_names if own != DOUBT}

    @property
    def answers_between(self) -> tuple[float, float] | None:
        """0 to 1."""
        return 0.0, 1.0
