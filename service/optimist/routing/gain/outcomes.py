"""Prompts with the scores of generators, and what generators would have scored on prompts that others got."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from optimist.arrays import Bools, Floats, Ints
from optimist_client.errors import FixError
from optimist_client.goals import check_ceiling, check_pace

MIN_PROMPTS = 10
"""Prompts below which nothing is said."""


@dataclass(frozen=True, eq=False)
class ScoredPrompts:
    """Prompts, and what generators scored on them: one sample in each row.

    Where every prompt was given to every generator, there is a row for each of both, with the probability 1.
    """

    names: tuple[str, ...]
    contexts: Floats
    """Embeddings of the prompts (m, d)."""
    prompt: Ints
    """Index of each sample's prompt in `contexts` (n,)."""
    generator: Ints
    """Index of its generator in `names` (n,)."""
    scores: Floats
    """(n,)."""
    probability: Floats
    """With which the prompt was given to this generator (n,), above 0. NaN where no chance was involved: from such a
    sample is learned, but it says nothing of what routing gains."""
    costs: Floats | None = None
    """Cost of a sample of each generator (G,)."""

    def __post_init__(self) -> None:
        count, shape = len(self.names), self.contexts.shape
        chances = self.probability[~np.isnan(self.probability)]
        missing = [name for index, name in enumerate(self.names) if not (self.generator == index).any()]
        costs = np.zeros(count) if self.costs is None else self.costs
        rules = (
            (count >= 2, f"routing needs at least 2 generators, got {count}"),
            (len(shape) == 2, f"contexts: expected numbers (prompts, d), got shape {shape}"),
            (np.isfinite(self.contexts).all(), "contexts: expected finite numbers"),
            (np.isfinite(self.scores).all(), "scores: expected finite numbers"),
            (((chances > 0.0) & (chances <= 1.0)).all(), "probability: expected numbers above 0, up to 1"),
            (not missing, f"no scores of {', '.join(missing)}"),
            (len(set(self.names)) == count, "names: expected different ones"),
            (costs.shape == (count,), f"costs: expected one for each of the {count} generators"),
            (((costs >= 0.0) & (costs < np.inf)).all(), "costs: expected finite numbers of at least 0"),
            (shape[0] >= MIN_PROMPTS, f"contexts: expected at least {MIN_PROMPTS} prompts, got {shape[0]}"),
        )
        for holds, expected in rules:
            if not holds:
                raise FixError(expected)

    @classmethod
    def from_table(
        cls, contexts: Floats, scores: Floats, names: Sequence[str] = (), costs: Floats | None = None
    ) -> ScoredPrompts:
        """Scores (m, G) of every generator on every prompt with embedding (m, d); NaN where there is none."""
        contexts, scores = np.asarray(contexts, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(contexts):
            raise FixError(f"scores: expected (prompts, generators) of {len(contexts)} prompts, got {scores.shape}")
        prompt, generator = np.nonzero(~np.isnan(scores))
        named = tuple(names) or tuple(f"generator-{index}" for index in range(scores.shape[1]))
        if len(named) != scores.shape[1]:
            raise FixError(f"names: expected one for each of the {scores.shape[1]} columns of scores, got {len(named)}")
        given = scores[prompt, generator]
        return cls(named, contexts, prompt, generator, given, np.ones(len(given)), costs)

    def table(self) -> Floats:
        """The scores (m, G). Raises FixError unless every generator has one score on every prompt."""
        table = np.full((len(self.contexts), len(self.names)), np.nan)
        table[self.prompt, self.generator] = self.scores
        if np.isnan(table).any():
            raise FixError("scores: expected one of every generator on every prompt; some are missing")
        return table

    def costs_of_budget(self, ceiling: float | None, at_least: float | None) -> Floats:
        """The costs (G,). Raises FixError where there are none, or where they or the scores do not fit the budget."""
        check_pace("greedy", ceiling, at_least, 0.0)
        if self.costs is None:
            raise FixError("ceiling, at_least: expected a cost of each generator, and there are none")
        check_ceiling(ceiling, self.costs.tolist())
        if at_least is not None and self.scores.min() < 0.0:
            raise FixError(f"at_least: is a part of scores that are never negative; found {self.scores.min():g}")
        return self.costs

    @property
    def is_logged(self) -> bool:
        """True if prompts were given to single generators, rather than to all of them."""
        return not bool((self.probability == 1.0).all())


@dataclass(frozen=True, slots=True)
class PromptMean:
    """A mean over prompts."""

    value: float
    error: float | None
    """Standard error, for further prompts; None where the value is predicted only, and scores do not confirm it."""


class Outcomes:
    """The outcomes of every generator on every prompt: predictions from other prompts' scores, and scores.

    In a table of all generators' scores, means are of the scores. In a log, a mean is of the predictions,
    plus a correction: the generator's draws say how far its predictions are off. Each draw has the weight 1/p,
    truncated at √m (Ionides 2008) for m prompts, so that a single rare draw does not decide. The correction is a
    weighted regression of what was scored beyond the prediction on 1 and a covariate, at the mean of the covariate over
    all prompts: the generalised regression estimator of surveys (Särndal, Swensson and Wretman 1992, ch. 6). It is
    right on average if either the predictions or the probabilities are, but for the truncation, and needs no draw for
    most of the weight, as plain doubly robust sums do. Its error is the jackknife's, and at least the error that
    scores of the usual spread would have: few draws that agree by chance do not make it small.
    """

    def __init__(self, prompts: ScoredPrompts, predicted: Floats, charged: Floats) -> None:
        """predicted: expected scores (m, G) by what was learned from other prompts. charged: price of a sample (G,)."""
        self._prompts, self._predicted, self._charged = prompts, predicted - charged, charged
        count = len(prompts.contexts)
        self._is_draw = ~np.isnan(prompts.probability)
        self._table = None if prompts.is_logged else _table(prompts, charged)
        self.judged: Bools = np.zeros(count, dtype=np.bool_)
        """Prompts over which means are taken (m,): all of a table; of a log those that were given by chance."""
        self.judged[prompts.prompt[self._is_draw]] = True
        is_predicted = not self.judged.any()
        if is_predicted:
            self.judged[:] = True
        draws = prompts.prompt[self._is_draw], prompts.generator[self._is_draw]
        self._beyond = prompts.scores[self._is_draw] - charged[draws[1]] - self._predicted[draws]
        self._drawn = draws
        max_weight = math.sqrt(max(int(self.judged.sum()), 1))
        self._weights = np.minimum(1.0 / prompts.probability[self._is_draw], max_weight)
        self._spread = float(np.square(self._beyond).mean()) if len(self._beyond) else 0.0

    def difference(self, first: Ints, second: Ints, inside: Bools) -> PromptMean | None:
        """The mean by which `first` (m,) is worth more than `second` (m,) on the prompts inside (m,), 0 where they are
        the same; None where nothing is known. Worth is the score less the price of the cost."""
        inside = inside & self.judged
        rows = np.arange(len(first))
        if self._table is not None:
            gains = np.where(first == second, 0.0, self._table[rows, first] - self._table[rows, second])
            return _mean_gain(gains[inside], (first != second)[inside])
        apart = self._predicted[rows, first] - self._predicted[rows, second]
        return self._corrected(apart, ((1.0, first), (-1.0, second)), inside, inside & (first != second))

    def score(self, chosen: Ints, inside: Bools) -> PromptMean | None:
        """The mean score of giving each prompt inside (m,) to the chosen generator (m,), without prices."""
        inside = inside & self.judged
        if not inside.any():
            return None
        paid = float(self._charged[chosen[inside]].mean())
        rows = np.arange(len(chosen))
        if self._table is not None:
            values = self._table[rows, chosen][inside]
            values = values[~np.isnan(values)]
            if not len(values):
                return None
            error = math.sqrt(float(values.var(ddof=1)) / len(values)) if len(values) > 1 else None
            return PromptMean(float(values.mean()) + paid, error)
        mean = self._corrected(self._predicted[rows, chosen], ((1.0, chosen),), inside, inside)
        return None if mean is None else PromptMean(mean.value + paid, mean.error)

    def _corrected(
        self, predicted: Floats, sides: tuple[tuple[float, Ints], ...], inside: Bools, where: Bools
    ) -> PromptMean | None:
        """The mean over the prompts inside of the predictions (m,) for those that count, corrected."""
        count, part = int(inside.sum()), int(where.sum())
        if not count:
            return None
        if not part:
            return PromptMean(0.0, 0.0 if len(self._beyond) else None)
        share = part / count
        value = float(predicted[where].mean())
        covariate = predicted - value
        variance, slope = 0.0, 1.0
        is_known = True
        prompt, generator = self._drawn
        for sign, chosen in sides:
            mine = where[prompt] & (generator == chosen[prompt])
            if int(mine.sum()) < 3:  # a correction has two parameters
                # On few prompts an untried generator is a small error rather than an unknown gain.
                is_known = is_known and part <= 0.05 * int(self.judged.sum()) and len(self._beyond) > 0
                variance += self._spread
                continue
            off, steeper, spread = _regressed(
                self._beyond[mine], self._weights[mine], covariate[prompt[mine]], floor=self._spread
            )
            slope += sign * steeper
            value += sign * off
            variance += spread
        # What is predicted differs from prompt to prompt by the slope times as much.
        variance += slope**2 * float(predicted[where].var(ddof=1)) / part if part > 1 else self._spread
        if not is_known:
            return PromptMean(share * float(predicted[where].mean()), None)
        return PromptMean(share * value, math.sqrt(share**2 * variance + value**2 * share * (1.0 - share) / count))


def _regressed(beyond: Floats, weights: Floats, covariate: Floats, *, floor: float) -> tuple[float, float, float]:
    """The weighted regression (n,) on 1 and the covariate, at the covariate 0; its slope; and the variance at 0."""
    columns = np.stack([np.ones(len(beyond)), covariate], axis=1)
    gram = (columns * weights[:, None]).T @ columns
    # Predictions are off by a factor of about 2 at most: a slope as far from 0 as 1 is one standard deviation.
    gram[1, 1] += max(float(weights.mean()) * floor, 1e-9 * gram[0, 0])
    inverse = np.linalg.inv(gram)
    fitted = inverse @ (columns.T @ (weights * beyond))
    pull = (columns @ inverse[0]) * weights
    leverage = np.einsum("nk,kl,nl->n", columns, inverse, columns) * weights
    left = (beyond - columns @ fitted) / np.maximum(1.0 - leverage, 1e-3)
    variance = max(float(np.square(pull * left).sum()), floor * float(np.square(pull).sum()))
    return float(fitted[0]), float(fitted[1]), variance


def _table(prompts: ScoredPrompts, charged: Floats) -> Floats:
    """Worth (m, G) of each generator on each prompt; NaN where it has no score."""
    shape = (len(prompts.contexts), len(prompts.names))
    flat = prompts.prompt * shape[1] + prompts.generator
    hits = np.bincount(flat, minlength=shape[0] * shape[1])
    sums = np.bincount(flat, weights=prompts.scores - charged[prompts.generator], minlength=len(hits))
    return np.where(hits > 0, sums / np.maximum(hits, 1), np.nan).reshape(shape)


def _mean_gain(gains: Floats, is_routed: Bools) -> PromptMean | None:
    """The mean gain (n,) over prompts.

    is_routed: whether each prompt would get another generator; elsewhere the gain is 0. Gains that are not known count
    as those that are: were they left out, prompts without a gain would count too much.
    """
    count = len(gains)
    if not count:
        return None
    share = float(is_routed.mean())
    measured = gains[is_routed & ~np.isnan(gains)]
    if share == 0.0:
        return PromptMean(0.0, 0.0)
    if not len(measured):
        return None
    mean = float(measured.mean())
    if len(measured) < 2:
        return PromptMean(share * mean, None)
    spread = float(measured.var(ddof=1)) / len(measured)
    return PromptMean(share * mean, math.sqrt(share**2 * spread + mean**2 * share * (1.0 - share) / count))


TABLE = ("contexts", "scores")
LOGGED = ("contexts", "generator", "score", "probability")


def prompts_in(file: Path) -> ScoredPrompts:
    """The prompts and scores of a file. Raises FixError as `route_file` does."""
    return prompts_of(arrays_in(file), file)


def arrays_in(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name. Raises FixError if it cannot be read."""
    if file.suffix != ".npz":
        raise FixError(f"{file}: expected a file ending in .npz, found {file.suffix or 'no ending'!r}")
    try:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise FixError("it holds a single array")
        with archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, BadZipFile, EOFError, ValueError) as error:
        raise FixError(f"{file}: expected an .npz file of several arrays: {error}") from None


def prompts_of(arrays: Mapping[str, NDArray[Any]], file: Path) -> ScoredPrompts:
    """The prompts and scores of arrays as `route_file` takes them. Raises FixError as it does."""
    wanted = TABLE if "scores" in arrays else LOGGED
    if missing := [name for name in wanted if name not in arrays]:
        expected = f"{', '.join(TABLE)}, or {', '.join(LOGGED)}"
        raise FixError(f"{file}: expected the arrays {expected}; found no {', '.join(missing)}")
    contexts = _numbers(arrays, "contexts", 2)
    costs = _numbers(arrays, "costs", 1) if "costs" in arrays else None
    names = tuple(map(str, arrays["names"])) if "names" in arrays else ()
    if wanted is TABLE:
        return ScoredPrompts.from_table(contexts, _numbers(arrays, "scores", 2), names, costs)
    names, generator = _generators(arrays["generator"], names)
    score, probability = (_numbers(arrays, name, 1) for name in ("score", "probability"))
    for name, array in (("generator", generator), ("score", score), ("probability", probability)):
        if len(array) != len(contexts):
            raise FixError(f"{name}: expected {len(contexts)} numbers, as many as contexts; got {len(array)}")
    return ScoredPrompts(names, contexts, np.arange(len(contexts)), generator, score, probability, costs)


def _generators(given: NDArray[Any], names: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """The names, and each sample's index among them."""
    if given.dtype.kind in "iu":
        named = names or tuple(f"generator-{index}" for index in range(int(given.max(initial=0)) + 1))
        if given.size and not 0 <= given.min() <= given.max() < len(named):
            raise FixError(f"generator: expected indices from 0 to {len(named) - 1}")
        return named, given.astype(np.int64)
    texts = [str(name) for name in given]
    named = names or tuple(sorted(set(texts)))
    if unknown := sorted(set(texts) - set(named)):
        raise FixError(f"generator: no generator is called {', '.join(unknown)}")
    return named, np.array([named.index(text) for text in texts], dtype=np.int64)


def _numbers(arrays: Mapping[str, NDArray[Any]], name: str, axes: int) -> Floats:
    array = arrays[name]
    if array.dtype.kind not in "fiub" or array.ndim != axes:
        expected = "(m, d)" if axes == 2 else "(m,)"
        raise FixError(f"{name}: expected numbers {expected}, got {array.dtype} of shape {array.shape}")
    return array.astype(np.float64)
