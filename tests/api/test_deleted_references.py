"""References are deleted while experiments are created, imported and deleted: none is left without its reference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import pytest
from redis.asyncio import Redis

from optimist.api.app import create_app
from optimist.settings import Settings
from optimist.store import EmbeddedRedis, Store
from optimist.store.restoration import Restoration
from optimist_client import tensors
from tests.support.configs import config_of

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")

MOMENTS = tensors.encode({"mean": np.zeros(2), "covariance": np.eye(2)})
OTHERS = tensors.encode({"mean": np.ones(2), "covariance": np.eye(2)})


@pytest.fixture
async def http(server: EmbeddedRedis, redis: Redis) -> AsyncIterator[httpx.AsyncClient]:
    await redis.flushall()
    app = create_app(Settings(redis_url=server.url), server.url)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield http


async def upload(http: httpx.AsyncClient, name: str = "real", body: bytes = MOMENTS) -> None:
    answer = await http.post(f"/v1/references?name={name}", content=body, headers={"content-type": tensors.MEDIA_TYPE})
    assert answer.status_code == 200, answer.text


async def create(http: httpx.AsyncClient, name: str = "x", reference: str = "real") -> httpx.Response:
    config = config_of(name=name, generators=["a", "b"], metric="fid", reference=reference)
    headers = {"content-type": "application/json"}
    return await http.post("/v1/experiments", content=config.model_dump_json(), headers=headers)


async def listed(http: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await http.get("/v1/references", params=query)
    return [one["name"] for one in answer.json()["references"]]


async def test_a_reference_is_deleted_once_no_experiment_uses_it(http: httpx.AsyncClient):
    assert (await http.delete("/v1/references/real")).status_code == 404
    for name in ("real", "spare"):
        await upload(http, name)
    assert await listed(http, unused=True) == ["spare", "real"]
    assert (await create(http)).status_code == 200
    assert (await listed(http), await listed(http, unused=True)) == (["spare", "real"], ["spare"])
    refused = await http.delete("/v1/references/real")
    assert (refused.status_code, refused.json()["detail"]) == (409, "experiment 'x' uses it: delete that first")
    assert (await http.delete("/v1/references/spare")).status_code == 204
    assert (await http.delete("/v1/references/spare")).status_code == 404
    assert (await http.delete("/v1/experiments/x")).status_code == 204
    assert (await http.delete("/v1/references/real")).status_code == 204
    assert await listed(http) == []
    assert (await create(http)).status_code == 404
    await upload(http, body=OTHERS)
    assert (await create(http)).status_code == 200, "the name is free for other contents"


async def test_a_reference_that_a_trial_uses_stays(http: httpx.AsyncClient, store: Store):
    await upload(http)
    config = (await create(http)).text
    copies = store.in_namespace("default").copies
    await copies.create_experiment("copy", config, ["a", "b"], growth=0.0, labels=["fid"])
    await http.delete("/v1/experiments/x")
    await copies.reserve("copy", 10)
    assert await listed(http, unused=True) == []
    assert "a trial uses it" in (await http.delete("/v1/references/real")).json()["detail"]


def before(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, act: Callable[[], Awaitable[object]]) -> None:
    """Act before the first call of a method."""
    original = getattr(kind, method)

    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(kind, method, original)
        await act()
        return await original(*args, **kwargs)

    monkeypatch.setattr(kind, method, wrapped)


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_reference_deleted_before_its_experiment_is_reserved_is_missed(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, is_back: bool
):
    """Also where another one has taken its name meanwhile."""

    async def deleted() -> None:
        assert (await http.delete("/v1/references/real")).status_code == 204
        if is_back:
            await upload(http, body=OTHERS)

    await upload(http)
    before(monkeypatch, Store, "reserve", deleted)
    refused = await create(http)
    assert (refused.status_code, refused.json()["detail"]) == (409, "reference 'real' was deleted meanwhile")
    assert (await http.get("/v1/experiments/x")).status_code == 404


async def test_a_reference_stays_for_an_experiment_in_creation(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    async def refused() -> None:
        answer = await http.delete("/v1/references/real")
        assert answer.status_code == 409
        assert "an experiment is being created, which may use it: 'x'" in answer.json()["detail"]

    await upload(http)
    before(monkeypatch, Store, "create_experiment", refused)
    assert (await create(http)).status_code == 200
    assert await listed(http) == ["real"]


async def test_a_reference_stays_for_an_experiment_that_is_imported(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    async def refused() -> None:
        assert (await http.delete("/v1/references/real")).status_code == 409

    await upload(http)
    await create(http)
    archive = (await http.get("/v1/experiments/x/export")).content
    await http.delete("/v1/experiments/x")
    before(monkeypatch, Restoration, "commit", refused)
    headers = {"content-type": "application/zip"}
    assert (await http.post("/v1/import", content=archive, headers=headers)).status_code == 200
    await http.delete("/v1/experiments/x")

    async def deleted() -> None:
        assert (await http.delete("/v1/references/real")).status_code == 204

    before(monkeypatch, Store, "reserve", deleted)
    again = await http.post("/v1/import", content=archive, headers=headers)
    assert (again.status_code, again.json()["detail"]) == (409, "reference 'real' was deleted meanwhile")
    assert (await http.post("/v1/import?name=y", content=archive, headers=headers)).status_code == 200
    assert await listed(http) == ["real"], "the archive holds it"


async def test_no_experiment_is_ever_without_its_reference(http: httpx.AsyncClient):
    """Creations and deletions at the same moment, in whatever order they come."""
    seen = set[tuple[int, int]]()
    for number in range(30):
        reference = f"real-{number}"
        await upload(http, reference)
        created, deleted = await asyncio.gather(
            create(http, f"x-{number}", reference), http.delete(f"/v1/references/{reference}")
        )
        seen.add((created.status_code, deleted.status_code))
        assert (created.status_code == 200) <= (deleted.status_code == 409), (created.text, deleted.text)
        assert (await http.get(f"/v1/references/{reference}")).status_code == (404 if deleted.is_success else 200)
    assert seen <= {(200, 409), (404, 204), (409, 204), (409, 409)}, seen
