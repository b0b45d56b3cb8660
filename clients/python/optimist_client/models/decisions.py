"""The decision of an experiment, and what it rests on: a verdict for each rival, and the closest rival."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, computed_field

from optimist_client.metrics import Scale
from optimist_client.wire import Answer, GeneratorName, flag, optional

VerdictCode = Literal["worse", "equal", "close"]
WORDS: dict[VerdictCode, str] = {
    "worse": "worse",
    "equal": "as good (within the tolerance)",
    "close": "too close to call",
}
"""The verdicts as they are shown."""
UNTIL = ", up to about {:,} samples of each generator"
EVERY_LOOK = f"This allows for all rivals and for looking often{UNTIL}."
UNSEEN = "Values rarer than one in {:,} may not have come."
"""The note on means whose values' range is not known, and on rows of kinds that have not come."""
BELOW_NOISE = "below noise"
BELOW_NOISE_MEANING = "By chance the estimate is below the smallest possible score, which is shown instead."
BELOW_NOISE_NOTE = f"{BELOW_NOISE.capitalize()}: {BELOW_NOISE_MEANING[0].lower()}{BELOW_NOISE_MEANING[1:]}"
_UNITS: dict[Scale, str] = {"linear": "", "log": "%"}
"""The unit after a difference on each scale."""
_DOUBLE = math.log(2.0)
"""The difference of logarithms from which on it is shown as a factor: "worse by 2,129%" says nothing."""


class Verdict(Answer):
    """The verdict on a rival compared with the best generator.

    `worse`: its score is worse by more than the error allows; `equal`: the scores differ by less than the tolerance,
    even with the error; `close`: neither is shown, or it has too few samples.
    """

    generator: GeneratorName
    verdict: VerdictCode

    @computed_field
    @property
    def words(self) -> str:
        """The verdict in words."""
        return WORDS[self.verdict]


class HardestRival(Answer):
    """The best generator compared with the rival that has the least evidence against it, on the scale on which scores
    are compared (`scale`)."""

    generator: GeneratorName
    """The rival: the generator whose difference is the smallest number of standard errors."""
    difference: float
    """Difference by which the rival scores worse, 0 or more; of logarithms if the scale is "log"."""
    standard_error: float
    """Standard error of the difference."""
    tolerance: float
    """The tolerance on the same scale."""
    needed: float
    """Number of standard errors that difference and tolerance together must exceed for a decision."""
    more_samples: tuple[int, int] | None
    """About how many more samples of this run a decision takes, from and to; None once it is decided, and while
    nothing can be said because the difference is small compared with its error."""
    holds_until: int
    """Samples of each generator up to which the confidence holds at every look, however small the difference is."""
    rarer: int | None = optional()
    """Values rarer than one in so many may not have come: a third of the samples of the generator that has the fewest.
    None where the scores are no means, and where the values' range is declared."""
    more_prompts: int | None = optional()
    """About how many more prompts a decision takes, where more samples of the prompts there are will not bring it."""

    more_audits: tuple[int, int] | None = optional()
    """About how many more prompts people have to score, from and to, where they audit a judge; None as `more_samples`.
    """

    @property
    def more_prompts_text(self) -> str:
        """The number in `more_prompts` or `more_audits`, as a sentence without its end; "" where both are None."""
        if self.more_audits is not None:
            return f"{about(self.more_audits)} more prompts that people score would decide it"
        if self.more_prompts is None:
            return ""
        more = lowered(about((self.more_prompts, self.more_prompts)))
        return f"More samples of these prompts will not decide it: {more} more prompts would"

    @property
    def separation(self) -> float:
        """Difference and tolerance in standard errors."""
        margin = self.difference + self.tolerance
        return margin / self.standard_error if self.standard_error else math.inf if margin else 0.0


LimitVerdictCode = Literal["met", "not met", "open"]


