"""What the SDK and `optimist` answer, in the words of a record: the one place to change when their fields change names.

A record is compared with one that another version wrote by its own copy of this file. So the words here do not change
with those of the SDK, and texts for people (reasons, warnings) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Fields = dict[str, Any]
Step = tuple[str, Fields]
"""What happened, such as "pick 7", and what was said of it, exactly."""
BEST = ("named", "estimates", "regret", "optimal_pick_ratio", "accuracy")
MIXTURE = ("marks", "weights", "drawn_excess", "named_excess", "drawn_share", "named_share", "gain_holds", "gains")
"""What is recorded of the trials of a simulation, by its goal."""


def exact(value: Any) -> Any:
    """A value as JSON can hold it to the last bit: floats in hexadecimal digits."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, Mapping):
        return {f"{name}": exact(one) for name, one in value.items()}
    if isinstance(value, Sequence | np.ndarray):
        return [exact(one) for one in value]
    raise TypeError(f"no record of {type(value)}")


def estimate(found: Any) -> Fields:
    """An `Estimate` of an evaluation; {} for None."""
    if found is None:
        return {}
    return {
        "samples": found.samples,
        "value": found.value,
        "plug-in": found.plug_in,
        "error to choose by": found.standard_error,
        "error to stop by": found.stopping_error,
        "lower": found.lower,
        "upper": found.upper,
        "optimistic": found.optimistic,
        "bracket": found.bracket,
    }


def decision(found: Any) -> Fields:
    """A decision of an evaluation, or of a report."""
    closest = found.hardest
    return {
        "best": found.best,
        "confidence": found.confidence,
        "decided": found.decided,
        "verdicts": {one.generator: one.verdict for one in found.verdicts},
        "closest": closest
        and {
            "generator": closest.generator,
            "difference": closest.difference,
            "error": closest.standard_error,
            "tolerance": closest.tolerance,
            "needed": closest.needed,
            "more samples": closest.more_samples,
        },
        "weights": dict(getattr(found, "weights", None) or {}),
    }


def contrast(found: Any) -> Fields:
    """How far a generator is behind another one."""
    return {
        "generator": found.generator,
        "against": found.against,
        "difference": found.difference,
        "error": found.standard_error,
        "correlation": found.correlation,
        "common": found.common,
    }


def standing(row: Any) -> Fields:
    """A row of a report."""
    return {
        "score": row.score,
        "error": row.standard_error,
        "lower": row.lower,
        "upper": row.upper,
        "bracket": row.bracket,
        "samples": row.samples,
        "batches": row.batches,
        "scored samples": row.scored_samples,
        "pending samples": row.pending,
        "pick ratio": row.pick_ratio,
        "cost": row.cost,
        "state": row.state,
    }


def mixture(found: Any) -> Fields:
    """The best mixture, without the log positions that it was made of."""
    return {
        "weights": {one.generator: one.weight for one in found.weights},
        "contributions": {one.generator: one.contribution for one in found.weights},
        "samples": {one.generator: one.samples for one in found.weights},
        "score": found.score,
        "error": found.standard_error,
        "lower": found.lower,
        "upper": found.upper,
        "best": found.best,
        "best score": found.best_score,
        "gain": found.gain,
        "gain's error": found.gain_standard_error,
        "confidence": found.confidence,
        "gap": found.gap,
        "gap's bound": found.gap_bound,
    }


def route_table(found: Any) -> Fields:
    """Which generator wins which prompts, and what routing gains."""
    savings = found.savings
    return {
        "best": found.best,
        "best score": found.best_score,
        "score": found.score,
        "gain": found.gain,
        "gain's error": found.standard_error,
        "basis": found.basis,
        "prompts": found.prompts,
        "routed": {one.generator: [one.samples, one.traffic, one.routed] for one in found.shares},
        "savings": savings
        and [savings.cost, savings.single_cost, savings.dearest_cost, savings.saved, savings.saved_dearest],
        "types": [
            {
                "share": kind.share,
                "examples": kind.examples,
                "winner": kind.winner,
                "lead": [kind.lead, kind.lead_standard_error],
                "gain": [kind.gain, kind.gain_standard_error],
                "scores": {one.generator: [one.score, one.standard_error, one.traffic] for one in kind.scores},
            }
            for kind in found.types
        ],
    }


