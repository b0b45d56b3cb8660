"""One policy on one draw of the samples: Protocol 1 of the papers, with the service's own `Evaluation`.

A policy is a name or preset, optionally with options: a `Contender`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from optimist.local.evaluation import Evaluation
from optimist.metrics.threads import one_thread
from optimist.policies import NAMES
from optimist.simulation.sources.base import Draw, Source
from optimist_client.config import BoundOptions, Goal, MixturePolicy
from optimist_client.errors import FixError
from optimist_client.presets import presets
from optimist_client.tolerance import parsed as parsed_tolerance

POLICIES: dict[str, tuple[str, ...]] = {
    "best": (*NAMES, *(name for name in presets() if name not in NAMES)),
    "mixture": (*get_args(MixturePolicy), "uniform"),
}
"""The names of policies and presets by goal."""
DEFAULT = {"best": "ucb", "mixture": "ogd"}
"""The policy that is played if none is named."""
_KINDS: dict[str, Callable[[str], Any]] = {
    "bound": str,
    "delta": float,
    "tolerance": parsed_tolerance,
    "warmup": int,
    "rescore_growth": float,
    **dict.fromkeys(BoundOptions.model_fields, float),
}
_WORDS = {int: "a whole number", parsed_tolerance: "a number or a share such as 1%"}
OPTIONS = tuple(_KINDS)
"""The options that may follow a name. They are parameters of `Evaluation`."""


@dataclass(frozen=True)
class Contender:
    """A policy with its label and its settings, which are parameters of `Evaluation`."""

    label: str
    settings: dict[str, Any]


def contenders(policies: str | Sequence[str] | Mapping[str, str] | None, goal: Goal = "best") -> list[Contender]:
    """Parse specifications such as "ucb:bound=theorem,delta=0.1". One text may hold several, separated by commas.

    The keys of a mapping are the labels; otherwise each specification is its own label. Raises FixError for unknown
    names and options, with a list of the known ones, and for duplicate labels. None is the default of the goal.
    """
    if goal not in POLICIES:
        raise FixError(f"goal: expected {' or '.join(map(repr, POLICIES))}, got {goal!r}")
    policies = DEFAULT[goal] if policies is None else policies
    if isinstance(policies, Mapping):
        found = [Contender(label, settings(text, goal)) for label, text in policies.items()]
    else:
        texts = [policies] if isinstance(policies, str) else policies
        found = [Contender(part, settings(part, goal)) for text in texts for part in _parts(text)]
    labels = [contender.label for contender in found]
    if not labels or len(set(labels)) < len(labels):
        raise FixError(f"policies: expected at least one, without duplicates; got {', '.join(labels) or 'none'}")
    return found


def settings(text: str, goal: Goal = "best") -> dict[str, Any]:
    """Parse one specification as parameters of `Evaluation`. Raises FixError like `contenders`."""
    name, _, rest = text.partition(":")
    if name not in POLICIES[goal]:
        raise FixError(f"policy {text!r}: expected one of {', '.join(POLICIES[goal])}, got {name!r}")
    found: dict[str, Any] = {"policy": name}
    for pair in filter(None, rest.split(",")):
        option, equals, value = pair.partition("=")
        if option not in _KINDS or not equals:
            raise FixError(f"policy {text!r}: expected option=value with one of {', '.join(OPTIONS)}; got {pair!r}")
        if option in found:
            raise FixError(f"policy {text!r}: expected each option once, got {option} twice")
        try:
            found[option] = _KINDS[option](value)
        except ValueError:
            kind = _WORDS.get(_KINDS[option], "a number")
            raise FixError(f"policy {text!r}: expected {kind} for {option}, got {value!r}") from None
    return found


def _parts(text: str) -> Iterator[str]:
    """Split a list of specifications at its commas, except for the commas between options."""
    part = ""
    for piece in text.split(","):
        if part and "=" in piece and ":" not in piece:
            part = f"{part},{piece}"
        else:
            if part:
                yield part
            part = piece.strip()
    yield part


NO_GENERATOR = -1
"""The value for no generator: no best one is named yet, or the trial has ended."""


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial. Generators are given by index, scores are on the natural scale."""

    picks: NDArray[np.int32]
    """The generator picked in each round played (rounds played,)."""
    named: NDArray[np.int32]
    """The generator named best after each round; `NO_GENERATOR` while a generator has no estimate."""
    estimates: NDArray[np.float64]
    """Value, lower and upper end of the last estimate of each generator (G, 3); NaN without an estimate."""
    samples: NDArray[np.int64]
    """Samples drawn from each generator (G,)."""
    decided: bool
    """Whether the stopping rule ended the trial."""
    exhausted: str | None
    """The generator that ran out of samples, if that ended the trial."""


@dataclass(frozen=True)
class Trial:
    """One policy in one trial. `settings` are the parameters of `Evaluation` that all policies share."""

    sources: Mapping[str, Source]
    contender: Contender
    settings: Mapping[str, Any]
    number: int
    rounds: int
    seed: int
    stop: bool
    shuffle: bool
    paired: bool
    """Whether row i of every generator is drawn alike, and estimates are compared by index."""

    def evaluation(self) -> Evaluation:
        """A new `Evaluation` for this trial. Raises FixError for invalid settings."""
        settings = {**self.settings, **self.contender.settings, "paired": self.paired}
        options = {name: settings.pop(name) for name in BoundOptions.model_fields if name in settings}
        return Evaluation(list(self.sources), **settings, bound_options=options, seed=self.seed + self.number)

    def play(self, advance: Callable[[], None] = lambda: None) -> TrialResult:
        """Ask, draw and tell until the last round, the decision, or a generator without a full batch left.

        `advance` is called after each round.
        """
        with one_thread():
            return self._play(advance)

    def told(self, evaluation: Evaluation) -> Iterator[int]:
        """Ask, draw and tell: after each round the place of its generator. Ends early if that has no full batch left.

        The generator without one is then what `evaluation` asks for.
        """
        names = list(self.sources)
        places = {name: place for place, name in enumerate(names)}
        draws = {name: Draw(self.seed, self.number, name, self.shuffle, self.paired) for name in names}
        streams = {name: source.stream(draws[name]) for name, source in self.sources.items()}
        for _ in range(self.rounds):
            name = evaluation.ask()
            batch = streams[name].take(evaluation.batch_size)
            if batch is None:
                return
            evaluation.tell(name, batch)
            yield places[name]

    def _play(self, advance: Callable[[], None]) -> TrialResult:
        evaluation, names = self.evaluation(), list(self.sources)
        places = {name: place for place, name in enumerate(names)}
        picks, named = (np.full(self.rounds, NO_GENERATOR, np.int32) for _ in range(2))
        samples = np.zeros(len(names), np.int64)
        decided, played = False, 0
        for place in self.told(evaluation):
            decision = evaluation.decision(explain=False)
            picks[played] = place
            named[played] = NO_GENERATOR if decision.best is None else places[decision.best]
            samples[place] += evaluation.batch_size
            decided = self.stop and decision.decided
            played += 1
            advance()
            if decided:
                break
        exhausted = None if decided or played == self.rounds else evaluation.ask()
        return TrialResult(picks[:played], named[:played], _ends(evaluation), samples, decided, exhausted)


def _ends(evaluation: Evaluation) -> NDArray[np.float64]:
    rows = np.full((len(evaluation.generators), 3), np.nan)
    for place, estimate in enumerate(evaluation.estimates().values()):
        if estimate is not None:
            ends = (estimate.value, estimate.lower, estimate.upper)
            rows[place] = [estimate.natural(end) for end in ends]
    return rows
