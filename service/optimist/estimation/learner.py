"""Learners of goals: the model that picks are made from, learned from the batches of all generators.

A goal `WithModel` names its `Learner`, which may need torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from optimist.arrays import Floats
from optimist.estimates.estimate import Change
from optimist.metrics.state import Stateful
from optimist.records import AskedPrompt

if TYPE_CHECKING:
    from optimist.estimation.streaming import StreamingEstimator


class Learned(Stateful, ABC):
    """Data that an estimator keeps of one generator's batches for a learner."""

    change: Change | None = None
    """A change of the generator's answers, if one was found."""

    @abstractmethod
    def read(self, scores: Tensor, prompt: AskedPrompt | None) -> Any:
        """The batch as `add` takes it: scores (n, 1), and the prompt that they are for. Raises FixError."""

    @abstractmethod
    def add(self, batch: Any) -> None:
        """Add a batch, whose scores must be finite."""


class Learner(ABC):
    """Makes a model of the statistics of all generators, or of what it keeps beside them.

    It may be open until the first prompts of all generators have fixed it.
    """

    is_open: bool = False
    """True if prompts must fix it first."""

    @abstractmethod
    def model(self, estimators: Mapping[int, StreamingEstimator]) -> bytes:
        """The model of these generators, by ordinal, as `WithModel.with_model` reads it. Raises FixError."""

    def rows(self, estimators: Mapping[int, StreamingEstimator], generators: int) -> Any:
        """Input of `WithModel.table` for an experiment with so many generators; None without one."""
        del estimators, generators

    @property
    def arrays(self) -> Sequence[Floats]:
        """Arrays that determine the kept data, once it is fixed."""
        return ()

    def learned(self, *, lower_is_better: bool, ordinal: int) -> Learned | None:
        """Data to keep of the generator of this ordinal; None for nothing."""
        del lower_is_better, ordinal

    def to_fit(self, generators: int) -> int:
        """The batches that each of so many generators must have before it can be fixed."""
        del generators
        return 0

    def first(self, prompt: AskedPrompt) -> Floats:
        """Part of one of the first prompts (d,) that fixes the learner. Raises FixError."""
        raise NotImplementedError

    def fitted(self, firsts: Sequence[Floats]) -> Learner:
        """The learner fixed by the first prompts (n, d) of each generator."""
        del firsts
        return self

    @property
    def fixed(self) -> dict[str, Floats]:
        """The numbers that prompts have fixed."""
        return {}

    def closed(self, fixed: Mapping[str, Floats]) -> Learner:
        """The learner with the numbers that `fixed` of another one has."""
        del fixed
        return self
