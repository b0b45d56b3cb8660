"""A test of whether a generator's answers have changed: sequential, on what its own regression did not expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.estimates.estimate import Change
from optimist.routing.answers.ridge import Sums, forms_of

FALSE_ALARMS = 1e-7
"""The chance of a false alarm that a sample adds at most, of all generators together, if the regression is right. As it
is but nearly right, this is a tenth of 1 % in 10,000 samples."""
FRACTIONS: Floats = np.array([0.2, 0.4])
"""Parts of the wealth that are bet on a residual of one standard deviation: about the steps, in standard deviations,
that are found soonest."""
REACH = 8.0
"""Standard deviations beyond which residuals are cut, so that one absurd score does not make all bets tiny."""
RIDGES: Floats = np.geomspace(0.03, 3000.0, 16)
"""Ridges that are weighed by their likelihood. They are close to each other, so that no estimate jumps."""
_BETS: Floats = np.concatenate([FRACTIONS, -FRACTIONS])


class Drift:
    """The test for one generator: a pure function of its samples in the order of its log.

    Each sample is predicted by the regression of all samples before it. Its residual z, in standard deviations that
    include the error of the prediction, is 0 on average unless answers have changed. (An error of the same kind all the
    time is learned, too.) A bet of the part λ of a wealth multiplies it
    by 1 + λz, which is 1 on average, whatever the law of the scores. With a bet of 1 begun at each sample, all wealth
    is n on average after n samples (Shiryaev and Roberts), so that it ever exceeds 1/`FALSE_ALARMS` up to there with a
    chance of at most n · `FALSE_ALARMS`. Once it does, the regression learns no more: later residuals say how far
    answers are from those before.
    """

    def __init__(self, width: int, linear: int) -> None:
        """width: columns of samples, the first `linear` of which are principal components."""
        self._linear = linear
        # Of 1 and the columns, in units of the noise: weights, and their covariance.
        self._weights, self._covariance = np.zeros(width + 1), np.zeros((width + 1, width + 1))
        # Standard deviation of the noise, 0 before the first fit; samples at the next fit; largest residuals below and
        # above; whether there is a change; the level that the regression is about.
        self._facts = np.array([0.0, 30.0, 1.0, 1.0, 0.0, 0.0])
        # For each bet: wealth of all starts, logarithm of the best start's, its position and pick, samples, Σe and Σe²
        # since.
        self._bets = np.zeros((len(_BETS), 7))
        # Of residuals on 1 and the prediction: weights, and their covariance. The prior, 0, counts as 20 samples.
        self._calibration = np.concatenate([np.zeros((1, 2)), np.eye(2) / 20.0])

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.state().values())

    @property
    def change(self) -> Change | None:
        """The change; None before it is found."""
        if not self._facts[4]:
            return None
        _, _, position, pick, count, total, squares = self._bets[int(self._bets[:, 0].argmax())].tolist()
        mean = total / count
        error = math.sqrt(max(squares / count - mean * mean, 0.0) / count)
        return Change(int(position), int(pick), int(count), mean, error)

    def add(
        self, columns: Floats, score: float, moments: Callable[[], Sums], samples: int, origin: tuple[int, int]
    ) -> None:
        """Add a sample with columns (r,), before which there were `samples`, with these moments.

        origin: position in the log of the batch before, and the pick of this one.
        """
        if samples >= self._facts[1] and not self._facts[4]:
            sums = moments()
            self._weights, self._covariance, self._facts[0] = fitted(sums, self._linear)
            self._facts[5] = sums.mean
            # The prior and the noise are estimated again when the samples have grown by a fifth.
            self._facts[1] = 1.2 * samples if self._facts[0] else samples + 1.0
        scale = float(self._facts[0])
        if not scale:
            return
        row = np.concatenate([[1.0], columns])
        error = score - float(self._facts[5]) - float(self._weights @ row)
        if not self._facts[4]:
            pull = self._covariance @ row
            variance = 1.0 + float(pull @ row)
            bound = REACH * math.sqrt(variance)
            residual = min(max(error / scale, -bound), bound)
            self._bet(self._calibrated(residual, float(self._weights[1:] @ columns) / scale, variance), origin)
            self._weights = self._weights + pull * (scale * residual / variance)
            self._covariance -= np.outer(pull, pull) / variance
        self._bets[:, 4:] += 1.0, error, error * error

    def _calibrated(self, residual: float, predicted: float, variance: float, sure: float = 3.0) -> float:
        """A residual without what earlier ones say of such a prediction, in standard deviations. A prediction and its
        variance are in units of the noise.

        Prompts come to a generator because much is expected of it there, and the regression is but nearly right: such
        residuals are not quite 0 on average, in the same way before and after. What is within `sure` standard errors
        is left alone, so that answers which have just changed are not explained away.
        """
        weights, covariance = self._calibration[0], self._calibration[1:]
        row = np.array([1.0, predicted])
        pull = covariance @ row
        extra, bias = float(pull @ row), float(weights @ row)
        left = residual - bias
        self._calibration = np.concatenate(
            [[weights + pull * (left / (1.0 + extra))], covariance - np.outer(pull, pull) / (1.0 + extra)]
        )
        certain = max(0.0, 1.0 - sure**2 * extra / bias**2) if bias else 0.0
        return (residual - certain * bias) / math.sqrt(variance + extra)

    def _bet(self, residual: float, origin: tuple[int, int], min_part: float = 0.1) -> None:
        """Bet on a residual; min_part: the part of its wealth that a bet keeps."""
        worst = np.where(_BETS > 0.0, self._facts[2], self._facts[3])
        parts = _BETS * np.minimum(1.0, (1.0 - min_part) / (np.abs(_BETS) * worst))
        grown = np.maximum(1.0 + parts * residual, min_part)
        self._bets[:, 0] = (1.0 + self._bets[:, 0]) * grown
        starts = self._bets[:, 1] <= 0.0
        self._bets[starts, 2:4] = origin
        self._bets[starts, 4:] = 0.0
        self._bets[:, 1] = np.maximum(self._bets[:, 1], 0.0) + np.log(grown)
        self._facts[2] = min(max(float(self._facts[2]), -residual), REACH)
        self._facts[3] = min(max(float(self._facts[3]), residual), REACH)
        self._facts[4] = float(self._bets[:, 0].mean() >= 1.0 / FALSE_ALARMS)

    def state(self) -> dict[str, Floats]:
        """The state by name, `covariance` as its lower triangle."""
        return {
            "weights": self._weights,
            "covariance": self._covariance[np.tril_indices(len(self._weights))],
            "calibration": self._calibration,
            "facts": self._facts,
            "bets": self._bets,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`, bit for bit. Raises KeyError where an array is missing."""
        self._weights, self._calibration, self._facts, self._bets = (
            np.array(arrays[name], dtype=np.float64) for name in ("weights", "calibration", "facts", "bets")
        )
        rows, columns = np.tril_indices(len(self._weights))
        self._covariance = np.zeros((len(self._weights), len(self._weights)))
        self._covariance[rows, columns] = self._covariance[columns, rows] = arrays["covariance"]


