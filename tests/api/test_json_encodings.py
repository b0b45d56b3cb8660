"""Bodies of JSON are UTF-8 on every route that takes them: values in other encodings would not be counted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from optimist.api.app import create_app
from optimist.settings import Settings
from optimist.store import start_embedded

CONFIG = {"name": "x", "generators": ["a"], "metric": {"name": "mean"}, "batch_size": 1}
ROUTER = CONFIG | {"name": "r", "goal": "route", "context": 2}
TEXT = '{"\u0122": [], "\u2222": {}}'
BODIES = {
    **{encoding: TEXT.encode(encoding) for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")},
    **{encoding: TEXT.encode(encoding) for encoding in ("utf-32", "utf-32-le", "utf-32-be")},
    "latin-1": b'{"\xe9": 1}',
    "a surrogate": b'{"\xed\xa0\x80": 1}',
    "cut": TEXT.encode()[:3],
}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    with start_embedded(tmp_path) as redis:
        app = create_app(Settings(), redis.url)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as client,
        ):
            for config in (CONFIG, ROUTER):
                (await client.post("/v1/experiments", json=config)).raise_for_status()
            yield client


def taking_json(openapi: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Method and path of each operation that takes JSON."""
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                yield method.upper(), path


@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
async def test_json_is_utf_8_on_every_route(http: httpx.AsyncClient):
    operations = list(taking_json((await http.get("/openapi.json")).json()))
    paths = {path for _, path in operations}
    for wanted in ("picks", "picks/{number}/batch", "generators/{generator}/batches", "blend", "corrections", "shares"):
        assert f"/v1/experiments/{{name}}/{wanted}" in paths
    assert {"/v1/experiments", "/v1/references", "/v1/experiments/{name}/picks/{number}/previews"} <= paths
    for method, path in operations:
        for name in ("x", "r") if path.endswith("/picks") else ("x",):  # asks of a router have contexts
            url = path.format_map(defaultdict(lambda: "a", name=name, number=1))
            for encoding, body in BODIES.items():
                answer = await http.request(
                    method,
                    url,
                    content=body,
                    params={"nonce": "ab", "name": "ref"},
                    headers={"content-type": "application/json", "idempotency-key": "key"},
                )
                assert answer.status_code == 400, (method, url, encoding, answer.text)
                assert "expected JSON in UTF-8" in answer.json()["detail"], (method, url, encoding)


@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
async def test_a_form_is_refused_on_every_route_of_json(http: httpx.AsyncClient):
    for method, path in taking_json((await http.get("/openapi.json")).json()):
        for name in ("x", "r") if path.endswith("/picks") else ("x",):
            url = path.format_map(defaultdict(lambda: "a", name=name, number=1))
            params, headers = {"nonce": "ab", "name": "ref"}, {"idempotency-key": "key"}
            answer = await http.request(method, url, data={"name": "a"}, params=params, headers=headers)
            said = answer.json()["detail"]
            assert answer.status_code == 415, (method, url, said)
            assert re.fullmatch(r"expected .*application/json, got '?application/x-www-form-urlencoded'?", said), url