class LimitVerdict(Answer):
    """The verdict on a generator by a limit; all verdicts of a report hold together, at every look.

    The numbers of a limit relative to another generator are differences from it, on `scale`, above 0 where the
    generator is worse; of a fixed limit they are scores. None where they are not known.
    """

    generator: GeneratorName
    label: str = ""
    """Of the metric, "" for the one that decides."""
    title: str = ""
    """The metric's name for display."""
    limit: str
    """The limit as a text, such as "within 2% of best"."""
    verdict: LimitVerdictCode
    against: GeneratorName | None = optional()
    """The generator that it is compared with: of several the one that is hardest to keep up with. None where the limit
    is fixed, and for the best one itself."""
    value: float | None = optional()
    lower: float | None = optional()
    upper: float | None = optional()
    """The ends of the interval: of a limit relative to others, it would be met if more than `upper` was allowed, and
    would not be if less than `lower` was."""
    allowed: float | None = optional()
    """Difference or score that the limit allows, in the same numbers."""
    scale: Scale = "linear"
    more_samples: tuple[int, int] | None = optional()
    """About how many more samples of the generator and `against` an open verdict takes, from and to."""

    @property
    def is_fixed(self) -> bool:
        """True if the limit is a number, not a difference from another generator."""
        return self.limit[0] in "<>"

    @computed_field
    @property
    def text(self) -> str:
        """The numbers in words, such as "0.01 to 0.04 worse than big, 0.02 allowed"; "" where there are none."""
        if self.value is None or self.allowed is None:
            return ""
        named = f"{self.title} " if self.label else ""
        if self.is_fixed:
            return f"{named}{format_range(self.value, self.lower, self.upper, 'linear')}, limit {self.limit}"
        worse = _worse(self.lower, self.upper, self.scale)
        if self.verdict == "met":
            is_as_good = self.upper is not None and self.upper <= 0.0
            worse = "at least as good" if is_as_good else f"at most {_ends(self.upper, self.scale)} worse"
        than = f"{'as' if worse.endswith('good') else 'than'} {self.against}"
        said = f"{named}{worse} {than}"
        return said if self.verdict == "met" else f"{said}, {shown(self.allowed, self.scale)} allowed"


def _evidence(hardest: HardestRival) -> str:
    """The standard errors of a difference and those that are needed: "1.7 of 2.9 needed".

    They have two decimals where one says too little.
    """
    digits = 1 if abs(hardest.separation - hardest.needed) >= 0.1 else 2
    needed = f"{hardest.needed:.{digits}f}"
    reached = "over 1,000" if hardest.separation > 1000.0 else f"{hardest.separation:.{digits}f}"
    return f"{reached} of {needed} needed"


def may_be(lower: float | None, upper: float | None, scale: Scale) -> str:
    """The range of a difference in words, such as "at most 0.2 better, at most 1.07 worse"."""
    if lower is not None and upper is not None and (lower >= 0.0 or upper < 0.0):
        return _worse(lower, upper, scale)
    return f"at most {_ends(lower, scale)} better, at most {_ends(upper, scale)} worse"


def _ends(end: float | None, scale: Scale) -> str:
    return "∞" if end is None else shown(abs(end), scale, 0.0)


def _worse(lower: float | None, upper: float | None, scale: Scale) -> str:
    """An interval of how much worse a generator is, such as "0.002 better to 0.012 worse"."""
    low, high = _ends(lower, scale), _ends(upper, scale)
    if upper is not None and upper < 0.0:
        return f"{high} to {low} better"
    return f"{low} {'to' if lower is not None and lower >= 0.0 else 'better to'} {high} worse"


RETRACT = "retract or accept {it}"
"""`DecisionInfo.remedy` of a service."""


class AnomalousBatches(Answer):
    """Batches of a generator that are on another scale than others, and that nobody has accepted or retracted."""

    generator: GeneratorName
    positions: tuple[int, ...]
    """In the generator's log, counted from 1; of many batches some."""
    whole: bool
    """True if the generator as a whole is on another scale."""
    finding: str
    """The anomaly: "about 255 times larger than its others: pixels 0–255 instead of 0–1?"."""

    @property
    def which(self) -> str:
        """The batches as the subject of a sentence."""
        if self.whole:
            return f"every batch of {self.generator}"
        named = [f"{position:,}" for position in self.positions[:5]]
        if len(self.positions) == 1:
            return f"batch {named[0]} of {self.generator}"
        more = len(self.positions) - 5
        last = f"{more:,} more" if more > 0 else named.pop()
        return f"batches {', '.join(named)} and {last} of {self.generator}"

    @property
    def is_one(self) -> bool:
        """True if `which` is singular."""
        return self.whole or len(self.positions) == 1

    @computed_field
    @property
    def text(self) -> str:
        """The anomaly, as a sentence without its end."""
        return f"{self.which} {'is' if self.is_one else 'are'} {self.finding}"


