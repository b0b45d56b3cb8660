"""Which samples of several sets belong together by their names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


@dataclass(frozen=True)
class Together:
    """The samples of several sets that belong together."""

    keys: Mapping[str, Mapping[str, str]]
    """By set the key of each name; samples with equal keys belong together."""
    paired: frozenset[str]
    """Sets that have names in common; other sets are compared as independent."""
    shared: frozenset[str]
    """The keys that all of these have."""

    def notes(self) -> list[str]:
        """Sentences for users where names are not the same in all sets."""
        unpaired = [
            f"{name}: its samples have no names in common with the others: it is compared unpaired"
            for name in self.keys
            if name not in self.paired
        ]
        smallest = min((len(self.keys[name]) for name in self.paired), default=0)
        # Where one set is only smaller than others, all of its samples have names in common.
        if len(self.shared) == smallest:
            return unpaired
        others = "of all sets" if not unpaired else f"of {', '.join(sorted(self.paired))}"
        return [
            *unpaired,
            f"{len(self.shared):,} of {smallest:,} samples have names in common {others}: only these are paired",
        ]


def together(names: Mapping[str, Sequence[str]]) -> Together:
    """Samples that belong together by name, whatever the form of Unicode letters and the zeros before numbers.

    A set that would leave fewer than half of the other sets' names in common is not paired.
    """
    keys = {name: _keys(own) for name, own in names.items()}
    paired = [*names]
    while len(paired) > 2:
        shared = len(_shared(keys, paired))
        if 2 * shared >= min(len(keys[name]) for name in paired):
            break
        without = {name: len(_shared(keys, [other for other in paired if other != name])) for name in paired}
        worst = max(without, key=lambda name: without[name])
        if without[worst] <= shared:
            break
        paired.remove(worst)
    shared = _shared(keys, paired)
    return Together(keys, frozenset(paired if shared else ()), frozenset(shared))


def _shared(keys: Mapping[str, Mapping[str, str]], sets: Collection[str]) -> set[str]:
    return set[str].intersection(*(set(keys[name].values()) for name in sets))


def _keys(names: Sequence[str]) -> dict[str, str]:
    """The key of each name; the names themselves where two keys would be equal."""
    keys = {name: _ZEROS.sub("", unicodedata.normalize("NFC", name.replace("\\", "/"))) for name in names}
    return keys if len({*keys.values()}) == len(keys) else dict(zip(names, names, strict=True))
