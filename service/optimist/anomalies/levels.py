"""Detection of batches on another scale, such as pixels from 0 to 255 among pixels from 0 to 1.

The *level* of a batch is the logarithm of the median norm of its rows. Of every generator at most `KEPT` levels are
kept (`keep`). A batch is *anomalous* if its level deviates more from its generator's median than can be expected among
as many batches, even if norms have heavy tails; a generator is, if its median level is far from the reference, or from
the median levels of most other generators. Where the batches of a generator fall into two groups, one group is lawful:
the group that the reference or other generators confirm, or else the larger. The result depends on the kept levels
alone, not on the order in which batches came. Free of torch and I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median
from typing import Literal, NamedTuple

KEPT = 256
"""Levels kept of a generator; also in store/lua/levels.lua."""
EXTREMES = 64
"""The lowest and the highest levels that are kept at each end; also in store/lua/levels.lua."""

_FACTOR = math.log(3.0)
"""Logarithm of the least factor between batches of a generator that is ever anomalous."""
_FROM_REFERENCE = math.log(10.0)
"""Logarithm of that factor between a generator and the reference, and between two groups of a generator's batches."""
_FROM_OTHERS = math.log(30.0)
"""Logarithm of that factor between generators."""
_CHANCE = math.log(1e4)
"""Logarithm of 1/α: α is about the chance that any batch of lawful generators is named."""
_VIRTUAL = tuple(-math.log2(1 - (i + 0.5) / 6) for i in range(6))
"""Assumed deviations before there are any: six of exponential law, in units of their median."""
_SLACK = 1e-12
"""Relative rounding error of sums of weights."""

ComparedWith = Literal["batches", "reference", "generators"]


_BESIDE: dict[ComparedWith, str] = {
    "batches": "its others",
    "reference": "the reference",
    "generators": "those of other generators",
}


class Level(NamedTuple):
    """The level of one batch."""

    position: int
    """The position of the batch in its generator's log."""
    rows: int
    value: float


class Anomaly(NamedTuple):
    """A batch on another scale."""

    generator: int
    position: int
    difference: float
    """The level minus the level it is compared with: the logarithm of a factor."""
    against: ComparedWith
    """Standard of comparison: the other batches of the generator, the reference, or the other generators."""
    is_general: bool
    """True if the batch is named because its whole generator is on another scale."""


@dataclass(frozen=True)
class Levels:
    """The kept levels of one generator."""

    kept: Sequence[Level]
    """In the order of `rank`."""
    batches: int
    """Number of batches that count, from which these were kept."""
    accepted: frozenset[int] = field(default_factory=frozenset[int])
    """Positions of batches that somebody has accepted as they are."""
    accepted_until: int = 0
    """Up to this position all were accepted, and with them the scale of the generator; 0: it was not."""

    @property
    def weights(self) -> list[float]:
        """Number of batches that each kept level represents: 1 for extreme levels, the rest for the others."""
        if self.batches <= len(self.kept) or len(self.kept) <= 2 * EXTREMES:
            return [1.0] * len(self.kept)
        inner = len(self.kept) - 2 * EXTREMES
        ends = [1.0] * EXTREMES
        return [*ends, *([(self.batches - 2 * EXTREMES) / inner] * inner), *ends]

    def accepts(self, position: int) -> bool:
        """True if somebody has accepted this batch."""
        return position <= self.accepted_until or position in self.accepted


def rank(level: Level) -> tuple[float, int]:
    """The key by which kept levels are sorted."""
    return level.value, level.position


def keep(kept: list[Level], new: Level) -> None:
    """Add a level to the sorted `kept`. When full, an arbitrary level that is neither low nor high leaves."""
    kept.append(new)
    kept.sort(key=rank)
    if len(kept) > KEPT:
        del kept[EXTREMES + new.position % 65536 * 40503 % 65536 % (len(kept) - 2 * EXTREMES)]


