"""The numerics on every device there is: the same scores and mixtures, whatever the metric, there and back again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from optimist import Evaluation, score
from optimist.estimates.estimate import Estimate
from optimist.estimates.mixture import Mixture
from optimist.estimates.pairing import Pairing, history_array
from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator, first_rows
from optimist.metrics.bound import Bound
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.implementations import Setting, make_metric
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.records import codec
from optimist_client import FixError
from optimist_client.metrics import FID, MMD, RKE, Gaussian, Metric, Vendi, find
from tests.support.real_rows import score_of
from tests.support.streams import fed, rows_of

GAUSSIAN = {"name": "gaussian", "sigma": 3.0, "features": 12}
D = 6
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fid": ("fid", {}),
    "is": ("is", {}),
    "rke": ("rke", {"kernel": GAUSSIAN}),
    "vendi": ("vendi", {"kernel": GAUSSIAN}),
    "vendi 1.5": ("vendi", {"kernel": GAUSSIAN, "order": 1.5}),
    "vendi 3": ("vendi", {"kernel": GAUSSIAN, "order": 3.0}),
    "vendi truncated": ("vendi", {"kernel": GAUSSIAN, "truncation": 5}),
    "vendi cosine": ("vendi", {"kernel": {"name": "cosine"}}),
    "vendi median": ("vendi", {"kernel": {"sigma": "median", "features": 12}}),
    "vendi nystrom": ("vendi", {"kernel": {"name": "nystrom", "sigma": "median", "features": 20}}),
    "conditional-vendi": ("conditional-vendi", {"kernel": GAUSSIAN, "prompt_kernel": GAUSSIAN}),
    "information-vendi": ("information-vendi", {"kernel": GAUSSIAN, "prompt_kernel": GAUSSIAN, "order": 2.0}),
}
CASES = [(kind, bound) for kind, (metric, _) in KINDS.items() for bound in find(metric).bounds]
pytestmark = pytest.mark.long


def arrays_of(metric: str, rows: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    if metric == "is":
        return {"probabilities": rng.dirichlet(np.ones(D), rows)}
    prompts = {"prompts": rng.standard_normal((rows, 3))} if "prompts" in find(metric).arrays else {}
    return {"features": 1.5 * rng.standard_normal((rows, D)), **prompts}


def question_of(kind: str, bound: str, device: torch.device | str) -> Question:
    metric, settings = KINDS[kind]
    reference = None
    if metric == "fid":
        spread = np.random.default_rng(5).standard_normal((D, D))
        reference = FrechetReference(np.full(D, 0.1), spread @ spread.T / D + np.eye(D), device)
    question = Question(declared_of(metric, device, reference=reference, **settings), bound, device=device)
    rows = {name: torch.from_numpy(array) for name, array in arrays_of(metric, 60, seed=9).items()}
    return question.fitted(first_rows([[rows]], 60))


def empty(bound: Bound) -> StreamingEstimator:
    """With influences by index where the bound has them."""
    return StreamingEstimator(bound, 0.0, paired=bound.name == "influence")


def estimator_of(kind: str, bound: str, device: torch.device | str) -> StreamingEstimator:
    widths = {name: array.shape[1] for name, array in arrays_of(KINDS[kind][0], 1).items()}
    return empty(question_of(kind, bound, device).bound_for(widths))


def feed(estimator: StreamingEstimator, kind: str, batches: range) -> Estimate:
    for seed in batches:
        arrays = arrays_of(KINDS[kind][0], 7, seed)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        estimator.add(tensors, [f"{seed}/{row}" for row in range(7)], indices=(7 * seed, 7))
    return estimator.estimate()


def assert_close(one: Estimate, other: Estimate) -> None:
    left, right = codec.plain(one), codec.plain(other)
    assert left.keys() == right.keys()
    assert_pairings_close(one.pairing, other.pairing)
    for name, value in left.items():
        if name == "pairing":
            continue
        if (name == "bracket" and value) or (isinstance(value, float) and math.isfinite(value)):
            assert value == pytest.approx(right[name], rel=1e-8, abs=1e-9), name
        else:
            assert value == right[name], name


def assert_pairings_close(one: Pairing | None, other: Pairing | None) -> None:
    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    spread = float(np.nanstd(other.influence))
    # They are rounded to float32, and a constant has no meaning.
    np.testing.assert_allclose(
        one.influence - np.nanmean(one.influence),
        other.influence - np.nanmean(other.influence),
        rtol=0.0,
        atol=1e-5 * spread + 1e-9,
    )

    def numbers(pairing: Pairing) -> list[float]:
        systematic = pairing.systematic_selection, pairing.systematic_stopping
        return [pairing.first_order, *systematic, *pairing.told, *history_array(pairing.history).ravel().tolist()]

    assert numbers(one) == pytest.approx(numbers(other), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("kind", "bound"), CASES)
def test_a_stream_has_the_scores_it_has_on_the_cpu(kind: str, bound: str, device: torch.device):
    """At 7 samples, 14 and 70: while rows are kept, and past it."""
    there, here = estimator_of(kind, bound, device), estimator_of(kind, bound, "cpu")
    for batches in (range(1), range(1, 2), range(2, 10)):
        assert_close(feed(there, kind, batches), feed(here, kind, batches))
    held = there.statistic.state()
    places = {tensor.device for tensor in held.values() if tensor.ndim and tensor.is_floating_point()}
    assert places == {device}


@pytest.mark.parametrize(
    ("kind", "batches"),  # After 10 batches rows are no longer kept; after 2 they are.
    [
        *((kind, 10) for kind in ("fid", "is", "rke", "vendi", "vendi 3", "vendi nystrom", "conditional-vendi")),
        *((kind, 2) for kind in ("fid", "is", "vendi", "conditional-vendi")),
    ],
)
def test_a_state_goes_to_the_cpu_and_back_without_losing_a_bit(kind: str, batches: int, device: torch.device):
    there, here = estimator_of(kind, "influence", device), estimator_of(kind, "influence", "cpu")
    feed(there, kind, range(batches))
    frozen = {name: tensor.cpu().clone() for name, tensor in there.state().items()}
    back = empty(there._bound).restore(frozen)
    for name, tensor in back.state().items():
        assert tensor.device == there.state()[name].device, name
        assert torch.equal(tensor.cpu(), frozen[name]), name
    later = range(batches, batches + 3)
    assert feed(back, kind, later) == feed(there, kind, later)
    # Begun there, it goes on elsewhere.
    moved = empty(here._bound).restore(frozen)
    assert_close(feed(moved, kind, later), feed(empty(there._bound).restore(frozen), kind, later))


@pytest.mark.parametrize("kind", [kind for kind, (metric, _) in KINDS.items() if metric not in ("fid", "is")])
def test_modes_are_those_on_the_cpu(kind: str, device: torch.device):
    there, here = estimator_of(kind, "influence", device), estimator_of(kind, "influence", "cpu")
    for estimator in (there, here):
        feed(estimator, kind, range(10))
    found, expected = there.modes(3, 4), here.modes(3, 4)
    assert [mode.share for mode in found] == pytest.approx([mode.share for mode in expected], rel=1e-8)
    assert [[shown.id for shown in mode.samples] for mode in found] == [
        [shown.id for shown in mode.samples] for mode in expected
    ]
    if there.has_prompts:
        scores = [[group.log_score for group in estimator.prompt_groups(3, 4)] for estimator in (there, here)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-8)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> str:
    """The device's name as users type it; the stand-in is found under a GPU's."""
    if device.type == "cuda" and not torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return f"{device}"


@pytest.mark.parametrize("kind", ["fid", "is", "vendi median", "vendi nystrom", "conditional-vendi"])
def test_users_name_the_device(kind: str, found: str):
    metric, settings = KINDS[kind]
    arrays = arrays_of(metric, 50)
    if metric == "fid":
        settings = {"reference": arrays_of(metric, 200, seed=1)["features"]}
    assert_close(score(arrays, metric, **settings, device=found), score(arrays, metric, **settings))
    evaluations = [Evaluation(["a", "b"], metric=metric, **settings, device=place) for place in (found, "cpu")]
    for seed in range(3):
        for name in ("a", "b"):
            for evaluation in evaluations:
                evaluation.tell(name, arrays_of(metric, 60, seed=2 * seed + (name == "b")))
    there, here = (evaluation.estimates() for evaluation in evaluations)
    for name in ("a", "b"):
        assert there[name] is not None
        assert_close(there[name], here[name])


@pytest.mark.parametrize("kernel", [{"sigma": 2.0, "features": "exact"}, {"name": "cosine", "features": "exact"}])
def test_exact_kernels_are_scored_there(kernel: dict[str, Any], found: str):
    rows = arrays_of("vendi", 30)["features"]
    there, here = (score(rows, "vendi", kernel=kernel, device=place) for place in (found, "cpu"))
    assert there.value == pytest.approx(here.value, rel=1e-9)


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "CPU", "cpu:0", "cuda:-1", ""])
def test_other_names_are_refused(name: str):
    with pytest.raises(FixError, match="expected cpu, cuda or cuda:<i>"):
        score(np.ones((5, 2)), "is", device=name)


def test_a_gpu_that_is_not_here_is_named_as_that():
    with pytest.raises(FixError, match="'cuda:99' is not here"):
        Evaluation(["a"], metric="is", device="cuda:99")


KERNEL = Gaussian(2.0, features=10)
METRICS: dict[str, Metric] = {
    "rke": RKE(kernel=KERNEL),
    "vendi": Vendi(kernel=KERNEL),
    "mmd": MMD(kernel=KERNEL),
    "fid": FID(),
}


def mixture_on(device: torch.device | str, declared: Metric, count: int) -> Mixture:
    if "reference" in type(declared).model_fields:
        metric = score_of(declared, rows_of(9, 80, 4), device)
    else:
        metric = make_metric(declared, Setting({"features": 4}, device))
    rows = [rows_of(seed, count, 4, centre) for seed, centre in enumerate((0.0, 0.7, -0.7))]
    statistics = [fed(metric, each, 6) for each in rows]
    return cross_fitted(metric, statistics, ("a", "b", "c"), [{"features": each} for each in rows])


@pytest.mark.parametrize("count", [12, 60])
@pytest.mark.parametrize("name", METRICS)
def test_a_mixture_is_that_on_the_cpu(device: torch.device, name: str, count: int):
    found, expected = (mixture_on(place, METRICS[name], count) for place in (device, "cpu"))
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-5)
    for field in ("value", "error", "gain", "gain_error", "slacks", "slack_errors", "deviations"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-4, atol=1e-5)
