"""The cheapest generator that meets all limits: verdicts, decision and next pick (rules/limits.md). No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from optimist.arrays import Bools, Floats
from optimist.cache import Cache
from optimist.estimates.estimate import Estimate, finite
from optimist.policies.arms import Arm, active_among, losses, rivals
from optimist.policies.limits import Margins, margins_of, threshold
from optimist.policies.paired import UNRELATED
from optimist.policies.stopping import FEWEST_SAMPLES, Decision
from optimist.policies.verdicts import ERRORS, WIDEST
from optimist_client.limits import Limit
from optimist_client.models.decisions import LimitVerdict, LimitVerdictCode


@dataclass(frozen=True, slots=True)
class LimitOn:
    """A limit on the score of a metric."""

    label: str
    """Of the metric; "" for the one that decides."""
    limit: Limit
    title: str = ""
    """The metric's name for display."""
    span: tuple[float, float] | None = None
    """The least and the largest value, where scores are means of values and these are declared."""

    def of(self, arm: Arm) -> Estimate | None:
        """The estimate of an arm by the metric."""
        return arm.watched.get(self.label) if self.label else arm.estimate


_cached = Cache[tuple[LimitOn, tuple[str, ...], tuple[int, ...]], tuple[list[Estimate | None], Margins]](64)


def _margins(on: LimitOn, arms: Sequence[Arm]) -> Margins:
    """The margins of these arms, made once for the same estimates."""
    names, estimates = tuple(arm.name for arm in arms), [on.of(arm) for arm in arms]
    key = on, names, tuple(map(id, estimates))  # they are held, so that no other object takes an id
    cached = _cached.get(key) or _cached.put(key, (estimates, margins_of(on.limit, names, estimates, on.span)))
    return cached[1]


class _Open(NamedTuple):
    """A comparison that is still open: a generator by a limit, against the rival of one column."""

    margins: Margins
    arm: int
    column: int
    left: float
    """The cost until it is decided."""

    @property
    def rival(self) -> int:
        return self.margins.rivals[self.column]

    @property
    def arms(self) -> list[int]:
        """The generators whose samples decide it."""
        return [self.arm] if self.rival < 0 else [self.arm, self.rival]


