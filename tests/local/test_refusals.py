"""What makes no sense is refused at once, with a ValueError that says what was expected, and changes nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from optimist import Evaluation, score
from optimist.estimation.question import Question, declared_of
from optimist_client.metrics import KEN, Gaussian

GAUSSIAN = {"name": "gaussian", "sigma": 2.0, "features": 16}
EXACT = {"sigma": 2.0, "features": "exact"}
OMEGAS = np.ones((3, 8))
NYSTROM = {"name": "nystrom", "sigma": 2.0, "features": 8}
PAIRS = {"kernel": GAUSSIAN, "prompt_kernel": {"sigma": 1.0}}


def rows(size: int = 40, columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, columns))


def pairs(size: int = 40, columns: int = 3, scale: float = 1.0) -> dict[str, np.ndarray]:
    return {"features": rows(size, columns), "prompts": scale * rows(size, 2, seed=1)}


# A tell that is refused.


def state(evaluation: Evaluation) -> Any:
    return evaluation.told, evaluation.estimates(), evaluation.decision(), evaluation.ask()


def test_columns_that_the_settings_tell_are_asked_for_from_the_first_batch_on():
    open_kernels = {"kernel": {"omegas": OMEGAS}, "prompt_kernel": {"sigma": "median"}}
    evaluation = Evaluation(["a"], metric="conditional-vendi", **open_kernels)
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        evaluation.tell("a", pairs(columns=5))
    assert evaluation.told == 0
    evaluation.tell("a", pairs(size=300))
    assert evaluation.estimates()["a"] is not None


@pytest.mark.parametrize("scale", [1e-35, 1e30])
def test_a_fit_that_fails_leaves_the_evaluation_as_it_was(scale: float):
    evaluation = Evaluation(["a", "b"], metric="vendi", kernel={"sigma": "median", "features": 8})
    tiny = scale * np.sign(rows(128))
    evaluation.tell("a", tiny)
    before = state(evaluation)
    for _ in range(2):
        with pytest.raises(ValueError, match="median distance"):
            evaluation.tell("b", tiny)
        assert state(evaluation) == before
    evaluation = Evaluation(["a"], metric="vendi", kernel={"sigma": "median", "features": 8})
    with pytest.raises(ValueError, match="median distance"):
        evaluation.tell("a", scale * np.sign(rows(256)))
    evaluation.tell("a", rows(256))
    assert evaluation.estimates()["a"] is not None
    assert evaluation.estimates()["a"].samples == 256


# Settings.


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kernel": NYSTROM, "truncation": 9}, "truncation must lie between 1 and the 8"),
        ({"kernel": GAUSSIAN, "truncation": 33}, "truncation must lie between 1 and the 32"),
        ({"kernel": {"omegas": OMEGAS}, "truncation": 17}, "truncation must lie between 1 and the 16"),
        ({"truncation": 10**12}, "truncation must lie between 1 and the 32"),
        ({"truncation": 2.5}, "truncation: expected a whole number"),
        ({"truncation": 0}, "truncation: expected a whole number, at least 1"),
        ({"order": 1e-320}, "order: expected at least 1e-06, got 1e-320"),
        ({"order": [2.0]}, "order"),
        ({"order": float("nan")}, "order"),
        ({"delta": 5}, "delta"),
        ({"metric": ["vendi"]}, "metric"),
        ({"bound": ["theorem"]}, "bound"),
        ({"beta": 1.0}, "beta"),
        ({"name": 1.0}, "name"),
        ({"kernel": "gaussian"}, "mapping"),
        ({"kernel": None}, "needs kernel"),
        ({"kernel": {}}, "needs sigma"),
        ({"kernel": {"name": "nystrom"}}, "needs sigma"),
        ({"kernel": {"name": "linear", "sigma": 1.0}}, "gaussian"),
        ({"kernel": {**GAUSSIAN, "sigma": 0.0}}, "sigma"),
        ({"kernel": {**GAUSSIAN, 3: 4}}, "expected name, sigma"),
        ({"kernel": {**GAUSSIAN, "sigma": [1.0]}}, "sigma: expected a number"),
        ({"kernel": {**GAUSSIAN, "sigma": "10"}}, "'median'"),
        ({"kernel": {**GAUSSIAN, "sigma": 10**400}}, "sigma: expected a number"),
        ({"kernel": {**GAUSSIAN, "features": 16.0}}, "features: expected a whole number"),
        ({"kernel": {**GAUSSIAN, "seed": 1.0}}, "seed: expected a whole number"),
        ({"kernel": {**GAUSSIAN, "name": ["gaussian"]}}, "name: expected 'gaussian'"),
        ({"kernel": {**GAUSSIAN, "landmarks": OMEGAS}}, "landmarks"),
        ({"kernel": {"name": "cosine", "sigma": 3}}, "cosine kernel has no sigma"),
        ({"kernel": {"omegas": OMEGAS, "sigma": 3.0}}, "omegas has no sigma"),
        ({"kernel": {"omegas": OMEGAS, "features": 9}}, "the 8 of omegas"),
        ({"kernel": {"omegas": np.ones(3)}}, "omegas: expected a matrix"),
        ({"kernel": {"omegas": OMEGAS * 1j}}, "omegas: expected an array of real numbers"),
        ({"kernel": {"omegas": OMEGAS * np.nan}}, "omegas: expected finite"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, expected: str):
    settings = {"metric": "vendi", "kernel": GAUSSIAN, **settings}
    with pytest.raises(ValueError, match=expected):
        score(rows(), **settings)
    with pytest.raises(ValueError, match=expected):
        Evaluation(["a"], **settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kernel": {"features": "exact"}}, "needs sigma"),
        ({"kernel": {**EXACT, "sigma": "10"}}, "sigma"),
        ({"kernel": {"omegas": OMEGAS, "features": "exact"}}, "the kernel itself"),
        ({"kernel": {**NYSTROM, "features": "exact"}}, "the kernel itself"),
        ({"kernel": {**EXACT, "features": "all"}}, "features"),
        ({"delta": 5}, "delta"),
        ({"beta": 1.0}, "beta"),
        ({"bound": "theorem"}, "no bound 'theorem'"),
        ({"truncation": 2.5}, "truncation"),
        ({"order": 0.0}, "order"),
        ({"metric": "conditional-vendi"}, "prompts"),
        ({"metric": "conditional-vendi", "prompt_kernel": {}}, "prompt_kernel: the gaussian kernel needs sigma"),
        ({"metric": "conditional-vendi", "prompt_kernel": GAUSSIAN}, "expected as many as the kernel's exact"),
    ],
)
def test_the_exact_route_checks_as_the_other_does(settings: dict, expected: str):
    batch = pairs() if "metric" in settings else rows()
    with pytest.raises(ValueError, match=expected):
        score(batch, **{"metric": "vendi", "kernel": EXACT, **settings})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"prompt_kernel": {"sigma": 1.0, "features": 8}}, "expected as many as the kernel's 16, got 8"),
        ({"prompt_kernel": {"omegas": np.ones((2, 8))}}, "expected as many as the kernel's 16, got 8"),
        ({"kernel": NYSTROM}, "gaussian"),
        ({"prompt_kernel": NYSTROM}, "gaussian"),
        ({"prompt_kernel": {"name": "cosine"}}, "gaussian"),
        ({"truncation": 3}, "truncation"),
    ],
)
def test_kernels_that_do_not_make_a_pair_are_refused_before_there_is_a_batch(change: dict, expected: str):
    with pytest.raises(ValueError, match=expected):
        Evaluation(["a"], metric="conditional-vendi", **{**PAIRS, **change})


def test_prompts_share_the_number_of_given_frequencies():
    question = Question(declared_of("conditional-vendi", kernel={"omegas": OMEGAS}, prompt_kernel={"sigma": 1.0}))
    assert question.bound_for({"features": 3, "prompts": 2}).metric.prompts_map.width == 16  # type: ignore[attr-defined]
    assert question.widths == {"features": 3}


@pytest.mark.parametrize("option", [{"tau": "0.1"}, {"sigma2": [1.0]}, {"mean_gap": 1j}])
def test_options_of_a_bound_are_numbers(option: dict):
    with pytest.raises(ValueError, match="expected a number"):
        score(rows(), reference=(np.zeros(3), np.eye(3)), bound="theorem", **option)


def test_numbers_of_other_types_are_taken():
    plain = score(rows(), "vendi", kernel=GAUSSIAN, order=2.5, truncation=5)
    kernel = {"sigma": np.float32(2.0), "features": np.int64(16), "seed": np.uint8(0)}
    assert score(rows(), "vendi", kernel=kernel, order=Fraction(5, 2), truncation=np.int32(5)) == plain


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"generators": None}, "generator"),
        ({"generators": {"a", "b"}}, "generator"),
        ({"generators": [1, 2]}, "generator"),
        ({"seed": 1.5}, "seed"),
        ({"warmup": 1.5}, "warmup"),
        ({"policy": ["ucb"]}, "policy"),
        ({"rescore_growth": float("nan")}, "rescore_growth"),
        ({"sigma2": 1.0}, "sigma2"),
    ],
)
def test_settings_of_an_evaluation_are_checked(change: dict, expected: str):
    with pytest.raises(ValueError, match=expected):
        Evaluation(**{"generators": ["a", "b"], "metric": "vendi", "kernel": GAUSSIAN, **change})


def test_a_metric_that_cannot_decide_is_only_watched():
    novel = KEN(kernel=Gaussian(sigma=2.0, features=16), reference=rows(60))
    with pytest.raises(ValueError, match="metric 'ken' cannot decide: it can only be watched"):
        Evaluation(["a", "b"], metric=novel)
    assert Evaluation(["a", "b"], metric="rke", kernel=GAUSSIAN, watch=[novel]).ask() == "a"


def test_modes_are_counted_in_whole_numbers():
    evaluation = Evaluation(["a"], metric="conditional-vendi", **PAIRS)
    evaluation.tell("a", pairs())
    for shown in (evaluation.modes, evaluation.prompt_groups):
        for count in (1.5, 0, "2", None):
            with pytest.raises(ValueError, match="count: expected a whole number"):
                shown("a", count=count)


# Arrays.

VENDI = {"metric": "vendi", "kernel": GAUSSIAN}


@pytest.mark.parametrize(
    "batch",
    [
        {1.0, 2.0},
        (row for row in rows()),
        None,
        3.0,
        "rows",
        [["a", "b", "c"]],
        [[1.0, 2.0], [1.0]],
        rows() * 1j,
        [*rows().tolist(), [1j, 1j, 1j]],
        torch.from_numpy(rows()).to(torch.complex128),
        torch.from_numpy(rows()).to_sparse(),
        np.array([[1.0, None, 2.0]]),
        {"features": rows(), 3: rows()},
        {"features": {"x": rows()}},
        {"features": rows(), "ids": None},
        {"features": rows(), "ids": 7},
        {"features": rows(), "ids": "x" * 40},
        {"features": rows(), "ids": {f"{row}" for row in range(40)}},
    ],
)
def test_batches_that_are_no_arrays_are_refused(batch: Any):
    evaluation = Evaluation(["a"], **VENDI)
    with pytest.raises(ValueError, match="expected"):
        evaluation.tell("a", batch)
    assert evaluation.told == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32])
def test_tensors_and_lists_of_them_are_taken(dtype: torch.dtype):
    batch = torch.from_numpy(8.0 * rows()).round().to(dtype)
    expected = score(batch.double().numpy(), **VENDI)
    assert score(batch, **VENDI) == expected
    assert score(list(batch), **VENDI) == expected
    if dtype.is_floating_point:
        assert score(list(batch.requires_grad_()), **VENDI) == expected


@pytest.mark.parametrize(
    "reference",
    [
        {"mean": np.zeros(3)},
        (np.zeros(3),),
        (np.zeros(3), None),
        (np.zeros(3), 1j * np.eye(3)),
        1j * rows(),
        "real.npz",
    ],
)
def test_references_that_are_none_are_refused(reference: Any):
    with pytest.raises(ValueError, match="reference"):
        score(rows(), reference=reference)
