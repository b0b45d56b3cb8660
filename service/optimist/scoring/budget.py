"""What a scorer keeps between batches, in bytes, and what it drops where that is too much."""

from __future__ import annotations

from collections.abc import Mapping, Set

from optimist.scoring.held import Held
from optimist.scoring.questions import Questions

Key = tuple[str, int]
"""An experiment and the ordinal of a generator."""


def kept(held: Mapping[Key, Held], questions: Questions) -> int:
    """Bytes of all statistics that are warm, and of the feature maps and references that they are scored by."""
    return sum(one.bytes for one in held.values()) + questions.bytes


def cool_down(
    held: Mapping[Key, Held], questions: Questions, worked: Mapping[Key, float], at_work: Set[Key], limit: float
) -> None:
    """Drop what was used longest ago until the rest takes at most `limit` bytes, but nothing that is `at_work`.

    `worked` says when each generator was worked on last. A feature map was used when the latest generator of its
    experiment was, and goes after the statistics of all of them, which hold it too; a reference goes with the last map
    that is made of it.
    """
    left = kept(held, questions)
    if left <= limit:
        return
    busy = {name for name, _ in at_work}
    used: dict[str, float] = {}
    for name, ordinal in held:
        used[name] = max(used.get(name, 0.0), worked.get((name, ordinal), 0.0))
    statistics = [(worked.get(key, 0.0), False, key) for key in held if key not in at_work]
    maps = [(used.get(name, 0.0), True, (name, 0)) for name in questions.warm if name not in busy]
    for _, is_map, key in sorted(statistics + maps):
        if left <= limit:
            return
        if is_map:
            left -= questions.cool(key[0])
        else:
            left -= held[key].bytes
            held[key].cool()
