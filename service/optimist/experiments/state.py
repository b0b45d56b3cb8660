"""The state of one experiment as policies and users see it: open picks, arms, decision, phase. No I/O."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from optimist.estimates.estimate import Estimate
from optimist.experiments.anomalies import decision_warnings
from optimist.experiments.answers import censored_warnings, missing_text, waiting_text, waits_until
from optimist.experiments.goals.base import Goal, Pending
from optimist.experiments.goals.registry import goal_named
from optimist.experiments.settling import count_batch, end_pick, note_copy, open_pick
from optimist.policies import Arm, rivals
from optimist.policies.audits import audits_as_batches
from optimist.records import COST, ExperimentState, GeneratorState, NewPick, OpenPick, Settled, UnitState, codec
from optimist_client.models import (
    AnomalousBatches,
    AskRequest,
    DecisionInfo,
    Experiment,
    ExperimentConfig,
    Pick,
    State,
    WaitReason,
)

LATE = 0.1
"""The share of a generator's batches that its estimate may lack without an ask waiting for the next one."""


class OpenPicks:
    """Picks whose lease still runs, kept up to date by `add` and `remove`."""

    def __init__(self, stored: Sequence[OpenPick], earlier: OpenPicks | None = None) -> None:
        """stored: the open picks. earlier: the open picks of an earlier state, so that picks still open are not parsed
        again."""
        self.of_key: Counter[str] = Counter()
        """The number of picks that were asked for with each access key."""
        self.samples: Counter[int] = Counter()
        """Samples of open picks, by ordinal of the generator."""
        self.batches: Counter[int] = Counter()
        """Number of open picks, by ordinal of the generator."""
        self._picks: dict[int, tuple[Pick, OpenPick]] = {}
        self._of_worker: defaultdict[str | None, dict[int, Pick]] = defaultdict(dict)
        self._of_request: defaultdict[str, dict[int, Pick]] = defaultdict(dict)
        before = {} if earlier is None else earlier._picks
        for leased in stored:
            pick, same = before.get(leased.number, (None, None))
            # A nonce identifies a pick, and a pick never changes.
            if pick is None or same is None or leased.nonce != same.nonce:
                pick = Pick.model_validate_json(leased.record)
            self.add(pick, leased)

    def __len__(self) -> int:
        return len(self._picks)

    def __contains__(self, number: int) -> bool:
        return number in self._picks

    def __iter__(self) -> Iterator[tuple[Pick, OpenPick]]:
        """The picks in both forms."""
        return iter(self._picks.values())

    def __getitem__(self, number: int) -> Pick:
        return self._picks[number][0]

    def add(self, pick: Pick, stored: OpenPick) -> None:
        """Count a pick as open; stored: the same pick in the store's form."""
        self._picks[pick.number] = pick, stored
        self._of_worker[pick.worker][pick.number] = pick
        self._of_request[pick.request_id][pick.number] = pick
        self.of_key[stored.key] += 1
        self.samples[stored.generator] += pick.size
        self.batches[stored.generator] += 1

    def remove(self, number: int) -> tuple[Pick, OpenPick] | None:
        """Stop counting a pick as open, and return it in both forms; None if it was not open."""
        removed = self._picks.pop(number, None)
        if removed is None:
            return None
        pick, stored = removed
        del self._of_worker[pick.worker][number], self._of_request[pick.request_id][number]
        if not self._of_worker[pick.worker]:
            del self._of_worker[pick.worker]
        if not self._of_request[pick.request_id]:
            del self._of_request[pick.request_id]
        self.of_key[stored.key] -= 1
        self.samples[stored.generator] -= pick.size
        self.batches[stored.generator] -= 1
        return removed

    def of_worker(self, worker: str) -> int:
        """The number of open picks of a worker."""
        return len(self._of_worker.get(worker, ()))

    def owned(self, request: AskRequest, has_contexts: bool = False) -> list[Pick]:
        """The open picks that this request gets again: the picks of its worker, and the picks opened for its request
        id.

        With contexts these are new prompts, and only the same request gets picks again.
        """
        # "" is the id of every pick that was asked for without one.
        picks = dict(self._of_request.get(request.request_id, {})) if request.request_id else dict[int, Pick]()
        if has_contexts:
            return list(picks.values())
        if request.worker is not None:
            picks |= self._of_worker.get(request.worker, {})
        return list(dict(sorted(picks.items())).values())[: request.count]


