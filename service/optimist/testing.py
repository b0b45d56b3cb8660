"""A kit for whoever adds a metric: `check_metric` looks whether it keeps what the service relies on.

from optimist.testing import check_metric

print(check_metric(ColumnMean(dimension=4)))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import arrays_of, check_arrays, tensors_of
from optimist.estimation.question import Question, prepared, with_real_data
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.base import Statistic
from optimist.metrics.bound import Bound
from optimist.policies import Arm, contrast
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

ArrayRows = Mapping[str, NDArray[np.float64]]
"""Rows (n, …) by the metric's own arrays."""
Law = Callable[[np.random.Generator, int], ArrayRows]
"""Draws so many independent samples."""
WIDTH = 4
"""Columns of an array whose number the settings leave open."""


class BrokenPromises(AssertionError):
    """The promises that a metric does not keep, one line each."""


@dataclass(frozen=True)
class Checked:
    """Measurements of a metric that keeps its promises."""

    metric: str
    truth: float
    """The value of the law, on the metric's scale."""
    bias: float
    """Mean of the estimates, less the truth, in errors of one estimate."""
    rms: float
    """Root mean square of (estimate − truth)/error: 1 where errors are right, above where they are too small."""
    coverage: float
    """Share of the intervals that hold the truth."""
    paired: float
    """Error of a difference of independent generators by common indices, over the error without."""

    def __str__(self) -> str:
        return (
            f"{self.metric}: bias {self.bias:+.2f} of an error, errors {self.rms:.2f}, intervals hold in "
            f"{self.coverage:.0%}, independent generators {self.paired:.2f}"
        )


def check_metric(
    metric: str | Metric,
    law: Law | None = None,
    *,
    truth: float | None = None,
    samples: int = 300,
    streams: int = 40,
    delta: float = 0.05,
    seed: int = 0,
    **settings: Any,
) -> Checked:
    """Check that a metric keeps what the service relies on, on samples of a known law.

    Any split of the samples into batches gives the same estimate; a state that was stored and read goes on bit for bit;
    a batch that was retracted leaves nothing behind; batches that are not valid are refused and change nothing; from 2
    samples on estimates are finite; from `samples` on they are right on average, and their errors are; where two
    generators have nothing in common, their comparison by indices is a comparison of independent ones.

    law: by default normal features a little off the reference's, normal values within the metric's limits, or
    random probabilities. truth: the value of the law on the metric's scale (its logarithm for "log"); by default the
    estimate of many more samples. settings: of a metric that is given by name, such as `reference` or `kernel`.
    Raises BrokenPromises with all that is broken, FixError for settings that are not valid.
    """
    check = _Check(metric, law, samples, delta, seed, settings)
    broken = [*check.splits(), *check.stored_states(), *check.refusals(), *check.first_samples()]
    checked = check.on_the_law(truth, streams)
    if abs(checked.bias) > 0.25 + 4.0 / math.sqrt(streams):
        broken.append(f"estimates of {samples} samples are off by {checked.bias:+.2f} of their errors on average")
    if not 0.6 <= checked.rms <= 1.5:  # known to about a tenth from 40 streams
        word = "small" if checked.rms > 1.0 else "large"
        broken.append(f"errors are too {word}: (estimate − truth)/error has the root mean square {checked.rms:.2f}")
    if not 0.75 <= checked.paired <= 1.33:
        broken.append(
            f"the error of a difference of independent generators is {checked.paired:.2f} times what it should be"
        )
    if broken:
        raise BrokenPromises(
            f"{check.metric.shown_title} does not keep what the service relies on:\n" + "\n".join(broken)
        )
    return checked


