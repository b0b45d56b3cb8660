"""The judge's scores of a generator's samples, people's of some of them, and the estimate by the people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.anomalies.batches import LARGEST
from optimist.arrays import Floats
from optimist.estimates.audited import AUDITABLE, DOUBTED, AuditedMean
from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import Pairing
from optimist.estimation.paired import IndexRuns, runs_of
from optimist.metrics.bound import SMALLEST_ERROR
from optimist.metrics.mean import MeanStatistic
from optimist.metrics.state import Stateful
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client.errors import FixError
from optimist_client.metrics.mean import DOUBT

NO_PEOPLE = f"people's answers are missing, so the score is the judge's mean: a decision needs {FEWEST_SAMPLES} audits"


def judged(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The judge's scores (b, 1) under their own name, of several judges the mean, and how unsure it is (b, 1) as
    `DOUBT`, where it says so, or there are several: then their standard deviation.

    own: the arrays of a batch by the metric's own names, the judges' first.
    """
    name, *others = (each for each in own if each != DOUBT)
    if not others:
        return dict(own)
    scores = torch.cat([own[each].double() for each in (name, *others)], dim=1)
    doubt = own[DOUBT] if DOUBT in own else scores.std(1, correction=0, keepdim=True)
    return {name: scores.mean(1, keepdim=True), DOUBT: doubt}


class AuditAnswer(NamedTuple):
    """Human score of a sample."""

    audit: int
    """The number of the audit, the same for all generators."""
    sample: int
    """Its index."""
    weight: float
    """Inverse of the draw's probability relative to uniform drawing: 1/(N π)."""
    score: float