class BudgetLeft(NamedTuple):
    """An amount of something, after which an experiment ends undecided."""

    text: str
    """The amount in words, as "1,000 samples"."""
    left: float
    """The rest of it, 0 or less where it is used up; open picks do not count."""


class PolicyState:
    """The config of an experiment, and its stored state at one moment.

    A dispatcher updates it in place with `settle`, `note` and `open`, which repeat what the scripts did.
    The store's version and state token show whether anything else has changed.
    """

    def __init__(self, experiment: Experiment, stored: ExperimentState, earlier: PolicyState | None = None) -> None:
        """earlier: an earlier state; unchanged parts are taken from it instead of being parsed again.

        Raises ValueError, KeyError or TypeError if the stored state cannot be read.
        """
        self.experiment = experiment
        self.config: ExperimentConfig = experiment.config
        self.stored = stored
        self.open_picks = OpenPicks(stored.open_picks, None if earlier is None else earlier.open_picks)
        before = () if earlier is None else earlier.stored.generators
        both = zip_longest(stored.generators, before)
        changed = [one for one, same in both if one is not None and one is not same]
        # Where only single generators have changed, the others are the same objects; else none are.
        earlier = earlier if len(before) <= len(stored.generators) else None
        self._parsed = _parsed(stored.generators, changed, earlier)
        """The latest estimates by the labels of the metrics that were read."""
        self.estimates: list[Estimate | None] = self.estimates_by(self.config.metric.shown_label)
        """Those by the metric that decides, in the order of the experiment's generators."""
        self.contenders: list[GeneratorState] = [g for g in stored.generators if g.state != "retired"]
        """The generators that are not retired, in the order of `arms`."""
        self._indices = {generator.ordinal: index for index, generator in enumerate(self.contenders)}
        controls = stored.controls
        costs = {name.removeprefix(COST): float(cost) for name, cost in controls.items() if name.startswith(COST)}
        self.costs: dict[str, float] = {**(self.config.costs or {}), **costs}
        """Known cost of a sample by generator; a changed cost applies to all samples, earlier ones too."""
        goal = goal_named(self.config.goal)
        self._weighs_costs = goal.weighs_costs(self.config)
        self.arms: list[Arm] = self._arms(changed, earlier)
        """Each contender with its estimate, counts and open picks, and its cost if costs are weighed."""
        self.needed_to_fit = 0 if any(self.estimates) else goal.needed(self.config, len(stored.active))
        """The amount that each active generator must bring before open kernels can be fixed; 0 once they are."""
        before = None if earlier is None else earlier.goal
        self.goal: Goal = goal.from_state(experiment, stored, self.needed_to_fit, before)
        """The goal. The warm-up of its policy lasts until the kernels can be fixed."""
        self.samples = sum(generator.samples + generator.retracted for generator in stored.generators)
        """Samples told in all, those retracted since included: the budget has paid for them."""
        self.budget = int(controls["budget"]) if "budget" in controls else self.config.budget
        """Total number of samples after which no more picks are made."""
        self.max_cost = float(controls["max_cost"]) if "max_cost" in controls else self.config.max_cost
        """Total cost after which no more picks are made."""
        self.max_wait = float(controls.get("max_wait", self.config.max_wait))
        """Seconds an ask waits for estimates."""
        self.stops = controls["stop"] == "1" if "stop" in controls else self.config.stop
        """True if picks end once the answer is sure."""
        self.paces: dict[int, float] = {} if earlier is None else earlier.paces
        """Seconds per sample of each generator's newest pick that `settle` has ended, by ordinal."""
        self.pending: Mapping[str, int] | None = None
        """Batches on their way by generator, as a caller in memory says; None: the open picks are."""
        self._lacking: dict[int, GeneratorState] = {}
        """The generators that lack an estimate that is due, by ordinal."""
        if earlier is not None and len(changed) < len(stored.generators):
            self._lacking = {ordinal: stored.generators[ordinal] for ordinal in earlier._lacking}
        for generator in changed:
            self._note_due(generator)
        self._live_decision: DecisionInfo | None = None

    def settle(self, number: int, rows: int) -> GeneratorState | None:
        """The generator of a pick that a batch of so many rows ends; None, and no change, if the pick is not open."""
        removed = self.open_picks.remove(number)
        if removed is None:
            return None
        pick, leased = removed
        self.paces[leased.generator] = max(time.time() - pick.opened, 0.0) / pick.size
        end_pick(self.stored, pick, leased, rows)
        generator = self.stored.generators[leased.generator]
        self.count(generator, rows)
        generator.answered = generator.seq
        return generator

    def count(self, generator: GeneratorState, rows: int) -> None:
        """Count a batch of so many rows as recorded (`settling.count_batch`)."""
        count_batch(self.stored, generator, rows, self.config.rescore_growth)
        self.samples += rows
        self._renew_arm(generator)
        self._live_decision = None

    def give_up(self, number: int) -> None:
        """Stop counting a pick as open, if it was, and hand out its indices again."""
        removed = self.open_picks.remove(number)
        if removed is None:
            return
        pick, leased = removed
        end_pick(self.stored, pick, leased, 0)
        self._count_for(pick, -1)
        self._renew_arm(self.stored.generators[leased.generator])

    def estimates_by(self, label: str) -> list[Estimate | None]:
        """The latest estimate of each generator by a metric, in the experiment's order."""
        return self._parsed.setdefault(label, [None] * len(self.stored.generators))

    def put_estimate(self, ordinal: int, estimate: Estimate, label: str, seq: int | None = None) -> None:
        """Take an estimate that was made at this log position; None: at the generator's due position."""
        generator = self.stored.generators[ordinal]
        generator.units[label] = UnitState(generator.due_seq if seq is None else seq)
        self.estimates_by(label)[ordinal] = estimate
        self._renew_arm(generator)
        self._live_decision = None

    def put_goal(self, goal: Goal) -> None:
        """Go on with this goal, for which something was made anew."""
        self.goal = goal
        self._live_decision = None

    def note(self, settled: Settled) -> None:
        """Add what the store found anomalous about a settled batch; only the store can know it."""
        if settled.copy is not None:
            note_copy(self.stored, self.stored.generators[settled.generator], settled.copy)
            self._live_decision = None

    def open(self, pick: Pick, new: NewPick, deadline: float) -> None:
        """Count the next pick as open, see `settling.open_pick`; deadline: about when its lease runs out, in Unix
        seconds."""
        leased = OpenPick(
            pick.number, new.generator, pick.request_id, new.record, deadline, new.nonce, new.key, pick.opened
        )
        open_pick(self.stored, leased, new)
        self.open_picks.add(pick, leased)
        self._count_for(pick, 1)
        self._renew_arm(self.stored.generators[new.generator])

    def _count_for(self, pick: Pick, by: int) -> None:
        """Count a batch that the pick's worker may hand in, or with -1 will not, where these are limited."""
        if self.config.max_batches_per_worker is not None and pick.worker is not None:
            workers = self.stored.of_workers
            workers[pick.worker] = workers.get(pick.worker, 0) + by

    def _renew_arm(self, generator: GeneratorState) -> None:
        self._note_due(generator)
        if generator.ordinal in self._indices:
            self.arms[self._indices[generator.ordinal]] = self._arm(generator)

    def _note_due(self, generator: GeneratorState) -> None:
        if generator.scored_until(self.stored.limited) < generator.due_seq and generator.state != "retired":
            self._lacking[generator.ordinal] = generator
        else:
            self._lacking.pop(generator.ordinal, None)

    def _arms(self, changed: Sequence[GeneratorState], earlier: PolicyState | None) -> list[Arm]:
        """The arms; the arms of an earlier state where neither their generator nor its open picks have changed."""
        if earlier is None or len(changed) == len(self.stored.generators) or earlier._indices != self._indices:
            return [self._arm(generator) for generator in self.contenders]
        arms, own, before = list(earlier.arms), self.open_picks, earlier.open_picks
        moved = {g for pair in ((own.samples, before.samples), (own.batches, before.batches)) for g in _unequal(*pair)}
        for ordinal in moved.union(generator.ordinal for generator in changed):
            if ordinal in self._indices:
                arms[self._indices[ordinal]] = self._arm(self.stored.generators[ordinal])
        return arms

    def _arm(self, generator: GeneratorState) -> Arm:
        return Arm(
            generator.name,
            self.estimates[generator.ordinal],
            generator.samples,
            generator.batches,
            self.open_picks.samples[generator.ordinal],
            self.open_picks.batches[generator.ordinal],
            active=generator.state == "active",
            cost=self.costs.get(generator.name) if self._weighs_costs else None,
            watched={label: self.estimates_by(label)[generator.ordinal] for label in self.stored.limited},
        )

    @property
    def rivals(self) -> list[Arm]:
        """The arms that a decision compares."""
        return rivals(self.arms)

    @property
    def samples_left(self) -> int | None:
        """Samples that the budget leaves after recorded samples and open picks; None: no limit."""
        return None if self.budget is None else self.budget - self.samples - self.open_picks.samples.total()

    @property
    def unpriced(self) -> list[str]:
        """The generators, retired ones included, whose cost is not known."""
        return [generator.name for generator in self.stored.generators if generator.name not in self.costs]

    @property
    def all_costs(self) -> list[float] | None:
        """The cost of a sample of each generator, retired ones included; None unless all are known."""
        return None if self.unpriced else [self.costs[generator.name] for generator in self.stored.generators]

    @property
    def cost(self) -> float:
        """Cost of the samples recorded."""
        return sum(self.costs.get(g.name, 0.0) * (g.samples + g.retracted) for g in self.stored.generators)

    @property
    def cost_left(self) -> float | None:
        """Cost that the budget leaves after recorded samples, 0 or less when it is spent; None: no limit."""
        return None if self.max_cost is None else (1 - 1e-12) * self.max_cost - self.cost  # but for rounding

    @property
    def pending_cost(self) -> float:
        """Cost of the samples of open picks."""
        pending = self.open_picks.samples
        return sum(self.costs.get(g.name, 0.0) * pending[g.ordinal] for g in self.stored.generators)

    @property
    def can_be_scored(self) -> bool:
        """True if there are enough samples to fix the kernels; before that, asks do not wait for estimates."""
        needed = self.needed_to_fit
        return not needed or all(self.goal.brought(generator) >= needed for generator in self.stored.active)

    @property
    def is_scored(self) -> bool:
        """True if every estimate, and the mixture, that is due and can be made has been made."""
        if not self.can_be_scored:
            return True
        return not self._lacking and not self.stored.is_mixture_due

    def awaits(self, pending: Pending, late: float = 0.0) -> bool:
        """True if something of that has not been made yet; late: as of `Goal.is_pending`."""
        return self.goal.is_pending(self.stored, self._lacking, pending, late)

    def waits_for(self, pending: Pending, among: Collection[str] | None = None) -> WaitReason | None:
        """The result that an ask has to wait for: it can be made, and has not been made yet.

        A pick that follows from the counts alone waits for nothing (`Goal.is_by_counts`), and a later one only for
        estimates that lack more than `LATE` of the batches; but where the experiment would be decided, and behind the
        warm-up where every batch is scored, for all that are due. among: the generators that the ask can be answered
        with; None: all.
        """
        if self.is_held:
            return WaitReason.ANSWERS
        if not self.can_be_scored or not self.awaits(pending):
            return None
        able, is_urgent = self.able(among), not self.config.rescore_growth or self.would_stop
        if self.goal.warms_up(able) or (not is_urgent and self.goal.is_by_counts(able)):
            return None
        return self.goal.waits_for if self.awaits(pending, 0.0 if is_urgent else LATE) else None

    def able(self, among: Collection[str] | None) -> list[Arm]:
        """All arms; those that are not among these generators are not active. None: as they are."""
        if among is None and self.experiment.end is None:
            return self.arms
        left = {generator.name for generator in self.contenders if not self.has_answered(generator)}
        left = left if among is None else left.intersection(among)
        return [replace(arm, active=arm.active and arm.name in left) for arm in self.arms]

    def has_answered(self, generator: GeneratorState) -> bool:
        """True if all prompts that it is asked for are in picks, or told."""
        end, estimate = self.experiment.end, self.estimates[generator.ordinal]
        if end is None:
            return False
        return (generator.handed >= end and not generator.returned) or (estimate is not None and estimate.is_exact)

    @property
    def looks(self) -> int:
        """The t of rules/stopping.md: batches told, or where people audit a judge, five audits for each."""
        return audits_as_batches(self.audited) if self.audited else self.stored.told

    @property
    def audited(self) -> list[int]:
        """The audits of each estimate that people make."""
        return [estimate.units[0] for estimate in self.estimates if estimate is not None and estimate.audited]

    @property
    def live_decision(self) -> DecisionInfo:
        """The decision of the stopping rule now, which is not latched."""
        if self._live_decision is None:
            now, mixture = self.goal.decide(self.arms, self.looks), self.goal.mixture
            self._live_decision = DecisionInfo(
                best=now.best,
                confidence=now.confidence,
                decided=now.decided,
                reason=now.reason,
                warnings=(
                    *decision_warnings(self.contenders),
                    *self.goal.warnings(self.stored),
                    *censored_warnings(self.rivals, now.best),
                ),
                weights={} if mixture is None else mixture.shares,
                none_meets=now.none_meets,
            )
        return self._live_decision

    @property
    def decision(self) -> DecisionInfo:
        """The latched decision if there is one, else the live one, shown as not decided."""
        if self.stored.decision is not None:
            return self._still_doubted(DecisionInfo.model_validate_json(self.stored.decision))
        decision = self.about_answers(self.live_decision)
        return decision.model_copy(update={"decided": False}) if self.would_stop else decision

    def _still_doubted(self, decision: DecisionInfo) -> DecisionInfo:
        """The decision without what has been accepted since, or retired."""
        contenders = {generator.name: generator for generator in self.contenders}
        anomalies: list[AnomalousBatches] = []
        for batches in decision.anomalies:
            generator = contenders.get(batches.generator)
            if generator is None or (batches.whole and generator.accepted_until):
                continue
            accepted, until = generator.accepted, generator.accepted_until
            left = tuple(position for position in batches.positions if position > until and position not in accepted)
            anomalies += [batches.model_copy(update={"positions": left})] if left else []
        return decision.model_copy(update={"anomalies": tuple(anomalies)})

    def about_answers(self, decision: DecisionInfo) -> DecisionInfo:
        """A decision of now with what is said of the answers that it waits for, and of those that are missing."""
        if not decision.decided or not self.awaits_answers:
            return decision
        missing = self.unanswered if self.is_timed else {}
        changed = {"warnings": (*decision.warnings, missing_text(missing)) if missing else decision.warnings}
        if self.lacks_answers:
            awaited = self.awaited
            reason = f"{decision.reason}; {waiting_text(awaited, self.is_timed)}"
            changed |= {"decided": False, "awaited": awaited, "reason": reason}
        return decision.model_copy(update=changed)

    @property
    def would_stop(self) -> bool:
        """True if the stopping rule is on and satisfied now."""
        return self.stops and self.live_decision.decided

    @property
    def is_held(self) -> bool:
        """True while the stopping rule is satisfied, but answers are waited for that may change that. No pick is opened
        meanwhile, and nothing is decided."""
        return self.lacks_answers and self.would_stop and not self.has_ended

    @property
    def is_timed(self) -> bool:
        """True if scores go with the time that an answer takes: as declared, or as the batches of a generator show."""
        if self.config.asks.has_contexts:
            return False
        timings = (arm.estimate.timing for arm in self.rivals if arm.estimate is not None)
        return bool(self.config.metric.setting("timed")) or any(
            timing is not None and timing.is_related for timing in timings
        )

    @property
    def awaits_answers(self) -> bool:
        """True if a decision waits for the answers on their way: as scores go with their time, or for the goal."""
        return self.goal.awaits_answers or self.is_timed

    @property
    def lacks_answers(self) -> bool:
        """True if a decision made now would lack answers that have to be waited for."""
        return self.awaits_answers and (bool(self.awaited) or bool(self.unscored))

    @property
    def awaited(self) -> dict[str, int]:
        """The batches on their way that a decision waits for, by generator."""
        if self.pending is not None:
            return {name: count for name, count in self.pending.items() if count}
        return dict(Counter(pick.generator for pick, end in self._compared_picks() if end > self._now))

    @property
    def unscored(self) -> list[GeneratorState]:
        """The compared generators whose estimates lack a batch that was told for a pick."""
        compared = {arm.name for arm in self.rivals}
        return [
            generator
            for generator in self.contenders
            if generator.name in compared
            and generator.scored_until(self.stored.limited) < generator.answered
            and generator.primary.scoring_error is None
        ]

    @property
    def unanswered(self) -> dict[str, int]:
        """The picks without a batch that are no longer waited for, by generator."""
        ended = Counter({generator.name: generator.unanswered for generator in self.contenders})
        if self.pending is None:
            ended.update(pick.generator for pick, end in self._compared_picks() if end <= self._now)
        return {name: count for name, count in ended.items() if count}

    @property
    def awaits_until(self) -> float:
        """When the first of the open picks is no longer waited for, in Unix seconds; infinite where none is waited
        for."""
        ends = (end for _, end in self._compared_picks() if end > self._now) if self.is_held else ()
        return min(ends, default=math.inf)

    @property
    def _now(self) -> float:
        return time.time() if self.stored.read_at is None else self.stored.read_at

    def _compared_picks(self) -> Iterator[tuple[Pick, float]]:
        """The open picks of the generators that are compared, each with the time until which it is waited for."""
        timings = {arm.name: arm.estimate and arm.estimate.timing for arm in self.rivals}
        for pick, leased in self.open_picks:
            if pick.generator in timings:
                yield pick, waits_until(pick, leased, self.config.lease, timings[pick.generator])

    @property
    def is_decided(self) -> bool:
        """True if picks have ended because the answer is sure."""
        return self.stored.decision is not None

    @property
    def is_stopped(self) -> bool:
        """True if somebody stopped the experiment."""
        return "stopped" in self.stored.controls

    @property
    def budgets(self) -> list[BudgetLeft]:
        """The budgets of samples, of cost and of audits that it has."""
        audits = self.config.max_audits
        return [
            *([] if self.budget is None else [BudgetLeft(f"{self.budget:,} samples", self.budget - self.samples)]),
            *([] if self.cost_left is None else [BudgetLeft(f"{self.max_cost:,g} in cost", self.cost_left)]),
            *([] if audits is None else [BudgetLeft(f"{audits:,} audits", audits - max(self.audited, default=0))]),
        ]

    @property
    def is_spent(self) -> bool:
        """True if picks have ended because a budget is used up, or all prompts."""
        if any(budget.left <= 0 for budget in self.budgets):
            return True
        if self.experiment.end is None or self.open_picks or not self.is_scored:
            return False
        return all(map(self.has_answered, self.stored.active))

    @property
    def has_ended(self) -> bool:
        """True if no more picks are made."""
        return self.is_decided or self.is_spent or self.is_stopped

    @property
    def phase(self) -> State:
        """The experiment's phase in a word."""
        if self.is_decided:
            return "decided"
        if self.is_stopped:
            return "stopped"
        if self.is_spent:
            return "out of budget"
        return "running" if self.goal.has_begun(self.arms) else "warming up"


def _unequal(counts: Counter[int], other: Counter[int]) -> list[int]:
    return [g for g in counts.keys() | other.keys() if counts[g] != other[g]]


def _parsed(
    generators: Sequence[GeneratorState], changed: Sequence[GeneratorState], earlier: PolicyState | None
) -> dict[str, list[Estimate | None]]:
    # Most estimates of a state that is read anew are the same texts as before, and are not parsed again.
    before: Sequence[GeneratorState] = () if earlier is None else earlier.stored.generators
    more: list[Estimate | None] = [None] * (len(generators) - len(before))
    read = [*generators[0].units] if generators else []
    kept = {} if earlier is None else {label: earlier.estimates_by(label) for label in read}
    parsed: dict[str, list[Estimate | None]] = {
        label: [*kept.get(label, [None] * len(before)), *more] for label in read
    }
    for generator in changed:
        index = generator.ordinal
        units = before[index].units if index < len(before) else {}
        for label, unit in generator.units.items():
            if label not in units or label not in kept or units[label].estimate != unit.estimate:
                parsed[label][index] = codec.decode(Estimate, unit.estimate) if unit.estimate else None
    return parsed
