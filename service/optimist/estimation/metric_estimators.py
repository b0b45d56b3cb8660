"""One metric of an evaluation: an estimator of each generator, the latest estimates, and the batches it is given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimates.mixture import Mixture
from optimist.estimates.pairing import LARGEST_INDEX
from optimist.estimation.artefacts import check_mixtures, mixture_of
from optimist.estimation.learner import Learner
from optimist.estimation.paired import IndexRuns
from optimist.estimation.question import Question
from optimist.estimation.stored import pack_kernels, unpack_kernels
from optimist.estimation.streaming import StreamingEstimator, first_rows
from optimist.records import MIN_MIXED, AskedPrompt, codec
from optimist_client.errors import FixError
from optimist_client.files import Arrays

Start = int | Literal["next"] | None
"""Index of a batch's first sample; "next": after the indices told so far; None: samples without indices."""


class StreamBatch(NamedTuple):
    """A batch, as the arguments of `StreamingEstimator.add`."""

    tensors: dict[str, Tensor]
    ids: list[str]
    listed: Tensor | None
    indices: IndexRuns | None
    prompt: AskedPrompt | None = None
    seconds: float | None = None


def checked_prompts(prompt_indices: Sequence[int] | None, rows: int, length: int | None) -> Tensor | None:
    """The prompts (rows,) of a batch as indices in a list of this length, None without a list.

    Raises FixError if they are not valid, or if there is no list.
    """
    if prompt_indices is None:
        return None
    if length is None:
        raise FixError("prompt_indices: expected them only with prompts")
    indices = np.asarray(prompt_indices)
    if indices.shape != (rows,) or indices.dtype.kind not in "iu" or not all(0 <= i < length for i in indices):
        raise FixError(f"prompt_indices: expected {rows} whole numbers from 0 to {length - 1}")
    return torch.from_numpy(indices.astype(np.int64))


def checked_start(start: Start, rows: int, end: int) -> IndexRuns | None:
    """The indices of a batch, "next" from `end` on. Raises FixError for a `start` that is none."""
    if start is None:
        return None
    first = end if isinstance(start, str) and start == "next" else start
    if isinstance(first, bool) or not isinstance(first, Integral) or not 0 <= first <= LARGEST_INDEX - rows:
        last = LARGEST_INDEX - rows
        raise FixError(f'start: expected "next", None, or a whole number from 0 to {last}, got {first!r}')
    return int(first), rows


def replayed(estimator: StreamingEstimator, log: Sequence[StreamBatch]) -> Estimate | None:
    """Add batches to an estimator; the latest estimate that is due after them."""
    estimate: Estimate | None = None
    for told in log:
        if estimator.add(*told):
            estimate = estimator.estimate()
    return estimate


