"""Kernels fixed by samples, scores of pairs and modes, in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist import Evaluation, score
from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator, first_rows
from optimist.experiments.slices import prompt_order
from optimist.metrics.vendi.kernels import KernelSettings, fit_kernel
from optimist.references.open_kernels import rows_to_fit
from optimist_client import NotFoundError

MEDIAN = {"sigma": "median", "features": 64}


def rows(seed: int, size: int = 300, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal((size, 3))


def test_the_median_bandwidth_is_the_median_distance():
    x = rows(0)
    sigma = float(np.median(torch.pdist(torch.from_numpy(x)).numpy()))
    assert fit_kernel(MEDIAN, torch.from_numpy(x)).sigma == sigma
    by_name, by_number = score(x, "rke", kernel=MEDIAN), score(x, "rke", kernel={**MEDIAN, "sigma": sigma})
    assert by_name == by_number
    exact = score(x, "vendi", kernel={"sigma": "median", "features": "exact"})
    assert exact.value == score(x, "vendi", kernel={"sigma": sigma, "features": "exact"}).value


def test_the_median_of_an_even_number_of_distances_lies_between_the_middle_two():
    assert fit_kernel(MEDIAN, torch.tensor([[0.0], [1.0], [3.0], [7.0]])).sigma == np.median([1, 2, 3, 4, 6, 7])


def test_a_score_does_not_depend_on_the_scale_under_the_median_bandwidth():
    assert score(rows(0, scale=1e6), "vendi", kernel=MEDIAN).value == pytest.approx(
        score(rows(0), "vendi", kernel=MEDIAN).value, rel=1e-9
    )


def test_samples_that_are_all_the_same_have_a_bandwidth():
    assert fit_kernel(MEDIAN, torch.zeros(5, 2)).sigma == 1.0
    assert fit_kernel(MEDIAN, torch.zeros(1, 2)).sigma == 1.0
    assert score(np.zeros((5, 2)), "vendi", kernel=MEDIAN).score == pytest.approx(1.0)


def test_nystrom_takes_the_first_rows_as_landmarks():
    x = rows(1)
    kernel = {"name": "nystrom", "sigma": 1.5, "features": 50}
    by_rows = score(x, "vendi", kernel={"name": "nystrom", "sigma": 1.5, "landmarks": x[:50]})
    assert score(x, "vendi", kernel=kernel).value == pytest.approx(by_rows.value, rel=1e-12)


@pytest.mark.parametrize(
    ("kernels", "generators", "expected"),
    [
        ([], 3, 0),
        ([{"sigma": 1.0}, {"name": "cosine"}], 3, 0),
        ([MEDIAN], 4, 64),
        ([MEDIAN], 1000, 2),
        ([{"name": "nystrom", "sigma": 1.0, "features": 500}], 3, 167),
        ([{"name": "nystrom", "sigma": "median", "features": 10}, {"sigma": 2.0}], 2, 128),
    ],
)
def test_how_many_samples_fix_a_kernel(kernels: list[dict], generators: int, expected: int):
    assert rows_to_fit(map(KernelSettings.from_kernel, kernels), generators) == expected


def test_an_evaluation_fixes_its_kernel_once_by_the_first_samples_of_all():
    def play(order: list[str]) -> Evaluation:
        evaluation = Evaluation(["a", "b"], metric="vendi", kernel=MEDIAN, batch_size=100, rescore_growth=0.0)
        told = dict.fromkeys(order, 0)
        for name in order:
            told[name] += 1
            evaluation.tell(name, rows(10 * told[name] + (name == "b"), 100, 1.0 if name == "a" else 3.0))
        return evaluation

    assert all(estimate is None for estimate in play(["a", "a", "b"]).estimates().values())
    one, other = play(["a", "a", "b", "b"]), play(["b", "b", "a", "a"])
    assert one.estimates() == other.estimates()
    assert one.estimates()["a"] is not None


@pytest.mark.parametrize(("sigma", "features"), [("median", 50), (1.0, 50), (1.0, 3), ("median", 400)])
def test_any_part_of_the_first_rows_has_as_many_of_every_generator(sigma: float | str, features: int):
    """Landmarks that were one generator's alone would score the others too low."""
    kernel = {"name": "nystrom", "sigma": sigma, "features": features}
    count = rows_to_fit([KernelSettings.from_kernel(kernel)], 4)
    logs = [
        [{"features": torch.full((size, 1), float(name)) + torch.rand(size, 1)} for size in (7, count)]
        for name in range(4)
    ]
    fixed = fit_kernel(kernel, *first_rows(logs, count)["features"])
    of_each = np.bincount(fixed.landmarks[:, 0].astype(int), minlength=4)
    assert of_each.sum() == features
    assert of_each.max() - of_each.min() <= 1


