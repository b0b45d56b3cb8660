"""Anything may come: no request makes the service fail, and what is refused leaves nothing behind.

`OPTIMIST_FUZZ_CASES` (make fuzz) sets how many bodies are tried on each path, and a tenth of it for each operation of
the API, for which `OPTIMIST_FUZZ_SECONDS` is the longest: some take a hundred times as long as others to draw.
"""

from __future__ import annotations

import json
import logging
import os
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from redis import Redis

from optimist.store import running_url
from optimist_client import tensors
from tests.support.processes import Service, serving

logger = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request

SHORT = 100
CASES = int(os.environ.get("OPTIMIST_FUZZ_CASES", SHORT))
SECONDS = float(os.environ.get("OPTIMIST_FUZZ_SECONDS", 60))
MUTANTS = 4 if CASES <= SHORT else 19
"""How many more of each body that is drawn, with some bytes changed: they come sooner than another."""
BATCH = 3
"""Cases of an operation that are drawn at a time."""
LIMITS = {"OPTIMIST_MAX_BODY": "200000", "OPTIMIST_MAX_EXPERIMENTS": "50", "OPTIMIST_MAX_OPEN_PICKS": "200"}
SMALL = settings(
    max_examples=CASES // (1 + MUTANTS),
    deadline=None,
    database=None,
    derandomize=CASES <= SHORT,  # the same cases in every short run
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def as_it_is(context: Any, value: Any) -> bytes:
    """Bodies that are bytes go as they come; whatever else is tried goes as JSON."""
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else json.dumps(data, default=str).encode()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


@pytest.fixture(scope="module")
def service(directory: Path) -> Iterator[Service]:
    # Scorers write when they come to it, which would look like something left behind.
    with serving(directory, "--no-scoring", environment=LIMITS) as running:
        with httpx.Client(base_url=running.url) as http:
            config = {"name": "x", "generators": ["a", "b"], "metric": {"name": "is", "dimension": 3}, "max_wait": 0.0}
            http.post("/v1/experiments", json=config).raise_for_status()
        yield running


def resident(service: Service) -> int:
    """Bytes of memory that the service holds."""
    pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def stored(directory: Path) -> dict[bytes, bytes]:
    """Everything in Redis but what passes by itself."""
    url = running_url(directory)
    with Redis.from_url(url) as redis:
        return {key: redis.dump(key) for key in redis.keys("*") if b"optimist:probe" not in key}  # type: ignore


def packed(header: bytes, data: bytes, announced: int | None = None) -> bytes:
    """A safetensors body of parts that need not go together."""
    return struct.pack("<Q", len(header) if announced is None else announced) + header + data


NAMES = st.sampled_from(["probabilities", "features", "ids", "mean", "", "__metadata__", "\0", "𝕏"]) | st.text(
    max_size=5
)
SIZES = st.sampled_from([0, 1, 3, -1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30, 1.5, "3", None, True])
KINDS = st.sampled_from(["F64", "F32", "F16", "BF16", "U8", "I64", "BOOL", "F8_E4M3", "O", "", 3, None])
SHAPES = st.lists(SIZES | st.integers(0, 9), max_size=4)
ENTRIES = st.fixed_dictionaries({"dtype": KINDS, "shape": SHAPES, "data_offsets": st.lists(SIZES, max_size=3)})
LIES = st.dictionaries(NAMES, ENTRIES | st.none() | st.integers(), max_size=3)
HEADERS = st.builds(lambda header: json.dumps(header).encode(), LIES)
WELL_FORMED = st.builds(
    lambda name, kind, shape, seed: tensors.encode(
        {name: np.random.default_rng(seed).integers(-2, 3, shape).astype(kind)}
    ),
    st.sampled_from(["probabilities", "features", "x"]),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.integers(0, 9),
)
NUMBERS = st.sampled_from([0.0, 1.0, 0.5, float("nan"), float("inf"), -1.0, 5e-324, 1e308])
ODD = st.builds(
    lambda rows: tensors.encode({"probabilities": np.array(rows, np.float64).reshape(-1, 3)}),
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=4),
)
LYING = st.builds(packed, HEADERS, st.binary(max_size=64), st.none() | st.integers(0, 2**64 - 1))
DEEP = st.builds(
    lambda piece, times: piece * times, st.sampled_from([b"[", b'{"a":', b'{"probabilities":[']), st.integers(1, 60_000)
)
JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())
BAD_TEXT = st.binary(max_size=40).map(lambda junk: b'{"probabilities": "' + junk + b'"}')
# 50 MB of zeros in 50 kB, as a zip; nothing here unpacks what it was not asked to.
COMPRESSED = st.just(b"PK\x03\x04" + b"\0" * 50_000) | st.just(b"\x1f\x8b\x08" + b"\0" * 50_000)
# Cut bodies, and those of which bits were flipped, are among the `mutants`.
BODIES = st.one_of(WELL_FORMED, ODD, LYING, DEEP, JSON_TEXT, BAD_TEXT, COMPRESSED, st.binary(max_size=200))
TYPES = st.sampled_from(
    [tensors.MEDIA_TYPE, "application/json", "application/octet-stream", "", "application/zip", "é"]
)
PATHS = [
    "/v1/experiments/x/picks/{pick}/batch?nonce={nonce}",
    "/v1/experiments/x/generators/a/batches",
    "/v1/references?name=r",
]


