import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from optimist.metrics.reservoir import Reservoir
from optimist_client.tensors import LONGEST_ID
from tests.support.streams import assert_bit_identical


def log(count: int, start: int = 0) -> tuple[dict[str, Tensor], list[str]]:
    """Samples that carry their index in the log in every part."""
    index = torch.arange(start, start + count, dtype=torch.float64)[:, None]
    return {"features": torch.cat([index, -index], -1), "prompts": 0.5 * index}, [f"é{i}" for i in index[:, 0].tolist()]


def fed(reservoir: Reservoir, sizes: list[int]) -> Reservoir:
    for size in sizes:
        reservoir.update(*log(size, reservoir.samples))
    return reservoir


sizes = st.lists(st.integers(1, 40), min_size=1, max_size=12)
capacities = st.integers(1, 60)


@given(sizes, capacities)
def test_what_is_kept_depends_on_the_samples_and_not_on_their_batches(sizes, capacity):
    reservoir, count = fed(Reservoir(capacity), sizes), sum(sizes)
    assert_bit_identical(reservoir, fed(Reservoir(capacity), [count]))
    assert (reservoir.samples, len(reservoir)) == (count, min(count, capacity))
    indices = torch.from_numpy(reservoir.indices)
    assert bool((indices.diff() > 0).all())
    assert bool((indices >= 0).all() & (indices < count).all())
    # Every row and id is that of its index.
    arrays, ids = log(count)
    assert reservoir.ids == tuple(ids[index] for index in indices.tolist())
    assert reservoir.tensors.keys() == arrays.keys()
    assert all(torch.equal(rows, arrays[name][indices]) for name, rows in reservoir.tensors.items())


@given(st.lists(st.integers(1, 40), max_size=8), sizes, capacities)
def test_a_round_trip_through_tensors_changes_no_bit_now_or_later(before, after, capacity):
    straight = fed(Reservoir(capacity), before)
    tensors = straight.state()
    again = Reservoir().restore(tensors)
    assert again.ids == straight.ids
    assert_bit_identical(again, straight)
    fed(straight, after)
    assert_bit_identical(fed(again, after), straight)
    # The tensors are nobody's state.
    assert_bit_identical(fed(Reservoir().restore(tensors), after), straight)


def test_every_part_of_the_log_is_as_likely_to_be_kept():
    kept = fed(Reservoir(2000), [20_000]).indices
    for label, cells in (("place in the log", kept // 1000), ("residue", kept % 20)):
        observed = np.bincount(cells, minlength=20)
        # 19 degrees of freedom: χ² of 43.8 has probability 0.001.
        assert float(((observed - 100.0) ** 2 / 100.0).sum()) < 43.8, label


def test_samples_are_kept_independently_of_their_neighbours():
    kept = np.zeros(20_000)
    kept[fed(Reservoir(2000), [20_000]).indices] = 1.0
    for lag in (1, 2, 3, 5, 8, 512):
        assert abs(np.corrcoef(kept[:-lag], kept[lag:])[0, 1]) < 4 / np.sqrt(20_000), lag


def test_ids_may_be_empty_or_repeat_and_rows_of_any_real_dtype():
    reservoir = Reservoir(3)
    reservoir.update({"features": torch.ones(4, 2, dtype=torch.float16)}, ["", "s3://bucket/ü.png", "", ""])
    assert reservoir.tensors["features"].dtype == torch.float64
    assert set(reservoir.ids) <= {"", "s3://bucket/ü.png"}
    assert Reservoir().restore(reservoir.state()).ids == reservoir.ids
    nameless = Reservoir(3)
    nameless.update({"features": torch.ones(2, 2)}, ["", ""])
    assert Reservoir().restore(nameless.state()).ids == ("", "")


@pytest.mark.parametrize(
    ("arrays", "ids"),
    [
        ({}, ["a"]),
        ({"features": torch.zeros(0, 2), "prompts": torch.zeros(0, 1)}, []),
        ({"features": torch.zeros(2, 2), "prompts": torch.zeros(1, 1)}, ["a", "b"]),
        ({"features": torch.zeros(2, 2), "prompts": torch.zeros(2, 1)}, ["a"]),
        ({"features": torch.zeros(1, 2), "prompts": torch.zeros(1)}, ["a"]),
        ({"features": torch.zeros(1, 3), "prompts": torch.zeros(1, 1)}, ["a"]),
        ({"features": torch.zeros(1, 2)}, ["a"]),
        ({"features": torch.zeros(1, 2), "other": torch.zeros(1, 1)}, ["a"]),
        ({"features": torch.zeros(1, 2), "prompts": torch.zeros(1, 1)}, ["a\0"]),
        ({"features": torch.zeros(1, 2), "prompts": torch.zeros(1, 1)}, ["\ud800"]),
        ({"features": torch.zeros(1, 2), "prompts": torch.zeros(1, 1)}, ["é" * (LONGEST_ID // 2) + "x"]),
    ],
)
def test_a_batch_that_does_not_fit_changes_nothing(arrays, ids):
    reservoir = fed(Reservoir(5), [3])
    with pytest.raises(ValueError):
        reservoir.update(arrays, ids)
    assert_bit_identical(reservoir, fed(Reservoir(5), [3]))


def test_a_reservoir_of_nothing_is_refused():
    with pytest.raises(ValueError, match="capacity"):
        Reservoir(0)
