"""What a valid mean and covariance is, is the same in memory, in files and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from optimist import score
from optimist.api.problems import ApiError
from optimist.api.references import checked
from optimist.datasets.references import read_reference
from optimist.metrics.fid.reference import FrechetReference
from optimist.references.real_data import (
    ASYMMETRY,
    BLOCK,
    NEGATIVE,
    RunningMoments,
    check_definite,
    check_lowest,
    check_moments,
)

ROWS = np.random.default_rng(0).standard_normal((9, 3))


def readers(covariance: np.ndarray, directory: Path) -> Iterator[Callable[[], object]]:
    """Every way in which moments come in."""
    mean = np.zeros(len(covariance))
    file = directory / "moments.npz"
    np.savez(file, mu=mean, sigma=covariance)
    yield lambda: FrechetReference(mean, covariance)
    yield lambda: score(ROWS, reference=(mean, covariance))
    yield lambda: read_reference(file)
    yield lambda: checked({"mean": mean, "covariance": covariance}, 10)


def check(covariance: np.ndarray, directory: Path, expected: str | None) -> None:
    for read in readers(covariance, directory):
        if expected is None:
            read()
        else:
            with pytest.raises((ValueError, ApiError), match=expected):
                read()


@pytest.mark.parametrize(("part", "expected"), [(0.9, None), (2.0, "symmetric")])
def test_one_tolerance_of_symmetry(tmp_path: Path, part: float, expected: str | None):
    covariance = 4.0 * np.eye(3)
    covariance[0, 1] += part * ASYMMETRY * 4.0
    check(covariance, tmp_path, expected)


@pytest.mark.parametrize(("part", "expected"), [(0.9, None), (1.1, "no negative eigenvalue, found one below")])
def test_one_tolerance_of_definiteness(tmp_path: Path, part: float, expected: str | None):
    check(np.diag([4.0, 1.0, -part * NEGATIVE * 4.0]), tmp_path, expected)


@pytest.mark.parametrize("part", [0.99, 1.01])
def test_a_factor_and_the_lowest_eigenvalue_tell_the_same(part: float):
    d = 2 * BLOCK + 3
    odd = np.full((d, 1), d**-0.5)
    covariance = np.eye(d) - odd @ odd.T
    covariance -= part * NEGATIVE * np.abs(covariance).max() * odd @ odd.T
    largest = check_moments(np.zeros(d), covariance)
    lowest = float(np.linalg.eigvalsh(covariance)[0])
    refused = 0
    for decide in (lambda: check_definite(covariance, largest), lambda: check_lowest(lowest, largest)):
        try:
            decide()
        except ValueError:
            refused += 1
    assert refused == (2 if part > 1 else 0)


@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 50, 64], [*range(1, 70)]])
def test_moments_of_parts_are_those_of_the_whole(cuts: list[int]):
    rows = 1e4 + np.random.default_rng(1).standard_normal((70, 5)) * np.logspace(-2, 2, 5)
    running = RunningMoments(5)
    for part in np.split(rows, cuts):
        running.add(part)
    assert running.count == 70
    np.testing.assert_allclose(running.mean, rows.mean(0), rtol=1e-14)
    sizes = rows.std(0)
    error = (running.covariance - np.cov(rows, rowvar=False)) / np.outer(sizes, sizes)
    assert np.abs(error).max() < 1e-9 if cuts else np.abs(error).max() < 1e-12
