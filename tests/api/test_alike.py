"""Groups of samples whose features are alike."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.api.alike import MAX_MODES, are_central, modes_and_copies


@pytest.mark.parametrize("count", [2, 3, 5, MAX_MODES])
def test_clusters_that_are_far_apart_are_found(count: int):
    rng = np.random.default_rng(count)
    of = rng.permutation(np.repeat(np.arange(count), np.arange(10, 10 + count)))
    rows = 6.0 * rng.standard_normal((count, 64))[of] + rng.standard_normal((len(of), 64))
    modes, _ = modes_and_copies(rows.astype(np.float32), np.zeros(len(of), dtype=np.int64))
    assert {*zip(of.tolist(), modes.tolist(), strict=True)} == {(one, count - 1 - one) for one in range(count)}


def test_copies_are_folded_by_source_the_most_frequent_first():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 16)).astype(np.float32)
    rows[10:17] = rows[9] + 0.01 * rng.standard_normal((7, 16))
    sources = np.array([0, 1] * 20)
    modes, copies = modes_and_copies(rows, sources)
    folded = {
        source: {place for place in range(9, 17) if sources[place] == source and copies[place] == 0}
        for source in (0, 1)
    }
    assert folded == {0: {10, 12, 14, 16}, 1: {9, 11, 13, 15}}
    others = [place for place in range(40) if not 9 <= place < 17]
    assert len({(modes[place], sources[place], copies[place]) for place in others}) == len(others)


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.ones((6, 3)), [[0.0], [1.0]], [[1e30], [-1e30], [0.0], [1.0]]])
def test_few_equal_and_extreme_rows(rows: list[list[float]]):
    features = np.array(rows, dtype=np.float32)
    modes, copies = modes_and_copies(features, np.zeros(len(features), dtype=np.int64))
    assert modes.min() == copies.min() == 0
    assert modes.max() < len({*map(tuple, features.tolist())})


def test_the_central_one_of_a_mode_is_nearest_to_its_mean():
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 5.0], [9.0, 0.0], [9.0, 3.0]], dtype=np.float32)
    assert are_central(rows, np.array([0, 0, 0, 1, 1])).tolist() == [False, True, False, True, False]
