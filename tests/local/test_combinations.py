"""Every combination of metric, bound and policy is accepted, or refused with the reason; every metric × bound runs."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation, score

REFERENCE = (np.zeros(3), np.eye(3))
KERNEL = {"name": "gaussian", "sigma": 1.5, "features": 16}
METRICS = {
    "fid": {"reference": REFERENCE},
    "is": {},
    "rke": {"kernel": KERNEL},
    "vendi": {"kernel": KERNEL},
    "vendi of order 3": {"kernel": KERNEL, "order": 3.0},
    "vendi of order inf": {"kernel": KERNEL, "order": float("inf")},
    "vendi of order 0.5": {"kernel": KERNEL, "order": 0.5},
    "truncated vendi": {"kernel": KERNEL, "truncation": 4},
    "cosine vendi": {"kernel": {"name": "cosine"}},
    "median vendi": {"kernel": {"sigma": "median", "features": 16}},
    "nystrom vendi": {"kernel": {"name": "nystrom", "sigma": 1.5, "features": 8}},
    "conditional-vendi": {"kernel": KERNEL, "prompt_kernel": {"sigma": 1.0}},
    "conditional-vendi of order 2": {"kernel": KERNEL, "prompt_kernel": {"sigma": 1.0}, "order": 2.0},
    "information-vendi": {"kernel": KERNEL, "prompt_kernel": {"sigma": 1.0}},
    "information-vendi of order 3": {"kernel": KERNEL, "prompt_kernel": {"sigma": 1.0}, "order": 3.0},
}
BOUNDS = {
    "fid": {"influence", "theorem", "authors", "naive"},
    "is": {"influence", "theorem", "naive"},
    "conditional-vendi": {"influence"},
    "information-vendi": {"influence"},
}
POLICIES = ("ucb", "top-two", "thompson", "greedy", "uniform")


def metric_of(kind: str) -> str:
    pairs = kind.split()[0]
    return pairs if pairs.endswith("-vendi") else "vendi" if "vendi" in kind else kind


def batch_of(kind: str, rows: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
    return {"features": rows, "prompts": rows[:, :2]} if metric_of(kind).endswith("-vendi") else rows


def draw(kind: str, size: int, rng: np.random.Generator) -> np.ndarray | dict[str, np.ndarray]:
    return batch_of(kind, rng.dirichlet(np.ones(3), size) if kind == "is" else rng.standard_normal((size, 3)))


def reason_against(kind: str, bound: str, policy: str) -> str | None:
    """A word of the reason why this combination cannot be, None if it can."""
    if bound not in BOUNDS.get(metric_of(kind), {"influence", "theorem"}):
        return bound
    if kind == "vendi of order 0.5" and bound == "theorem":
        return "order"
    if policy in ("top-two", "thompson") and bound != "influence":
        return "standard errors"
    return None


def start(kind: str, bound: str, policy: str) -> Evaluation:
    return Evaluation(["a", "b"], metric=metric_of(kind), bound=bound, policy=policy, **METRICS[kind])


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("bound", ["influence", "theorem", "authors", "naive"])
def test_every_policy_is_accepted_or_refused_with_the_reason(kind: str, bound: str):
    for policy in POLICIES:
        reason = reason_against(kind, bound, policy)
        if reason is None:
            assert start(kind, bound, policy).ask() in ("a", "b")
        else:
            with pytest.raises(ValueError, match=reason):
                start(kind, bound, policy)


ACCEPTED = [
    (kind, bound)
    for kind in METRICS
    for bound in ("influence", "theorem", "authors", "naive")
    if reason_against(kind, bound, "ucb") is None
]


@pytest.mark.parametrize(
    ("kind", "bound", "policy"),
    [
        *((kind, bound, "ucb") for kind, bound in ACCEPTED),
        *(("fid", "influence", policy) for policy in POLICIES if policy != "ucb"),
        *(("fid", "theorem", policy) for policy in ("greedy", "uniform")),
    ],
)
def test_what_is_accepted_runs(kind: str, bound: str, policy: str):
    """Every metric × bound under one policy, and every policy: a policy sees estimates only, whatever the metric."""
    evaluation, rng = start(kind, bound, policy), np.random.default_rng(0)
    for _ in range(60 if kind == "median vendi" else 14):
        evaluation.tell(evaluation.ask(), draw(kind, 5, rng))
    estimates = evaluation.estimates()
    assert all(estimate is not None and estimate.is_sound() for estimate in estimates.values())
    decision = evaluation.decision()
    assert decision.best in ("a", "b")
    assert (decision.confidence is not None) == (bound == "influence")
    if bound != "influence":
        assert not decision.decided
        assert "budget" in decision.reason


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("degenerate", ["one", "identical"])
def test_degenerate_samples_never_yield_nan(kind: str, degenerate: str):
    row = np.full((1, 3), 1 / 3)
    batch = batch_of(kind, row if degenerate == "one" else np.repeat(row, 40, axis=0))
    for bound in BOUNDS.get(metric_of(kind), {"influence", "theorem"}):
        if reason_against(kind, bound, "ucb") is None:
            estimate = score(batch, metric_of(kind), bound=bound, **METRICS[kind])
            assert estimate.is_sound()
            assert np.isfinite(estimate.score)


@pytest.mark.parametrize(
    ("preset", "metric", "bound"),
    [
        ("fid-ucb", "fid", "theorem"),
        ("fd-ucb", "fid", "authors"),
        ("naive-ucb", "fid", "naive"),
        ("is-ucb", "is", "theorem"),
        ("naive-ucb", "is", "naive"),
        ("rke-ucb", "rke", "theorem"),
        ("vendi-ucb", "vendi", "theorem"),
    ],
)
def test_presets_are_the_papers_algorithms(preset: str, metric: str, bound: str):
    options = {**METRICS[metric], "seed": 4}
    by_name = Evaluation(["a", "b", "c"], metric=metric, policy=preset, **options)
    spelled = Evaluation(
        ["a", "b", "c"], metric=metric, policy="ucb", bound=bound, warmup=1, rescore_growth=0.0, **options
    )
    rng = np.random.default_rng(1)
    for _ in range(15):
        picked = by_name.ask()
        assert picked == spelled.ask()
        batch = draw(metric, 5, rng)
        by_name.tell(picked, batch)
        spelled.tell(picked, batch)
    assert by_name.estimates() == spelled.estimates()


def test_presets_of_another_metric_are_refused():
    with pytest.raises(ValueError, match="naive"):
        Evaluation(["a"], metric="rke", policy="naive-ucb", kernel=KERNEL)
