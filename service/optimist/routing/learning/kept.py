"""State of an estimator for routing: the sums of a regression on contexts, and a sample of batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.estimate import Change
from optimist.estimation.learner import Learned
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.spectra.symmetric import SymmetricSum
from optimist.records import AskedPrompt, checked_context
from optimist.routing.answers.drift import Drift
from optimist.routing.answers.features import ContextMap
from optimist.routing.answers.ridge import Sums
from optimist_client.errors import FixError

BATCHES = 2000
"""Batches of a generator that are kept, and of all together that a table is made of."""


@dataclass(frozen=True, slots=True)
class RoutedBatch:
    """A batch that can be added."""

    features: Tensor
    """The columns x of its context (1, k + r), float64, as of `ContextMap`."""
    scores: Tensor
    """(1, n) in float64, on the metric's scale."""
    context: Tensor
    """(1, d) in float32."""
    probability: Tensor
    """(1, 1) in float64; NaN where none is known."""
    prompt: str
    origin: tuple[int, int]
    """Position in the log of the batch before, and the number of the pick."""


class RoutedStatistic(Learned):
    """Sums of a generator's samples over features of their contexts, and `BATCHES` of its batches, a uniform sample.

    Every row of a batch counts as a sample with the context of the batch; the batch is kept whole or not at all, as its
    later rows are recorded only after failures. The sums take scores as "more is better": only here scores of a metric
    whose lower values are better change their sign. The batches keep scores as recorded.
    """

    held = ("samples", "_gram", "_sums", "_drift", "batches")

    def __init__(self, contexts: ContextMap, lower_is_better: bool, ordinal: int = 0) -> None:
        """ordinal: of the generator: batches of several generators together are a sample, too (see `Reservoir`)."""
        width = contexts.width
        self.contexts = contexts
        self.sign = -1.0 if lower_is_better else 1.0
        """The factor of scores in the sums: −1 where lower is better."""
        self.samples = 0
        """Rows so far."""
        self.batches = Reservoir(BATCHES, ordinal, dtype=None)
        """Tensors `context` (k, d) in float32, `probability` (k, 1), NaN where none is known, and `scores` (k, most
        rows), NaN after the last row, in float64. The ids are the texts of prompts."""
        self._drift = Drift(width, contexts.linear)
        self._gram = SymmetricSum(width)
        # Σx, Σsx, Σs, Σs².
        self._sums = np.zeros(2 * width + 2)

    @property
    def moments(self) -> Sums:
        """The sums, in memory of their own."""
        width = self.contexts.width
        total, cross, ends = np.split(self._sums.copy(), (width, 2 * width))
        return Sums(self.samples, self._gram.dense().numpy(), total, cross, float(ends[0]), float(ends[1]))

    @property
    def sum(self) -> float:
        """The sum of all scores, on the metric's scale."""
        return self.sign * float(self._sums[-2])

    @property
    def change(self) -> Change | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The change of the generator's answers, if any, on the metric's scale."""
        change = self._drift.change
        return None if change is None else replace(change, shift=self.sign * change.shift)

    def read(self, scores: Tensor, prompt: AskedPrompt | None) -> RoutedBatch:
        """The batch as `add` takes it: scores (n, 1) on the metric's scale, and the prompt that they are for.

        Raises FixError without a prompt, for a context of another width or with numbers that are not finite, and for
        texts that have no UTF-8.
        """
        if prompt is None:
            raise FixError("the batch has no context of a prompt")
        context = checked_context(prompt.context, self.contexts.dimension)
        if scores.ndim != 2 or scores.shape[1] != 1:
            raise FixError(f"expected one score in each row, got shape {tuple(scores.shape)}")
        probability = float("nan") if prompt.probability is None else prompt.probability
        return RoutedBatch(
            torch.from_numpy(self.contexts(context[None])),
            scores.to("cpu", torch.float64).T,
            torch.from_numpy(context)[None],
            torch.tensor([[probability]], dtype=torch.float64),
            prompt.prompt.replace("\0", " ").encode()[:200].decode(errors="ignore"),  # tables show excerpts
            (max(prompt.position - 1, 0), prompt.pick),
        )

    def add(self, batch: RoutedBatch) -> None:
        """Add a batch, whose scores must be finite."""
        count = batch.scores.shape[1]
        features, scores = batch.features.numpy()[0], self.sign * batch.scores.numpy()[0]
        # Later rows exist only because the first failed.
        self._drift.add(features, float(scores[0]), lambda: self.moments, self.samples, batch.origin)
        self._gram.add(batch.features.expand(count, -1))
        total = scores.sum()
        self._sums += np.concatenate([count * features, total * features, [total, scores @ scores]])
        self.samples += count
        self._keep(batch)

    def _keep(self, batch: RoutedBatch) -> None:
        kept, scores = self.batches.widths.get("scores", 0), batch.scores
        if kept and kept < scores.shape[1]:
            state = self.batches.state()
            self.batches.restore({**state, "rows/scores": padded(state["rows/scores"], scores.shape[1])})
        arrays = {"context": batch.context, "probability": batch.probability, "scores": padded(scores, kept)}
        self.batches.update(arrays, [batch.prompt])


def padded(scores: Tensor, columns: int) -> Tensor:
    """Scores (k, n) in at least so many columns, NaN in added ones."""
    return torch.nn.functional.pad(scores, (0, max(columns - scores.shape[1], 0)), value=float("nan"))
