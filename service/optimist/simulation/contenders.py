"""Parses the policies of a simulation: each is a name or preset, optionally with options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from optimist.policies import NAMES
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
