"""References whose rows are kept: sent in pieces, gone on with after whatever happened, and seen only when whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.api.app import create_app
from optimist.estimation.stored import stored_reference
from optimist.settings import Settings
from optimist.store import Store, open_store, running_url, start_embedded
from optimist_client import ConflictError, FixError, Optimist, tensors
from optimist_client.metrics import FID, KID
from tests.support.processes import Service

ROWS = np.random.default_rng(4).standard_normal((300, 8), dtype=np.float32)
DIGEST = tensors.digest({"features": ROWS})
SMALL = {"max_body": 3000, "max_json": 3000}
"""Limits by which the rows are 5 pieces of 61."""
# FastAPI's own, of routes that take headers; it comes with the first request.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")


class Served:
    """A service in this process."""

    def __init__(self, http: httpx.AsyncClient, store: Store) -> None:
        self.http, self.store = http, store

    async def begin(self, array: np.ndarray = ROWS, name: str = "real", **changes: Any) -> httpx.Response:
        wanted = {"rows": len(array), "dimension": array.shape[1], "dtype": array.dtype.name}
        digest = tensors.digest({"features": array})
        return await self.http.post(f"/v1/references/{name}/uploads", json={**wanted, "digest": digest, **changes})

    async def put(self, piece: int, rows: np.ndarray = ROWS, digest: str = DIGEST, size: int = 61) -> httpx.Response:
        body = tensors.encode({"features": rows[piece * size : (piece + 1) * size]})
        headers = {"content-type": tensors.MEDIA_TYPE}
        return await self.http.put(f"/v1/references/real/uploads/{digest}/{piece}", content=body, headers=headers)

    async def complete(self, digest: str = DIGEST) -> httpx.Response:
        return await self.http.post(f"/v1/references/real/uploads/{digest}")

    async def send(self, *pieces: int) -> None:
        for piece in pieces:
            assert (await self.put(piece)).status_code == 204


@asynccontextmanager
async def served(directory: Path, **settings: Any) -> AsyncIterator[Served]:
    with start_embedded(directory) as redis:
        async with answering(redis.url, **settings) as http, open_store(redis.url) as store:
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


async def test_pieces_in_any_order_become_the_reference(tmp_path: Path):
    async with served(tmp_path) as service:
        state = (await service.begin(embedding="pixels")).json()
        assert state == {"piece_rows": 61, "pieces": 5, "missing": [0, 1, 2, 3, 4]}
        await service.send(4, 0, 2, 1)
        early = await service.complete()
        assert early.status_code == 409
        assert "1 of 5 pieces are missing: send 3" in early.json()["detail"]
        await service.send(3)
        assert (await service.http.get("/v1/references/real")).status_code == 404
        info = (await service.complete()).json()
        stored = await service.store.references.get("real")
        assert info["rows"] == info["samples"] == 300
        assert (info["dimension"], info["digest"], info["embedding"]) == (8, DIGEST, "pixels")
        assert info["bytes"] == len(stored[1])
        assert (await service.http.get("/v1/references")).json()["references"] == [info]
        real = stored_reference(stored[1])
        assert real.rows is not None
        np.testing.assert_allclose(real.mean, ROWS.astype(np.float64).mean(0), atol=1e-15)
        np.testing.assert_allclose(real.covariance, np.cov(ROWS.astype(np.float64), rowvar=False), rtol=1e-12)
        assert info["scale"] == pytest.approx(real.scale, rel=1e-12)


async def test_repeats_change_nothing(tmp_path: Path):
    async with served(tmp_path) as service:
        await service.begin()
        await service.send(0, 1, 2, 3, 4, 2)
        first = (await service.complete()).json()
        assert (await service.complete()).json() == first
        assert (await service.begin()).json()["missing"] == []
        assert (await service.put(2)).status_code == 404, "the upload is done"
        whole = await service.http.post("/v1/references?name=real&rows=true", json={"features": ROWS[:9].tolist()})
        assert whole.status_code == 409
        assert await service.store._commands.redis.keys("*upload*") == []


async def test_rows_in_one_request_are_the_same_reference(tmp_path: Path):
    async with served(tmp_path, max_body=100_000) as service:
        headers = {"content-type": tensors.MEDIA_TYPE}
        url, body = "/v1/references?name=real&rows=true", tensors.encode({"features": ROWS})
        info = (await service.http.post(url, content=body, headers=headers)).json()
        assert (info["rows"], info["digest"]) == (300, DIGEST)
        double = tensors.encode({"features": ROWS.astype(np.float64)})
        assert (await service.http.post(url, content=double, headers=headers)).json() == info
        moments = await service.http.post("/v1/references?name=real", content=body, headers=headers)
        assert moments.status_code == 409, "a reference without rows is another one"
        refused = await service.http.post(
            "/v1/references?name=m&rows=true", json={"mean": [0.0], "covariance": [[1.0]]}
        )
        assert refused.status_code == 422
        assert "only features have rows" in refused.json()["detail"]
        one = await service.http.post("/v1/references?name=m&rows=true", json={"features": [[1.0]]})
        assert one.status_code == 422


async def test_rows_that_are_not_those_announced(tmp_path: Path):
    async with served(tmp_path) as service:
        wrong = "0" * 64
        await service.begin(digest=wrong)
        for piece in range(5):
            await service.put(piece, digest=wrong)
        answer = await service.complete(wrong)
        assert answer.status_code == 422
        assert f"have the digest {DIGEST}, not {wrong}: the upload is deleted" in answer.json()["detail"]
        assert (await service.complete(wrong)).status_code == 404
        assert (await service.http.get("/v1/references")).json()["references"] == []


REFUSED: list[tuple[Callable[[Served], Any], int, str]] = [
    (lambda to: to.put(5), 422, "piece: expected at most 4, got 5"),
    (lambda to: to.put(4, size=60), 422, r"expected shape (56, 8) for piece 4, got (60, 8)"),
    (lambda to: to.put(0, ROWS[:, :7]), 422, r"expected shape (61, 8) for piece 0, got (61, 7)"),
    (lambda to: to.put(0, np.where(ROWS < 0, np.nan, ROWS)), 422, "piece 0: features: expected finite numbers"),
    (lambda to: to.put(1, ROWS + 1), 409, "this piece of the upload was sent before with other numbers"),
    (lambda to: to.put(0, digest="1" * 64), 404, "begin it again"),
    (lambda to: to.put(0, digest="no"), 422, "digest"),
    (lambda to: to.begin(rows=1), 422, "rows"),
    (lambda to: to.begin(dimension=17_000), 422, "dimension"),
    (lambda to: to.begin(dtype="int8"), 422, "dtype"),
    (lambda to: to.begin(dtype="float64"), 409, "the upload was begun as"),
    (lambda to: to.begin(name="large", rows=10_000), 422, "expected a reference of at most 100000 bytes, got 320"),
]


async def test_what_is_refused_changes_nothing(tmp_path: Path):
    async with served(tmp_path, max_reference=100_000) as service:
        await service.begin()
        await service.send(1)
        for send, status, expected in REFUSED:
            answer = await send(service)
            assert (answer.status_code, expected in answer.json()["detail"]) == (status, True), answer.text
            assert (await service.begin()).json()["missing"] == [0, 2, 3, 4]


async def test_a_key_has_so_many_unfinished_uploads(tmp_path: Path):
    async with served(tmp_path, max_uploads=1) as service:
        await service.begin()
        refused = await service.begin(ROWS + 1, name="other")
        assert (refused.status_code, refused.json()["action"]) == (409, "fix")
        assert refused.json()["type"].endswith(":too-many-uploads")
        assert f"complete or delete one of real ({DIGEST[:12]}…); each is dropped a day" in refused.json()["detail"]
        for _ in range(2):
            assert (await service.http.delete(f"/v1/references/real/uploads/{DIGEST}")).status_code == 204
        assert (await service.begin(ROWS + 1, name="other")).status_code == 200


async def test_the_memory_of_completing_is_counted(tmp_path: Path):
    async with served(tmp_path, max_memory=9000) as service:
        await service.begin()
        await service.send(*range(5))
        assert (await service.complete()).status_code == 200, "256 KiB are for everybody"
    wide = np.zeros((2, 256), np.float32)
    digest = tensors.digest({"features": wide})
    async with served(tmp_path / "wide", max_memory=1_000_000) as service:
        refused = await service.begin(wide)
        assert refused.status_code == 422, "before anything is sent"
        assert "at most 1000000 bytes of memory (OPTIMIST_MAX_MEMORY), those of dimension 256" in refused.text
        assert (await service.complete(digest)).status_code == 404


async def test_whoever_completes_an_upload_gets_the_reference(tmp_path: Path):
    """In one process, whose requests wait for each other, and in two."""
    async with served(tmp_path, max_memory=9000) as service, answering(running_url(tmp_path) or "") as other:
        for number in range(4):
            rows = ROWS + number
            digest = tensors.digest({"features": rows})
            await service.begin(rows)
            for piece in range(5):
                await service.put(piece, rows, digest)
            path = f"/v1/references/real/uploads/{digest}"
            answers = await asyncio.gather(*[http.post(path) for http in [service.http, other] * 6])
            assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
            infos = [answer.json() for answer in answers]
            assert all(info == infos[0] for info in infos)
            await service.store._commands.redis.delete("optimist:reference:real")


class Killed(BaseException):
    """The end of a process."""


def test_a_client_that_was_killed_goes_on(client: Optimist, name: str, monkeypatch: pytest.MonkeyPatch):
    rows = np.random.default_rng(0).standard_normal((9000, 64), dtype=np.float32)
    sent: list[str] = []
    call = client._transport.call

    async def counted(method: str, path: str, **arguments: Any) -> Any:
        if method == "PUT":
            sent.append(path)
            if len(sent) == 2:
                raise Killed
        return await call(method, path, **arguments)

    monkeypatch.setattr(client._transport, "call", counted)
    with pytest.raises(Killed):
        client.create_reference(name, features=rows, keep_rows=True)
    info = client.create_reference(name, features=rows, keep_rows=True)
    assert [path.rpartition("/")[2] for path in sent] == ["0", "1", "1", "2"]
    assert (info.rows, info.samples, info.digest) == (9000, 9000, tensors.digest({"features": rows}))
    assert client.create_reference(name, features=rows, keep_rows=True, progress=True) == info
    assert len(sent) == 4
    with pytest.raises(ConflictError, match="other contents"):
        client.create_reference(name, features=rows + 1, keep_rows=True)


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