def mutants(body: bytes, seed: int) -> Iterator[bytes]:
    """The body, and others like it."""
    yield body
    rng = random.Random(seed)
    for _ in range(MUTANTS):
        other = bytearray(body)
        for _ in range(rng.choice([1, 1, 2, 8])):
            start = rng.randrange(len(other) + 1)
            end = start + rng.choice([0, 1, 1, 4, 8])
            other[start:end] = rng.choice(
                [rng.randbytes(end - start), b"", b"\xff" * (end - start), other[start:end] * 2]
            )
        yield bytes(other)


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
def test_no_body_makes_the_service_fail_and_what_is_refused_leaves_nothing(
    service: Service, directory: Path, path: str
):
    with httpx.Client(base_url=service.url, timeout=60) as http:
        (pick,) = http.post("/v1/experiments/x/picks", json={}).json()["picks"]
        url = path.format(pick=pick["number"], nonce=pick["nonce"])
        before, tried, refused, taken = stored(directory), 0, 0, 0
        sizes: list[int] = []

        @SMALL
        @example(tensors.encode({"probabilities": np.eye(3)}), tensors.MEDIA_TYPE, "", 0)
        @example(tensors.encode({"mu": np.zeros(2), "sigma": np.eye(2)}), tensors.MEDIA_TYPE, "gzip", 0)
        @given(BODIES, TYPES, st.sampled_from(["", "gzip", "deflate", "x"]), st.integers(0, 2**32))
        def one(drawn: bytes, kind: str, encoding: str, seed: int) -> None:
            nonlocal before, tried, refused, taken
            for body in mutants(drawn, seed):
                tried += 1
                headers = {"content-type": kind.encode(), "content-encoding": encoding.encode()}
                reply = http.post(url, content=body, headers={**headers, "idempotency-key": f"{tried}"})
                assert reply.status_code < 500, (body, kind, reply.text)
                if reply.status_code < 300:
                    taken += 1
                    before = stored(directory)
                elif tried % (2 * (1 + MUTANTS)) == 0:
                    refused += 1
                    assert stored(directory) == before
                if tried % max(1, CASES // 4) == 0:
                    sizes.append(resident(service))

        one()
        assert stored(directory) == before
        assert refused
        assert taken
        # From a quarter on, when what is made once has been made.
        assert max(sizes) - sizes[0] < 64 * 2**20
        logger.info("%s: %d bodies, %d of them taken; API from %d to %d bytes", path, tried, taken, sizes[0], sizes[-1])


@pytest.mark.long
def test_no_request_of_the_api_makes_it_fail(service: Service):
    """Every operation of the OpenAPI document with what it declares, and what it does not."""
    import schemathesis

    schemathesis.serializer("application/zip", tensors.MEDIA_TYPE)(as_it_is)
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    before, sizes = resident(service), []
    goal = BATCH if CASES <= SHORT else CASES // 10
    for result in schema.get_all_operations():
        operation = result.ok()
        tried, busy, ends = 0, 0, time.monotonic() + SECONDS

        @settings(SMALL, max_examples=BATCH)
        @given(
            case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
        )
        def one(case: Any) -> None:
            nonlocal tried, busy
            tried += 1
            answer = case.call(base_url=service.url, timeout=60)
            # The service is busy, or has no scorer to ask for modes.
            busy += answer.status_code == 503
            assert answer.status_code < 500 or answer.status_code == 503, f"{case.as_curl_command()}\n{answer.text}"

        while tried < goal and (tried == 0 or time.monotonic() < ends):
            one()
        sizes.append(resident(service))
        logger.info("%s: %d requests, %d answered 503; API of %d bytes", operation.label, tried, busy, sizes[-1])
    assert len(sizes) > 20
    assert max(sizes) - before < 256 * 2**20
    assert httpx.get(f"{service.url}/readyz").status_code == 200
