"""Others are answered while large bodies are checked, though a process has one event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist.api.app import create_app
from optimist.api.bodies.objects import LARGE
from optimist.settings import Settings
from optimist.store import start_embedded
from optimist_client import tensors

CONFIG = {"name": "x", "generators": ["a"], "metric": {"name": "is", "dimension": 50}}
ROWS = np.full((2000, 50), 1 / 50)


BODIES = {
    tensors.MEDIA_TYPE: tensors.encode({"probabilities": ROWS}),
    "application/json": json.dumps({"probabilities": ROWS.tolist()}).encode(),
}


# FastAPI's own, of routes that take headers; it comes with the first request.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
async def test_small_requests_are_answered_while_large_ones_are_checked(tmp_path: Path):
    """The only thread there is for them is held until others have been answered; then they are accepted as the same."""
    assert ROWS.nbytes > LARGE
    held = threading.Event()
    with start_embedded(tmp_path) as redis, ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        app = create_app(Settings(), redis.url)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as http,
        ):
            (await http.post("/v1/experiments", json=CONFIG)).raise_for_status()
            url = "/v1/experiments/x/generators/a/batches"
            large = [
                asyncio.create_task(
                    http.post(url, content=body, headers={"content-type": kind, "idempotency-key": "the same"})
                )
                for kind, body in BODIES.items()
            ]
            try:
                threads.submit(held.wait)
                for number in range(20):
                    headers = {"idempotency-key": f"{number}"}
                    small = await http.post(url, json={"probabilities": ROWS[:1].tolist()}, headers=headers)
                    assert small.json()["samples"] == number + 1
                assert not any(task.done() for task in large)
            finally:
                held.set()
            answers = [(await task).json() for task in large]
    assert {answer["samples"] for answer in answers} == {2020}
    assert sorted(answer["duplicate"] for answer in answers) == [False, True]
