"""Differences of estimates that lack different indices: reference numbers, and where nothing can be taken out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import intervals_of
from optimist.policies.contrasts import Contrasts
from tests.support.paired_arms import Side, by_common_indices, correlated, estimate, pairing
from tests.support.places import DATA

KNOWN = np.load(DATA / "common_indices.npz")


def reference_estimate(name: str, sign: int) -> Estimate:
    field: dict[str, Any] = {key.removeprefix(f"{name}_"): KNOWN[key] for key in KNOWN if key.startswith(f"{name}_")}
    batches = sorted(field["batches"].tolist())
    told = [index for batch in batches for index in range(5 * batch, 5 * batch + 5)]
    # The reference has no influence of index 256 and later ones, and takes the mean for it.
    late = [index for index in told if index >= 256]
    mean = np.nanmean(field["influence"].astype(float))
    stop, systematic = float(field["stop"]), float(field["systematic"])
    has = pairing(
        field["influence"], len(told), float(field["first_order"]), told=intervals_of(told),
        systematic_selection=systematic, systematic_stopping=systematic,
        later=np.full(len(late), mean), later_told=intervals_of(late),
    )  # fmt: skip
    return estimate(float(field["value"]), stop, stop, len(told), has, sign > 0)


def test_samples_that_only_one_has_are_taken_out():
    """One has told ten rows more, by which its value is larger; in the rows of both it is larger by 0.1."""
    one = np.random.default_rng(0).standard_normal(200)
    shared, more = one.copy(), one.copy()
    shared[100:110] = np.nan
    more[100:110] += 2.0
    short = estimate(float(np.nanmean(shared)), 0.1, 0.1, 190, pairing(shared, 190, told=(0, 100, 110, 200)))
    long = estimate(float(more.mean() + 0.1), 0.1, 0.1, 200, pairing(more, 200))
    contrasts = Contrasts([short, long])
    assert contrasts.losses[1] - contrasts.losses[0] > 0.14
    assert contrasts.against(0).differences[1] == pytest.approx(0.1, abs=0.01)
    assert contrasts.against(0).common[1] == 190


def test_unshared_samples_whose_influence_is_not_known_stay_in_both():
    """From index 256 on, one has told rows that the other one has not, and their influence was not kept."""
    made = []
    for influence, told in zip(correlated(0.95, 400), [[*range(400)], [*range(300), *range(350, 450)]], strict=True):
        made.append(estimate(1.0, 0.1, 0.1, 400, pairing(influence[:256], 400, told=intervals_of(told))))
    contrasts = Contrasts(made)
    rho = contrasts.against(0).rho[1]
    assert contrasts.against(0).differences[1] == 0.0
    assert contrasts.errors(0, "stopping")[1] ** 2 == pytest.approx(2 * 0.01 * (1 - rho * 350 / 400), rel=1e-9)
    assert contrasts.against(0).common[1] == 350


@pytest.mark.parametrize("numbers", [0, 9])
def test_fewer_than_ten_common_indices_or_none_leave_independent_estimates(numbers: int):
    one, other = correlated(0.9, 100)
    told = [[*range(50)], [*range(50 - numbers, 100)]]
    made = []
    for row, indices in zip((one, other), told, strict=True):
        known = np.where(np.isin(np.arange(100), indices), row, np.nan)
        made.append(estimate(1.0, 0.3, 0.4, len(indices), pairing(known, len(indices), told=intervals_of(indices))))
    contrasts = Contrasts(made)
    assert contrasts.errors(0, "stopping")[1] == math.hypot(0.4, 0.4)
    assert contrasts.against(0).common[1] == numbers


@pytest.mark.parametrize("name", ["rke_w8", "rke_w16", "is_w8", "is_w16", "fid_w8", "fid_w16"])
def test_the_difference_and_its_error_are_those_of_reference(name: str):
    sign = int(KNOWN[f"{name}_sign"])
    contrasts = Contrasts([reference_estimate(f"{name}_{side}", sign) for side in "ab"])
    against = contrasts.against(1)
    assert against.rho[0] == pytest.approx(float(KNOWN[f"{name}_rho"]), rel=1e-9)
    assert against.differences[0] == pytest.approx(float(KNOWN[f"{name}_difference"]), rel=1e-9)
    # The reference has ρ_L as it is, and the second order of e_a − e_b, most of which goes with the unshared samples.
    a, b = (Side.of(reference_estimate(f"{name}_{side}", sign), "stopping") for side in "ab")
    m = len(a.told & b.told)
    _, first, second = by_common_indices(a, b, against.rho[0], m)
    _, plain, _ = by_common_indices(a, b, against.rho[0], m, level=False)
    assert contrasts.errors(1, "stopping")[0] ** 2 == pytest.approx(first + second + a.y**2 + b.y**2, rel=1e-9)
    curved = [(1.0 - side.first) * side.s**2 for side in (a, b)]
    whole = sum(curved) - 2.0 * (against.rho[0] * m) ** 2 / (a.n * b.n) * math.sqrt(curved[0] * curved[1])
    assert second < 0.75 * whole
    assert first < plain
    expected = float(KNOWN[f"{name}_error"]) ** 2
    assert plain + whole + a.y**2 + b.y**2 == pytest.approx(expected, rel=1e-9)