def names_of(generators: Any) -> tuple[str, ...]:
    """The names of the generators. Raises FixError unless they are distinct strings, at least one."""
    names = tuple(generators) if isinstance(generators, Iterable) and not isinstance(generators, str | Set) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise FixError(f"expected at least one generator and distinct names, got {generators!r}")
    return names


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Arrays:
    """Copies of tensors as arrays, with names under `prefix`."""
    return {f"{prefix}/{name}": tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def tensors_at(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """The inverse of `with_prefix`. torch copies the arrays, so that memory is aligned as in new tensors."""
    begin = f"{prefix}/"
    return {name.removeprefix(begin): torch.tensor(array) for name, array in arrays.items() if name.startswith(begin)}


def texts(arrays: Sequence[str]) -> NDArray[np.uint8]:
    """Texts as one array of bytes."""
    return np.frombuffer(json.dumps(list(arrays)).encode(), np.uint8)


def texts_of(array: NDArray[Any]) -> list[str]:
    """The texts of an array that `texts` made."""
    return json.loads(array.tobytes())


KeptLogs = Mapping[str, Sequence[StreamBatch]]


@dataclass(frozen=True, slots=True)
class Begun:
    """The question whose kernels a batch has fixed, with estimators of all generators and their estimates so far."""

    question: Question
    estimators: dict[str, StreamingEstimator]
    estimates: dict[str, Estimate | None]


class MetricEstimators:
    """The estimators of one metric. Until samples have fixed its open kernels there are none, and batches are kept."""

    def __init__(self, question: Question, generators: Sequence[str], growth: float) -> None:
        self.question = question
        self._asked = question
        self.estimates: dict[str, Estimate | None] = dict.fromkeys(generators)
        self._growth = growth
        self._logs: dict[str, list[StreamBatch]] = {name: [] for name in generators}
        self._estimators: dict[str, StreamingEstimator] = {}
        self._due: str | None = None

    def begun(self, generator: str, told: StreamBatch) -> Begun | None:
        """The estimators that this batch begins, None if it begins none. Nothing is changed.

        Raises FixError if the kernels cannot be fixed, or if the batch does not fit the settings.
        """
        if self._estimators:
            return None
        logs = {**self._logs, generator: [*self._logs[generator], told]}
        question = self._fitted(logs)
        if question.is_open:
            return None
        bound = question.bound_for({own: rows.shape[1] for own, rows in question.own(told.tensors).items()})
        settings = _settings_of(question)
        estimators = {
            name: StreamingEstimator(bound, self._growth, ordinal=ordinal, **settings)
            for ordinal, name in enumerate(logs)
        }
        return Begun(question, estimators, {name: replayed(estimators[name], log) for name, log in logs.items()})

    def add(self, generator: str, told: StreamBatch, begun: Begun | None) -> None:
        """Add a batch, for which `begun` returned `begun`. Raises FixError as `StreamingEstimator.add` does."""
        if begun is not None:
            self.question, self._estimators, self.estimates = begun.question, begun.estimators, begun.estimates
            self._logs.clear()
        elif not self._estimators:
            self._logs[generator].append(told)
        elif self._estimators[generator].add(*told):
            self._due = generator

    def score(self) -> None:
        """Make the estimate that became due with the last batch, if one did. Raises as bounds do."""
        generator, self._due = self._due, None
        if generator is not None:
            self.estimates[generator] = self._estimators[generator].estimate()

    def score_all(self, generator: str) -> None:
        """Make the estimate of all batches of a generator, whether or not it is due."""
        self.estimates[generator] = self.estimator(generator).estimate()

    def estimator(self, generator: str) -> StreamingEstimator:
        """The estimator of a generator. Raises FixError while none of its samples can be scored."""
        if not self._estimators or not self._estimators[generator].samples:
            raise FixError(f"no samples of {generator!r} can be scored yet")
        return self._estimators[generator]

    def mixture(self, published: bool = False) -> Mixture:
        """The mixture of all generators, by their statistics now; `published` as of `cross_fitted`.

        Raises FixError for a metric whose mixtures have no score, and while a generator has too few samples.
        """
        check_mixtures(self.question)
        if not self._estimators:
            needed = max(self.question.rows_to_fit(len(self.estimates)), MIN_MIXED)
            raise FixError(f"a mixture needs at least {needed} samples of each generator")
        return mixture_of(self._estimators, published)

    @property
    def learner(self) -> Learner:
        """The learner of the model that picks are made from. Raises FixError where they are made from none."""
        if self.question.learner is None:
            raise FixError("expected a goal whose picks are made from a model")
        return self.question.learner

    def model(self, ordinals: Sequence[int]) -> bytes:
        """The model of these generators."""
        estimators = [*self._estimators.values()]
        return self.learner.model({ordinal: estimators[ordinal] for ordinal in ordinals})

    def rows(self) -> Any:
        """Input of the table. Raises FixError while there is too little."""
        return self.learner.rows(dict(enumerate(self._estimators.values())), len(self.estimates))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The whole state for `restore`: values for JSON, and arrays."""
        state: dict[str, Any] = {"begun": bool(self._estimators)}
        state["estimates"] = [estimate and codec.encode(estimate) for estimate in self.estimates.values()]
        arrays: Arrays = {}
        if self._estimators:
            arrays["fitted"] = np.frombuffer(pack_kernels(self._asked, self.question), np.uint8)
            for ordinal, estimator in enumerate(self._estimators.values()):
                arrays |= with_prefix(f"{ordinal}", estimator.state())
            return state, arrays
        state["logs"] = [[told.indices for told in log] for log in self._logs.values()]
        for ordinal, log in enumerate(self._logs.values()):
            for number, told in enumerate(log):
                arrays |= with_prefix(f"{ordinal}/{number}/rows", told.tensors)
                arrays[f"{ordinal}/{number}/ids"] = texts(told.ids)
                arrays |= {} if told.listed is None else {f"{ordinal}/{number}/listed": told.listed.numpy()}
                if told.prompt is not None:
                    arrays[f"{ordinal}/{number}/prompt"] = np.frombuffer(told.prompt.pack(), np.uint8)
        return state, arrays

    def restore(self, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], widths: Mapping[str, int]) -> None:
        """Restore the output of `state` of estimators with the same arguments; widths: columns by array of a batch.

        Raises KeyError or ValueError for the state of other estimators.
        """
        estimates = [text and codec.decode(Estimate, text) for text in state["estimates"]]
        self.estimates = dict(zip(self.estimates, estimates, strict=True))
        if state["begun"]:
            self.question = unpack_kernels(self._asked, arrays["fitted"].tobytes())
            made = self.question.bound_for(self.question.own(widths)), self._growth
            settings = _settings_of(self.question)
            self._estimators = {
                name: StreamingEstimator(*made, ordinal=ordinal, **settings).restore(tensors_at(f"{ordinal}", arrays))
                for ordinal, name in enumerate(self.estimates)
            }
            self._logs.clear()
            return
        for ordinal, (log, indices) in enumerate(zip(self._logs.values(), state["logs"], strict=True)):
            for number, bounds in enumerate(indices):
                listed = arrays.get(f"{ordinal}/{number}/listed")
                tensors = tensors_at(f"{ordinal}/{number}/rows", arrays)
                ids = texts_of(arrays[f"{ordinal}/{number}/ids"])
                run = None if bounds is None else (bounds[0], bounds[1])
                asked = arrays.get(f"{ordinal}/{number}/prompt")
                prompt = None if asked is None else replace(AskedPrompt.unpack(asked.tobytes()), position=number + 1)
                log.append(StreamBatch(tensors, ids, None if listed is None else torch.tensor(listed), run, prompt))

    def _fitted(self, logs: KeptLogs) -> Question:
        """The question; open settings are fixed once the logs have enough samples, and prompts, of every generator."""
        question, learner = self.question, self.question.learner
        rows, batches = question.rows_to_fit(len(logs)), question.batches_to_fit(len(logs))
        has_few = any(len(log) < batches or sum(len(told.ids) for told in log) < rows for log in logs.values())
        if has_few or not question.is_open:
            return question
        own = [[question.own(told.tensors) for told in log] for log in logs.values()]
        firsts = [
            np.stack([learner.first(told.prompt) for told in log[:batches] if told.prompt is not None])
            for log in logs.values()
            if learner is not None and batches
        ]
        return question.fitted(first_rows(own, rows), firsts)


def _settings_of(question: Question) -> dict[str, Any]:
    """Settings of a question's estimators beside bound and growth."""
    how = {"paired": question.is_paired, "clusters": question.counts}
    return how | {"reads": question.reads, "learner": question.learner}


def score_due(metrics: Mapping[str, MetricEstimators]) -> None:
    """Make the estimates that are due now. An error of one metric is raised after the other estimates."""
    errors: list[Exception] = []
    for label, estimators in metrics.items():
        try:
            estimators.score()
        except Exception as error:
            error.add_note(f"in the estimate by {label!r}")
            errors.append(error)
    if errors:
        raise errors[0]