class AuditEstimator(Stateful):
    """The judge's scores by index, and people's answers by the number of their audit.

    The state, and every number that follows, depends on the answers and not on the order in which they came.
    """

    held = ("by_index", "_answers")

    def __init__(
        self, delta: float, most: int, between: tuple[float, float] | None, states_doubt: bool = False
    ) -> None:
        """most: number of first indices whose judge's scores are in estimates. between: limits of human scores.
        states_doubt: whether batches say how unsure the judge is."""
        self._delta, self._most, self._between = delta, most, between
        self._kept, self._end = np.zeros((2 if states_doubt else 1, 0)), 0
        self._answers = np.zeros((0, len(AuditAnswer._fields)))

    @property
    def by_index(self) -> Floats:
        """The judge's scores, and its doubt if it states that, by index (1 or 2, n), NaN where none has come."""
        return self._kept[:, : self._end]

    @by_index.setter
    def by_index(self, values: Floats) -> None:
        self._kept, self._end = values, values.shape[1]

    @property
    def scores(self) -> Floats:
        """The judge's scores by index (n,), NaN where none has come."""
        return self.by_index[0]

    @property
    def answers(self) -> list[AuditAnswer]:
        """All answers, by the numbers of their audits."""
        return [AuditAnswer(int(audit), int(sample), *rest) for audit, sample, *rest in self._answers.tolist()]

    def add(self, said: Sequence[Tensor], indices: IndexRuns | None) -> None:
        """Add the judge's scores (b, 1) of a batch, and its doubt if it states that, at indices that have passed
        `CommonRows.check`."""
        rows, row = np.array([each.flatten().double().cpu().numpy() for each in said]), 0
        for first, count in runs_of(indices or ()):
            end = min(first + count, AUDITABLE)
            if first < end:
                self._reserve(end)
                part = self._kept[:, first:end]
                part[:] = np.where(np.isnan(part), rows[:, row : row + end - first], part)
            row += count

    def _reserve(self, end: int) -> None:
        kinds, size = self._kept.shape
        if end > size:
            more = max(end, 2 * size) - size
            self._kept = np.concatenate([self._kept, np.full((kinds, more), np.nan)], axis=1)
        self._end = max(self._end, end)

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """True where the judge has scored the sample of the index."""
        return ~np.isnan(self.scores)

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """True where people have scored the sample of the index."""
        answered = np.zeros(self._end, bool)
        answered[self._answers[:, 1].astype(np.int64)] = True
        return answered

    def answer(self, answers: Sequence[AuditAnswer]) -> None:
        """Add answers. Raises FixError, changing nothing, for an unknown sample, a score out of range, and an audit
        with another answer; a repeated answer changes nothing.
        """
        by_audit = self._with(answers)
        in_order = [by_audit[audit] for audit in sorted(by_audit)]
        self._answers = np.array(in_order, np.float64).reshape(-1, len(AuditAnswer._fields))

    def hear(self, answer: AuditAnswer) -> None:
        """Take an answer instead of the one before to the same audit; one of NaN takes that back.

        Nothing happens for a sample that is not there. Raises FixError for a score or a weight that is none.
        """
        if not 0 <= answer.sample < self._end or math.isnan(self.scores[answer.sample]):
            return
        if abs(answer.score) > LARGEST or not 0.0 < answer.weight < math.inf:
            raise FixError(
                f"audit {answer.audit}: expected a score of at most {LARGEST:g} in size, and a weight above 0"
            )
        place = int(np.searchsorted(self._answers[:, 0], answer.audit))
        if place < len(self._answers) and self._answers[place, 0] == answer.audit:
            self._answers = np.delete(self._answers, place, axis=0)
        if not math.isnan(answer.score):
            self._answers = np.insert(self._answers, place, answer, axis=0)

    def check(self, answers: Sequence[AuditAnswer]) -> None:
        """Raise FixError as `answer` does, changing nothing."""
        self._with(answers)

    def _with(self, answers: Sequence[AuditAnswer]) -> dict[int, AuditAnswer]:
        by_audit = {answer.audit: answer for answer in self.answers}
        for new in answers:
            self._check(new)
            if by_audit.setdefault(new.audit, new) != new:
                raise FixError(f"audit {new.audit}: it has the answer {by_audit[new.audit].score:g}, got {new.score:g}")
        return by_audit

    def _check(self, new: AuditAnswer) -> None:
        if not 0 <= new.sample < self._end or math.isnan(self.scores[new.sample]):
            raise FixError(f"audit {new.audit}: expected a sample that the judge has scored, got index {new.sample}")
        if not abs(new.score) <= LARGEST or not 0.0 < new.weight < math.inf:
            raise FixError(f"audit {new.audit}: expected a score of at most {LARGEST:g} in size, got {new.score:g}")
        low, high = self._between or (-math.inf, math.inf)
        if not low <= new.score <= high:
            raise FixError(f"audit {new.audit}: expected a score from {low:g} to {high:g}, got {new.score:g}")

    def mean(self, statistic: MeanStatistic) -> AuditedMean:
        """The audits with the required sums of the judge's scores, of which this is the statistic."""
        audits, indices, weights, people = self._answers.T
        return AuditedMean(
            samples=statistic.samples,
            mean=statistic.mean,
            variance=statistic.squares / statistic.samples,
            judged=self.scores[: self._most].copy(),
            audits=audits.astype(np.int32),
            people=people.copy(),
            scores=self.scores[indices.astype(np.int64)],
            weights=weights.copy(),
            doubts=self.by_index[1:, :DOUBTED].flatten(),
        )

    def estimate(self, judged: Estimate, statistic: MeanStatistic) -> Estimate:
        """The estimate by the people; with fewer than 2 audits the judge's mean, without errors.

        judged: the estimate of the judge's scores.
        """
        mean = self.mean(statistic)
        by_people = mean.by_people
        own = {"audited": mean, "value_skewness": None, "farthest": None, "bracket": None, "batches": None}
        own |= {"design_effect": None, "pairing": None if judged.pairing is None else _plain(judged.pairing)}
        if by_people is None:
            ends = {"lower": -math.inf, "upper": math.inf, "standard_error": None, "stopping_error": None}
            optimistic = -math.inf if judged.lower_is_better else math.inf
            return replace(judged, **own, **ends, optimistic=optimistic, warnings=(NO_PEOPLE,))
        error = max(math.sqrt(by_people.variance), SMALLEST_ERROR * (1.0 + abs(by_people.value)))
        if (equal := self._error_of_equal(mean.people)) is not None:
            error = max(error, equal)
        reach = -NormalDist().inv_cdf(self._delta / 2.0) * error
        lower, upper = by_people.value - reach, by_people.value + reach
        return replace(
            judged,
            **own,
            value=by_people.value,
            plug_in=float(mean.people.mean()),
            lower=lower,
            upper=upper,
            optimistic=lower if judged.lower_is_better else upper,
            standard_error=error,
            stopping_error=error,
            warnings=(),
        )

    def _error_of_equal(self, people: NDArray[np.float64]) -> float | None:
        """Error if one answer had been at the farther limit, where all are equal."""
        if self._between is None or float(np.ptp(people)) > 0.0:
            return None
        return max(float(people[0]) - self._between[0], self._between[1] - float(people[0])) / len(people)


def _plain(pairing: Pairing) -> Pairing:
    """The pairing by index, without the fields of the judge's mean alone."""
    return Pairing(pairing.influence, 1.0, told=pairing.told, later=pairing.later, later_told=pairing.later_told)
