"""The parts of a report on estimates and batches: standings, contrasts, regret, pick ratio, anomalies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from optimist.anomalies.levels import Anomaly, Levels, anomalies, in_words
from optimist.estimates.estimate import finite
from optimist.policies.arms import Arm, rivals
from optimist.policies.audits import title_by_people
from optimist.policies.contrasts import described
from optimist.policies.stopping import FEWEST_SAMPLES, Stopping
from optimist_client.models import AnomalousBatches, AnswersChanged, Contrast, Regret, Standing
from optimist_client.models.standings import NOT_SCORED

if TYPE_CHECKING:
    from optimist.estimates.estimate import Estimate
    from optimist.records import GeneratorState
    from optimist_client.metrics import Metric


def found_among(arrays: Mapping[str, Sequence[Levels]], references: Mapping[str, float]) -> dict[str, list[Anomaly]]:
    """The anomalies by array. arrays: the levels of all generators by each; references: the levels of real rows."""
    anomalous = {array: anomalies(levels, references.get(array)) for array, levels in arrays.items()}
    return {array: those for array, those in anomalous.items() if those}


def finding(array: str, anomaly: Anomaly, arrays: int) -> str:
    """A text that says what is anomalous about one batch; the array is named where batches have several."""
    return _of_array(array, arrays) + in_words(anomaly.difference, anomaly.against)


def grouped(
    by_array: Mapping[str, Iterable[Anomaly]], names: Sequence[str], arrays: int
) -> tuple[AnomalousBatches, ...]:
    """The anomalies in groups of a generator that are alike. names: of the generators."""
    groups: dict[tuple[int, str, bool, bool], list[Anomaly]] = {}
    for array, those in by_array.items():
        for each in those:
            groups.setdefault((each.generator, array, each.is_general, each.difference > 0), []).append(each)
    return tuple(
        AnomalousBatches(
            generator=names[generator],
            positions=tuple(sorted(each.position for each in those)),
            whole=is_general,
            finding=_of_array(array, arrays) + in_words(median(each.difference for each in those), those[0].against),
        )
        for (generator, array, is_general, _), those in sorted(groups.items())
    )


def _of_array(array: str, arrays: int) -> str:
    return f"in {array!r} " if arrays > 1 else ""


def standing_of(
    arm: Arm,
    told: int,
    generator: GeneratorState | None = None,
    *,
    warnings: Sequence[str] = (),
    scoring_error: str | None = None,
    cost: float | None = None,
) -> Standing:
    """The standing of an arm after `told` batches that count, with what is stored of its generator, if anything.

    warnings: besides the estimate's own. scoring_error: the reason why the metric cannot score it. cost: of one sample;
    those that were retracted were paid for.
    """
    estimate = arm.estimate
    error = lower = upper = bracket = change = None
    if estimate is not None:
        bracket = estimate.bracket and (estimate.natural(estimate.bracket[0]), estimate.natural(estimate.bracket[1]))
        lower, upper = finite(estimate.natural(estimate.lower)), finite(estimate.natural(estimate.upper))
        if estimate.stopping_error is not None:
            # On the log scale an error is relative: d exp(v) = exp(v) dv.
            error = estimate.stopping_error * (estimate.score if estimate.scale == "log" else 1.0)
        if estimate.change is not None:
            change = AnswersChanged.model_validate(asdict(estimate.change) | {"pick": estimate.change.pick or None})
    said = [*(estimate.warnings if estimate else ()), *([] if change is None else [change.text]), *warnings]
    said += [f"{NOT_SCORED}{scoring_error}"] if scoring_error else []
    return Standing(
        generator=arm.name,
        state="active" if generator is None else generator.state,
        score=finite(estimate.score) if estimate else None,
        below_noise=estimate is not None and estimate.is_below_noise,
        unclipped=None if estimate is None else estimate.unclipped,
        standard_error=error,
        lower=lower,
        upper=upper,
        samples=arm.samples,
        batches=arm.batches,
        pick_ratio=arm.batches / told if told else 0.0,
        pending=arm.pending_samples,
        scored_samples=estimate.samples if estimate else 0,
        warnings=tuple(said),
        incomplete=bool(scoring_error or (generator is not None and generator.quarantined_count)),
        bracket=bracket,
        change=change,
        design_effect=None if estimate is None else estimate.shown_effect,
        cost_per_sample=cost,
        cost=None if cost is None else cost * (arm.samples + (0 if generator is None else generator.retracted)),
    )


def scores_and_intervals(estimates: Iterable[Estimate]) -> list[tuple[str, str]]:
    """The score and the interval of each estimate as texts, as standings have them."""
    return Standing.columns([standing_of(Arm("shown", each, each.samples), 0) for each in estimates])


def contrasts_from_best(arms: Sequence[Arm], stopping: Stopping, told: int, best: str | None) -> list[Contrast]:
    """The contrasts of the others with the best arm, among those with errors, with the stopping rule's intervals."""
    scored = [arm for arm in arms if arm.estimate is not None and arm.estimate.stopping_error is not None]
    reach = stopping.threshold(len(rivals(arms)), told)
    return described(scored, reach, best, fewest=FEWEST_SAMPLES) if scored else []


def metric_facts(metric: Metric, arms: Sequence[Arm]) -> dict[str, Any]:
    """The fields of a report on these arms that say which metric it is by."""
    return {
        "metric": metric.name,
        "title": title_by_people(metric, arms),
        "lower_is_better": metric.lower_is_better,
        "scale": metric.scale,
        "offers": sorted(metric.offers),
    }


def regret(arms: Sequence[Arm], best: str | None, told: int) -> Regret | None:
    """The regret of `told` batches against the best arm; None before every arm has a score."""
    scores = {arm.name: arm.estimate.score for arm in arms if arm.estimate is not None}
    if not told or best is None or best not in scores or len(scores) < len(arms):
        return None
    total = sum(arm.batches * abs(scores[arm.name] - scores[best]) for arm in arms)
    return Regret(total=total, average=total / told)


def even_cost(arms: Sequence[Arm], samples: int | None, costs: Mapping[str, float]) -> float | None:
    """Cost of that many samples in all, as many of each arm; None if an arm has no cost."""
    if samples is None or not all(arm.name in costs for arm in arms):
        return None
    return samples * sum(costs[arm.name] for arm in arms) / len(arms)
