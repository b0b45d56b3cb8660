"""`.npz` bodies: what numpy writes is taken as other encodings are, and what means harm is refused."""

from __future__ import annotations

import io
import socket
import struct
import time
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest
from npy import changed, described, member, saved, zipped
from processes import Service, batch_path, serving

from optimist.api.bodies import npz
from optimist_client import Optimist, tensors

BATCH = np.random.default_rng(0).standard_normal((5, 4))
LIMIT = 100_000


def read(body: bytes, limit: int = LIMIT) -> dict[str, np.ndarray]:
    return npz.Archive.of(body, limit).arrays()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_writes_is_read(compressed: bool, dtype: str, order: str):
    rows = np.asarray(BATCH, dtype, order=order)  # type: ignore[call-overload]
    read_back = read(saved(compressed, features=rows))["features"]
    assert read_back.dtype == np.dtype(dtype[1:])
    assert np.array_equal(read_back, rows)


def test_an_archive_says_what_it_comes_to_before_it_is_unpacked():
    body = saved(True, features=np.zeros((1000, 4)))
    archive = npz.Archive.of(body, LIMIT)
    assert len(body) < 1000 < 32_000 < archive.size
    with pytest.raises(ValueError, match="at most 10000 bytes together"):
        npz.Archive.of(body, 10_000)


BOMB = zipped(zipfile.ZIP_DEFLATED, features=b"\0" * 10_000_000)
GOOD = zipped(features=member(described(), b"\0" * 32))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "too short"),
        (b"PK" * 50, "a zip without a comment"),
        (GOOD + b"x", "a zip without a comment"),
        (GOOD[:-30] + GOOD[-22:], "expected an .npz archive"),
        (BOMB, "at most 100000 bytes together, got 10000000"),
        (changed(BOMB, "features.npy", 24, 200), "CRC"),
        (changed(GOOD, "features.npy", 24, 1000), "expected an .npz archive|are there"),
        (changed(GOOD, "features.npy", 42, 2**31), "expected an .npz archive"),
        (zipped(**{f"a{n}": b"" for n in range(17)}), "at most 16 arrays, got 17"),
        (zipped(**{f"a{n}": b"" for n in range(2000)}), "table of contents of at most 65536 bytes"),
        (zipped(zipfile.ZIP_BZIP2, features=member(described(), b"\0" * 32)), "stored or deflated"),
        (zipped(features=b"\0" * 32), "in .npy format"),
        (zipped(features=b""), "in .npy format"),
        (zipped(features=member(described(), b"\0" * 31)), "its shape does not go with the 31 bytes"),
        (zipped(features=member(described(shape="(1000000000, 1000000000)"))), "its shape does not go"),
        (zipped(features=member(described(shape=f"(0, {10**300})"))), "its shape does not go"),
        (zipped(features=member(described(shape="(-1, 4)"))), "as numpy writes it"),
        (zipped(features=member(described("|O"), b"\0" * 32)), "as numpy writes it"),
        (zipped(features=member(described("<i8"), b"\0" * 32)), "expected f2, f4 or f8, got <i8"),
        (zipped(features=member(described("<U2"), b"\0" * 32)), "expected f2, f4 or f8"),
        (zipped(ids=member(described("<f8"), b"\0" * 32)), "expected text"),
        (zipped(features=member("{'descr': [('a', '<f8')], 'shape': (4,)}")), "as numpy writes it"),
        (zipped(features=member("(" * 4000)), "as numpy writes it"),
        (zipped(features=member(" " * 5000)), "a header of at most 4096 bytes"),
        (zipped(features=b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31)), "a header of at most 4096 bytes"),
    ],
    ids=range(25),
)
def test_what_means_harm_is_refused_with_a_word(body: bytes, expected: str):
    with pytest.raises(ValueError, match=expected):
        read(body)


def test_objects_are_not_unpickled():
    with pytest.raises(ValueError, match="pickles are not read"):
        read(saved(features=np.array([{"a": 1}], object)))


@pytest.mark.parametrize(
    "text", ["1if " * 1000, "-" * 4000 + "1", "{'descr': '<f8', 'shape': (1L, 4L)}", "'\\d'" * 900]
)
def test_what_python_thinks_of_a_header_is_not_logged(
    http: httpx.Client, client: Optimist, service: Service, name: str, reference, text: str
):
    """numpy parses it as a Python literal; Python warns about some of those."""
    experiment = client.create_experiment(name, ["a"], reference=reference)
    reply = told(http, batch_path(experiment.ask()), zipped(features=member(text, b"\0" * 32)))
    assert reply.status_code in (400, 422)
    assert "as numpy writes it" in reply.json()["detail"]
    assert "Warning" not in service.log()


def test_two_members_of_a_name_are_refused():
    body = zipped(features=member(described(), b"\0" * 32), featureS=member(described(), b"\0" * 32))
    with pytest.raises(ValueError, match="different names"):
        read(body.replace(b"featureS.npy", b"features.npy"))


def test_members_that_share_their_bytes_count_each():
    """The trick by which a zip of some kilobytes holds petabytes."""
    body = zipped(a=member(described(shape="(1000, 8)"), b"\0" * 64_000), b=member(described(), b"\0" * 32))
    overlapping = changed(changed(body, "b.npy", 42, 0), "b.npy", 24, 64_100)
    with pytest.raises(ValueError, match="at most 100000 bytes together"):
        npz.Archive.of(overlapping, LIMIT)