class _Check:
    """One metric with a law, from which all checks draw."""

    def __init__(
        self,
        metric: str | Metric,
        law: Law | None,
        samples: int,
        delta: float,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self._rng = np.random.default_rng(seed)
        given = with_real_data(metric, **settings)
        if "reference" in given.needs and given.setting("reference") is None:
            given = with_real_data(given.model_copy(update={"reference": self._rng.normal(size=(2000, WIDTH))}))
        question = Question(prepared(given), delta=delta)
        self.metric = given
        self._samples = samples
        self._law = law or self._usual
        self._columns = {name: question.widths.get(name, WIDTH) for name in question.arrays}
        self._question = question.fitted({name: [torch.from_numpy(rows)] for name, rows in self._draw(samples).items()})

    @cached_property
    def _bound(self) -> Bound:
        return self._question.bound_for(self._columns)

    def _usual(self, rng: np.random.Generator, count: int) -> ArrayRows:
        """Samples of the usual law: normal rows, within limits where the metric has them; or probabilities."""
        samples: dict[str, NDArray[np.float64]] = {}
        for name, columns in self._columns.items():
            rows = rng.normal(0.3, 1.0, size=(count, columns))
            if name in self.metric.simplex:
                odds = np.exp(rows)
                rows = odds / odds.sum(axis=1, keepdims=True)
            elif name in self.metric.limits:
                low, high = self.metric.limits[name]
                rows = rng.uniform(low, high, size=(count, columns))
            samples[name] = rows
        return samples

    def _draw(self, count: int) -> ArrayRows:
        return {name: np.ascontiguousarray(rows, np.float64) for name, rows in self._law(self._rng, count).items()}

    def _told(self, batches: Iterable[ArrayRows], statistic: Statistic | None = None) -> Statistic:
        """The statistic, a new one where none is given, after these batches."""
        told: Statistic = self._bound.statistic() if statistic is None else statistic
        for batch in batches:
            told.update(*(torch.from_numpy(batch[name]) for name in self._columns))
        return told

    def splits(self, same: float = 1e-7) -> Iterator[str]:
        """Any split into batches gives the same estimate. same: relative difference of sums in another order."""
        rows = self._draw(self._samples)
        whole = self._bound.estimate(self._told([rows]))
        for parts in (self._samples, 7):
            cuts = np.sort(self._rng.choice(np.arange(1, self._samples), parts - 1, replace=False))
            pieces = {name: np.split(each, cuts) for name, each in rows.items()}
            batches = [{name: each[i] for name, each in pieces.items()} for i in range(parts)]
            split = self._bound.estimate(self._told(batches))
            for number in ("value", "plug_in", "stopping_error"):
                one, other = getattr(whole, number), getattr(split, number)
                if not math.isclose(one, other, rel_tol=same, abs_tol=same * (whole.stopping_error or 1.0)):
                    yield f"in {parts} batches the {number} of the same samples is {other!r}, in one batch {one!r}"

    def stored_states(self) -> Iterator[str]:
        """A state that was stored and read goes on as the one that was not; so does one without a retracted batch."""
        first, second, wrong = (self._draw(self._samples // 3) for _ in range(3))
        kept = self._told([first])
        stored = _copied(kept.state())
        try:
            again: Statistic = self._bound.statistic().restore(_copied(stored))
        except (KeyError, ValueError) as error:
            yield f"the state of a statistic cannot be read again: {error!r}"
            return
        if again.samples != kept.samples:
            yield f"a statistic that was read again has {again.samples} samples in place of {kept.samples}"
        self._told([wrong], self._bound.statistic().restore(_copied(stored)))
        if not _same(stored, kept.state()):
            yield "a state changes while another statistic, which was read from its copy, goes on"
        going, gone = self._told([second], kept), self._told([second], again)
        if not _same(going.state(), gone.state()):
            yield "a statistic that was stored and read goes on to another state"
        elif self._bound.estimate(going) != self._bound.estimate(gone):
            yield "a statistic that was stored and read has another estimate"

    def refusals(self) -> Iterator[str]:
        """Batches that are not valid are refused, and change nothing."""
        rows, estimator = self._draw(20), self._estimator(rows=self._draw(20))
        before = _copied(estimator.state())
        for fault, name, wrong in self._wrong(rows):
            try:
                self._add(estimator, {**rows, name: wrong})
            except FixError:
                if not _same(before, estimator.state()):
                    yield f"{name}: a batch with {fault} was refused, but changed the state"
            else:
                yield f"{name}: a batch with {fault} was not refused"
                return

    def _wrong(self, rows: ArrayRows) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
        for name, right in rows.items():
            for fault, number in (("a NaN", math.nan), ("an infinite number", math.inf)):
                wrong = right.copy()
                wrong[3, 0] = number
                yield fault, name, wrong
            yield "a column too many", name, np.concatenate([right, right[:, :1]], axis=1)
            yield "no rows", name, right[:0]

    def first_samples(self) -> Iterator[str]:
        """Estimates are finite from 2 samples on, and have a plug-in value from the first one on."""
        rows = self._draw(30)
        for count in (1, 2, 3, 5, 30):
            part = {name: each[:count] for name, each in rows.items()}
            try:
                self._bound.estimate(self._told([part]))
            except (ArithmeticError, ValueError) as error:
                yield f"{count} samples have no estimate: {error}"

    def on_the_law(self, truth: float | None, streams: int) -> Checked:
        """Estimates of many streams against the truth."""
        value, doubt = (truth, 0.0) if truth is not None else self._truth()
        estimates = [self._estimate(self._samples) for _ in range(streams)]
        errors = np.array([math.hypot(estimate.stopping_error or math.inf, doubt) for estimate in estimates])
        z = (np.array([estimate.value for estimate in estimates]) - value) / errors
        return Checked(
            metric=self.metric.shown_title,
            truth=value,
            bias=float(z.mean()),
            rms=float(np.sqrt(np.square(z).mean())),
            coverage=float(
                np.mean([estimate.lower - doubt <= value <= estimate.upper + doubt for estimate in estimates])
            ),
            paired=self._paired(),
        )

    def _estimate(self, count: int) -> Estimate:
        return self._bound.estimate(self._told([self._draw(count)]))

    def _truth(self) -> tuple[float, float]:
        """The value of the law by 20 times as many samples, and its standard error."""
        estimate = self._estimate(20 * self._samples)
        return estimate.value, estimate.stopping_error or 0.0

    def _paired(self) -> float:
        rows = self._draw(self._samples), self._draw(self._samples)
        errors: list[float] = []
        for paired in (True, False):
            one, other = (self._estimator(each, paired).estimate() for each in rows)
            difference = contrast(Arm("one", one), Arm("other", other), 1.0, FEWEST_SAMPLES)
            errors.append(difference.standard_error or math.inf)
        return errors[0] / errors[1]

    def _estimator(self, rows: ArrayRows, paired: bool = True) -> StreamingEstimator:
        estimator = StreamingEstimator(self._bound, 0.0, paired)
        self._add(estimator, rows)
        return estimator

    def _add(self, estimator: StreamingEstimator, rows: ArrayRows) -> None:
        """Add a batch as `Evaluation` and the API do. Raises FixError if it is not valid."""
        named = {self.metric.array_names[name]: each for name, each in rows.items()}
        columns = {self.metric.array_names[name]: width for name, width in self._columns.items()}
        arrays = check_arrays(arrays_of(named, columns), [self._question], columns)
        count = len(next(iter(arrays.values())))
        batch = self._question.own(tensors_of(arrays))
        estimator.add(batch, [f"{row}" for row in range(count)], indices=(estimator.samples, count))


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """True if both are equal bit for bit."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )
