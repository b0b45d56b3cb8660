"""The report on an experiment, and the list of experiments."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, computed_field

from optimist_client import charts, display, tables
from optimist_client.goals import UNLIKE, Best, DeclaredGoal, View, known_goal
from optimist_client.metrics import Scale
from optimist_client.models.anomalies import AnomalousBatch
from optimist_client.models.basis import Basis
from optimist_client.models.cheapest import cheapest_answer, cheapest_sentences, cheapest_why, cost_ratio
from optimist_client.models.contrasts import Contrast
from optimist_client.models.decisions import BELOW_NOISE_NOTE, DecisionInfo, listed, may_be, state_text
from optimist_client.models.experiments import State
from optimist_client.models.mixtures import Mixture
from optimist_client.models.progress import Progress
from optimist_client.models.ranks import Ranking, known_ranks
from optimist_client.models.retractions import Acceptance, Retraction
from optimist_client.models.routes import Routes
from optimist_client.models.standings import Standing, ranked, row_warnings, unscored
from optimist_client.models.waits import WaitReason
from optimist_client.models.watched import WatchedReport, disagreement
from optimist_client.wire import Answer, Identifier, optional

ALL_AT_ONCE = " of all at once, which take more evidence than the best alone"


class Regret(Answer):
    """Regret(T) = Σ_t gap of the generator picked at t, by the current estimates (equations.md §5)."""

    total: float
    average: float


class UsedUp(Answer):
    """The next step where nothing was decided although all samples that there are were used."""

    what: str
    """The samples in the plural, such as "images"."""
    generators: list[str]
    """Generators to which more samples are to be added."""

    @property
    def next_step(self) -> str:
        """The next step, as a sentence."""
        return f"All {self.what} are used. Next: add some to {listed(self.generators, len(self.generators) + 1)}."


class Failure(Answer):
    """Batches of a generator that failed in the call of `run` that made the report, and were given up."""

    generator: str
    batches: int
    samples: int
    last: str
    """The last of their errors."""

    @property
    def text(self) -> str:
        """The failure, as a sentence without its end."""
        many = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        given_up = f"failed and {'was' if self.batches == 1 else 'were'} given up"
        last = "" if self.batches == 1 else "the last with "
        return f"{many} of {self.generator} ({self.samples:,} samples) {given_up}, {last}{self.last}"


class Report(Answer):
    """The standings, the regret, the pick ratio and the decision, as the dashboard shows them."""

    experiment: Identifier
    goal: str = optional(Best.name)
    """Subject of the decision: the best generator, or with "mixture" the best mixture (`mixture`). With "route" there
    is none, and `routes` says what routing gains."""
    metric: str
    title: str
    """The metric's name for display."""
    lower_is_better: bool
    scale: Scale = "linear"
    """The scale on which scores are compared: by differences (linear) or ratios (log)."""
    offers: list[str] = Field(default_factory=list)
    """Views that the service offers besides the score: "modes", "prompt groups", "mixtures", "routes"."""
    tags: list[str] = optional([])
    note: str = optional("")
    state: State
    ended: bool
    waits_for: WaitReason | None = optional()
    """Reason why asks wait now, whichever worker they are of; left out where they wait for nothing."""
    decision: DecisionInfo
    standings: list[Standing]
    samples: int
    """All samples told, those retracted since included."""
    rounds: int
    """Batches told, those retracted since included."""
    open_picks: int
    how: str = optional("")
    """Way its numbers are made, in a sentence (`ExperimentConfig.how`)."""
    active: float | None = optional()
    """Unix time of the last change of samples, picks or estimates; None outside of a service."""
    budget: int | None
    cost: float | None = optional()
    """Cost of all samples told, including those of retired generators; None if no generator has a cost."""
    max_cost: float | None = optional()
    spent: str | None = optional()
    """The budget that ended the experiment, as "1,000 samples"; None where none did."""
    uniform_cost: float | None = optional()
    """Estimated cost of uniform sampling for the same certainty: of as many samples of each generator. None before the
    decision, if it is unknown or a generator has no cost, and if it is not above the cost of the samples told."""
    decision_cost: float | None = optional()
    """Cost of the samples that had been told when it was decided, at the present costs per sample, as `cost`. None
    before the decision, and without costs."""
    regret: Regret | None
    """None until every generator has an estimate."""
    optimal_pick_ratio: float | None
    """Share of the batches that went to the generator with the best current estimate."""
    uniform_samples: int | None
    """Estimated number of samples that uniform sampling would have needed for the same certainty. None before the
    decision, if it is unknown, and if it is not above the samples told."""
    scored: bool
    """True if every estimate that is due has been made."""
    anomalies: list[AnomalousBatch] = Field(default_factory=list[AnomalousBatch])
    """The anomalous batches, newest first, of all generators that are not retired: copies, and batches on
    another scale."""
    retractions: Annotated[list[Retraction], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=list[Retraction]
    )
    """Accepted batches that count no longer, the newest last."""
    acceptances: Annotated[list[Acceptance], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=list[Acceptance]
    )
    """Batches on another scale that somebody accepted as they are, the newest last."""
    contrasts: Annotated[list[Contrast], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=list[Contrast]
    )
    """Contrasts of each other generator that has an estimate with the best one, in the order of the standings."""
    judge: list[str] = optional([])
    """Sentences on an audited judge: its worth, whom it favours, how well raters agree, and unanswered audits."""
    ranks: Ranking | None = optional()
    """The ranks of the generators; None of more than 20, of a router's, and while there is no score."""
    watched: Annotated[dict[str, WatchedReport], Field(exclude_if=lambda value: not value)] = Field(
        default_factory=dict
    )
    """The standings by the watched metrics, by their labels."""
    mixture: Mixture | None = optional()
    """The best mixture, as it was made last: with the goal "mixture" whenever the samples have grown by a quarter, else
    when somebody asked for it."""
    routes: Routes | None = optional()
    """With the goal "route", which generator is the best one for which prompts, as the table was made last: when
    somebody asked for it, or when the samples have grown by a quarter."""
    basis: Basis | None = optional()
    """Basis of the answer, where it was made in memory."""
    hint: str | None = optional()
    """Hint at what would decide a long undecided experiment; None until it has `OPTIMIST_HINT_AFTER` samples."""
    used_up: UsedUp | None = optional()
    """Samples to add where `compare` has used all files without a decision."""
    failures: Annotated[list[Failure], Field(exclude_if=lambda value: not value)] = Field(default_factory=list[Failure])
    """Failures in the call of `run` that returned the report, by generator."""
    progress: Progress | None = None
    """Data for charts; only if the request has `after`."""

    @computed_field
    @property
    def state_text(self) -> str:
        """The state as it is shown everywhere: also "provisional" and "cannot be scored"."""
        return state_text(self.state, self.decision, unscored(self.standings))

    @computed_field
    @property
    def view(self) -> View:
        """The part of a page with the answer: in the standings, in the mixture, or in the table of routes."""
        return self.asks.view

    @computed_field
    @property
    def why(self) -> str:
        """Why it was or was not decided, and where no samples are left, what to add."""
        said = self.asks.why(self)
        return said if self.used_up is None else f"{said} {self.used_up.next_step}"

    @computed_field
    @property
    def answer(self) -> str:
        """The answer so far in one sentence, as it is shown everywhere: the best generator, the best mixture, or what
        a router gains."""
        if not self.samples:
            names = "One generator" if len(self.standings) == 1 else f"{len(self.standings)} generators"
            first, done = self.asks.awaits
            return f"Waiting for the first {first}. {names} will be {done} by {self.title}."
        return self.asks.answer(self)

    def answer_on_best(self) -> str:
        """The best generator, or the leader, in a sentence."""
        winner = self._winner
        if winner is None:
            more = "" if self.used_up is None else f" {self.used_up.next_step}"
            if why := unscored(self.standings):
                return f"No answer {self._told}: it cannot be scored. {why}.{more}"
            return f"No answer yet {self._told}: not every generator has a score.{more}"
        interval = "" if winner.interval_text == "…" else f" ({winner.interval_text})"
        scored = f"{self.title} {winner.score_text}{interval}"
        if len(self.standings) == 1:
            return f"{winner.generator} has {scored} {self._told}. There is no generator to compare it with."
        return f"{self._verdict_on(winner.generator)}: {scored}{self._unless}."

    def answer_on_mixture(self) -> str:
        """The best mixture in a sentence, or that none is better than a generator alone."""
        mixture = self.mixture
        if mixture is None:
            return f"No mixture yet {self._told}."
        best = f"{mixture.best} alone" if mixture.is_one_alone else mixture.recipe
        begins = f"Best: {best}" if self.decision.decided else f"Not decided {self.until}: {best} leads"
        against = "no mixture is better" if mixture.is_one_alone else mixture.gained
        return f"{begins} {self._told}: {mixture.scored}, {against}{self._unless}."

    def answer_on_routes(self) -> str:
        """The gain of a router in a sentence."""
        return f"No table of routes yet {self._told}." if self.routes is None else self.routes.gain_text

    @property
    def is_on_best(self) -> bool:
        """True if its decision compares rivals with the best generator."""
        return bool(self.decision.verdicts)

    def answer_on_cheapest(self) -> str:
        """The cheapest generator that is good enough, in a sentence."""
        return cheapest_answer(self)

    def why_on_cheapest(self) -> str:
        """The generators that miss a limit, or may, in sentences."""
        return cheapest_why(self)

    @property
    def asks(self) -> type[DeclaredGoal]:
        """The goal."""
        return known_goal(self.goal)

    @property
    def _told(self) -> str:
        return f"after {self.samples:,} samples"

    @property
    def uniform_text(self) -> str:
        """Samples that uniform sampling would have taken for the same certainty, in a sentence; "" where unknown."""
        if self.uniform_samples is None:
            return ""
        spent = f"about {self.uniform_samples:,} samples ({self.uniform_samples / self.samples:.1f} times)"
        return f"Uniform sampling would have spent {spent}."

    @computed_field
    @property
    def overlap_text(self) -> str:
        """Why intervals of scores overlap although the generators' difference excludes 0, where this comes from samples
        in common; "" if there is nothing to explain."""
        rows = {row.generator: row for row in self.standings}
        best = rows.get(self.leader or "")
        if best is None:
            return ""
        paired = [contrast for contrast in self.contrasts if contrast.common and contrast.generator in rows]
        unlike = [row for row in paired if rows[row.generator].overlaps(best) and self._needs_pairs(row, rows)]
        if not unlike:
            return ""
        unlike.sort(key=lambda contrast: contrast.difference)
        names = listed([contrast.generator for contrast in unlike], len(self.contrasts))
        common = _range([f"{n:,}" for n in sorted(contrast.common for contrast in unlike)])
        correlation = _range([f"{r:.2f}" for r in sorted(contrast.correlation for contrast in unlike)])
        subject = f"interval of {names} overlaps" if len(unlike) == 1 else f"intervals of {names} overlap"
        differ = "their difference is sure" if len(unlike) == 1 else "their differences from it are sure"
        return (
            f"The {subject} that of {self.leader}, but {differ}: with the same seeds or prompts ({common} samples, "
            f"correlation {correlation}) luck cancels."
        )

    @computed_field
    @property
    def disagreement(self) -> str:
        """The metrics by the generator that each names as the best, in a sentence; "" where all name the same."""
        if not self.watched or self.decision.limits:
            return ""
        return disagreement(self.title, self.decision.best, self.decision.confidence, self.watched.values())

    def _needs_pairs(self, contrast: Contrast, rows: dict[str, Standing]) -> bool:
        """True if the difference excludes 0, and would not if the two scores were independent."""
        errors = [rows[name].compared_error(self.scale) for name in (contrast.generator, contrast.against)]
        if not contrast.excludes_zero or not contrast.standard_error or contrast.half_width is None:
            return False
        return abs(contrast.difference) <= contrast.half_width / contrast.standard_error * math.hypot(*errors)

    @property
    def _winner(self) -> Standing | None:
        """The standing of the best generator; None where there is none, or it has no score."""
        winners = (row for row in self.standings if row.generator == self.decision.best and row.score is not None)
        return next(winners, None)

    @property
    def _unless(self) -> str:
        """The condition of a provisional decision, as the end of a sentence; else ""."""
        return f", {self.decision.unless}" if self.decision.unless else ""

    def _verdict_on(self, winner: str) -> str:
        """The beginning of the answer: whether this generator is the best one."""
        likely = f"with {self.decision.confidence_text} confidence" if self.decision.confidence_text else ""
        if self.decision.decided:
            return f"Best: {' '.join(filter(None, (winner, likely, self._told)))}"
        return f"Not decided {self.until}: {winner} leads {self._told}{likely and f', {likely}'}"

    @property
    def until(self) -> str:
        """The samples without a decision, after "Not decided"."""
        if self.used_up is not None:
            return f"with all {self.used_up.what} used"
        budget = f"within the budget of {self.spent}" if self.spent else "with all prompts used"
        ends = {"out of budget": budget, "stopped": "before it was stopped"}
        return ends.get(self.state, "yet")

    @property
    def leader(self) -> str | None:
        """The generator that the others are compared with: the best one, or the best so far while not every generator
        has an estimate."""
        return self.contrasts[0].against if self.contrasts else self.decision.best

    @property
    def worse_by(self) -> dict[str, str]:
        """Differences by which each generator is worse than the best, as text; empty if none is known."""
        if not self.contrasts:
            return {}
        texts = Contrast.column(self.contrasts)
        apart = {contrast.generator: text for contrast, text in zip(self.contrasts, texts, strict=True)}
        leader = {self.leader: "leads" if self.decision.limits else self.decision.rank}
        return {row.generator: leader.get(row.generator) or apart.get(row.generator, "…") for row in self.standings}

    def share_text(self, row: Standing) -> str:
        """The share of one of the standings in all samples, as it is shown everywhere."""
        return f"{row.samples / max(self.samples, 1):.1%}"

    def ranking(self) -> Ranking:
        """The ranks of the generators, as intervals that hold for all of them together. `print` shows them, and `top`
        has the best k where it is sure which they are.

        Raises FixError where there are none: of more than 20 generators, for a router, and before the first score.
        """
        return known_ranks(self.ranks)

    @property
    def in_order(self) -> list[Standing]:
        """The standings, best first, those without a score last; of a router in their order."""
        if self.asks.has_contexts:
            return self.standings
        apart = {contrast.generator: contrast.difference for contrast in self.contrasts}
        return ranked(self.standings, self.leader, lower_is_better=self.lower_is_better, differences=apart)

    @property
    def sentences(self) -> list[str]:
        """The answer, why it was or was not decided, the verdicts, where metrics disagree, and what uniform sampling
        would have taken if that is known."""
        said = [*(anomaly.text for anomaly in self.decision.anomalies), *self.decision.warnings]
        said += [*row_warnings(self.standings), *(failure.text for failure in self.failures)]
        warnings = [f"Warning: {text}{'' if text.endswith('?') else '.'}" for text in said]
        warnings += [BELOW_NOISE_NOTE] if any(row.below_noise for row in self.standings) else []
        return self.asks.sentences(self, warnings)

    def sentences_on_routes(self, warnings: list[str]) -> list[str]:
        """The sentences about what a router gains, with these warnings."""
        said = [self.answer] if self.routes is None else self.routes.sentences
        return [*said, *([UNLIKE] if len(self.standings) > 1 and self.samples else []), *warnings]

    def sentences_on_mixture(self, warnings: list[str]) -> list[str]:
        """The sentences about the best mixture, with these warnings."""
        sentences = [] if self.mixture is None else self.mixture.sentences[1:]
        said = [text for text in sentences if not (self.mixture and self.mixture.repeats(text, self.why))]
        return [self.answer, self.why, *said, *warnings, *([] if self.hint is None else [self.hint])]

    def sentences_on_cheapest(self, warnings: list[str]) -> list[str]:
        """The sentences about the cheapest generator that is good enough, with these warnings."""
        return cheapest_sentences(self, warnings)

    def sentences_on_best(self, warnings: list[str]) -> list[str]:
        """The sentences about the best generator, with these warnings."""
        said = [self.answer]
        if self._winner is None or len(self.standings) < 2:
            return [*said, *warnings]
        apart = {row.generator: may_be(row.lower, row.upper, row.scale) for row in self.contrasts}
        best = self.decision.best
        costs = {row.generator: cost_ratio(self, row.generator, best) for row in self.standings}
        said += [*self.decision.verdict_sentences(self.scale, apart, costs), self.why]
        said += [self._ranks_text] if self._ranks_text else []
        said += [text for text in (self.overlap_text, self.disagreement) if text]
        if self.mixture is not None and not self.mixture.is_one_alone:
            said += [text for text in self.mixture.sentences if text != self.mixture.gap_text]
        said += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in self.judge]
        said += warnings
        if self.hint is not None:
            said.append(self.hint)
        said += [self.uniform_text] if self.uniform_text else []
        if self.uniform_cost is not None and self.cost:
            spent = f"about {float(f'{self.uniform_cost:.3g}'):,g} ({self.uniform_cost / self.cost:.1f} times)"
            said.append(f"Uniform sampling would have cost {spent}.")
        return said

    @property
    def _ranks_text(self) -> str:
        """The ranks as a sentence; "" where they say no more than the decision.

        They hold for all pairs at once, and so may leave open what is decided about the best alone.
        """
        if self.ranks is None or not self.ranks.says_more:
            return ""
        first = next((rank for rank in self.ranks.ranks if rank.generator == self.decision.best), None)
        is_open = self.decision.decided and first is not None and first.last > 1
        return f"Ranks{ALL_AT_ONCE if is_open else ''}: {self.ranks.text}"

    def to_dict(self) -> dict[str, Any]:
        """The report as values that JSON can represent."""
        return self.model_dump(mode="json")

    def to_pandas(self) -> Any:
        """The standings as a `pandas.DataFrame`, best first, one row per generator. Needs pandas.

        The score, error and interval by each watched metric follow as columns `<label>:score`, …; all else by one of
        them is in `watched[label].to_pandas()`.
        """
        return display.as_frame(self, self.watched)

    def table(self, format: tables.Format = "markdown", *, metrics: bool = False, ranks: bool = False) -> str:
        """The standings as a table for a paper or a page: generator, score, its interval, samples; best first.

        format: "markdown", "latex" (a `tabular` with booktabs' rules), "csv" (unrounded, a column for each end of an
        interval) or "html". metrics: whether the score and the interval by each watched metric follow. ranks: whether
        the rank of each comes first, as of `ranking`. Raises FixError for another format, and as `ranking` does.
        """
        return tables.as_table(self, format, metrics=metrics, ranks=ranks)

    def plot(self, axes: Any = None, *, metric: str | None = None) -> Any:
        """Draw scores and intervals on matplotlib's `axes`, or on new ones, and return the axes. Needs matplotlib.

        metric: the label of a watched metric; by default the one that decides. Raises NotFoundError for another one.
        """
        return display.as_plot(self, axes, metric)

    def plot_regret(self, axes: Any = None) -> Any:
        """Draw the regret over the batches told, of a report with charts (`experiment.report(charts=True)`).

        Returns matplotlib's axes. Raises FixError without the data, and while not every generator has a score.
        """
        return charts.plot_regret(self, axes)

    def plot_picks(self, axes: Any = None) -> Any:
        """Draw the share of batches of each generator over the batches told, of a report with charts.

        Returns matplotlib's axes. Raises FixError without the data.
        """
        return charts.plot_picks(self, axes)

    def _repr_html_(self) -> str:
        return display.as_html(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{display.as_text(self)}"


def _range(sorted_texts: list[str]) -> str:
    first, last = sorted_texts[0], sorted_texts[-1]
    return first if first == last else f"{first} to {last}"
