"""What the SDK sends: the arrays' own bytes, aligned, and a pick told and the next one taken at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load

from optimist_client import Optimist, tensors


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "ids": tensors.pack_ids(["a", "éé", "c"]),
        "half": rng.standard_normal((3, 5)).astype(np.float16),
        "single": rng.standard_normal((3, 5)).astype(np.float32)[:, ::2],
        "double": rng.standard_normal((3, 5)).T,
        "none": np.zeros((0, 7), np.float32),
        "scalar": np.array(2.5),
    }


def test_safetensors_reads_what_is_encoded():
    found = load(tensors.encode(arrays()))
    for name, array in arrays().items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_every_array_is_aligned():
    body = tensors.encode(arrays())
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    for name, array in arrays().items():
        assert (8 + length + header[name]["data_offsets"][0]) % array.itemsize == 0


@pytest.mark.parametrize("dtype", [np.int64, np.complex128, ">f4", bool])
def test_other_numbers_are_refused(dtype: type):
    with pytest.raises(ValueError, match="expected float16, float32 or float64"):
        tensors.encode({"features": np.zeros((2, 2), dtype)})


def test_a_tell_brings_the_next_pick(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, budget=10)
    pick = experiment.ask()
    pick.tell(np.ones((5, 4)))
    assert pick.next is None
    pick = experiment.ask()
    reply = pick.tell(np.zeros((5, 4), np.float32), next=True)
    assert (reply.next.ended, pick.next) == (True, None)
    experiment.resume(budget=20)
    pick = experiment.ask(worker="w")
    reply = pick.tell(np.zeros((5, 4), np.float16), next=True)
    assert (pick.next.number, pick.next.info) == (4, reply.next.picks[0])
    assert experiment.ask(worker="w").number == 4