def fitted(moments: Sums, linear: int) -> tuple[Floats, Floats, float]:
    """One generator's own regression of its scores, less their mean, on 1 and its columns: weights, their covariance
    in units of the noise, and the noise's standard deviation, 0 where all scores are equal.

    Prior variances and noise are means over `RIDGES`, with and without components, each as likely as its
    likelihood says.
    """
    gram, cross, squares = moments.centred
    width = len(cross) + 1
    if squares <= 1e-14 * moments.squares:
        return np.zeros(width), np.zeros((width, width)), 0.0
    degrees = max(moments.samples - 1.0, 1.0)
    likelihoods, priors, noises = [], [], []
    for form in forms_of(len(cross), linear):
        root = np.sqrt(form)
        values, basis = np.linalg.eigh(root[:, None] * gram * root)
        values, pulls = np.maximum(values, 0.0), np.square(basis.T @ (root * cross))
        for ridge in RIDGES.tolist():
            left = max(squares - float((pulls / (values + ridge)).sum()), 1e-12 * squares)
            likelihoods.append(-0.5 * (float(np.log1p(values / ridge).sum()) + degrees * math.log(left)))
            priors.append(form / ridge)
            noises.append(left / degrees)
    parts = np.exp(np.array(likelihoods) - max(likelihoods))
    parts /= parts.sum()
    # The prior of the mean score is flat.
    root = np.sqrt(np.concatenate([[1e6], parts @ np.array(priors)]))
    whole = np.empty((width, width))
    whole[0, 0], whole[0, 1:], whole[1:, 0], whole[1:, 1:] = moments.samples, moments.total, moments.total, moments.gram
    covariance = root[:, None] * np.linalg.inv(np.eye(width) + root[:, None] * whole * root) * root
    covariance = 0.5 * (covariance + covariance.T)
    weights = covariance[:, 1:] @ cross
    return weights, covariance, math.sqrt(float(parts @ np.array(noises)))
