"""A service that asks for keys, and keys for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
from click.testing import Result
from typer.testing import CliRunner

from optimist.api.middleware.keys import make_key
from optimist.commands.app import app
from optimist.store import open_store, running_url
from optimist_client.models import Role
from tests.support.processes import Service


def optimist_keys(*arguments: str) -> Result:
    """Run the command. In a thread, as an event loop may run in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(CliRunner().invoke, app, ["keys", *arguments]).result()


def new_key(place: Path | str, role: Role, namespace: str = "default", *experiments: str) -> str:
    """A key for the service that runs on this directory, or on the Redis of this URL."""
    id_, key, record = make_key(role, namespace, experiments)

    async def put() -> None:
        url = place if isinstance(place, str) else running_url(place)
        assert url is not None
        async with open_store(url) as store:
            assert await store.access_keys.put(id_, record.model_dump_json())

    with ThreadPoolExecutor(1) as pool:  # as above
        pool.submit(lambda: asyncio.run(put())).result()
    return key


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@contextmanager
def guarded(directory: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[tuple[Service, str]]:
    """A service that asks for keys, and an admin's key of the namespace `default`."""
    made = optimist_keys("create", "--role", "admin", "--data-dir", str(directory))
    assert made.exit_code == 0, made.stderr
    service = Service(directory, "--require-keys", *options, environment=environment).start()
    try:
        yield service, made.stdout.strip()
    finally:
        service.stop()


def client_of(service: Service, key: str) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=30, headers=bearer(key))
