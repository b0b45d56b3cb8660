"""For all tests: one thread of BLAS a process, how many examples hypothesis draws, and a Redis to work on."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path

# Before numpy and torch are imported. Several tests run beside one another, and eigenproblems of more threads than
# there are cores wait at every step: one test took 77 s beside another where it takes 2.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings
from redis.asyncio import Redis

from optimist.store import EmbeddedRedis, Store, connect, start_embedded
from tests.support.left import end_pool, left_ports, left_processes
from tests.support.once import made_once, place_of_all_workers
from tests.support.places import DATA
from tests.support.processes import Service, serving, until
from tests.support.warm import adopt_orphans

# The tests start the service a hundred times. Where bytecode is not kept, each start compiles the whole of it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Sentences end there; workers of pytest-xdist have it.
os.environ.pop("COLUMNS", None)
# No test calls a server whose certificate a public authority has signed. With a folder of no certificates, a client of
# httpx takes 1 ms of processor time; with all authorities', 40 ms. The suite makes thousands of clients.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.path.dirname(__file__)

# `make test-full` chooses the second.
settings.register_profile("default", max_examples=20, deadline=None)
settings.register_profile("full", max_examples=150, deadline=None)
settings.load_profile("default")

ALL_LONG = re.compile(r"^pytestmark = [^\]]*?pytest\.mark\.long\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m long`, leave out files without such a test, and with `-m "not long"` those of nothing else.

    Each worker takes seconds to import all of them, and those of nothing else may need what only `dev` installs.
    """
    if config.option.markexpr not in ("long", "not long") or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text()
    left_out = ALL_LONG.search(text) if config.option.markexpr == "not long" else "pytest.mark.long" not in text
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that use the shared service first, so that few workers start one, and a browser."""
    items.sort(key=lambda item: "shared" not in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the collector all modules and tests, now and afterwards: going through these takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails at the very end if the tests of this process have left a process, or a port that listens.

    Temporary files of the tests, and of what they start, lie where pytest removes its own.
    """
    adopt_orphans()
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    yield
    end_pool()
    with contextlib.suppress(AssertionError):  # some are ending
        until(lambda: not left_processes(), 10.0)
    assert (left_processes(), left_ports()) == ([], [])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """The server of `redis`; tests/store has others, too."""
    with start_embedded(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def redis(server: EmbeddedRedis) -> AsyncIterator[Redis]:
    """An empty Redis. It does not wait for the disk, which only a power cut would tell."""
    async with connect(server.url) as client:
        await client.config_set("appendfsync", "no")
        await client.flushall()
        yield client


@pytest.fixture
def store(redis: Redis) -> Store:
    return Store(redis)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service of every test that only talks to one, by experiments of its own names."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def not_scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has no scorer."""
    with serving(tmp_path_factory.mktemp("not-scoring"), "--no-scoring") as running:
        yield running


@pytest.fixture
def stored() -> Callable[[str], Mapping[str, np.ndarray]]:
    """Loads a file of reference numbers by its name without suffix."""

    def load(name: str) -> Mapping[str, np.ndarray]:
        with np.load(DATA / f"{name}.npz") as file:
            return dict(file)

    return load


@pytest.fixture(scope="session")
def digits_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the demo's own fit, which the first worker that needs it makes for all workers.

    Later runs take it from pytest's cache, as long as the code that fits is the same.
    """
    from optimist.simulation.digits import world

    code = b"".join(file.read_bytes() for file in sorted(Path(world.__file__).parent.glob("*.py")))
    cache = getattr(pytestconfig, "cache", None)  # absent with -p no:cacheprovider
    place = place_of_all_workers(tmp_path_factory) if cache is None else cache.mkdir("digits")
    return made_once(place / hashlib.sha256(code).hexdigest()[:16], lambda folder: world.load(folder, progress=False))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, signed by itself, and its key."""
    openssl = shutil.which("openssl") or pytest.skip("no openssl here to make a certificate with")
    directory = tmp_path_factory.mktemp("certificate")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=optimist"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, capture_output=True, check=True)
    return certificate, key
