"""How `optimist serve` begins and ends, and what it says meanwhile."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.support.commands import invoked
from tests.support.processes import Service, free_port, until
from tests.support.servers import redis_6


def test_the_command_that_creates_the_first_key_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    refused = invoked("serve", "--port=0", "--require-keys", "--data-dir=my data")
    assert refused.exit_code == 1
    [advice] = [line for line in refused.stderr.splitlines() if "keys create" in line]
    monkeypatch.chdir("/")
    program, *arguments = shlex.split(advice)
    assert program == "optimist"
    key = invoked(*arguments).stdout.strip()
    listed = json.loads(invoked("keys", "list", f"--data-dir={tmp_path / 'my data'}", "--json").stdout)
    assert [(key.split("_")[1], "admin")] == [(found["id"], found["role"]) for found in listed]


def test_the_advice_names_the_redis_and_no_password(tmp_path: Path):
    from optimist.server.service import _option
    from optimist.settings import Settings

    assert _option(Settings(redis_url="redis://127.0.0.1:6379/2")) == "--redis-url redis://127.0.0.1:6379/2"
    said = _option(Settings(redis_url="rediss://me:secret@redis.local:6380"))
    assert said.startswith("--redis-url rediss://redis.local:6380 ")
    assert "secret" not in said


def test_a_port_in_use_is_noticed_before_redis_is_waited_for(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = invoked("serve", f"--port={port}", f"--redis-url=redis://127.0.0.1:{free_port()}")
    assert refused.exit_code == 1
    assert refused.stderr.strip() == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another --port or --host"
    )


@pytest.mark.long
def test_what_is_logged_and_how_it_ends(tmp_path: Path, not_scoring: Service):
    service = Service(tmp_path, "--scoring", "--log-format=json").start()

    def logged() -> list[str]:
        lines = [json.loads(line) for line in service.log().splitlines()]
        return [f"{line['level']}: {line['message']}" for line in lines]

    def said(beginning: str) -> bool:
        return any(line.startswith(beginning) for line in logged())

    where = f"(Redis: embedded, data in {tmp_path})"
    [address] = [line for line in logged() if "Optimist" in line]
    assert address.startswith("info: Optimist 0.")
    assert address.endswith(f" on http://127.0.0.1:{service.port} {where}")
    assert said("info: the scorer begins, on cpu (Redis: unix://")
    assert "the scorer begins" not in not_scoring.log()

    os.kill(service.redis_pid(), signal.SIGKILL)
    until(lambda: said("info: redis-server (process "))
    assert said("warning: redis-server (process ")

    with httpx.Client(base_url=service.url) as client:  # a connection stays open
        until(lambda: client.get("/readyz").status_code == 200)
        service.process.send_signal(signal.SIGINT)
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(60) == 0
    assert said("info: SIGINT: ends after the requests in progress")
    assert said("info: SIGTERM: the scorer releases its generators and ends")
    assert "Traceback" not in service.log()


@pytest.mark.long
@pytest.mark.skipif(redis_6() is None, reason="needs Redis 6.2")
def test_its_address_comes_before_advice(tmp_path: Path):
    environment = {"PATH": f"{tmp_path}", "OPTIMIST_CACHE": f"{tmp_path / 'cache'}"}
    service = Service(tmp_path / "data", environment=environment).start()
    try:
        assert 0 < service.log().index(service.url) < service.log().index("install Redis 7 or newer")
    finally:
        service.stop()
