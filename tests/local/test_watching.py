"""Watched metrics of an evaluation: estimates of their own, equal to those of an evaluation by that metric alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist import Evaluation
from optimist.estimates.estimate import Estimate
from optimist_client import NotFoundError
from optimist_client.metrics import (
    CMMD,
    FID,
    KEN,
    KID,
    RKE,
    ConditionalVendi,
    Coverage,
    InceptionScore,
    Mean,
    Metric,
    Precision,
    Vendi,
)

GAUSSIAN = {"name": "gaussian", "sigma": 2.0, "features": 15}
OPEN = {"name": "gaussian", "sigma": "median", "features": 15}
SECOND = (np.ones(3), 2.0 * np.eye(3))
METRICS: dict[str, Metric] = {
    "fid": FID(reference=(np.zeros(6), np.eye(6))),
    "is": InceptionScore(),
    "rke": RKE(kernel=GAUSSIAN),
    "vendi": Vendi(kernel=OPEN),
    "nystrom": Vendi(label="nystrom", kernel={"name": "nystrom", "sigma": "median", "features": 20}, order=3.0),
    "conditional-vendi": ConditionalVendi(kernel=GAUSSIAN, prompt_kernel=GAUSSIAN),
    "fid-second": FID(reads="second", reference=SECOND),
    "rke-second": RKE(reads="second", kernel=GAUSSIAN),
}
NAMES = ["a", "b", "c"]


def arrays(generator: int, start: int, rows: int) -> dict[str, NDArray[Any]]:
    """Rows of the indices from `start` on, whose seeds all generators share."""
    common = np.stack([np.random.default_rng(index).standard_normal(20) for index in range(start, start + rows)])
    weights = np.exp(common[:, 6:17] * (1 + generator / 10))
    return {
        "features": common[:, :6] * (1 + generator / 5),
        "probabilities": weights / weights.sum(axis=1, keepdims=True),
        "prompts": common[:, 17:20],
        "second": common[:, 3:6] + generator / 3,
    }


def read_by(metric: Metric, batch: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: batch[name] for name in (*metric.array_names.values(), "ids") if name in batch}


def alone(metric: Metric, growth: float, **settings: Any) -> Evaluation:
    return Evaluation(NAMES, metric=metric, rescore_growth=growth, **settings)


def batches(count: int = 45) -> list[tuple[str, dict[str, NDArray[Any]], int | None]]:
    """Batches of 1 to 13 rows, with their starts; every tenth has no indices, every seventh ids."""
    ends, found = dict.fromkeys(NAMES, 0), []
    for number in range(count):
        name, rows = NAMES[number % 3], 1 + (7 * number) % 13
        batch: dict[str, Any] = arrays(NAMES.index(name), ends[name], rows)
        if number % 7 == 0:
            batch["ids"] = [f"{number}/{row}" for row in range(rows)]
        found.append((name, batch, None if number % 10 == 9 else ends[name]))
        ends[name] += 0 if number % 10 == 9 else rows
    return found


@pytest.mark.long
@pytest.mark.parametrize(("primary", "growth"), [("fid", 0.0), ("vendi", 0.04), ("conditional-vendi", 0.3)])
def test_each_equals_an_evaluation_by_it_alone_to_the_last_bit(primary: str, growth: float):
    metrics = {label: metric for label, metric in METRICS.items() if label != primary}
    together = alone(METRICS[primary], growth, watch=list(metrics.values()))
    single = {label: alone(metric, growth) for label, metric in METRICS.items()}
    for name, batch, start in batches():
        together.tell(name, batch, start=start)
        for label, evaluation in single.items():
            evaluation.tell(name, read_by(METRICS[label], batch), start=start)
            assert together.estimates(label)[name] == evaluation.estimates()[name], label
        # Asks, which depend on the one that decides.
        assert together.ask() == single[primary].ask()
    assert list(together.watched) == list(metrics)
    assert together.watched["is"] == together.estimates("is")
    for label, evaluation in single.items():
        assert all(evaluation.estimates().values()), label
        assert together.estimates(label) == evaluation.estimates()
        assert together.contrast("a", "b", metric=label) == evaluation.contrast("a", "b")
    assert together.contrast("b", "c") == single[primary].contrast("b", "c")
    for label in ("rke-second", "conditional-vendi", "vendi"):
        assert together.modes("b", metric=label) == single[label].modes("b")
    groups = together.prompt_groups("a", metric="conditional-vendi")
    assert groups == single["conditional-vendi"].prompt_groups("a")


@pytest.mark.long
def test_metrics_of_rows_moments_and_numbers_do_so_too():
    real = np.random.default_rng(5).standard_normal((40, 3))
    watch = [
        KID(reads="second", reference=real),
        CMMD(reads="second", reference=real),
        Precision(reads="second", reference=real),
        Coverage(reads="second", reference=real),
        KEN(reads="second", reference=real, kernel=GAUSSIAN),
        Mean(reads="score", higher_is_better=True),
    ]
    together = alone(METRICS["fid"], 0.1, watch=watch)
    single = {metric.shown_label: (metric, alone(metric, 0.1)) for metric in watch if metric.decides}
    for name, batch, start in batches(30):
        given = {**batch, "score": batch["features"][:, :1]}
        together.tell(name, {array: given[array] for array in ("features", "second", "score")}, start=start)
        for metric, evaluation in single.values():
            evaluation.tell(name, {array: given[array] for array in metric.array_names.values()}, start=start)
    for label, (_, evaluation) in single.items():
        assert together.estimates(label) == evaluation.estimates(), label
    assert all(estimates["c"] is not None for estimates in together.watched.values())


def test_the_picks_and_the_decision_are_those_of_the_metric_that_decides():
    found = []
    for watch in ([], [RKE(kernel=GAUSSIAN), FID(reads="second", reference=SECOND)]):
        evaluation = Evaluation(NAMES, metric=METRICS["fid"], watch=watch, policy="top-two", seed=3)
        picks = []
        while not evaluation.decision().decided:
            picks.append(name := evaluation.ask())
            batch = arrays(NAMES.index(name), evaluation.next_start(name), 5)
            evaluation.tell(name, {"features": batch["features"], **({"second": batch["second"]} if watch else {})})
        found.append((picks, evaluation.decision(), evaluation.estimates()))
    assert found[0] == found[1]


def test_a_refused_batch_changes_nothing_of_any_metric():
    evaluation = alone(METRICS["fid"], 0.0, watch=[METRICS["rke-second"], METRICS["is"]])
    good = {name: arrays(0, 0, 5)[name] for name in ("features", "second", "probabilities")}
    evaluation.tell("a", good)
    before = {None: evaluation.estimates(), **evaluation.watched}
    bad = {
        "second: expected shape": {**good, "second": np.ones((5, 4))},
        "found features, second": {name: good[name] for name in ("features", "second")},
        "as many rows": {**good, "second": good["second"][:4]},
        "finite": {**good, "second": np.full((5, 3), np.nan)},
        "sum to 1": {**good, "probabilities": 2 * good["probabilities"]},
        "features, second, probabilities; found": {**good, "other": good["second"]},
    }
    for message, batch in bad.items():
        with pytest.raises(ValueError, match=message):
            evaluation.tell("a", batch)
    assert {None: evaluation.estimates(), **evaluation.watched} == before
    assert evaluation.told == 1
    assert evaluation.next_start("a") == 5


def test_a_batch_that_no_bound_can_begin_with_is_refused_for_all_metrics():
    evaluation = Evaluation(["a"], metric=METRICS["is"], watch=[Vendi(kernel={"name": "cosine"}, truncation=5)])
    batch = {"features": np.random.default_rng(0).standard_normal((256, 2)), "probabilities": np.full((256, 2), 0.5)}
    with pytest.raises(ValueError, match="truncation must lie between 1 and the 2 features"):
        evaluation.tell("a", batch)
    assert (evaluation.told, evaluation.estimates()) == (0, {"a": None})
    evaluation.tell("a", {**batch, "features": np.random.default_rng(0).standard_normal((256, 6))})
    assert evaluation.told == 1


def test_classes_under_another_name_are_checked_as_classes():
    evaluation = Evaluation(["a"], metric=InceptionScore(reads="classes"))
    with pytest.raises(ValueError, match="sum to 1"):
        evaluation.tell("a", {"classes": np.ones((3, 2))})
    evaluation.tell("a", {"classes": np.full((3, 2), 0.5)})
    assert evaluation.estimates()["a"] is not None


def test_what_metrics_cannot_share_is_refused():
    with pytest.raises(ValueError, match="label of its own for each metric; fid is given twice"):
        Evaluation(["a"], metric=METRICS["fid"], watch=[METRICS["fid"]])
    with pytest.raises(ValueError, match="features: one metric expects 6 columns, 'other' 3"):
        Evaluation(["a"], metric=METRICS["fid"], watch=[FID(label="other", reference=SECOND)])
    evaluation = Evaluation(["a"], metric=METRICS["fid"], watch=[METRICS["rke"]])
    for call in (evaluation.estimates, lambda label: evaluation.modes("a", metric=label)):
        with pytest.raises(NotFoundError, match="unknown metric 'is'; expected one of fid, rke"):
            call("is")


def test_an_estimate_that_fails_leaves_those_of_the_other_metrics(monkeypatch: pytest.MonkeyPatch):
    evaluation = alone(METRICS["fid"], 0.0, watch=[METRICS["rke"], METRICS["fid-second"]])
    batch = {name: arrays(0, 0, 5)[name] for name in ("features", "second")}
    evaluation.tell("a", batch)

    def failing() -> Estimate:
        raise ArithmeticError("not finite")

    monkeypatch.setattr(evaluation._metrics["rke"].estimator("a"), "estimate", failing)
    with pytest.raises(ArithmeticError, match="not finite") as found:
        evaluation.tell("a", batch)
    assert found.value.__notes__ == ["in the estimate by 'rke'"]
    samples = {label: estimates["a"].samples for label, estimates in evaluation.watched.items() if estimates["a"]}
    assert samples == {"rke": 5, "fid-second": 10}
    assert evaluation.estimates()["a"].samples == 10