@pytest.fixture
def http(service: Service):
    with httpx.Client(base_url=service.url, timeout=60) as client:
        yield client


def told(http: httpx.Client, path: str, body: bytes) -> httpx.Response:
    return http.post(path, content=body, headers={"content-type": npz.MEDIA_TYPE})


def test_a_tell_as_npz_is_the_tell_that_it_is_as_safetensors(
    http: httpx.Client, client: Optimist, name: str, reference
):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, seed=1)
    path = batch_path(experiment.ask())
    ids = ["a", "é", "longer", "", "e"]
    assert told(http, path, saved(True, features=BATCH, ids=np.array(ids))).json()["duplicate"] is False
    body = tensors.encode({"features": BATCH, "ids": tensors.pack_ids(ids)})
    again = http.post(path, content=body, headers={"content-type": tensors.MEDIA_TYPE})
    assert again.json()["duplicate"] is True
    assert told(http, path, saved(features=BATCH, ids=tensors.pack_ids(ids))).json()["duplicate"] is True
    assert told(http, path, saved(features=np.asfortranarray(BATCH), ids=np.array(ids))).json()["duplicate"] is True
    assert told(http, path, saved(features=BATCH + 1, ids=np.array(ids))).status_code == 409


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.array([["a"]] * 5), "a list of strings"),
        (np.array("a"), "a list of strings"),
        (np.array(["a"] * 4), "as many rows"),
        (np.array(["\ud800"] * 5), "surrogates"),
        (np.frombuffer(b"\xff" * 20, "<U1"), "no character"),
    ],
    ids=range(5),
)
def test_ids_in_npz_are_text_of_each_row(
    http: httpx.Client, client: Optimist, name: str, reference, ids: np.ndarray, expected: str
):
    client.create_experiment(name, ["a"], reference=reference)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for key, array in {"features": BATCH, "ids": ids}.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            archive.writestr(f"{key}.npy", content.getvalue())
    path = f"/v1/experiments/{name}/generators/a/batches"
    headers = {"content-type": npz.MEDIA_TYPE, "idempotency-key": "k"}
    refused = http.post(path, content=file.getvalue(), headers=headers)
    assert refused.status_code == 422
    assert expected in refused.json()["detail"]


def test_moments_as_pytorch_fid_keeps_them_make_a_reference(http: httpx.Client, name: str):
    made = told(http, f"/v1/references?name={name}", saved(mu=np.zeros(4), sigma=np.eye(4)))
    assert made.status_code == 200
    assert made.json()["dimension"] == 4


@pytest.fixture
def small(tmp_path) -> Any:
    limits = {"OPTIMIST_MAX_BODY": "1000000", "OPTIMIST_MAX_MEMORY": "2500000", "OPTIMIST_BODY_TIMEOUT": "300"}
    with serving(tmp_path, "--no-scoring", environment=limits) as service, Optimist(service.url) as client:
        client.create_experiment("x", ["a"], metric="is", dimension=3)
        yield service


def held(http: httpx.Client) -> float:
    """Bytes of bodies that the service holds."""
    lines = http.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("optimist_body_bytes ")).split()[1])


def test_what_is_unpacked_is_counted_as_a_body_is(small: Service):
    with (
        httpx.Client(base_url=small.url, timeout=60) as http,
        socket.create_connection(("127.0.0.1", small.port), timeout=60) as other,
    ):
        path = "/v1/experiments/x/generators/a/batches"
        headers = {"content-type": npz.MEDIA_TYPE, "idempotency-key": "k"}
        bomb = http.post(path, content=saved(True, probabilities=np.zeros((100_000, 3))), headers=headers)
        assert bomb.status_code == 422
        assert "at most 1000000 bytes together" in bomb.json()["detail"]
        # Small enough on its way, but not unpacked, while another body lies there.
        body = saved(True, probabilities=np.tile(np.eye(3), (10_000, 1)))
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {npz.MEDIA_TYPE}\r\n"
        other.sendall(f"{head}idempotency-key: other\r\ncontent-length: 500000\r\n\r\n".encode() + b"\0" * 400_000)
        deadline = time.monotonic() + 60
        while held(http) < 400_000:
            assert time.monotonic() < deadline
        assert http.post(path, content=body, headers=headers).status_code == 503
        other.close()
        while held(http):
            assert time.monotonic() < deadline
        assert http.post(path, content=body, headers=headers).json()["samples"] == 30_000
        while held(http):
            assert time.monotonic() < deadline


def test_moments_may_have_other_arrays_beside_them(http: httpx.Client, name: str):
    """pytorch-fid's files of some projects hold the number of samples and the name of the network, too."""
    body = io.BytesIO()
    np.savez(body, mu=np.zeros(3), sigma=np.eye(3), n=np.int64(50_000), network=np.array(["inception"]))
    headers = {"content-type": npz.MEDIA_TYPE}
    reply = http.post(f"/v1/references?name={name}", content=body.getvalue(), headers=headers)
    assert reply.status_code == 200, reply.text
    assert reply.json()["dimension"] == 3
