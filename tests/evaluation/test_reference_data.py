"""Real data in memory: the forms in which any metric takes it, and what a metric makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation, score
from optimist.evaluation import Question, declared_of
from optimist.evaluation.arrays import real_data_of
from optimist.evaluation.offline import read_reference
from optimist.numerics.plausibility import reference_scale
from optimist.numerics.real_data import RealData, Reference
from optimist_client.metrics import FID, KID, Metric

ROWS = np.random.default_rng(0).standard_normal((60, 3))
REAL = np.random.default_rng(1).standard_normal((80, 3))
MOMENTS = REAL.mean(0), np.cov(REAL, rowvar=False)


@pytest.mark.parametrize("kind", [FID, KID])
def test_every_form_gives_the_same_score(kind: type[Metric], tmp_path: Path):
    np.save(tmp_path / "real.npy", REAL)
    metric = kind(reference=REAL)
    forms: list[Any] = [REAL, REAL.tolist(), real_data_of(REAL), read_reference(tmp_path / "real.npy")]
    forms.append(declared_of(metric).setting("reference"))
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