def anomalies(generators: Sequence[Levels], reference: float | None = None) -> list[Anomaly]:
    """The unaccepted anomalous batches of all generators, in no particular order.

    reference: the level of real rows, if any, which decides between generators. Without it generators that differ from
    most others are named; where no level has most generators, as with two generators, all are.
    """
    if _are_alike(generators, reference):
        return []
    present = [g for g, levels in enumerate(generators) if levels.kept]
    groups = {g: _groups(generators[g]) for g in present}
    medians = {g: _middle(generators[g], groups[g]) for g in present}
    rows = median([level.rows for levels in generators for level in levels.kept])
    largest = _threshold([deviation for g in present for deviation in _deviations(groups[g], rows)], rows)
    # The median of few batches may be far off by chance, as a single batch may.
    min_distances = {g: largest / math.sqrt(len(generators[g].kept)) for g in present}
    counts = {g: len(generators[g].kept) for g in present}
    first = {g: _outside(g, medians, counts, reference) for g in present}
    centres = {g: _centre(groups[g], first[g], medians[g], largest, min_distances[g], rows) for g in present}
    anomalous: list[Anomaly] = []
    for g in present:
        levels, centre = generators[g], centres[g]
        outside = _outside(g, centres, counts, reference)
        is_far = abs(centre - outside.level) > max(outside.limit, min_distances[g]) and not levels.accepted_until
        confirmed = {x.position for x in levels.kept if abs(x.value - outside.level) < abs(x.value - centre)}
        # Where its own batches and those that confirm the other level are fewer, the generator is not in doubt.
        is_far = is_far and not (confirmed and outside.support + len(confirmed) < counts[g] - len(confirmed))
        for level in levels.kept:
            beside = _compared_with(level, groups[g], centre, largest, rows)
            if levels.accepts(level.position):
                continue
            if beside is not None and not (is_far and level.position in confirmed):
                anomalous.append(Anomaly(g, level.position, level.value - beside, "batches", False))
            elif is_far and level.position not in confirmed:
                against: ComparedWith = "generators" if reference is None else "reference"
                anomalous.append(Anomaly(g, level.position, level.value - outside.level, against, not confirmed))
    return anomalous


class _Group(NamedTuple):
    """Batches of one generator that are on about the same scale."""

    kept: Sequence[Level]
    weights: Sequence[float]

    @property
    def level(self) -> float:
        """The median level of its batches."""
        return _weighted_median([level.value for level in self.kept], self.weights)


def _groups(levels: Levels) -> list[_Group]:
    """The two groups into which a generator's batches fall, or all batches as one group.

    Two batches are two groups. More fall into two where the widest gap between their levels is wide, also beside the
    range of either group.
    """
    kept, weights = levels.kept, levels.weights
    if len(kept) == 1 or levels.batches > len(kept):
        return [_Group(kept, weights)]
    gap, cut = max((after.value - before.value, index) for index, (before, after) in enumerate(pairwise(kept), start=1))
    spread = max(part[-1].value - part[0].value for part in (kept[:cut], kept[cut:]))
    # The gap between two groups is at least three times the range of either.
    if len(kept) > 2 and gap <= max(_FROM_REFERENCE, 3.0 * spread):
        return [_Group(kept, weights)]
    return [_Group(kept[:cut], weights[:cut]), _Group(kept[cut:], weights[cut:])]


def _middle(levels: Levels, groups: Sequence[_Group]) -> float:
    """The median level of a generator's batches, or of the larger of two groups."""
    low, high = groups[0], groups[-1]
    if len(low.kept) == len(high.kept):
        return _Group(levels.kept, levels.weights).level
    return max(low, high, key=lambda group: len(group.kept)).level


def _are_alike(generators: Sequence[Levels], reference: float | None) -> bool:
    """True if nothing can be anomalous, by the ends of the sorted levels."""
    ends = [(levels.kept[0].value, levels.kept[-1].value) for levels in generators if levels.kept]
    if not ends:
        return True
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if any(high - low > _FACTOR for low, high in ends) or high - low > _FROM_OTHERS:
        return False
    return reference is None or (high - reference <= _FROM_REFERENCE and reference - low <= _FROM_REFERENCE)


class _Outside(NamedTuple):
    """The level that a generator as a whole is compared with."""

    level: float
    """NaN if there is nothing."""
    limit: float
    """The distance from it that is too far; infinite where the generator itself is one of most."""
    support: float = math.inf
    """The number of batches of other generators that confirm it; infinite for a reference."""


def _outside(
    generator: int, centres: Mapping[int, float], counts: Mapping[int, int], reference: float | None
) -> _Outside:
    """The level confirmed from outside a generator: the reference, or else most of the other generators.

    counts: the batches of each generator.
    """
    if reference is not None:
        return _Outside(reference, _FROM_REFERENCE)
    groups: list[list[int]] = []
    for other in sorted(centres, key=centres.__getitem__):
        if groups and centres[other] - centres[groups[-1][-1]] <= _FROM_OTHERS:
            groups[-1].append(other)
        else:
            groups.append([other])
    size = max(map(len, groups))
    largest = [group for group in groups if len(group) == size]
    if len(largest) == 1:
        beside = [other for other in largest[0] if other != generator]
        limit = math.inf if generator in largest[0] else _FROM_OTHERS
        return _level_among(beside, centres, counts, limit) if beside else _Outside(math.nan, limit)
    # No level has most of the generators. All are in doubt, each beside the nearest of the other levels.
    levels = [_level_among(group, centres, counts, _FROM_OTHERS) for group in groups if generator not in group]
    return min(levels, key=lambda outside: abs(outside.level - centres[generator]))


def _level_among(
    group: Sequence[int], centres: Mapping[int, float], counts: Mapping[int, int], limit: float
) -> _Outside:
    return _Outside(median([centres[g] for g in group]), limit, sum(counts[g] for g in group))


