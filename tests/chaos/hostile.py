"""The requests of an attacker: incomplete bodies, heads of any size, archives, watched metrics, all at once."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from statistics import median

import httpx
import numpy as np

from optimist_client import tensors
from optimist_client.models.picks import MAX_PICKS
from tests.support.begun import begun
from tests.support.edited import changed, setting, slices

from .tenants import QUIET, Neighbour, Outcome, Tenants, deleted_files, processor_time, resident

Loop = Callable[[httpx.Client], str]
"""One request of an attacker after the other: what is answered to the next one."""
PIECE = 2**18
NICE = int(os.environ.get("ATTACKERS_NICE", "10"))
"""Nice value of the attackers' threads. On a machine that is busy with other work they do little at 10: then let it
be 0."""
NOISY = {
    "name": "noisy",
    "generators": ["a"],
    "metric": {"name": "rke", "dimension": 512, "kernel": {"sigma": 40.0, "features": 16}},
}
"""The experiment to which the bodies are sent."""
NEVER = "/v1/experiments/noisy/picks/999999/batch?nonce=aa"
"""A pick that does not exist in it."""


@dataclass(frozen=True)
class Scale:
    """The size of the attacks."""

    rows: int = 65_536
    """Rows of a large batch, 512 columns wide."""
    at_once: int = 8
    body: int = 256 * 2**20
    """The announced length of a slow body in bytes."""
    hold: float = 30.0
    """Seconds for which slow bodies and picks are held open."""
    dimension: int = 2048
    """Dimension of the moments of a reference."""
    uploads: int = 6
    maps: int = 1024
    """MiB of feature maps in total."""
    copies: int = 200
    """Number of rounds of a worker that tells copies."""
    hammer: float = 20.0
    """Duration in seconds of the attack with everything at once."""


@lru_cache(2)
def large(rows: int, last: float = 0.0) -> bytes:
    """A batch of `features` (rows, 512), zero except for the last value, in float16."""
    features = np.zeros((rows, 512), np.float16)
    features[-1, -1] = last
    return tensors.encode({"features": features})


@lru_cache(1)
def moments(dimension: int) -> bytes:
    """A random mean and covariance in float64."""
    rows = np.random.default_rng(0).standard_normal((2 * dimension, dimension))
    return tensors.encode({"mean": np.zeros(dimension), "covariance": rows.T @ rows / len(rows)})


def stop_short(
    tenants: Tenants, length: int, path: str = "/v1/experiments/noisy/generators/a/batches"
) -> socket.socket:
    """Send a body of `length` bytes, such as a batch, except for the last 8, as far as the service reads it."""
    connection = begun(tenants.service, path, length, access=tenants.noisy_key, key=str(uuid.uuid4()))
    connection.settimeout(10.0)
    with contextlib.suppress(OSError):  # the service refused it before its end
        for start in range(0, length - 8, PIECE):
            connection.sendall(bytes(min(PIECE, length - 8 - start)))
    return connection


def answer(connection: socket.socket, seconds: float = 10.0) -> str:
    """The status received within this many seconds, "closed" without one, or "no answer"."""
    connection.settimeout(seconds)
    try:
        received = connection.recv(PIECE)
    except TimeoutError:
        return "no answer"
    except OSError:
        return "closed"
    return received[9:12].decode() or "closed"


def said(answers: Counter[str]) -> str:
    """The number of each answer, as text."""
    return ", ".join(f"{count} × {what}" for what, count in sorted(answers.items())) or "nothing"


def status(send: Callable[[], httpx.Response]) -> str:
    """The status of an answer, or "no answer"."""
    try:
        return str(send().status_code)
    except httpx.HTTPError:
        return "no answer"


def json_asks(tenants: Tenants) -> dict[bool, list[tuple[str, bytes]]]:
    """Asks in JSON of a router and of an experiment for the best, each with its path: of 16 MiB, and, under True, as
    large as they may be.
    """
    route = {"metric": {"name": "mean"}, "goal": "route", "context": 384, "context_features": 8}
    for name, config in {"router": route, "best": {"metric": {"name": "is", "dimension": 10}}}.items():
        config = {"name": name, "generators": ["a", "b"], **config}
        tenants.noisy.post("/v1/experiments", json=config).raise_for_status()
    rows = np.random.default_rng(0).standard_normal((130, 384)).astype(np.float32)
    allowed = {"router": {"contexts": rows.tolist()}, "best": {"generators": [f"{n:060}" for n in range(1000)]}}
    largest = [(f"/v1/experiments/{name}/picks", json.dumps(body).encode()) for name, body in allowed.items()]
    long = b'{"contexts":[[' + b"0.5," * (2**22 - 8) + b"0.5]]}"
    return {True: largest, False: [(path, long) for path, _ in largest]}


def asking(asks: Sequence[tuple[str, bytes]]) -> Loop:
    """Sends these asks in JSON in turn."""
    turns = itertools.cycle(asks)

    def ask(client: httpx.Client) -> str:
        path, body = next(turns)
        return status(partial(client.post, path, content=body, headers={"content-type": "application/json"}))

    return ask


def archives(tenants: Tenants) -> tuple[bytes, bytes]:
    """An export of an experiment with its log, 24 MiB, and the same with 400,000 slices that were given back."""
    keep(tenants, 24)
    whole = tenants.noisy.get("/v1/experiments/kept/export", timeout=60.0).raise_for_status().content
    return whole, changed(whole, {"generators/0.json": setting(returned=slices(400_000), handed=10**6)})


def keep(tenants: Tenants, size: int) -> None:
    """Make the experiment "kept", which keeps its log of this many MiB."""
    config = {"name": "kept", "generators": ["a"], "metric": {"name": "is", "dimension": 1024}, "keep_log": True}
    tenants.noisy.post("/v1/experiments", json=config).raise_for_status()
    for number in range(size):
        rows = np.eye(1024, dtype=np.float32)[np.random.default_rng(number).integers(1024, size=256)]
        tenants.append("kept", "a", rows, "probabilities")


def importing(archive: bytes) -> Loop:
    """Imports an archive under a new name, reads the report of what was made, and deletes it."""
    names = (f"again-{number}" for number in itertools.count())

    def send(client: httpx.Client) -> str:
        path = f"/v1/experiments/{(name := next(names))}"
        found = client.post("/v1/import", params={"name": name}, content=archive).status_code
        if found == HTTPStatus.OK:
            client.get(f"{path}/report")
            client.delete(path)
        return f"import {found}"

    return send


WIDE = "wide"
"""The name of the experiment with many watched metrics, or many columns."""


@contextmanager
def watching(tenants: Tenants, metrics: int) -> Iterator[Counter[str]]:
    """An experiment that watches so many metrics, by each of which an estimate is due after every batch. One loop for
    each of its four generators appends batches, and one reads the report; it is deleted in the end."""
    watch = [
        {"name": ("rke", "vendi")[n % 2], "label": f"w{n}", "kernel": {"sigma": 4.0 + n, "features": 256}}
        for n in range(metrics)
    ]
    names, rows = [f"g{n}" for n in range(4)], np.random.default_rng(0).standard_normal((16, 64), np.float32)
    metric = {"name": "rke", "dimension": 64, "kernel": {"sigma": 3.0, "features": 64}}
    config = {"name": WIDE, "generators": names, "metric": metric, "watch": watch, "rescore_growth": 0, "stop": False}
    tenants.noisy.post("/v1/experiments", json=config).raise_for_status()

    def append(generator: str, client: httpx.Client) -> str:
        time.sleep(0.05)
        return f"append {tenants.append(WIDE, generator, np.random.default_rng().permuted(rows))}"

    def report(client: httpx.Client) -> str:
        time.sleep(0.5)
        return f"report {client.get(f'/v1/experiments/{WIDE}/report').status_code}"

    with attacking(tenants, [*(partial(append, name) for name in names), report]) as answers:
        yield answers
    tenants.noisy.delete(f"/v1/experiments/{WIDE}").raise_for_status()


@contextmanager
def attacking(
    tenants: Tenants, loops: Sequence[Loop], key: str = "", answers: Counter[str] | None = None
) -> Iterator[Counter[str]]:
    """Each of these loops goes on and on, in a thread of its own, during the context; counts what they say.

    They leave the processors to others (`NICE`): what they do themselves is not to be taken for what the service does.
    key: the access key that they use, if not the admin's. answers: where they are counted.
    """
    over, answers = threading.Event(), Counter[str]() if answers is None else answers
    headers = {"authorization": f"Bearer {key or tenants.noisy_key}"}

    def work(loop: Loop) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # of this thread, on Linux
        with httpx.Client(base_url=tenants.service.url, headers=headers, timeout=60.0) as client:
            while not over.is_set():
                try:
                    answers[loop(client)] += 1
                except httpx.HTTPError as error:
                    answers[type(error).__name__] += 1
                    over.wait(0.1)

    threads = [threading.Thread(target=work, args=(loop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        deadline = time.monotonic() + 30.0
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def hammering(tenants: Tenants, scale: Scale) -> Iterator[Counter[str]]:
    """Tenant `noisy` does all of it at once during the context; counts the answers by kind of request.

    It sends slow bodies, which start first, as many asks for 250 picks as one connection can make, uploads of
    references, and large batches of a pick that does not exist.
    """
    over, held, numbers, answers = threading.Event(), threading.Semaphore(0), itertools.count(), Counter[str]()
    tenants.noisy.post("/v1/experiments", json=NOISY)  # 409 where it exists
    batch, reference = large(scale.rows // 4), moments(scale.dimension)

    def slow(client: httpx.Client) -> str:
        with stop_short(tenants, scale.body) as connection:
            held.release()
            found = "no answer"
            while found == "no answer" and not over.is_set():
                found = answer(connection, 0.5)
        over.wait(1.0)
        return f"slow body {found}"

    def ask(client: httpx.Client) -> str:
        reply = client.post("/v1/experiments/noisy/picks", json={"count": MAX_PICKS})
        return f"ask {reply.status_code}"

    def upload(client: httpx.Client) -> str:
        headers, name = {"content-type": tensors.MEDIA_TYPE}, f"reference-{next(numbers)}"
        reply = client.post("/v1/references", params={"name": name}, content=reference, headers=headers)
        return f"upload {reply.status_code}"

    def tell(client: httpx.Client) -> str:
        headers = {"content-type": tensors.MEDIA_TYPE}
        return f"tell {client.post(NEVER, content=batch, headers=headers).status_code}"

    with ExitStack() as stack:
        stack.enter_context(attacking(tenants, [slow] * scale.at_once, answers=answers))
        deadline = time.monotonic() + 15.0
        for _ in range(scale.at_once):  # they get all the memory only while no other body is being received
            held.acquire(timeout=max(0.0, deadline - time.monotonic()))
        stack.enter_context(attacking(tenants, [ask, upload, upload, tell, tell], answers=answers))
        stack.callback(over.set)
        yield answers


def in_turns(
    outcome: Outcome,
    tenants: Tenants,
    scale: Scale,
    attacks: Mapping[str, Callable[[], AbstractContextManager[Counter[str]]]],
    turns: int = 3,
) -> None:
    """The other tenant's waits while nothing goes on and during each attack, in turns, so that what else the machine
    does falls on all of them; of the ratios of a turn the median is noted, and all that was answered.

    Nothing is measured before the API has done what an attack has left to it, or 5 s have passed. In the end its
    memory is noted, and the deleted files that it still has open.
    """
    periods: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    quiet: dict[str, Callable[[], AbstractContextManager[Counter[str]]]] = {"quiet": lambda: nullcontext(Counter())}
    usual = 0.0
    with Neighbour(tenants) as neighbour:
        time.sleep(2.0)
        for _ in range(turns):
            for what, attack in (quiet | dict(attacks)).items():
                with attack() as answers:
                    begun, before = time.monotonic(), processor_time(tenants.api)
                    time.sleep(scale.hammer / 3)
                    periods[what].append((begun, time.monotonic()))
                    usual = processor_time(tenants.api) - before if what == "quiet" else usual
                _settle(tenants.api, 1.5 * usual / (scale.hammer / 3) + 0.1)
                found[what] += answers
    after, (files, size) = resident(tenants.api), deleted_files(tenants.api)
    calm = periods.pop("quiet")
    outcome.waited(neighbour, *calm[0], "quiet")
    for what, attacked in periods.items():
        outcome.waited(neighbour, *attacked[0], what)
        ratios = {
            kind: sorted(
                neighbour.between(*now, kind).p99 / neighbour.between(*before, kind).p99
                for before, now in zip(calm, attacked, strict=True)
            )
            for kind in ("ask", "tell")
        }
        text = ", ".join(f"{kind} {median(found):.1f} ×" for kind, found in ratios.items())
        outcome.note(
            f"p99 against quiet, median of {turns} turns: {text}; {said(found[what])}", **{f"{what}: p99": ratios}
        )
    text = f"afterwards: API {after:,.0f} MiB, {files} deleted files of {size:,.0f} MiB open"
    outcome.note(text, **{"MiB after": after, "files open": files, "MiB of files open": size})


def _settle(pid: int, share: float, patience: float = 5.0) -> None:
    """Return when a process takes at most this share of a processor, or after so many seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = processor_time(pid)
        time.sleep(1.0)
        if processor_time(pid) - before <= share:
            return


def tell_large(tenants: Tenants, seconds: float) -> str:
    """The waiting time of the other tenant if its body is so large that it is checked in a thread."""
    rows, begun = np.full((5000, 10), 0.1), time.monotonic()
    found = status(
        lambda: tenants.quiet.post(
            f"/v1/experiments/{QUIET['name']}/generators/a/batches",
            content=tensors.encode({"probabilities": rows}),
            headers={"content-type": tensors.MEDIA_TYPE, "idempotency-key": uuid.uuid4().hex},
            timeout=seconds,
        )
    )
    return f"{found} after {time.monotonic() - begun:.1f} s"
