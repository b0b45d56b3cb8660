"""A service that asks for keys, and keys for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from processes import Service

from optimist.api.door.keys import make_key
from optimist.store import open_store, running_url
from optimist_client.models import Role


def optimist_keys(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "optimist.cli", "keys", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def new_key(directory: Path, role: Role, namespace: str = "default", *experiments: str) -> str:
    """A key for the service that runs on this directory."""
    id_, key, record = make_key(role, namespace, experiments)

    async def put() -> None:
        url = running_url(directory)
        assert url is not None
        async with open_store(url) as store:
            assert await store.access_keys.put(id_, record.model_dump_json())

    asyncio.run(put())
    return key


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@contextmanager
def guarded(directory: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[tuple[Service, str]]:
    """A service that asks for keys, and an admin's key of the namespace `default`."""
    made = optimist_keys("create", "--role", "admin", "--data-dir", str(directory))
    assert made.returncode == 0, made.stderr
    service = Service(directory, "--require-keys", *options, environment=environment).start()
    try:
        yield service, made.stdout.strip()
    finally:
        service.stop()


def client_of(service: Service, key: str) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=30, headers=bearer(key))
