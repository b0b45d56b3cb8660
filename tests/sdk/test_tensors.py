"""Bodies of safetensors: what the library refuses is refused, and bodies one after another are as many as expected."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors

from optimist_client import tensors
from optimist_client.errors import FixError

ENTRY = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'

ACCEPTED = [
    f'{{"a":{ENTRY}}}',
    f'{{"a":{ENTRY}}}   \n\t',
    f'{{ "a" : {ENTRY}, "__metadata__": {{"by": "me"}} }}',
    f'{{"\\u00e9":{ENTRY}}}',
    f'{{"__metadata__":null,"a":{ENTRY}}}',
    f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}}}',
]
REFUSED = {
    "dtype twice": '{"a":{"dtype":"F64","dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    "shape twice": '{"a":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,4]}}',
    "data_offsets twice": '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8],"data_offsets":[0,4]}}',
    "__metadata__ twice": f'{{"__metadata__":{{}},"a":{ENTRY},"__metadata__":{{}}}}',
    "metadata that is a number": f'{{"__metadata__":{{"n":1}},"a":{ENTRY}}}',
    "metadata that is an object": f'{{"__metadata__":{{"n":{{}}}},"a":{ENTRY}}}',
    "metadata that is a list": f'{{"__metadata__":["n"],"a":{ENTRY}}}',
    "a byte order mark": f'\ufeff{{"a":{ENTRY}}}',
    "a list": f"[{ENTRY}]",
    "null": "null",
    "nothing": "",
    "zeros behind": f'{{"a":{ENTRY}}}\0\0',
    "a second object behind": f'{{"a":{ENTRY}}}{{}}',
    "a comma behind": f'{{"a":{ENTRY},}}',
    "single quotes": f"{{'a':{ENTRY}}}",
    "a control character": f'{{"a\x01":{ENTRY}}}',
    "half of a surrogate pair": f'{{"\\ud800":{ENTRY}}}',
    "half of one in metadata": f'{{"__metadata__":{{"n":"\\udc00"}},"a":{ENTRY}}}',
    "NaN": '{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}',
    "a fraction": '{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}',
    "a negative number": '{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
    "minus zero": '{"a":{"dtype":"F32","shape":[1],"data_offsets":[-0,4]}}',
    "more than 64 bits": '{"a":{"dtype":"F32","shape":[0,18446744073709551616],"data_offsets":[0,0]}}',
    "sizes whose product is too large": '{"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}',
    "a boolean": '{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
    "a shape that is a text": '{"a":{"dtype":"F32","shape":"","data_offsets":[0,4]}}',
    "a shape that is an object": '{"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}}',
    "three offsets": '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}',
    "no dtype": '{"a":{"shape":[1],"data_offsets":[0,4]}}',
    "no such dtype": '{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
    "a tensor that is null": '{"a":null}',
    "a gap": '{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}',
    "a shape of other bytes": '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}',
    "lists that are nested deeply": f'{{"a":{"[" * 500}{"]" * 500}}}',
}
"""Headers of bodies with one number."""


def body_of(header: bytes, numbers: bytes = b"\0\0\x80\x3f") -> bytes:
    return len(header).to_bytes(8, "little") + header + numbers


@pytest.mark.parametrize("header", ACCEPTED)
def test_what_the_library_reads_is_read(header: str):
    body = body_of(header.encode())
    expected = {name: entry["shape"] for name, entry in safetensors.deserialize(body)}
    assert {name: list(array.shape) for name, array in tensors.decode(body).items()} == expected


@pytest.mark.parametrize("header", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("numbers", [b"\0\0\x80\x3f", b""], ids=["a number", "none"])
def test_what_the_library_refuses_is_refused(header: str, numbers: bytes):
    body = body_of(header.encode(), numbers)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(body)
    with pytest.raises(FixError):
        tensors.decode(body)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"])
def test_other_encodings_are_refused(encoding: str):
    body = body_of(f'{{"é":{ENTRY}}}'.encode(encoding))
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(body)
    with pytest.raises(FixError, match="header cannot be read"):
        tensors.decode(body)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (f'{{"a":{ENTRY},"a":{ENTRY}}}', "a key twice"),
        (f'{{"a":{ENTRY},"\\u0061":{ENTRY}}}', "a key twice"),
        ('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]}}', "strides"),
        (f' {{"a":{ENTRY}}}', "first character"),
    ],
)
def test_what_readers_may_understand_in_two_ways_is_refused(header: str, problem: str):
    """The library reads it: the last tensor of a name, what a tensor has beside, spaces in front."""
    with pytest.raises(FixError, match=problem):
        tensors.decode(body_of(header.encode()))


def test_bodies_one_after_another_are_as_many_as_expected():
    bodies = [tensors.encode({"a": np.full(size, 1.0)}) for size in (1, 0, 3)]
    assert tensors.split(b"".join(bodies), 3) == bodies
    for expected in (2, 4):
        with pytest.raises(FixError, match=f"expected {expected} bodies of safetensors, got"):
            tensors.split(b"".join(bodies), expected)


def test_no_header_is_read_beyond_those_that_are_expected():
    bodies = tensors.encode({"a": np.ones(1)}) + b"\x02" + bytes(7) + b"[]"
    with pytest.raises(FixError, match="got more"):
        tensors.split(bodies, 1)
    with pytest.raises(FixError, match="cannot be read"):
        tensors.split(bodies, 2)