class DecisionInfo(Answer):
    """The best generator, the confidence in it, and whether it is decided."""

    best: str | None
    confidence: float | None
    decided: bool
    reason: str
    warnings: Annotated[tuple[str, ...], Field(exclude_if=lambda value: not value)] = ()
    """Reasons to doubt it: batches that repeat earlier ones, generators that are identical so far."""
    verdicts: Annotated[tuple[Verdict, ...], Field(exclude_if=lambda value: not value)] = ()
    """A verdict for each rival of the best generator. Only in a report, and not without standard errors."""
    hardest: HardestRival | None = optional()
    """The comparison with the hardest rival, by standard errors; there is one where there are verdicts, unless they are
    by intervals that hold at all sample sizes (`empirical-bernstein`, `betting`)."""
    anomalies: Annotated[tuple[AnomalousBatches, ...], Field(exclude_if=lambda value: not value)] = ()
    """Batches on another scale that it rests on. A decision with any is provisional until they are retracted, which
    drops it, or accepted."""
    remedy: Annotated[str, Field(exclude_if=lambda value: value == RETRACT)] = RETRACT
    """The remedy for them, which are "{it}" in it. What a service was told can be retracted."""
    awaited: Annotated[dict[GeneratorName, int], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=dict
    )
    """Batches on their way that it waits for, by generator, where scores go with the time of an answer. The stopping
    rule is satisfied, and looks again once they are told; no picks are opened until then."""
    limits: Annotated[tuple[LimitVerdict, ...], Field(exclude_if=lambda value: not value)] = ()
    """With the goal "cheapest", a verdict for each generator by each limit. Only in a report."""
    none_meets: bool = flag()
    """With the goal "cheapest", whether it is decided that no generator meets all limits; `best` is then None."""
    weights: Annotated[dict[GeneratorName, float], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=dict
    )
    """With the goal "mixture", the best mixture: the decision is about it, `best` is then the best single generator,
    and `confidence` that the mixture is better."""

    @computed_field
    @property
    def confidence_text(self) -> str:
        """The confidence as it is shown everywhere: rounded down, and empty if it is unknown or below 50 %."""
        return confidence_text(self.confidence)

    @property
    def provisional(self) -> bool:
        """True if it is decided, but rests on batches that may be wrong."""
        return self.decided and bool(self.anomalies)

    @computed_field
    @property
    def unless(self) -> str:
        """The condition of a provisional decision: "unless batch 7 of b is wrong: retract or accept it"; else ""."""
        if not self.provisional:
            return ""
        named = " or ".join(anomaly.which for anomaly in self.anomalies)
        it = "it" if len(self.anomalies) == 1 and self.anomalies[0].is_one else "them"
        wrong = f"{'is' if self.anomalies[-1].is_one else 'are'} wrong"
        return f"unless {named} {wrong}: {self.remedy.replace('{it}', it)}"

    @property
    def leader(self) -> str:
        """The best generator so far, or the best mixture, with the confidence where it is shown; empty if there is
        none."""
        if self.weights:
            sure = f" (better than {self.best}: {self.confidence_text})" if self.confidence_text else ""
            return f"{recipe(self.weights, 3)}{sure}"
        return "" if self.best is None else f"{self.best} {self.confidence_text}".rstrip()

    @computed_field
    @property
    def rank(self) -> Literal["best", "cheapest", "leads"]:
        """The rank of the generator named best in words: "leads" until it is decided."""
        if not self.decided or self.weights:
            return "leads"
        return "cheapest" if self.limits else "best"

    def why(self, scale: Scale, *, may_go_on: bool = True) -> str:
        """Why it was or was not decided: the rival with the least evidence, what is needed, and what more samples would
        bring, where there may be more."""
        if self.hardest is None:
            return f"{self.reason[:1].upper()}{self.reason[1:]}."
        hardest, decided = self.hardest, self.decided
        is_factor = scale == "log" and hardest.difference >= _DOUBLE
        apart = f"{shown(abs(hardest.difference), scale)} {'better' if hardest.difference < 0.0 else 'worse'}"
        apart += f", {100.0 * math.exp(-hardest.difference):.2g}% of the best" if is_factor else ""
        apart += f"; {shown(hardest.tolerance, scale)} would not matter" if hardest.tolerance else ""
        rival = "Closest rival" if decided else "Open question"
        said = [f"{rival}: {hardest.generator} ({apart}). Evidence {_evidence(hardest)}."]
        if not (decided or hardest.difference or hardest.standard_error or hardest.tolerance):
            return f"{said[0]} They are identical: no number of samples decides."
        if self.awaited:
            return f"{said[0]} {self.reason[:1].upper()}{self.reason[1:]}."
        if decided:
            said += [EVERY_LOOK.format(hardest.holds_until)] if self.confidence_text else []
            said += [] if hardest.rarer is None else [UNSEEN.format(hardest.rarer)]
            return " ".join(said)
        if not may_go_on:
            return said[0]
        if hardest.more_prompts_text:
            said.append(f"{hardest.more_prompts_text}.")
        elif hardest.more_samples is not None:
            if hardest.separation > hardest.needed:
                said.insert(0, f"{self.reason[:1].upper()}{self.reason[1:]}.")
            more = lowered(about(hardest.more_samples))
            said.append(f"Next: stop here, or take {more} more samples of this run, which would decide it.")
        elif hardest.separation <= hardest.needed:
            said.append("Too early to say how many more samples would decide it.")
        return " ".join(said)

    def verdict_sentences(
        self, scale: Scale, apart: Mapping[str, str] | None = None, costs: Mapping[str, str] | None = None
    ) -> list[str]:
        """The verdicts, a sentence for each kind, with the names of the rivals.

        apart: how much better or worse each of them may be, which is said of those that are too close to call.
        costs: what a sample of each costs beside one of the best generator, such as "at 1/7.5 of the cost of big",
        which is said of those that are as good, or may be.
        """
        return [
            self._verdict_sentence(code, names, scale, apart or {}, costs or {})
            for code in get_args(VerdictCode)
            if (names := [verdict.generator for verdict in self.verdicts if verdict.verdict == code])
        ]

    def _verdict_sentence(
        self, code: VerdictCode, names: list[str], scale: Scale, apart: Mapping[str, str], costs: Mapping[str, str]
    ) -> str:
        words = WORDS[code]
        tolerance = "" if self.hardest is None else f" of {shown(self.hardest.tolerance, scale)}"
        is_short = len(names) <= 3  # a sentence then says how much worse each of them is
        is_explained = is_short and all(name in apart for name in names)
        if code == "equal":
            words = words.replace("tolerance", f"tolerance{tolerance}")
        elif code == "close" and self.decided:
            words = "may be as good" if is_explained else f"may be as good, or better within the tolerance{tolerance}"
        if code == "close" and is_explained:
            said = "; ".join(f"{name} ({apart[name]}){costs.get(name, '')}" for name in names)
        elif code == "equal" and is_short and any(costs.get(name) for name in names):
            said = "; ".join(f"{name}{costs.get(name, '')}" for name in names)
        else:
            said = listed(names, len(self.verdicts))
        return f"{words[0].upper()}{words[1:]}: {said}."