class LimitTable:
    """The verdicts on G generators by all limits, and the cheapest generator that meets all. Indices are of the
    arms."""

    def __init__(self, rule: Cheapest, arms: Sequence[Arm], told: int | None) -> None:
        """told: batches so far, after which verdicts hold at every look; None: this is the only look."""
        self._rule, self.arms = rule, arms
        self.margins = [_margins(on, arms) for on in rule.limits]
        comparisons = sum(one.comparisons for one in self.margins)
        if rule.measured is not None:
            comparisons += len(arms) - 1
        self.comparisons = max(comparisons, 1)
        self.z = threshold(rule.delta, self.comparisons, told)
        self.missed: Bools = np.array([one.refused(self.z) for one in self.margins]).reshape(-1, len(arms))
        """A mask of the generators that do not meet each limit (L, G)."""
        each = zip(self.margins, self.missed, strict=True)
        self.met: Bools = np.array([one.accepted(self.z, missed) for one, missed in each]).reshape(-1, len(arms))
        """A mask of the generators that meet it (L, G)."""

    @cached_property
    def accepted(self) -> Bools:
        """The generators that meet all limits (G,)."""
        return np.all(self.met, axis=0)

    @cached_property
    def refused(self) -> Bools:
        """The generators that miss a limit (G,)."""
        return np.any(self.missed, axis=0)

    @cached_property
    def _costs_compared(self) -> Margins | None:
        """The measured costs of all compared with each other."""
        label = self._rule.measured
        return None if label is None else _margins(LimitOn(label, Limit("best", 0.0)), self.arms)

    @cached_property
    def costs(self) -> Floats:
        """The cost of a sample of each generator (G,), NaN where it is not known."""
        if self._rule.measured is not None:
            estimates = [LimitOn(self._rule.measured, Limit("best", 0.0)).of(arm) for arm in self.arms]
            return np.array([math.nan if each is None else each.value for each in estimates])
        return np.array([math.nan if arm.cost is None else arm.cost for arm in self.arms])

    @cached_property
    def not_cheaper(self) -> Bools:
        """A mask of the generators that are surely no cheaper than each other one (G, G), or cannot be named for want
        of a known cost."""
        compared = self._costs_compared
        if compared is None:
            return ~(self.costs[:, None] < self.costs[None])
        return compared.missed.errors > compared.reach(self.z)

    @cached_property
    def _decided(self) -> list[int]:
        """The generators that can be named: all cheaper ones miss a limit."""
        others = self.refused[:, None] | self.not_cheaper | np.eye(len(self.arms), dtype=bool)
        able = self.accepted & ~np.isnan(self.costs) & np.all(others, axis=0)
        return np.flatnonzero(able).tolist()

    @property
    def is_decided(self) -> bool:
        """True if the cheapest that meets all limits is known, or that none does."""
        return bool(self._decided) or self.none_meets

    @property
    def none_meets(self) -> bool:
        """True if every generator of a known cost misses a limit."""
        has_cost = ~np.isnan(self.costs)
        return bool(has_cost.any()) and bool(self.refused[has_cost].all())

    @cached_property
    def leader(self) -> int | None:
        """The generator that is named, or else would be: the cheapest that meets all limits, or by its estimates seems
        to; None where none does."""
        if self._decided:
            return self._cheapest(self._decided)
        if self.none_meets:
            return None
        seeming = np.flatnonzero((self.accepted | self._likely) & ~np.isnan(self.costs)).tolist()
        if seeming:
            return self._cheapest(seeming)
        left = np.flatnonzero(~self.refused & ~np.isnan(self.costs)).tolist()
        return min(left, key=self._losses.__getitem__, default=None)

    @property
    def named(self) -> int | None:
        """The generator that is shown: the leader, but before the decision the cheapest that surely meets all limits,
        if any does."""
        return self.leader if self.is_decided or self.first is None else self.first

    @property
    def first(self) -> int | None:
        """The cheapest of those that surely meet all limits; None where none does."""
        able = np.flatnonzero(self.accepted & ~np.isnan(self.costs)).tolist()
        return self._cheapest(able) if able else None

    @cached_property
    def _likely(self) -> Bools:
        """The generators that meet all limits by their estimates, and miss none for sure (G,)."""
        likely = ~self.refused
        for each, missed in zip(self.margins, self.missed, strict=True):
            with np.errstate(invalid="ignore"):
                likely &= np.all((each.values - each.allowed <= 0.0) | ~each.counting(missed), axis=1)
        return likely

    @cached_property
    def _losses(self) -> list[float]:
        scored = iter(losses(self.arms))
        return [math.inf if arm.estimate is None else next(scored) for arm in self.arms]

    def _cheapest(self, indices: Sequence[int]) -> int:
        return min(indices, key=lambda index: (self.costs[index], self._losses[index]))

    @property
    def confidence(self) -> float | None:
        """The confidence in `named`, or that none meets the limits; None where nothing is named."""
        strengths = [one.missed.errors / one.reach(self.z) for one in self.margins]
        hardest = [np.where(one.own, -math.inf, each) for one, each in zip(self.margins, strengths, strict=True)]
        against = np.fmax.reduce([np.fmax.reduce(each, axis=1) for each in hardest])  # how surely each misses a limit
        a = self.named
        if a is None:
            has_cost = ~np.isnan(self.costs)
            weakest = float(np.min(against[has_cost])) if self.none_meets else math.nan
        else:
            needed = [
                float(np.min(np.where(counting[a], -one.met.errors[a] / one.reach(self.z)[a], math.inf)))
                for one, missed in zip(self.margins, self.missed, strict=True)
                if (counting := one.counting(missed))[a].any()
            ]
            compared = self._costs_compared
            for h in range(len(self.arms)):
                if h != a and compared is not None:
                    dearer = compared.missed.errors[h, a] / compared.reach(self.z)[h, a]
                    needed.append(float(np.fmax(against[h], dearer)))
                elif h != a and not self.not_cheaper[h, a]:
                    needed.append(float(against[h]))
            weakest = min(needed, default=math.inf)
        if math.isnan(weakest):
            return None
        doubt = self._rule.delta * _tail(weakest * self.z) / _tail(self.z)
        return min(1.0, max(0.0, 1.0 - doubt))

    def open_comparisons(self, prices: Floats, open_: Floats) -> list[_Open]:
        """The comparisons that the answer still needs: those by which the leader may yet miss a limit, and of each
        cheaper one only the one that refuses it at the least cost. prices, open_: as of `Margins.left`."""
        a, z = self.leader, self.z
        needed: list[_Open] = []
        if a is None:
            return needed
        cheaper = [h for h in range(len(self.arms)) if h != a and not self.refused[h] and not self.not_cheaper[h, a]]
        refusing: list[Margins] = list(self.margins)
        for one, missed in zip(self.margins, self.missed, strict=True):
            left = one.left(z, "met", prices, open_)
            is_open = one.counting(missed)[a] & ~(-one.met.errors[a] > one.reach(z)[a])
            needed += [_Open(one, a, column, float(left[a, column])) for column in np.flatnonzero(is_open).tolist()]
        # Nobody is refused by a generator that surely misses the limit itself, however cheap its samples are.
        lefts = [
            np.where(one.own | ~one.counting(missed), math.inf, one.left(z, "missed", prices, open_))
            for one, missed in zip(refusing, self.missed, strict=True)
        ]
        if (compared := self._costs_compared) is not None:
            only = np.arange(len(self.arms))[None] == a
            lefts.append(np.where(only & ~compared.own, compared.left(z, "missed", prices, open_), math.inf))
            refusing.append(compared)
        for h in cheaper:
            by = min(range(len(lefts)), key=lambda each, h=h: float(np.min(lefts[each][h])))
            column = int(np.argmin(lefts[by][h]))
            needed.append(_Open(refusing[by], h, column, float(lefts[by][h, column])))
        return needed

    def verdicts(self) -> tuple[LimitVerdict, ...]:
        """The verdict on each generator by each limit, in the order of the limits, then of the arms."""
        return tuple(
            verdict
            for index, (on, each) in enumerate(zip(self._rule.limits, self.margins, strict=True))
            for verdict in self._by(on, each, index)
        )

    def _by(self, on: LimitOn, margins: Margins, limit: int) -> Iterator[LimitVerdict]:
        ends, columns = margins.ends(self.z, self.missed[limit])
        for g, arm in enumerate(self.arms):
            estimate, rival = on.of(arm), margins.rivals[int(columns[g])]
            code: LimitVerdictCode = "open"
            if self.met[limit, g] or self.missed[limit, g]:
                code = "met" if self.met[limit, g] else "not met"
            if estimate is None or rival == g or ends[g, 1] == -math.inf:  # all its rivals miss the limit
                yield LimitVerdict(generator=arm.name, label=on.label, limit=f"{on.limit}", verdict=code)
                continue
            value, allowed = float(margins.values[g, columns[g]]), float(margins.allowed[g, columns[g]])
            lower, upper = ends[g].tolist()
            if on.limit.is_fixed:
                assert isinstance(on.limit.allowed, float)
                allowed = on.limit.allowed
                fixed = allowed if estimate.scale == "linear" else math.log(allowed)
                value, *both = (
                    estimate.natural(fixed + by) if on.limit.kind == "below" else estimate.natural(fixed - by)
                    for by in (value, lower, upper)
                )
                lower, upper = sorted(both)
            yield LimitVerdict(
                generator=arm.name,
                label=on.label,
                title=on.title,
                limit=f"{on.limit}",
                verdict=code,
                against=None if rival < 0 else self.arms[rival].name,
                value=finite(value),
                lower=finite(lower),
                upper=finite(upper),
                allowed=finite(allowed),
                scale="linear" if on.limit.is_fixed else estimate.scale,
                more_samples=self._more(margins, g, int(columns[g])) if code == "open" else None,
            )

    def _more(self, margins: Margins, index: int, column: int) -> tuple[int, int] | None:
        """The samples of the two that the hardest margin takes, if it is `ERRORS` errors larger, and if it is smaller:
        n ((z sd/margin)² − 1)."""
        rival = margins.rivals[column]
        n = margins.samples[index] + (0.0 if rival < 0 else margins.samples[rival])
        margin = margins.values[index, column] - margins.allowed[index, column]
        side = margins.missed if margin > 0.0 else margins.met
        error, reach = float(side.error[index, column]), float(margins.reach(self.z)[index, column])
        if not (math.isfinite(error) and error > 0.0 and math.isfinite(n)):
            return None
        low, high = (
            max(n * ((reach * error / assumed) ** 2 - 1.0), 0.0) if assumed > 0.0 else math.inf
            for assumed in (abs(margin) + ERRORS * error, abs(margin) - ERRORS * error)
        )
        if not high <= WIDEST * max(low, FEWEST_SAMPLES):
            return None
        return math.ceil(low), math.ceil(high)