def test_warm_up_lasts_until_the_kernel_is_fixed():
    evaluation = Evaluation(["a", "b"], metric="rke", kernel=MEDIAN, batch_size=32)
    rng = np.random.default_rng(0)
    asked = []
    for _ in range(8):
        asked.append(evaluation.ask())
        assert evaluation.ask() == asked[-1]
        evaluation.tell(asked[-1], rng.standard_normal((32, 2)))
    assert asked == ["a", "b"] * 4
    assert all(estimate is not None for estimate in evaluation.estimates().values())


def pairs(seed: int, size: int = 200) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Kinds that are equally common would share their eigenvectors.
    kinds = rng.choice(4, size=size, p=[0.5, 0.25, 0.15, 0.1])
    return {"features": 5.0 * np.eye(4)[kinds] + rng.standard_normal((size, 4)), "prompts": np.eye(4)[kinds]}


PAIRS = {"kernel": {"sigma": 2.0, "features": 128}, "prompt_kernel": {"sigma": 0.5}}


def test_scores_of_pairs_multiply_to_the_score_of_the_samples():
    conditional, information = (score(pairs(0), f"{kind}-vendi", **PAIRS) for kind in ("conditional", "information"))
    vendi = score(pairs(0)["features"], "vendi", kernel=PAIRS["kernel"])
    assert conditional.plug_in + information.plug_in == pytest.approx(vendi.plug_in, rel=1e-9)
    entropy = -np.dot([0.5, 0.25, 0.15, 0.1], np.log([0.5, 0.25, 0.15, 0.1]))
    assert information.value == pytest.approx(entropy, abs=0.15)


def test_exact_scores_of_pairs_are_near_those_of_many_features():
    for metric in ("conditional-vendi", "information-vendi"):
        one, other = (
            score(pairs(0), metric, **{**PAIRS, "kernel": {"sigma": 2.0, "features": features}})
            for features in ("exact", 3000)
        )
        assert np.exp(one.plug_in) == pytest.approx(np.exp(other.plug_in), rel=0.05)
        assert one.stopping_error == pytest.approx(other.stopping_error, rel=0.2)


def test_evaluations_show_modes_and_groups_of_prompts():
    evaluation = Evaluation(["a", "b"], metric="conditional-vendi", **PAIRS)
    batch = pairs(1)
    kinds = batch["prompts"].argmax(axis=1)
    evaluation.tell("a", {**batch, "ids": [f"kind {kind}, sample {row}" for row, kind in enumerate(kinds)]})
    groups = evaluation.prompt_groups("a", count=4)
    assert [{shown.id[:6] for shown in group.prompts} for group in groups[:2]] == [{"kind 0"}, {"kind 1"}]
    assert [group.share for group in groups[:2]] == pytest.approx([0.5, 0.25], abs=0.1)
    assert sum(mode.share for mode in evaluation.modes("a", count=4)) > 0.4
    with pytest.raises(ValueError, match="sample"):
        evaluation.modes("b")
    with pytest.raises(NotFoundError):
        evaluation.modes("c")
    bare = Evaluation(["a"], metric="is")
    bare.tell("a", np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="kernel"):
        bare.modes("a")


@pytest.mark.parametrize(
    ("prompts", "start", "size"), [(4, 0, 4), (4, 995, 9), (1, 5, 3), (10, 25, 1), (7, 0, 0), (1500, 1499, 2)]
)
def test_the_order_of_prompts_is_one_endless_list(prompts: int, start: int, size: int):
    endless = prompt_order(prompts, 5, 0, 3000)
    assert prompt_order(prompts, 5, start, size) == endless[start : start + size]
    block = max(prompts, -(-1000 // prompts) * prompts)
    counts = np.bincount(endless[:block], minlength=prompts)
    assert counts.tolist() == [block // prompts] * prompts
    assert endless[:block] != endless[block : 2 * block] or prompts == 1
    assert endless != prompt_order(prompts, 6, 0, 3000) or prompts == 1


def test_an_estimator_takes_a_batch_whole_or_not_at_all():
    question = Question(declared_of("rke", kernel={"sigma": 1.0, "features": 8}))
    estimator = StreamingEstimator(question.bound_for({"features": 2}), growth=0.0)
    rows = {"features": torch.eye(2, dtype=torch.float64)}
    for ids in (["a"], ["a", "b\0"], ["a", 2000 * "b"]):
        with pytest.raises(ValueError, match="ids"):
            estimator.add(rows, ids)
    assert estimator.statistic.samples == estimator.samples == 0
    estimator.add(rows, ["a", "b"])
    assert estimator.statistic.samples == estimator.samples == 2
