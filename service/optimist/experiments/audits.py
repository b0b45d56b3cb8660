"""Which audits somebody gets, and how many more a decision takes. No I/O."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from optimist.estimates.audited import AUDITABLE
from optimist.experiments.decision import explained_decision
from optimist.experiments.slices import prompt_order
from optimist.experiments.state import PolicyState
from optimist.policies.audits import audit_keys, new_audits
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist.records import Audit, AuditsState, WantedAudit
from optimist_client.errors import FixError
from optimist_client.metrics.mean import OfValues
from optimist_client.models import Experiment

Intervals = Sequence[tuple[int, int]]


def check_audited(experiment: Experiment) -> None:
    """Raise FixError where people audit no judge."""
    if not experiment.config.metric.is_audited:
        raise FixError("audits: expected an experiment by a metric with a proxy, a judge that people audit")


def scale_of(experiment: Experiment) -> tuple[float, float] | None:
    """The least and the largest score that people may give; None: any number."""
    metric = experiment.config.metric
    return metric.answers_between if isinstance(metric, OfValues) else None


def audit_id(experiment: Experiment, index: int) -> str:
    """The id of the audit of the samples at an index."""
    return hashlib.sha256(f"audit {experiment.config.seed} {index}".encode()).hexdigest()[:16]


def questioned(state: PolicyState) -> list[int]:
    """The ordinals of the generators that are in question, which audits ask for together."""
    names = {arm.name for arm in state.rivals}
    return [generator.ordinal for generator in state.contenders if generator.name in names]


def wanted_audits(
    state: PolicyState,
    audits: AuditsState,
    told: Sequence[Intervals],
    rater: str,
    count: int,
    *,
    shown: Collection[int] | None = None,
) -> list[WantedAudit]:
    """Audits that somebody may get: first their own, then audits that others had, then up to `count` new ones.

    told: the indices that were told of each of the `questioned`, in their order. shown: for a blind rater, the indices
    of samples that can be shown; generators are in an order of their own for each audit and rater.
    """
    experiment, places = state.experiment, questioned(state)
    held: defaultdict[str, set[str]] = defaultdict(set)
    for lease in audits.leases:
        held[lease.audit].add(lease.rater)
    is_open = _common(told, min((intervals[-1][1] if intervals else 0 for intervals in told), default=0))
    if shown is not None:
        is_open &= np.isin(np.arange(len(is_open)), list(shown))
    is_there = is_open.copy()
    own, begun = list[Audit](), list[Audit]()
    keys = audit_keys(experiment.config.seed, len(is_open))
    there = (one for one in audits.audits.values() if one.index < len(is_open) and is_open[one.index])
    for one in sorted(there, key=lambda one: keys[one.index]):
        is_open[one.index] = False
        answered = {*one.raters_of(places)}
        if rater in held[one.id] - answered:
            own.append(one)
        elif rater not in answered and len(answered | held[one.id]) < _raters(experiment, one.id):
            begun.append(one)
    means = [one.audited for one in map(state.estimates.__getitem__, places) if one is not None and one.audited]
    # Generators are compared by the same audits: where one has no estimate yet, nothing is known of differences.
    means = means if len(means) == len(places) else []
    new = new_audits(experiment.config.seed, is_there, is_open, means, len(audits.audits), count)
    known = ((one.index, one.weight) for one in (*own, *begun))
    return [_wanted(experiment, *one, rater, places, shown is not None) for one in (*known, *new)]


def _wanted(
    experiment: Experiment, index: int, weight: float, rater: str, places: Sequence[int], is_blind: bool
) -> WantedAudit:
    id_ = audit_id(experiment, index)
    shown = _shuffled(experiment, id_, rater, places) if is_blind else places
    return WantedAudit(id_, index, weight, _raters(experiment, id_), shown)


def _raters(experiment: Experiment, id_: str) -> int:
    """Number of raters who are to answer an audit: two of the share `audit_overlap`."""
    return 2 if int(id_, 16) < experiment.config.audit_overlap * 2**64 else 1


def _common(told: Sequence[Intervals], end: int) -> NDArray[np.bool_]:
    """True where all have the sample of an index (rows,)."""
    rows = min(end, AUDITABLE)
    counts = np.zeros(rows + 1, np.int64)
    for intervals in told:
        for start, stop in intervals:
            if start < rows:
                counts[start] += 1
                counts[min(stop, rows)] -= 1
    return counts[:rows].cumsum() == len(told)


def _shuffled(experiment: Experiment, id_: str, rater: str, places: Sequence[int]) -> list[int]:
    """The order in which a rater sees the samples of an audit. The instance is in it, which no rater knows."""
    digest = hashlib.sha256(f"{experiment.config.seed} {experiment.instance} {id_} {rater}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest)).permutation(places).tolist()


def prompt_of(experiment: Experiment, index: int) -> str | None:
    """The prompt of the samples at an index; None where the experiment knows none."""
    config = experiment.config
    if config.prompts is None:
        return None
    are_known = any(config.known_prompts(metric) for metric in config.metrics.values())
    is_list = are_known and config.prompts_are == "list"
    return config.prompts[prompt_order(len(config.prompts), config.seed, index, 1, passes=is_list)[0]]


def is_done(state: PolicyState, audits: AuditsState) -> bool:
    """True if nobody is asked any more: it is decided, or stopped, or its budget of audits is used up."""
    most = state.config.max_audits
    return state.is_decided or state.is_stopped or (most is not None and audits.answered >= most)


def audits_left(state: PolicyState, audits: AuditsState, rater: str, count: int) -> int:
    """Number of audits, of so many, that a rater may have, beside what others have of the budget."""
    most = state.config.max_audits
    if is_done(state, audits):
        return 0
    of_others = {lease.audit for lease in audits.leases if lease.rater != rater}
    return count if most is None else max(min(count, most - audits.answered - len(of_others)), 0)


def more_audits(state: PolicyState, audits: AuditsState) -> int:
    """About how many more audits have to be answered for a decision, or until the budget is used up."""
    if is_done(state, audits):
        return 0
    hardest, answered = explained_decision(state).hardest, audits.answered
    if hardest is None or hardest.more_audits is None:
        more = max(FEWEST_SAMPLES - answered, 0)
    else:
        more = round(sum(hardest.more_audits) / 2)
    return more if state.config.max_audits is None else min(more, state.config.max_audits - answered)
