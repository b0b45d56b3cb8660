"""Routes: the best generator for each type of prompt, and what routing gains over the best single generator."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Literal

from pydantic import computed_field

from optimist_client import route_display
from optimist_client.metrics import Scale
from optimist_client.models.decisions import format_range, shown
from optimist_client.wire import Answer, GeneratorName, Identifier, optional

STALE = "More samples have come since the table was made."


class RouteScore(Answer):
    """The score of one generator on prompts of one type."""

    generator: GeneratorName
    score: float | None
    """Expected score, on the metric's scale; None where nothing is known."""
    standard_error: float | None
    traffic: float
    """Share of the told prompts of this type that it was given."""


class RouteType(Answer):
    """Prompts that are alike: a cluster of contexts."""

    share: float
    """Share of all told prompts."""
    examples: list[str]
    """Texts of prompts such as these, those nearest to the centre first; empty where no texts were sent."""
    winner: GeneratorName
    lead: float | None
    """Difference by which the winner is better than the second best generator on these prompts, at least 0, `price`
    times cost included; None where it is not known."""
    lead_standard_error: float | None
    gain: float | None
    """Difference by which routing is better than the best single generator on these prompts, as in `Routes.gain`."""
    gain_standard_error: float | None
    scores: list[RouteScore]
    """In the order of the experiment."""

    @property
    def example(self) -> str:
        """The most typical prompt in one line, or "" where no texts were sent."""
        return " ".join(self.examples[0].split()) if self.examples else ""

    @property
    def by_generator(self) -> dict[str, RouteScore]:
        """The score of each generator."""
        return {score.generator: score for score in self.scores}


class RouteShare(Answer):
    """One generator in all traffic."""

    generator: GeneratorName
    samples: int
    traffic: float
    """Share of the told samples."""
    routed: float
    """Share of the prompts that the newest model would give it without exploration."""


class RouteSavings(Answer):
    """The costs of routing, in the unit of the experiment's costs."""

    cost: float
    """Cost of a prompt, on average, as it was routed."""
    single_cost: float
    """Cost of a prompt with always the best single generator."""
    dearest_cost: float
    """Cost of a prompt with always the dearest generator."""
    saved: float
    """Saved so far, against always the best single generator; below 0 where routing cost more."""
    saved_dearest: float
    """Saved so far, against always the dearest generator."""


class RoutePace(Answer):
    """The budget of a router, and how it is kept: `ceiling` or `at_least` of the experiment."""

    ceiling: float | None = optional()
    """The most that a prompt may cost on average."""
    at_least: float | None = optional()
    """The part of the best single generator's mean score that is to be kept."""
    kept: float | None = optional()
    """The part that is expected to be kept by the newest model, exploration included; None with a ceiling."""
    spent: float
    """Mean cost of a told prompt, the warm-up and what was retracted included."""
    price: float
    """Price of a unit of cost, in units of the score, by which the next prompt is given to a generator."""


