"""One policy on one draw of the samples: Protocol 1 of the papers, with the service's own `Evaluation`.

A policy is a name or preset, optionally with options: a `Contender`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimist.local.evaluation import Evaluation
from optimist.metrics.threads import one_thread
from optimist.simulation.plan import Plan
from optimist.simulation.run import Play
from optimist.simulation.sources.base import Draw, Source
from optimist_client.config import BoundOptions
from optimist_client.errors import FixError
from optimist_client.metrics.texts import parts, split

OPTIONS = ("bound", "delta", "tolerance", "warmup", "rescore_growth", *BoundOptions.model_fields)
"""The options that may follow a name. They are parameters of `Evaluation`, which checks their values."""


@dataclass(frozen=True)
class Contender:
    """A policy with its label and its settings, which are parameters of `Evaluation`."""

    label: str
    settings: dict[str, Any]


def contenders(policies: str | Sequence[str] | Mapping[str, str], names: Sequence[str]) -> list[Contender]:
    """Parse specifications such as "ucb:bound=theorem,delta=0.1". One text may hold several, separated by commas.

    The keys of a mapping are the labels; otherwise each specification is its own label. Raises FixError for unknown
    policies and options, with a list of the valid ones, and for duplicate labels.
    """
    if isinstance(policies, Mapping):
        parsed = [Contender(label, settings(text, names)) for label, text in policies.items()]
    else:
        texts = [policies] if isinstance(policies, str) else policies
        parsed = [Contender(part, settings(part, names)) for text in texts for part in split(text)]
    labels = [contender.label for contender in parsed]
    if not labels or len(set(labels)) < len(labels):
        raise FixError(f"policies: expected at least one, without duplicates; got {', '.join(labels) or 'none'}")
    return parsed


def settings(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Parse one specification as parameters of `Evaluation`. Raises FixError like `contenders`."""
    name, options = parts(text)
    if name not in names:
        raise FixError(f"policy {text!r}: expected one of {', '.join(names)}, got {name!r}")
    if foreign := sorted(options.keys() - set(OPTIONS)):
        raise FixError(f"policy {text!r}: expected options among {', '.join(OPTIONS)}; got {', '.join(foreign)}")
    return {"policy": name, **options}


class Recorder(ABC):
    """Recorder of a trial for a goal; it has the trial's evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    @abstractmethod
    def record(self, stop: bool) -> bool:
        """Record the state after a round. Returns whether the stopping rule ends the trial with it, if it may."""

    @abstractmethod
    def seen(self) -> Any:
        """The record of the trial."""


@dataclass(frozen=True)
class Trial:
    """One policy in one trial. `settings` are the parameters of `Evaluation` that all policies share."""

    sources: Mapping[str, Source]
    contender: Contender
    settings: Mapping[str, Any]
    plan: Plan
    number: int
    recorder: type[Recorder]

    def evaluation(self) -> Evaluation:
        """A new `Evaluation` for this trial. Raises FixError for invalid settings."""
        settings: dict[str, Any] = {**self.settings, **self.contender.settings, "paired": bool(self.plan.paired)}
        settings |= {"batch_size": self.plan.batch_size, "seed": self.plan.seed + self.number}
        options = {name: settings.pop(name) for name in BoundOptions.model_fields if name in settings}
        if self.plan.prompts_are is not None:
            settings |= {"prompts": [f"{row}" for row in range(self._listed)], "prompts_are": self.plan.prompts_are}
        return Evaluation(list(self.sources), **settings, bound_options=options)

    def play(self, advance: Callable[[], None] = lambda: None) -> Play:
        """Ask, draw and tell until the last round, the decision, or a generator without a full batch left.

        `advance` is called after each round.
        """
        with one_thread():
            evaluation, picks, decided = self.evaluation(), list[int](), False
            recorder = self.recorder(evaluation)
            for ordinal in self._told(evaluation):
                picks.append(ordinal)
                decided = recorder.record(self.plan.stop)
                advance()
                if decided:
                    break
            is_short = not (decided or evaluation.state.is_spent) and len(picks) < self.plan.rounds
            return Play(np.array(picks, np.int32), recorder.seen(), decided, evaluation.ask() if is_short else None)

    def _told(self, evaluation: Evaluation) -> Iterator[int]:
        """Ask, draw and tell: the generator's ordinal after each round. Ends early if it has no full batch left.

        `evaluation` then asks for this generator.
        """
        names, plan = list(self.sources), self.plan
        ordinals = {name: ordinal for ordinal, name in enumerate(names)}
        draws = {name: Draw(plan.seed, self.number, name, plan.shuffle, bool(plan.paired)) for name in names}
        streams = {name: source.stream(draws[name]) for name, source in self.sources.items()}
        for _ in range(plan.rounds):
            if evaluation.state.is_spent:
                return
            name = evaluation.ask()
            start, size, prompts = evaluation.next_start(name), evaluation.batch_size, None
            if plan.prompts_are is not None:
                # Paired rows are drawn in one order, so that a position in it is a prompt.
                size = min(size, self._listed - start)
                prompts = [*range(start, start + size)]
            batch = streams[name].take(size) if size else None
            if batch is None:
                return
            evaluation.tell(name, batch, prompt_indices=prompts)
            yield ordinals[name]

    @property
    def _listed(self) -> int:
        """Number of prompts, if rows are answers to a list. Raises FixError unless all sources have as many rows."""
        counts = {source.samples for source in self.sources.values()}
        (count,) = counts if len(counts) == 1 else (None,)
        if count is None or not self.plan.paired:
            raise FixError("prompts_are: expected paired rows, as many of every generator, one for each prompt")
        return count