def state_text(state: str, decision: DecisionInfo, unscored: str) -> str:
    """The state as it is shown everywhere: a decision that rests on batches that may be wrong is provisional.

    unscored: why the experiment cannot be scored, if it cannot.
    """
    if decision.provisional:
        return "provisional"
    return "cannot be scored" if unscored and state in ("warming up", "running") else state


def confidence_text(confidence: float | None) -> str:
    """A confidence rounded down, such as "95.2%"; "" if it is unknown or below 50 %.

    One that holds at every look is low for long: below a half it would be read as a bet against the best generator.
    """
    if confidence is None or confidence < 0.5:
        return ""
    return f"{min(99.9, math.floor(1000.0 * confidence + 1e-9) / 10.0):.1f}%"


def recipe(weights: Mapping[str, float], max_names: int = 5) -> str:
    """The weights of a mixture, the largest first, such as "62% a + 38% b"; those below 0.5 % are left out."""
    parts = sorted(weights.items(), key=lambda part: -part[1])
    shown = [f"{weight:.0%} {name}" for name, weight in parts[:max_names] if weight >= 0.005]
    more = sum(weight >= 0.005 for _, weight in parts) - len(shown)
    return f"{' + '.join(shown)} and {more} more" if more else " + ".join(shown)


def about(samples: tuple[int, int]) -> str:
    """A range of samples to two digits, as the beginning of a sentence."""
    low, high = (f"{float(f'{end:.2g}'):,.0f}" for end in samples)
    if samples[0] == 0:
        return f"At most about {high}"
    return f"About {low}" if low == high else f"About {low} to {high}"


def even(decimals: Iterable[int]) -> int:
    """The decimals of a column whose cells need so many: as its finest cell, at most two more than its coarsest."""
    needed = [*decimals]
    return min(max(needed), min(needed) + 2) if needed else 0


def score_decimals(error: float | None) -> int:
    """The decimals of a score: three, or as many as two digits of its error have; none where that is 100 or more."""
    if error is not None and error >= 100.0:
        return 0
    return 3 if error is None or not 0.0 < error < 0.1 else max(3, 1 - math.floor(math.log10(error)))


