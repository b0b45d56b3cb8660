"""Real data in memory: the forms in which any metric takes it, and what a metric makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimist import Evaluation, score
from optimist.anomalies.plausibility import reference_scale
from optimist.datasets.references import read_reference
from optimist.estimation.arrays import real_data_of
from optimist.estimation.question import Question, declared_of
from optimist.references.real_data import RealData, Reference
from optimist_client.metrics import FID, KID, Metric
from optimist_client.references import as_sent

ROWS = np.random.default_rng(0).standard_normal((60, 3))
REAL = np.random.default_rng(1).standard_normal((80, 3))
MOMENTS = REAL.mean(0), np.cov(REAL, rowvar=False)


@pytest.mark.parametrize("kind", [FID, KID])
def test_every_form_gives_the_same_score(kind: type[FID | KID], tmp_path: Path):
    np.save(tmp_path / "real.npy", REAL)
    metric = kind(reference=REAL)
    forms: list[Any] = [REAL, REAL.tolist(), torch.from_numpy(REAL), real_data_of(REAL)]
    forms += [read_reference(tmp_path / "real.npy"), declared_of(metric).setting("reference")]
    forms += [MOMENTS, RealData(*MOMENTS)] if kind is FID else []
    assert len({score(ROWS, kind(reference=form)).score for form in forms}) == 1


def test_what_is_made_is_made_once():
    declared = declared_of(KID(reference=REAL))
    made = declared.setting("reference")
    assert isinstance(made, Reference)
    assert declared_of(declared).setting("reference") is made
    assert Question(declared).reference is made
    assert made.dimension == 3


@pytest.mark.parametrize("reference", [MOMENTS, RealData(*MOMENTS)])
def test_moments_do_not_suffice_where_rows_are_compared(reference: Any):
    with pytest.raises(ValueError, match="rows of real features"):
        score(ROWS, KID(reference=reference))


@pytest.mark.parametrize("metric", [FID(reference=1e-3 * REAL), KID(reference=1e-3 * REAL)])
def test_the_size_of_real_data_tells_what_is_absurd(metric: Metric):
    """Whichever metric compares with it."""
    assert real_data_of(1e-3 * REAL).scale == pytest.approx(reference_scale(MOMENTS[0], MOMENTS[1]) * 1e-3)
    evaluation = Evaluation(["a", "b"], metric=metric, max_magnitude=1e4)
    with pytest.raises(ValueError, match="times the usual"):
        evaluation.tell("a", 1e3 * ROWS)
    evaluation.tell("a", 1e-3 * ROWS)


def test_every_form_of_moments_says_how_many_rows_there_were(tmp_path: Path):
    np.savez(tmp_path / "said.npz", mu=MOMENTS[0], sigma=MOMENTS[1], samples=80)
    np.savez(tmp_path / "silent.npz", mean=MOMENTS[0], covariance=MOMENTS[1])
    said = [
        real_data_of((*MOMENTS, 80)),
        read_reference(tmp_path / "said.npz"),
        read_reference(tmp_path / "silent.npz", 80),
        RealData.from_arrays(as_sent((*MOMENTS, 80), False).arrays),
        RealData.from_arrays(as_sent(tmp_path / "said.npz", False).arrays),
        RealData.from_arrays(as_sent(MOMENTS, False, 80).arrays),
    ]
    assert [(data.samples, data.some_rows) for data in said] == [(80, None)] * len(said)
    assert read_reference(tmp_path / "silent.npz").samples is None


def test_rows_are_kept_with_the_moments_that_are_made_of_them():
    here, sent = real_data_of(REAL).without_rows(), RealData.from_arrays(as_sent(REAL, False).arrays)
    assert (here.samples, here.rows) == (80, None)
    for name, array in here.arrays.items():
        np.testing.assert_allclose(array, sent.arrays[name], rtol=1e-12)
    assert here.arrays["some_rows"].dtype == np.float32
    assert sorted(map(tuple, here.arrays["some_rows"])) == sorted(map(tuple, REAL.astype(np.float32)))


def test_the_digest_tells_apart_the_same_moments_of_other_rows():
    made = [as_sent(MOMENTS, False), as_sent((*MOMENTS, 80), False), as_sent((*MOMENTS, 81), False)]
    rows = RealData.of_rows("real", REAL).moments
    made += [as_sent(rows, False), as_sent(rows._replace(some_rows=rows.some_rows[::-1]), False)]  # pyright: ignore
    assert len({each.digest for each in made}) == len(made)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ((1,), "samples"),
        ((2.5,), "samples"),
        ((float("nan"),), "samples"),
        ((None, np.ones((2, 3))), "some_rows"),
        ((80, np.ones((2, 4))), "some_rows"),
        ((3, np.ones((4, 3))), "some_rows"),
        ((1000, np.ones((257, 3))), "some_rows"),
        ((80, np.full((2, 3), np.inf)), "some_rows"),
    ],
)
def test_what_no_reference_may_have_is_refused(rest: tuple[Any, ...], said: str):
    with pytest.raises(ValueError, match=said):
        real_data_of((*MOMENTS, *rest))


def test_another_number_of_rows_is_refused(tmp_path: Path):
    np.save(tmp_path / "real.npy", REAL)
    for refused in (
        lambda: as_sent(REAL, False, 81),
        lambda: as_sent(REAL, True, 81),
        lambda: as_sent((*MOMENTS, 80), False, 81),
        lambda: read_reference(tmp_path / "real.npy", 81),
    ):
        with pytest.raises(ValueError, match="80 rows, not 81"):
            refused()
