"""`StreamingScore` in the real torchmetrics: alone, across ranks, in checkpoints."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import optimist
from optimist_client.errors import FixError
from optimist_client.metrics import FID, RKE, ConditionalVendi, Cosine, Gaussian, Mean, Metric, Vendi

torchmetrics = pytest.importorskip("torchmetrics")
pytestmark = pytest.mark.long
StreamingScore = optimist.StreamingScore

DIMENSION = 5
RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((60, DIMENSION))
ROWS = torch.from_numpy(RNG.standard_normal((90, DIMENSION)) * 1.1 + 0.2)
METRICS: dict[str, Metric] = {
    "fid": FID(reference=REAL),
    "vendi": Vendi(kernel=Cosine()),
    "rke": RKE(kernel=Gaussian(2.0, features=12)),
}


def fed(name: str, *batches: Tensor) -> Any:
    score = StreamingScore(METRICS[name])
    for batch in batches:
        score.update(batch)
    return score


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("count", [2, 4, 90])
def test_it_is_the_score_of_all_samples(name: str, count: int):
    score, expected = fed(name, *ROWS[:count].split(7)), optimist.score(ROWS[:count], METRICS[name])
    assert float(score.compute()) == pytest.approx(expected.score, rel=1e-9)
    found = score.estimate()
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), rel=1e-9)
    assert score.higher_is_better == (name != "fid")
    score.reset()
    score.update(ROWS[:5])
    assert score.estimate().samples == 5


def test_the_plug_in_is_the_fid_of_torchmetrics():
    class Same(torch.nn.Module):
        num_features = DIMENSION

        def forward(self, rows: Tensor) -> Tensor:
            return rows

    theirs = torchmetrics.image.fid.FrechetInceptionDistance(feature=Same(), normalize=True).double()
    theirs.set_dtype(torch.float64)
    theirs.used_custom_model = True
    for rows, is_real in ((torch.from_numpy(REAL), True), (ROWS, False)):
        for batch in rows.split(20):
            theirs.update(batch, real=is_real)
    assert fed("fid", *ROWS.split(20)).estimate().plug_in == pytest.approx(float(theirs.compute()), rel=1e-6)


def test_forward_is_the_score_of_the_batch_alone():
    score = StreamingScore(METRICS["fid"])
    for batch in ROWS.split(30):
        assert float(score(batch)) == pytest.approx(optimist.score(batch, METRICS["fid"]).score)
    assert score.estimate() == fed("fid", *ROWS.split(30)).estimate()


@pytest.mark.parametrize("count", [4, 90])
@pytest.mark.parametrize("taken", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one.clone()])
def test_a_copy_goes_on_by_itself(taken: Callable[[Any], Any], count: int):
    score = fed("fid", ROWS[:count])
    other = taken(score)
    other.update(ROWS[:3])
    assert score.estimate() == fed("fid", ROWS[:count]).estimate()
    assert other.estimate() == fed("fid", ROWS[:count], ROWS[:3]).estimate()


@pytest.mark.parametrize("name", METRICS)
def test_a_checkpoint_goes_on_bit_for_bit(name: str, tmp_path: Path):
    torch.save(fed(name, ROWS[:50]).state_dict(), tmp_path / "state.pt")
    restored = StreamingScore(METRICS[name])
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    restored.update(ROWS[50:])
    assert restored.estimate() == fed(name, ROWS[:50], ROWS[50:]).estimate()


def test_a_checkpoint_of_other_settings_is_refused():
    other = StreamingScore(RKE(kernel=Gaussian(3.0, features=12)))
    other.load_state_dict(fed("rke", ROWS).state_dict())
    with pytest.raises(FixError, match="not of the metric 'rke' with these settings"):
        other.update(ROWS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_features_of_any_precision_are_taken_as_they_are(dtype: torch.dtype):
    score = StreamingScore(METRICS["fid"]).half()
    score.update(ROWS.to(dtype))
    assert score.estimate() == fed("fid", ROWS.to(dtype).double()).estimate()


def test_a_network_embeds_without_gradients():
    network = torch.nn.Linear(8, DIMENSION, dtype=torch.float64)
    score, images = StreamingScore(METRICS["fid"], embed=network), torch.randn(20, 8, dtype=torch.float64)
    score.update(images)
    assert score.estimate() == fed("fid", network(images).detach()).estimate()
    assert "embed.weight" in score.state_dict()


def test_what_is_wrong_changes_nothing():
    score = fed("fid", ROWS)
    for wrong, said in ((ROWS[:, :3], "3"), (ROWS * torch.inf, "finite"), (ROWS[0], "shape"), (["a"], "numbers")):
        with pytest.raises(ValueError, match=said):
            score.update(wrong)
    score.update(ROWS[:0])
    assert score.estimate() == fed("fid", ROWS).estimate()
    for metric, said in (
        (RKE(kernel=Gaussian("median", features=12)), "a kernel that is fixed"),
        (ConditionalVendi(kernel=Gaussian(1.0, features=4), prompt_kernel=Gaussian(1.0, features=4)), "one array"),
    ):
        with pytest.raises(FixError, match=said):
            StreamingScore(metric)
    with pytest.raises(FixError, match="cannot be merged"):
        StreamingScore(Mean()).update(torch.rand(4, 1))
    with warnings.catch_warnings(action="ignore"), pytest.raises(FixError, match="at least 1 sample"):
        StreamingScore(METRICS["fid"]).compute()


def test_samples_that_a_sampler_repeats_count_again():
    """As of `DistributedSampler`, which fills the ranks up: nobody can tell them from others that are alike."""
    assert fed("fid", ROWS, ROWS[:1]).estimate().samples == 91


CASES = [("fid", (60, 30)), ("fid", (2, 1)), ("vendi", (3, 87)), ("rke", (90, 0)), ("fid", (0, 90))]
"""Metrics, with the samples of each rank."""


def parts_of(sizes: tuple[int, ...], rank: int) -> tuple[Tensor, ...]:
    """The batches of a rank."""
    part = ROWS[: sum(sizes)].split(sizes)[rank]
    return part.split(7) if len(part) else ()


def _rank(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", f"file://{folder}/met", rank=rank, world_size=2)
    made: list[tuple[float, ...]] = []
    for name, sizes in CASES:
        score = fed(name, *parts_of(sizes, rank))
        with warnings.catch_warnings(action="ignore"):  # a rank without samples computes, too
            value = score.compute()
        found = score.estimate()
        assert float(value) == found.score
        score.update(ROWS[:2])  # goes on with its own samples
        made.append((found.value, found.lower, found.upper, found.samples, score.estimate().samples))
    torch.save(made, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_ranks_have_the_bits_of_one_process_with_both_parts(tmp_path: Path):
    torch.multiprocessing.start_processes(_rank, (f"{tmp_path}",), nprocs=2, start_method="spawn")
    for rank in range(2):
        made = torch.load(tmp_path / f"{rank}.pt")
        for (name, sizes), (*ends, samples, later) in zip(CASES, made, strict=True):
            both = StreamingScore(METRICS[name])
            for each in range(2):
                both.merge_state(fed(name, *parts_of(sizes, each)))
            expected = both.estimate()
            assert ends == [expected.value, expected.lower, expected.upper], (name, sizes)
            assert (samples, later) == (sum(sizes), sum(sizes) + 4)
