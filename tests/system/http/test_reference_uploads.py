"""References whose rows are kept: streamed in one request, and seen only when whole."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.api import references
from optimist.api.app import create_app
from optimist.estimation.stored import stored_reference
from optimist.settings import Settings
from optimist.store import Store, open_store, running_url, start_embedded
from optimist_client import AsyncOptimist, ConflictError, FixError, Optimist, tensors
from optimist_client.metrics import FID, KID
from tests.support.processes import Service

ROWS = np.random.default_rng(4).standard_normal((300, 8), dtype=np.float32)
DIGEST = tensors.digest({"features": ROWS})
BODY = tensors.encode({"features": ROWS})
SMALL = {"max_body": 3000, "max_json": 3000, "max_memory": 9000}
"""Limits of bodies in memory that the rows exceed."""
# FastAPI's own, of routes that take headers; it comes with the first request.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")


class Served:
    """A service in this process."""

    def __init__(self, http: httpx.AsyncClient, store: Store) -> None:
        self.http, self.store = http, store

    async def put(self, body: bytes = BODY, digest: str = DIGEST, **params: Any) -> httpx.Response:
        headers, wanted = {"content-type": tensors.MEDIA_TYPE}, {"digest": digest, **params}
        return await self.http.put("/v1/references/real/rows", content=body, headers=headers, params=wanted)


@asynccontextmanager
async def served(directory: Path, **settings: Any) -> AsyncIterator[Served]:
    with start_embedded(directory) as redis:
        async with answering(redis.url, data_dir=directory, **settings) as http, open_store(redis.url) as store:
            yield Served(http, store.in_namespace("default"))


@asynccontextmanager
async def answering(url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An API on this Redis."""
    app = create_app(Settings(**{**SMALL, **settings}), url)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=60) as http,
    ):
        yield http


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
async def test_rows_in_blocks_become_the_reference(
    tmp_path: Path, kind: type[np.floating], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(references, "BLOCK", 3000)
    rows = ROWS.astype(kind)
    digest = tensors.digest({"features": rows})
    async with served(tmp_path) as service:
        info = (await service.put(tensors.encode({"features": rows}), digest, embedding="pixels")).json()
        stored = await service.store.references.get("real")
        assert info["rows"] == info["samples"] == 300
        assert (info["dimension"], info["digest"], info["embedding"]) == (8, digest, "pixels")
        assert info["bytes"] == len(stored[1])
        assert (await service.http.get("/v1/references")).json()["references"] == [info]
        real = stored_reference(stored[1])
        assert real.rows is not None
        np.testing.assert_array_equal(real.rows, rows)
        np.testing.assert_allclose(real.mean, rows.astype(np.float64).mean(0), atol=1e-15)
        np.testing.assert_allclose(real.covariance, np.cov(rows.astype(np.float64), rowvar=False), rtol=1e-12)
        assert info["scale"] == pytest.approx(real.scale, rel=1e-12)


async def test_repeats_change_nothing(tmp_path: Path):
    async with served(tmp_path, max_body=100_000, max_memory=10**6) as service:
        first = (await service.put()).json()
        double = tensors.encode({"features": ROWS.astype(np.float64)})
        for body in (BODY, double, b"not read"):
            assert (await service.put(body)).json() == first
        other = await service.put(digest="0" * 64)
        assert (other.status_code, "exists with other contents" in other.json()["detail"]) == (409, True)
        assert (await service.put(embedding="pixels")).status_code == 200, "where the first did not say"
        headers = {"content-type": tensors.MEDIA_TYPE}
        moments = await service.http.post("/v1/references?name=real", content=BODY, headers=headers)
        assert moments.status_code == 409, "a reference without rows is another one"
        assert await service.store._commands.redis.keys("*upload*") == []


def bent(**changes: Any) -> bytes:
    return tensors.encode({"features": ROWS, **changes})


REFUSED = {
    "cut": (BODY[:-1], f"expected {len(BODY)} bytes by the header, got {len(BODY) - 1}"),
    "cut in the header": (BODY[:5], "safetensors body"),
    "too long": (BODY + b"x", f"expected {len(BODY)} bytes by the header, got {len(BODY) + 1}"),
    "others": (bent(features=ROWS + 1), f"not {DIGEST}"),
    "infinite": (
        bent(features=np.where(ROWS < 0, np.inf, ROWS)),
        "of the rows from 0 on: features: expected finite numbers",
    ),
    "one row": (bent(features=ROWS[:1]), "with n at least 2, got (1, 8)"),
    "one axis": (bent(features=ROWS[0]), "expected features (n, d)"),
    "no columns": (bent(features=ROWS[:, :0]), "d from 1 to 16384"),
    "more arrays": (bent(more=ROWS), "and nothing else"),
    "JSON": (b'{"features": [[1.0], [2.0]]}', "safetensors body"),
}


@pytest.mark.parametrize(("body", "expected"), REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_stores_nothing(tmp_path: Path, body: bytes, expected: str):
    async with served(tmp_path) as service:
        answer = await service.put(body)
        assert (answer.status_code, expected in answer.json()["detail"]) == (422, True), answer.text
        assert await service.store._commands.redis.keys("*reference*") == []


async def test_large_ones_are_refused_for_their_size_and_memory(tmp_path: Path):
    async with served(tmp_path, max_reference=5000) as service:
        answer = await service.put()
        assert (answer.status_code, "at most 5000 bytes" in answer.json()["detail"]) == (413, True)
    wide = np.zeros((2, 256), np.float32)
    async with served(tmp_path / "wide", max_memory=1_000_000) as service:
        answer = await service.put(tensors.encode({"features": wide}), tensors.digest({"features": wide}))
        assert (answer.status_code, "at most 1000000 bytes of memory" in answer.json()["detail"]) == (413, True)


async def test_all_who_send_the_same_rows_get_the_reference(tmp_path: Path):
    """To one process, and to two."""
    async with served(tmp_path) as service, answering(running_url(tmp_path) or "", data_dir=tmp_path) as other:
        there = [service, Served(other, service.store)]
        answers = await asyncio.gather(*[each.put() for each in there * 6])
        assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
        infos = [answer.json() for answer in answers]
        assert all(info == infos[0] for info in infos)


def test_a_body_that_is_cut_off_leaves_nothing(service: Service, client: Optimist, name: str):
    path = f"/v1/references/{name}/rows?digest={DIGEST}"
    head = f"PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n"
    address = httpx.URL(service.url)
    for cut in (0, 100, len(BODY) - 1):
        with socket.create_connection((address.host, address.port)) as connection:
            connection.sendall(head.encode() + BODY[:cut])
    assert httpx.get(f"{service.url}/v1/references/{name}").status_code == 404
    assert client.create_reference(name, features=ROWS, keep_rows=True).digest == DIGEST


class CutOff(httpx.TransportError):
    """The end of a connection."""


def test_an_upload_that_breaks_off_begins_anew(client: Optimist, name: str, monkeypatch: pytest.MonkeyPatch):
    rows = np.random.default_rng(0).standard_normal((9000, 64), dtype=np.float32)
    content, attempts = client._transport._content, list[int]()

    def broken(pieces: Any) -> Any:
        attempts.append(0)
        for piece in content(pieces):
            attempts[-1] += len(piece)
            if len(attempts) == 1 and attempts[-1] > 2**20:
                raise CutOff("cut off", request=httpx.Request("PUT", "http://x"))
            yield piece

    monkeypatch.setattr(client._transport, "_content", broken)
    info = client.create_reference(name, features=rows, keep_rows=True, progress=True)
    assert len(attempts) == 2
    assert attempts[1] == len(tensors.encode({"features": rows}))
    assert (info.rows, info.samples, info.digest) == (9000, 9000, tensors.digest({"features": rows}))
    assert client.create_reference(name, features=rows, keep_rows=True) == info
    assert len(attempts) == 2, "it is there"
    with pytest.raises(ConflictError, match="other contents"):
        client.create_reference(name, features=rows + 1, keep_rows=True)


async def test_the_asyncio_client_streams_them_too(service: Service, name: str):
    async with AsyncOptimist(service.url) as client:
        info = await client.create_reference(name, features=ROWS, keep_rows=True)
    assert (info.rows, info.digest) == (300, DIGEST)


def test_metrics_get_what_they_compare_with(service: Service, client: Optimist, name: str, tmp_path: Path):
    np.save(tmp_path / "real.npy", ROWS)
    made = client.create_experiment(name, ["a", "b"], metric=KID(reference=tmp_path / "real.npy"))
    own = f"{name}-reference"
    assert made.info.config.metric.reference == own
    known = {info.name: info for info in client.references()}
    assert (known[own].rows, known[own].digest) == (300, made.info.references[own])
    watch = [KID(reference=ROWS), KID(reference=ROWS, label="kid-again"), FID(reference=ROWS, label="other")]
    both = client.create_experiment(f"{name}-2", ["a", "b"], metric=FID(reference=ROWS), watch=watch)
    named = [metric.reference for metric in both.info.config.metrics.values()]
    assert named == [f"{name}-2-reference", *[f"{name}-2-reference-2"] * 2, f"{name}-2-reference"]
    known = {info.name: info for info in client.references()}
    assert (known[named[0]].rows, known[named[1]].rows) == (None, 300)
    assert client.create_experiment(f"{name}-2", ["a", "b"], metric=FID(reference=ROWS), watch=watch).info == both.info
    with pytest.raises(FixError, match=r"'kid' compares with rows, and .* holds only moments"):
        client.create_experiment(f"{name}-3", ["a", "b"], metric=KID(reference=named[0]))
    with pytest.raises(FixError, match="got moments: these have no rows to keep"):
        client.create_experiment(f"{name}-3", ["a", "b"], metric=KID(reference=(np.zeros(8), np.eye(8))))