def _centre(
    groups: Sequence[_Group], outside: _Outside, middle: float, limit: float, min_distance: float, rows: float
) -> float:
    """The level of a generator's lawful batches: their median `middle`, unless others confirm another level.

    least: minimum distance of the median from a confirmed level for that.
    """
    if len(groups) == 2:
        if not _are_apart(groups, limit, rows) or math.isnan(outside.level):
            return middle
        confirmed, rest = sorted(groups, key=lambda group: abs(group.level - outside.level))
        is_confirmed = outside.support + len(confirmed.kept) >= len(rest.kept)
        return confirmed.level if is_confirmed else middle
    if not abs(middle - outside.level) > max(outside.limit, min_distance):
        return middle
    ((kept, _),) = groups
    far = (level.value for level in kept if abs(level.value - middle) * _shrunk(level, rows) > limit)
    confirmed = [value for value in far if abs(value - outside.level) < abs(value - middle)]
    is_confirmed = confirmed and outside.support + len(confirmed) >= len(kept) - len(confirmed)
    return median(confirmed) if is_confirmed else middle


def _compared_with(level: Level, groups: Sequence[_Group], centre: float, limit: float, rows: float) -> float | None:
    """The level of the generator's other batches if this one is too far from it, else None."""
    if len(groups) == 2:
        low, high = groups
        own, other = (low, high) if level in low.kept else (high, low)
        # Unless the own group is the lawful one. Where neither is known to be, either may be wrong.
        if abs(centre - own.level) > abs(centre - other.level) or low.kept[-1].value < centre < high.kept[0].value:
            return other.level if _are_apart(groups, limit, rows) else None
    return centre if abs(level.value - centre) * _shrunk(level, rows) > limit else None


def _are_apart(groups: Sequence[_Group], limit: float, rows: float) -> bool:
    """True if one of two groups is wrong."""
    low, high = groups
    shrunk = min(_shrunk(level, rows) for group in groups for level in group.kept)
    return (high.level - low.level) * shrunk > limit


def _deviations(groups: Sequence[_Group], rows: float) -> list[tuple[float, float]]:
    """The distances of batches from the median of their group, and the number of batches that each represents."""
    deviations: list[tuple[float, float]] = []
    for group in groups:
        own = [
            (abs(level.value - group.level) * _shrunk(level, rows), weight)
            for level, weight in zip(*group, strict=True)
        ]
        # One deviation says nothing: the median's own, and two batches have the same.
        own.sort()
        deviations += own[1:]
    return deviations


def _threshold(own: Sequence[tuple[float, float]], rows: float) -> float:
    """The deviation from its generator's median that any batch exceeds with a chance of about α.

    The tail of the deviations is taken as exponential, with the scale of their upper half. Both are quantiles, so that
    few wrong batches do not matter.
    """
    # The median deviation of batches of one row whose norms are lognormal with σ = 0.8, times 1.25 as medians vary more
    # than means; it falls with the square root of the rows.
    typical = 0.675 / math.sqrt(max(rows, 1.0))
    weighted = [(typical * virtual, 1.0) for virtual in _VIRTUAL] + list(own)
    weighted.sort()
    deviations, weights = [deviation for deviation, _ in weighted], [weight for _, weight in weighted]
    middle = _weighted_median(deviations, weights)
    below = list(accumulate(weights, initial=0.0))
    upper = [i for i in range(len(weighted)) if below[i] >= (1 - _SLACK) * below[-1] / 2]
    excess = _weighted_median([deviations[i] - middle for i in upper], [weights[i] for i in upper])
    tail = excess / math.log(2.0)
    return max(_FACTOR, middle + tail * (math.log(sum(weights) / 2.0) + _CHANCE))


def _shrunk(level: Level, rows: float) -> float:
    """The factor that a deviation is multiplied by: batches of fewer rows than usual vary more."""
    return min(1.0, math.sqrt(level.rows / rows))


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The median of sorted values, each of which counts by its weight."""
    half, total = sum(weights) / 2.0, 0.0
    for i, weight in enumerate(weights):
        total += weight
        if total > half * (1 + _SLACK):
            return values[i]
        if total >= half * (1 - _SLACK) and i + 1 < len(values):
            return (values[i] + values[i + 1]) / 2.0
    return values[-1]


def in_words(difference: float, against: ComparedWith) -> str:
    """Text about an anomaly: "about 255 times larger than its others: pixels 0–255 instead of 0–1?"."""
    factor = math.exp(min(abs(difference), 700.0))
    times = f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"
    size, ranges = ("larger", "0–255 instead of 0–1") if difference > 0 else ("smaller", "0–1 instead of 0–255")
    guess = f": pixels {ranges}?" if 200 <= factor <= 330 else ""
    return f"about {times} times {size} than {_BESIDE[against]}{guess}"