def _tail(z: float) -> float:
    """1 − Φ(z)."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The rule that names the cheapest generator that meets all limits."""

    delta: float
    limits: tuple[LimitOn, ...]
    measured: str | None = None
    """The label of the metric whose score is the cost, as of `LimitOn`; None: the arms have costs."""
    policy: Literal["top-two", "uniform"] = "top-two"
    weigh_costs: bool = True
    """True if picks are weighed by what they cost."""

    def table(self, arms: Sequence[Arm], told: int) -> LimitTable:
        """The verdicts on these arms after `told` batches."""
        return LimitTable(self, arms, told)

    def decide(self, arms: Sequence[Arm], told: int, explain: bool = False) -> Decision:
        """The decision on these contenders after `told` batches; with the verdicts on all limits where it is to be
        `explained`."""
        if not arms or all(arm.estimate is None for arm in arms):
            return Decision(None, None, False, "no estimate yet of any generator")
        table = self.table(arms, told)
        best, decided = None if table.named is None else arms[table.named].name, table.is_decided
        verdicts = table.verdicts() if explain else ()
        return Decision(
            best, table.confidence, decided, self._reason(table), limits=verdicts, none_meets=table.none_meets
        )

    def _reason(self, table: LimitTable) -> str:
        arms, a = table.arms, table.leader
        if table.none_meets:
            return "every generator misses a limit"
        if table.is_decided:
            assert a is not None
            return f"{arms[a].name} meets all limits, and every cheaper generator misses one"
        open_ = [arm.name for arm, is_sure in zip(arms, table.accepted | table.refused, strict=True) if not is_sure]
        return f"whether these meet all limits is open: {', '.join(open_)}"

    def pick(self, arms: Sequence[Arm], told: int) -> int:
        """Index of the arm to sample next: of the comparisons that the answer needs, what decides the one that is left
        at the least cost. Generators that share seeds or prompts are sampled in lockstep instead.

        Raises FixError if no arm is active.
        """
        compared = rivals(arms)
        active = active_among(compared)
        indices = {arm.name: index for index, arm in enumerate(arms)}
        n = np.array([arm.all_samples for arm in compared], dtype=np.float64)
        prices = self._prices(compared)
        open_ = np.array([arm.shrink**2 for arm in compared])
        needed = [] if self.policy == "uniform" else self.table(compared, told).open_comparisons(prices, open_)
        able = [one for one in needed if any(compared[index].active for index in one.arms)]

        def placed(index: int) -> int:
            return indices[compared[index].name]

        def fewest(among: Sequence[int]) -> int:
            return placed(min(among, key=lambda index: (n[index], prices[index])))

        if not able:
            return fewest(active)
        involved = sorted({index for one in able for index in one.arms if compared[index].active})
        if few := [index for index in involved if _units(compared[index]) < FEWEST_SAMPLES]:
            return fewest(few)
        if any(one.rival >= 0 and one.margins.rho[one.arm, one.column] > UNRELATED for one in able):
            return fewest(involved)
        left = [one for one in able if 0.0 < one.left < math.inf]
        if not left:
            return fewest(involved)
        next_ = min(left, key=lambda one: one.left)
        spreads = {next_.arm: next_.margins.spreads[next_.arm]}
        if next_.rival >= 0:
            spreads[next_.rival] = next_.margins.of_rivals[next_.column]
        among = [index for index in next_.arms if compared[index].active]
        return placed(max(among, key=lambda index: spreads[index] ** 2 / (n[index] ** 2 * prices[index])))

    def _prices(self, arms: Sequence[Arm]) -> Floats:
        """The weight of a sample of each arm (G,): its cost, the usual one where that is not known."""
        costs = self.table(arms, 1).costs if self.measured is not None else np.array([_cost(arm) for arm in arms])
        if not self.weigh_costs or np.isnan(costs).all() or not np.nanmax(costs) > 0.0:
            return np.ones(len(arms))
        costs = np.where(np.isnan(costs), np.nanmedian(costs), costs)
        return np.maximum(costs, 1e-6 * costs.max())  # also where a sample costs nothing


def _cost(arm: Arm) -> float:
    return math.nan if arm.cost is None else arm.cost


def _units(arm: Arm) -> float:
    """The units that an arm's errors will be made from, with the samples on their way."""
    n, estimate = arm.all_samples, arm.estimate
    if estimate is None or estimate.is_exact:
        return float(n) if estimate is None else math.inf
    return n * estimate.units[0] / max(estimate.samples, 1)
