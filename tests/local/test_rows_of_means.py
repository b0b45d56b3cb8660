"""By how many rows means are compared: on files by all, in the service by those that an estimate carries."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation, contrast
from optimist.estimates.pairing import COMMON_NUMBERS


def test_all_rows_of_means_are_compared():
    """The first 1,024 rows have nothing in common, the others nearly everything."""
    rng = np.random.default_rng(3)
    values = {name: rng.standard_normal((3_000, 1)) for name in ("a", "b")}
    values["b"][1_024:] = values["a"][1_024:] + 0.1 * rng.standard_normal((1_976, 1))
    (found,) = contrast(values, "mean", paired=True).contrasts
    assert found.correlation == pytest.approx(np.corrcoef(values["a"][:, 0], values["b"][:, 0])[0, 1], abs=0.02)
    assert found.correlation > 0.6
    (shorter,) = contrast({**values, "b": values["b"][:1_500]}, "mean", paired=True).contrasts
    assert shorter.common == 1_500
    assert shorter.correlation > 0.0


def test_the_service_keeps_as_many_rows_of_means_as_an_estimate_may_carry():
    rng = np.random.default_rng(4)
    common = rng.standard_normal((2_000, 1))
    common[256:COMMON_NUMBERS] *= 3.0
    evaluation = Evaluation(["a", "b"], metric="mean", rescore_growth=0.0)
    for name in ("a", "b"):
        evaluation.tell(name, common + rng.standard_normal((2_000, 1)))
    for made in evaluation.estimates().values():
        assert len(made.pairing.influence) == COMMON_NUMBERS
        assert np.isfinite(made.pairing.influence).all()
    assert evaluation.contrast("a", "b").correlation == pytest.approx(0.88, abs=0.03)
