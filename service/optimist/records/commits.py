"""What is asked of the store about an experiment whose tables Python changes, and what it answers.

One script, commit.lua, does all of it: it compares the head, checks the guards, writes, and keeps the newest entries
for processes that are behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

from optimist.records.tables import Change

TAIL = 64
"""How many entries the store keeps: a process that is further behind reads all resident tables."""
TURN = 0.25
"""Seconds for which nobody else commits while it is somebody's turn."""


class Head(NamedTuple):
    """A moment of an experiment's history. chain: a digest of all steps up to it, so that equal heads have equal
    histories, whatever Redis has lost."""

    seq: int = 0
    chain: str = ""


class Rule(Enum):
    """What a guard demands of its value."""

    ANY = "any"
    EQUAL = "equal"
    ABSENT = "absent"


class Guard(NamedTuple):
    """A value outside of the resident tables that a step assumes, or that is to be read.

    part: the name of a hash; the field `WHOLE` stands for all of its fields. Or that of a log, whose entries are fields
    by their position, without their bodies; the field "" stands for the position of its first entry.
    """

    part: str
    field: str
    rule: Rule = Rule.ANY
    value: str = ""


Command = Literal["SET", "HSET", "HDEL", "RPUSH", "LTRIM", "ZREM", "UNLINK", "APPEND", "XADD", "XTRIM", "RING", "DUE"]


class Write(NamedTuple):
    """A command of Redis on a part of an experiment; or RING, which sets fields of a hash that has only the newest so
    many, and removes the oldest in so many other parts, too; or DUE, which announces that an estimate is due."""

    command: Command
    part: str
    arguments: tuple[str | int | float | bytes, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """The request to write one step of the experiment if its head is `head` and the guards hold.

    Without a chain there is nothing to write: only whether that is so is asked.
    """

    head: Head
    guards: Sequence[Guard]
    chain: str = ""
    """Of the step; no other one ever has it."""
    entry: str = ""
    """The changes of the resident tables."""
    writes: Sequence[Write] = ()
    frees: bool = False
    """Whether the step makes room, so that it is done while memory is full."""
    who: str = ""
    """Whoever asks for the turn, or has asked for it and gives it back with this step; "" for nobody."""
    claims: bool = False
    """Whether the turn is asked for, and nothing else."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the store to a request."""

    is_done: bool
    """Whether it was as the request has it: the step was written, now or before, or there was nothing to write."""
    head: Head
    time: float
    """Of Redis's clock, in Unix seconds."""
    values: Sequence[Any] = ()
    """Of the guards: texts, fields with their texts for several, None where there is nothing."""
    missed: Sequence[tuple[str, str]] | None = ()
    """Chains and entries after the expected head; None where the store does not know that head, or no longer."""
    waits: bool = False
    """Whether it is somebody else's turn."""


class Load:
    """The request for all resident tables."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """All resident tables, and the head that they have."""

    head: Head
    time: float
    changes: Sequence[Change]