def modes(found: Sequence[Any]) -> Fields:
    """The modes of a generator, each with the samples that show it best."""
    shown = {"shares": [mode.share for mode in found]}
    return shown | {"samples": [[(one.id, one.weight) for one in mode.samples] for mode in found]}


def pick(found: Any) -> Fields:
    """A pick of a service."""
    return {
        "generator": found.generator,
        "size": found.size,
        "start": found.info.start,
        "seed": found.seed,
        "prompts": found.prompts,
        "prompt places": found.info.prompt_indices,
        "positions of estimates": found.info.positions,
        "batches": found.info.batches,
        "pending samples": found.info.pending_samples,
        "pending batches": found.info.pending_batches,
        "excluded": found.info.excluded,
        "costs": found.info.costs,
        "probability": found.info.probability,
        "told": found.info.told,
    }


def told(reply: Any) -> Fields:
    """What a service answered to a tell."""
    return {"generator": reply.generator, "samples": reply.samples, "position": reply.position, "late": reply.late}


def is_settled(found: Any) -> bool:
    """Whether nothing more is to be waited for in a report: every estimate that is due has been made."""
    return found.scored and all(one.is_settled for one in found.watched.values())


def report(found: Any, *, place: str) -> list[Step]:
    """The steps of a report, whose names end with its `place`; not of its route table, which has its own time."""
    totals: Fields = {
        "state": found.state,
        "samples": found.samples,
        "batches": found.rounds,
        "cost": found.cost,
        "cost at the decision": found.decision_cost,
        "samples of uniform sampling": found.uniform_samples,
        "cost of uniform sampling": found.uniform_cost,
        "regret": found.regret and [found.regret.total, found.regret.average],
        "best pick ratio": found.optimal_pick_ratio,
        "retracted": [[one.generator, one.position, one.pick, one.samples] for one in found.retractions],
    }
    steps = [(f"standing of {row.generator} {place}", standing(row)) for row in found.standings]
    steps += [(f"contrast of {one.generator} {place}", contrast(one)) for one in found.contrasts]
    for label, watched in found.watched.items():
        steps += [(f"standing of {row.generator} by {label} {place}", standing(row)) for row in watched.standings]
        steps += [(f"contrast of {one.generator} by {label} {place}", contrast(one)) for one in watched.contrasts]
        sure = {"best": watched.best, "confidence": watched.confidence, "sure": watched.sure}
        steps.append((f"answer by {label} {place}", sure))
    if found.mixture is not None:
        steps.append((f"mixture {place}", mixture(found.mixture)))
    return [*steps, (f"decision {place}", decision(found.decision)), (f"totals {place}", totals)]


def simulation(found: Any) -> Iterator[Step]:
    """The result of a simulation with the goal "best" or "mixture"."""
    for policy, run in found.runs.items():
        yield (
            f"trials of {policy}",
            {"picks": run.picks, "samples": run.samples, "decided": run.decided.tolist(), "exhausted": run.exhausted},
        )
        known = {**run.arrays, **run.curves, "marks": run.marks, "gains": run.totals.get("gain", [])}
        yield f"curves of {policy}", {name: known[name] for name in (BEST if "regret" in known else MIXTURE)}
    for label, one in found.watched.items():
        for policy, run in one.runs.items():
            yield f"regret of {policy} by {label}", {"regret": run["regret"], "accuracy": run["accuracy"]}
    for summary in found.summaries:
        yield f"summary of {summary['policy']}", {name: summary[name] for name in sorted(summary)}


def routing(found: Any) -> Iterator[Step]:
    """What routing policies get."""
    known, plan = found.judge.document(), found.plan
    yield (
        "prompts",
        {
            "prompts": plan.rounds,
            "best": known["best"],
            "ideal": known["ideal"],
            "single cost": known["single_cost"],
            "dearest cost": known["dearest_cost"],
            "mixture": known["mixture"],
        },
    )
    for row in found.summaries:
        drawn = found[row["policy"]].samples.sum(axis=0)
        yield (
            f"summary of {row['policy']}",
            {
                "mean": row["mean"],
                "error": row["mean_se"],
                "share of ideal": row["share_of_ideal"],
                "picks": dict(zip(found.generators, (drawn / drawn.sum()).tolist(), strict=True)),
                "cost": row.get("cost"),
                "saved": row.get("saved"),
                "saved of the dearest": row.get("saved_dearest"),
            },
        )