def format_score(score: float, error: float | None, *, below_noise: bool = False, decimals: int = 0) -> str:
    """A score with the decimals that its error allows, at most six, and three digits where six would show next to none.

    below_noise: whether the estimate is below the smallest possible score, which is shown instead. decimals: at least
    so many, as its column has.
    """
    if below_noise:
        return f"{score:g} ({BELOW_NOISE})"
    decimals = max(decimals, score_decimals(error))
    if error is not None and error >= 100.0:
        return f"{score:z,.{decimals}f}"
    return f"{score:.3g}" if decimals > 6 and abs(score) < 1e-3 else f"{score:z.{min(decimals, 6)}f}"


def shown(number: float, scale: Scale, at: float = 0.0) -> str:
    """A difference for display: a logarithmic one in per cent, or as a factor from 2 on; the error of one is taken `at`
    it."""
    if scale == "log" and not at and number >= _DOUBLE:
        return f"a factor of {math.exp(min(number, 700.0)):.3g}"
    number = number if scale == "linear" else _per_cent(at + number) - _per_cent(at)
    return f"{number:z,.0f}{_UNITS[scale]}" if 999.5 <= abs(number) < 1e6 else f"{number:z.3g}{_UNITS[scale]}"


def range_decimals(difference: float, lower: float | None, upper: float | None, scale: Scale) -> int | None:
    """The decimals of a difference with its interval, half of which has two digits; None where it has other forms."""
    if (lower is None and upper is None) or _is_factor(difference, lower, scale):
        return None
    number, *ends = (end if end is None or scale == "linear" else _per_cent(end) for end in (difference, lower, upper))
    spread = max(abs((number or 0.0) - end) for end in ends if end is not None)
    if not 1e-6 <= spread < 1e6 or abs(number or 0.0) >= 1e6:
        return None
    decimals = max(0, 1 - math.floor(math.log10(float(f"{spread:.2g}"))))
    # An end that is not 0 is not shown as 0: whether 0 lies within is what the interval is read for.
    while decimals < 9 and any(end and not round(end, decimals) for end in ends):
        decimals += 1
    return decimals


def format_range(difference: float, lower: float | None, upper: float | None, scale: Scale, decimals: int = 0) -> str:
    """A difference with its interval, such as "0.95 (0.65 to 1.25)" or, on a log scale, "3.2% (2.8 to 3.6%)", and "a
    factor of 22 (10 to 48)" where the interval is above 0 and one is at least twice as good as the other.

    The numbers have the decimals of `range_decimals`, at least `decimals`. Without an interval: the difference.
    """
    if lower is None and upper is None:
        return shown(difference, scale)
    if _is_factor(difference, lower, scale):
        ends = ["∞" if end is None else f"{math.exp(min(end, 700.0)):.3g}" for end in (lower, upper)]
        return f"{shown(difference, scale)} ({ends[0]} to {ends[1]})"
    unit, number = _UNITS[scale], difference if scale == "linear" else _per_cent(difference)
    ends = [end if end is None or scale == "linear" else _per_cent(end) for end in (lower, upper)]
    own = range_decimals(difference, lower, upper, scale)
    if own is None:
        texts = ["-∞" if lower is None else f"{ends[0]:.3g}", "∞" if upper is None else f"{ends[1]:.3g}"]
        is_exact = all(end is None or end == number for end in ends)
        return shown(difference, scale) if is_exact else f"{number:.3g}{unit} ({texts[0]} to {texts[1]}{unit})"
    middle, low, high = (None if each is None else f"{each:z,.{max(own, decimals)}f}" for each in (number, *ends))
    return f"{middle}{unit} ({low or '-∞'} to {high or '∞'}{unit})"


def _is_factor(difference: float, lower: float | None, scale: Scale) -> bool:
    """True if a difference is shown as a factor."""
    return scale == "log" and difference >= _DOUBLE and lower is not None and lower > 0.0


def _per_cent(logarithm: float) -> float:
    return 100.0 * math.expm1(min(logarithm, 700.0))


def lowered(text: str) -> str:
    """A text that goes on in the middle of a sentence."""
    return f"{text[:1].lower()}{text[1:]}"


def listed(names: list[str], rivals: int, max_names: int = 5) -> str:
    """Some of the best generator's rivals, as a part of a sentence."""
    if len(names) == rivals > 1:
        return "all others"
    more = len(names) - max_names
    return f"{', '.join(names[:max_names])} and {more} more" if more > 0 else ", ".join(names)


def joined(names: list[str]) -> str:
    """Names as a part of a sentence, such as "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
