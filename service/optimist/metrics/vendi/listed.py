"""Samples whose prompts are a fixed list: the score on exactly these prompts, at order 2 (rules/calibration.md).

Passes through a list of M prompts use each of them equally often; independent draws do not. So the mean of k² over all
pairs of samples has too few pairs of one prompt, and how often each prompt came adds nothing to the error of a mean.
Samples whose prompt is not known count as independent draws: where no prompt is known, all is as without a list.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.clusters import FEWEST_WITHIN
from optimist.metrics.cluster_sums import UNKNOWN, prompts_of_batch
from optimist.metrics.state import LastRows, Stateful
from optimist_client.errors import FixError


def reweighted_mean(total: float, pairs: float, of_one: float, same: float, length: int) -> float:
    """The mean of k² over the pairs of a list of `length` prompts: (1 − 1/M) of different ones + (1/M) of one prompt.

    total: the sum over all `pairs`; of_one: the mean over the `same` pairs of one prompt.
    """
    if same >= pairs:
        return total / pairs
    apart = (total - same * of_one) / (pairs - same)
    return (1.0 - 1.0 / length) * apart + of_one / length


def mean_variance(influence: Tensor, prompts: Tensor, n: int, unevenness: float) -> float:
    """Var of the mean of n influence values: (W + (T − W)·unevenness)/n, from the last ones (b) with their prompts (b).

    T is their variance, W ≤ T the part within prompts. `unevenness` is 1 for independent draws, 0 after whole passes.
    """
    total = float(influence.var())
    is_known = prompts != UNKNOWN
    freedom = _freedom(prompts)
    if freedom < FEWEST_WITHIN:
        return total / n
    values = influence[is_known]
    within = min(total, float((values - _prompt_means(values, prompts[is_known])).square().sum()) / freedom)
    return (within + (total - within) * unevenness) / n


def list_influence(influence: Tensor, prompts: Tensor, unevenness: float) -> Tensor:
    """Influence values (m) with their prompts (m), weighted so that they vary as the mean over a list does.

    Variances and covariances of the result are W + (T − W)·unevenness of the values, as in `mean_variance`: the mean of
    each prompt counts by the root of the unevenness, what is left is stretched by as much as the means took of it.
    """
    is_known = prompts != UNKNOWN
    values, freedom = influence[is_known], _freedom(prompts)
    means, mean = _prompt_means(values, prompts[is_known]), values.mean()
    stretch = math.sqrt(max(len(values) - unevenness * (len(values) - freedom), 0.0) / freedom)
    weighted = influence - mean
    weighted[is_known] = stretch * (values - means) + math.sqrt(unevenness) * (means - mean)
    return weighted


def _freedom(prompts: Tensor) -> int:
    """Degrees of freedom within prompts of values with these prompts (b)."""
    listed = prompts[prompts != UNKNOWN]
    return len(listed) - len(torch.unique(listed))


def _prompt_means(values: Tensor, prompts: Tensor) -> Tensor:
    """The mean (b,), for each value, over the values of its prompt."""
    seen, prompt, counts = torch.unique(prompts, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(seen), dtype=values.dtype, device=values.device).index_add_(0, prompt, values)
    return (sums / counts)[prompt]


class ListedPrompts(Stateful):
    """The prompt in a list of each sample of a stream, and the mean of k² over pairs of one prompt.

    While the statistic holds all φ, all pairs of one prompt count. From then on, a φ is paired with the one before it
    of its prompt, for a random choice of 256 prompts at most: the mean enters with a weight of 1/n only.
    """

    held = ("counts", "unknown", "_held", "_sums", "_latest", "_has")

    def __init__(self, length: int, width: int, last: int, device: torch.device) -> None:
        if length < 1:
            raise FixError(f"a list has at least one prompt, not {length}")
        self.length = length
        self._last = last
        self.counts = torch.zeros(length, dtype=torch.int64)
        """Samples of each prompt (length,)."""
        self.unknown = 0
        """Samples whose prompt is not known."""
        self._held: Tensor | LastRows = torch.zeros(0, 1, dtype=torch.int64)
        self._sums = torch.zeros(2, dtype=torch.float64)  # of k² over pairs of one prompt, and their number
        self._latest = torch.zeros(0, width, dtype=torch.float64, device=device)
        self._has = torch.zeros(0, dtype=torch.bool)
        chosen = np.random.default_rng(0).permutation(length)[:256]
        self._tracked = len(chosen)
        self._slots = torch.full((length,), UNKNOWN)
        self._slots[torch.from_numpy(chosen)] = torch.arange(len(chosen))

    @property
    def last(self) -> Tensor:
        """The prompts (b) of the last samples, in log order, `UNKNOWN` among them."""
        held = self._held[-self._last :] if isinstance(self._held, Tensor) else self._held.tensor
        return held[:, 0]

    @property
    def known(self) -> int:
        """Samples whose prompt is known."""
        return int(self.counts.sum())

    @property
    def unevenness(self) -> float:
        """Σ (c − m/M)²/n over the counts c of the m samples with known prompts, each unknown one adding 1."""
        listed = self.known
        uneven = float((self.counts.double() - listed / self.length).square().sum())
        return (uneven + self.unknown) / (listed + self.unknown)

    def check(self, prompts: Tensor | None, rows: int) -> Tensor:
        """The prompts (rows,) of a batch, as of `prompts_of_batch`."""
        return prompts_of_batch(prompts, rows, self.length)

    def add(self, prompts: Tensor, features: Tensor) -> None:
        """Take the prompts (b) of φ (b, width) that follow the samples so far."""
        listed = prompts[prompts != UNKNOWN]
        self.counts += torch.bincount(listed, minlength=self.length)
        self.unknown += len(prompts) - len(listed)
        if isinstance(self._held, Tensor):
            self._held = torch.cat([self._held, prompts[:, None]])
        else:
            self._held.append(prompts[:, None])
            self._pair(prompts, features)

    def drop_rows(self, rows: Tensor) -> None:
        """Go on without all φ: `rows` (n, width) are those so far."""
        held = self._held
        assert isinstance(held, Tensor)
        self._sums = torch.tensor(self._all_pairs(rows), dtype=torch.float64)
        self.go_on()
        self._remember(held[:, 0], rows)
        self._held = LastRows(held[-self._last :].clone(), self._last)

    def go_on(self) -> None:
        """Begin to keep the last φ of prompts."""
        self._latest = self._latest.new_zeros(self._tracked, self._latest.shape[1])
        self._has = torch.zeros(self._tracked, dtype=torch.bool)
        self._held = LastRows(torch.zeros(0, 1, dtype=torch.int64), self._last)

    def mean_square(self, total: float, n: int, rows: Tensor | None) -> float:
        """θ, the mean of k² over pairs of a list, from its sum over all n(n − 1) ordered pairs.

        rows: all φ while they are held. Before two samples of each prompt are known, it is the mean over all pairs.
        """
        listed, everything = self.known, n * (n - 1.0)
        squares, number = self._sums.tolist() if rows is None else self._all_pairs(rows)
        if listed < 2 * self.length or not number:
            return total / everything
        same = float((self.counts.double() * (self.counts - 1)).sum())
        # A sample of unknown prompt is of the same prompt as another one with probability 1/M.
        same += (everything - listed * (listed - 1.0)) / self.length
        return reweighted_mean(total, everything, squares / number, same, self.length)

    def variance(self, influence: Tensor, n: int) -> float:
        """Var of the mean of n influence values, of which the last ones (b) are given."""
        return mean_variance(influence, self._of_last(len(influence)).to(influence.device), n, self.unevenness)

    def weighed(self, influence: Tensor, prompts: Tensor | None, last: int) -> Tensor:
        """The influence (m) of rows with these prompts (m), by which the means of two generators' lists compare.

        As it is while nothing is known of the variance within prompts of the `last` samples, as in `variance`. Zero
        where that is known, but not for these rows: then nothing is known of how they vary together.
        """
        if _freedom(self._of_last(last)) < FEWEST_WITHIN:
            return influence
        if prompts is None or _freedom(prompts) < FEWEST_WITHIN:
            return torch.zeros_like(influence)
        return list_influence(influence, prompts.to(influence.device), self.unevenness)

    def _of_last(self, count: int) -> Tensor:
        """The prompts (count,) of the last samples."""
        return self.last[len(self.last) - count :]

    def _all_pairs(self, rows: Tensor) -> tuple[float, float]:
        """Σ k² over the ordered pairs of one prompt among all φ, and how many there are."""
        assert isinstance(self._held, Tensor)
        prompts = self._held[:, 0]
        squares, number = 0.0, 0
        for prompt in torch.nonzero(self.counts > 1)[:, 0].tolist():
            group = rows[(prompts == prompt).to(rows.device)]
            gram = (group @ group.T).square()
            squares += float(gram.sum() - gram.diagonal().sum())
            number += len(group) * (len(group) - 1)
        return squares, float(number)

    def _pair(self, prompts: Tensor, features: Tensor) -> None:
        """Pair each φ of a tracked prompt with the one before it of the same prompt."""
        slots = torch.where(prompts == UNKNOWN, UNKNOWN, self._slots[prompts.clamp_min(0)])
        order = torch.argsort(slots, stable=True)
        order = order[slots[order] != UNKNOWN]
        if not len(order):
            return
        slots, rows = slots[order], features[order.to(features.device)]
        follows = torch.zeros(len(order), dtype=torch.bool)
        follows[1:] = slots[1:] == slots[:-1]
        before = torch.where(follows[:, None].to(rows.device), rows.roll(1, 0), self._latest[slots.to(rows.device)])
        pairs = follows | self._has[slots]
        squares = (rows * before).sum(-1).square()[pairs.to(rows.device)]
        self._sums += torch.tensor([2.0 * float(squares.sum()), 2.0 * int(pairs.sum())], dtype=torch.float64)
        self._remember(prompts, features)

    def _remember(self, prompts: Tensor, features: Tensor) -> None:
        """Keep the last φ of each tracked prompt."""
        for prompt, row in {prompt: row for row, prompt in enumerate(prompts.tolist())}.items():
            slot = UNKNOWN if prompt == UNKNOWN else int(self._slots[prompt])
            if slot != UNKNOWN:
                self._latest[slot], self._has[slot] = features[row], True
