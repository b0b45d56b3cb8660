"""What the SDK sends: the arrays' own bytes, aligned, and a pick told and the next one taken at once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import deserialize
from safetensors.numpy import load

from optimist_client import Optimist, tensors
from optimist_client.errors import FixError


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


def test_safetensors_reads_what_is_encoded_and_every_array_is_aligned():
    body = tensors.encode(arrays())
    found, length = load(body), int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    for name, array in arrays().items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert (8 + length + header[name]["data_offsets"][0]) % array.itemsize == 0


def head(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


def entry(kind: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


BODIES = {
    "nothing": b"",
    "no header": b"12345678",
    "no JSON": (8).to_bytes(8, "little") + b"nonsense",
    "no object": (2).to_bytes(8, "little") + b"[]",
    "no fields": head(x={}) + b"1234",
    "deep": (1000).to_bytes(8, "little") + b"[" * 1000,
    "fewer bytes": head(x=entry()) + b"123",
    "more bytes": head(x=entry()) + b"12345",
    "bytes before": head(x=entry(offsets=(4, 8))) + b"12345678",
    "the same bytes": head(x=entry(), y=entry()) + b"1234",
    "another shape": head(x=entry(shape=(2,))) + b"1234",
    "a negative shape": head(x=entry(shape=(-1, -1))) + b"1234",
    "a fraction": head(x=entry(shape=(1.0,))) + b"1234",
    "true": head(x=entry(shape=(True,))) + b"1234",
    "text as shape": head(x=entry(shape="1")) + b"1234",
    "an unknown type": head(x=entry("F99")) + b"1234",
    "a list as type": head(x=entry([1])) + b"1234",  # pyright: ignore[reportArgumentType]
    "three offsets": head(x=entry(offsets=(0, 2, 4))) + b"1234",
    "long axes": head(x=entry(shape=(0, 10**30), offsets=(0, 0))),
    "many axes": head(x=entry(shape=(1,) * 99)) + b"1234",
}


@pytest.mark.parametrize("case", BODIES)
def test_a_wrong_body_is_refused(case: str):
    with pytest.raises(FixError):
        tensors.decode(BODIES[case])


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "ids", ""]),
        st.builds(
            entry,
            st.sampled_from(["F16", "F32", "F64", "BF16", "U8", "I64"]),
            st.lists(st.integers(0, 3), max_size=3),
            st.lists(st.sampled_from([0, 2, 4, 8, 12, 16]), min_size=2, max_size=2).map(sorted),
        ),
        max_size=2,
    ),
    st.binary(max_size=24),
)
def test_it_takes_nothing_that_safetensors_refuses_and_reads_the_same(fields: dict[str, Any], data: bytes):
    body = head(**fields) + data
    try:
        found = tensors.decode(body)
    except FixError:
        return
    expected = dict(deserialize(body))
    assert {name: list(array.shape) for name, array in found.items()} == {n: e["shape"] for n, e in expected.items()}
    for name, array in found.items():
        raw = bytes(expected[name]["data"])
        sent = array.view(np.uint32) >> 16 if expected[name]["dtype"] == "BF16" else array
        assert sent.astype("u2" if expected[name]["dtype"] == "BF16" else sent.dtype).tobytes() == raw


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