class Routes(Answer):
    """The table of routes. Scores, gains and errors are on the metric's natural scale. A gain above 0 means that
    routing is better, whatever the metric's direction."""

    experiment: Identifier | None = optional()
    """None if it was made in memory."""
    title: str
    lower_is_better: bool
    scale: Scale
    best: GeneratorName
    """The best single generator."""
    best_score: float
    score: float
    """Expected score of routed prompts."""
    gain: float | None
    """Difference by which prompts score better when they are routed, without exploration, than by the best single
    generator, less `price` times the difference in cost; None where it is not known."""
    standard_error: float | None
    """Standard error of the gain; None where `basis` is "model"."""
    lower: float | None = optional()
    """Lower end of an interval of 1 − `delta` of the gain over the generator that is truly the best single one,
    whichever it is. None where the gain over some generator has no error."""
    upper: float | None = optional()
    """Upper end. None where no gain has an error."""
    basis: Literal["doubly robust", "model"]
    """Source of the gain: the recorded probabilities of the picks, corrected by what was told; or, under a policy
    without randomness, the regressions alone, which have no interval."""
    delta: float = 0.05
    """Intervals hold with the confidence 1 − δ, the experiment's."""
    price: float
    """Price of a unit of cost: the experiment's, or with a budget the price in `pace`."""
    costs: list[float] | None = optional()
    """Cost of a sample of each generator, in order, when the table was made; None unless all are known."""
    prompts: int
    """Told prompts that this rests on, a uniform sample of all."""
    types: list[RouteType]
    """Types by share, the largest first."""
    shares: list[RouteShare]
    savings: RouteSavings | None = optional()
    """None where generators have no costs."""
    pace: RoutePace | None = optional()
    """None without a budget to be kept."""
    positions: list[int]
    """For each generator, in order, the log position up to which the table was made; 0: not part of it."""
    samples: int
    """Samples of all generators that it was made from."""
    stale: bool = False
    """True if samples have grown by a quarter, or costs have changed, since."""
    warnings: tuple[str, ...] = ()

    @computed_field
    @property
    def gain_text(self) -> str:
        """The gain of routing over the best single generator, as it is shown everywhere.

        That it gains is said only where the interval is above 0. The interval is of the gain over the generator that is
        truly the best single one: it allows for another one than `best`."""
        if self.gain is None:
            return f"What routing gains over always {self.best} is not known yet."
        return gain_sentence(
            self.best,
            self.gain,
            None if self.basis == "model" else self.standard_error,
            self.lower,
            self.upper,
            self.scale,
        )

    @computed_field
    @property
    def interval_errors(self) -> float:
        """The number of standard errors in half of an interval of 1 − δ, such as 1.96."""
        return NormalDist().inv_cdf(1.0 - self.delta / 2.0)

    @computed_field
    @property
    def savings_text(self) -> str:
        """The savings of routing, as they are shown everywhere; "" where generators have no costs."""
        if self.savings is None:
            return ""
        costs = self.savings
        compared = [f"{_less(costs.cost, costs.single_cost)} always {self.best} ({_amount(costs.single_cost)})"]
        if costs.dearest_cost != costs.single_cost:
            dearest = f"always the dearest ({_amount(costs.dearest_cost)})"
            compared.append(f"{_less(costs.cost, costs.dearest_cost)} {dearest}")
        so_far = f"{'Saved' if costs.saved >= 0.0 else 'Spent more'} so far: {_amount(abs(costs.saved))}"
        more = f", {_amount(costs.saved_dearest)} against the dearest" * (len(compared) > 1)
        return f"A prompt costs {_amount(costs.cost)}, {', '.join(compared)}. {so_far}{more}."

    @computed_field
    @property
    def pace_text(self) -> str:
        """The spending of a budget, as it is shown everywhere; "" without one."""
        pace = self.pace
        if pace is None:
            return ""
        priced = f"To keep it, a unit of cost counts as {_amount(pace.price)} of the score."
        if pace.ceiling is None:
            return (
                f"Routed prompts are expected to keep {pace.kept or 0.0:.1%} of the best single generator's score, "
                f"where at least {100.0 * (pace.at_least or 0.0):g}% is asked for. "
                f"A prompt has cost {_amount(pace.spent)} so far. {priced}"
            )
        over = pace.spent / pace.ceiling - 1.0
        said = f"{abs(over):.1%} {'below' if over <= 0.0 else 'above'} the ceiling of {_amount(pace.ceiling)}"
        return f"A prompt has cost {_amount(pace.spent)} so far, {said}. {priced}"

    @property
    def scores_text(self) -> str:
        """The scores of routed prompts and of the best single generator, and how many prompts they rest on."""
        routed, single = f"{self.score:.3f} routed", f"{self.best_score:.3f} with always {self.best}"
        value = f" The gain counts a unit of cost as {self.price:g} of the score." if self.price else ""
        return f"{self.title}: {routed}, {single} ({self.prompts:,} prompts).{value}"

    @property
    def sentences(self) -> list[str]:
        """The sentences on what routing gains and saves, who wins which prompts, and warnings."""
        said = self.summary
        at = len(said) - len(self._notes)
        return [*said[:at], *(self.type_text(kind) for kind in self.types), *said[at:]]

    @property
    def summary(self) -> list[str]:
        """The sentences without those about the types of prompts, which are in the table."""
        costs = [text for text in (self.savings_text, self.pace_text) if text]
        return [self.gain_text, self.scores_text, *costs, *self._notes]

    @property
    def _notes(self) -> list[str]:
        return [*([STALE] if self.stale else []), *(f"Warning: {warning}." for warning in self.warnings)]

    def type_text(self, kind: RouteType) -> str:
        """The winner of the prompts of a type, in a sentence."""
        such = f", such as \u201c{route_display.short(kind.example, 60)}\u201d" if kind.example else ""
        lead = "" if kind.lead is None else f" by {self.shown(kind.lead, kind.lead_standard_error)}"
        gain = "" if kind.gain is None else f"; gain {self.shown(kind.gain, kind.gain_standard_error)}"
        winner = kind.by_generator.get(kind.winner)
        traffic = "" if winner is None else f", gets {winner.traffic:.0%} of them"
        return f"{kind.share:.0%} of the prompts{such}: {kind.winner} is best{lead}{traffic}{gain}."

    def shown(self, difference: float, standard_error: float | None) -> str:
        """A difference with its interval of 1 − δ, where it has one."""
        if not standard_error:
            return shown(difference, self.scale)
        half = self.interval_errors * standard_error
        return format_range(difference, difference - half, difference + half, self.scale)

    def to_pandas(self) -> Any:
        """The score of each generator on each type of prompt as a `pandas.DataFrame`, one row per type and generator.
        Needs pandas."""
        return route_display.as_frame(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw the generators' scores by type of prompt on matplotlib's `axes`, or on new ones, and return the axes.
        Needs matplotlib."""
        return route_display.as_plot(self, axes)

    def _repr_html_(self) -> str:
        return route_display.as_html(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{route_display.as_text(self)}"


def gain_sentence(
    best: str,
    gain: float,
    standard_error: float | None,
    lower: float | None,
    upper: float | None,
    scale: Scale = "linear",
) -> str:
    """The gain of routing over always the best single generator, in a sentence; the fields are those of `Routes`."""
    says = f"{'gains' if gain > 0.0 else 'loses'} {shown(abs(gain), scale)} against always {best}"
    if standard_error is None:
        return f"By the model, routing {says}; there is no interval."
    if standard_error == 0.0:
        return f"Nothing is gained by routing: {best} would get every prompt."
    if lower is None or upper is None:
        return f"Whether routing is better than always {best} is open: it {says}, without an interval."
    if upper < 0.0:
        return f"Routing is worse than always {best} by {format_range(-gain, -upper, -lower, scale)}."
    by = format_range(gain, lower, upper, scale)
    if lower > 0.0:
        return f"Routing is better than always {best} by {by}."
    return f"Whether routing is better than always {best} is open: by {by}."


def _amount(cost: float) -> str:
    return f"{float(f'{cost:.3g}'):,g}"


def _less(cost: float, other: float) -> str:
    if other <= 0.0:
        return "against"
    share = cost / other - 1.0
    return f"{abs(share):.0%} {'less' if share <= 0.0 else 'more'} than"
