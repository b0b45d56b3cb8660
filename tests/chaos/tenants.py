"""Two tenants on one real service: `noisy` attacks, the asks and tells of `quiet` are timed, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import NDArray

from optimist_client import Optimist, tensors
from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import Service

from .wire import Client, NoAnswer, Refused

QUIET = {"name": "quiet", "generators": ["a", "b"], "metric": {"name": "is", "dimension": 10}, "stop": False}
"""The experiment of the quiet tenant."""


@dataclass(frozen=True)
class Tenants:
    """A service that requires keys, an admin key for each of two namespaces, and HTTP clients with these keys."""

    service: Service
    directory: Path
    noisy_key: str
    quiet_key: str
    noisy: httpx.Client
    quiet: httpx.Client

    @property
    def api(self) -> int:
        """The process id of the API."""
        assert self.service.process is not None
        return self.service.process.pid

    def sdk(self) -> Optimist:
        """The SDK with the key of `noisy`."""
        return Optimist(self.service.url, api_key=self.noisy_key)

    def append(self, experiment: str, generator: str, rows: NDArray[np.floating], name: str = "features") -> int:
        """Append rows of `noisy` without a pick; return the status of the answer."""
        headers = {"content-type": tensors.MEDIA_TYPE, "idempotency-key": uuid.uuid4().hex}
        path = f"/v1/experiments/{experiment}/generators/{generator}/batches"
        return self.noisy.post(path, content=tensors.encode({name: rows}), headers=headers).status_code

    def report(self, experiment: str, seconds: float = 30.0) -> dict[str, Any]:
        """The report of an experiment of `noisy` once everything is scored, or after this many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            report = self.noisy.get(f"/v1/experiments/{experiment}/report").raise_for_status().json()
            if report["scored"] or time.monotonic() > deadline:
                return report
            time.sleep(0.05)

    def end(self, seconds: float) -> float | None:
        """Send SIGTERM and return the seconds until the service has ended; None if it took longer and was killed."""
        process, begun = self.service.process, time.monotonic()
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.service.kill()
            return None
        return time.monotonic() - begun


@contextmanager
def two_tenants(**environment: str) -> Iterator[Tenants]:
    """A fresh service with an embedded Redis and a scorer, configured by `environment`; it ends with the context."""
    with tempfile.TemporaryDirectory(prefix="tenants-", ignore_cleanup_errors=True) as place:
        directory = Path(place)
        with guarded(directory, environment=environment) as (service, _):
            noisy, quiet = (new_key(directory, "admin", namespace) for namespace in ("noisy", "quiet"))
            with client_of(service, noisy) as of_noisy, client_of(service, quiet) as of_quiet:
                tenants = Tenants(service, directory, noisy, quiet, of_noisy, of_quiet)
                try:
                    of_quiet.post("/v1/experiments", json=QUIET).raise_for_status()
                    yield tenants
                finally:
                    if service.process is not None and service.process.poll() is None:
                        tenants.end(10.0)


@dataclass(frozen=True, slots=True)
class Call:
    """One ask or tell: when it was sent, how many seconds it took, and how often it was sent again meanwhile."""

    kind: str
    sent: float
    seconds: float
    refused: int
    answered: bool
    picks: int = 0
    """Picks that an ask was given."""
    stale: int = 0
    """Those of them that were marked stale."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Statistics of the calls of a period. `unanswered` calls still waited when the neighbour stopped."""

    calls: int
    p50: float
    p99: float
    longest: float
    refused: int
    unanswered: int

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Waits:
        """The quantiles of these calls; NaN if there are none."""
        seconds = [call.seconds for call in calls] or [float("nan")]
        p50, p99 = (float(value) for value in np.quantile(seconds, [0.5, 0.99], method="higher"))
        refused, unanswered = sum(call.refused for call in calls), sum(not call.answered for call in calls)
        return cls(len(calls), p50, p99, max(seconds), refused, unanswered)

    def __str__(self) -> str:
        if not self.calls:
            return "none"
        seconds = self.p50, self.p99, self.longest
        quantiles = " / ".join(f"{value:.3f}" if value < 1 else f"{value:.1f}" for value in seconds)
        hindered = {"tries again": self.refused, "without answer": self.unanswered}
        said = ", ".join(f"{count} {what}" for what, count in hindered.items() if count)
        return f"{quantiles} s" + (f" ({said})" if said else "")


class Neighbour:
    """Tenant `quiet` in a separate process: `loops` that ask and tell, and pause for `pause` seconds after each round.

    A context; `calls` and `failures` (permanently refused requests) are known when it has ended.
    """

    def __init__(self, tenants: Tenants, loops: int = 4, pause: float = 0.02) -> None:
        self.calls: list[Call] = []
        self.failures: list[str] = []
        self._tenants = tenants
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, tenants.service.port, tenants.quiet_key, loops, pause)
        self._process = context.Process(target=_work, args=given, daemon=True)

    def rounds(self) -> int:
        """The number of batches that the tenant has told so far."""
        return self._tenants.quiet.get(f"/v1/experiments/{QUIET['name']}/report").raise_for_status().json()["rounds"]

    def between(self, begun: float, ended: float, kind: str | None = None) -> Waits:
        """The asks, tells or both that were running at some time between these (monotonic seconds)."""
        return Waits.of([call for call in self._during(begun, ended) if kind in (None, call.kind)])

    def pace(self, begun: float, ended: float) -> float:
        """Rounds per second between these times."""
        tells = [
            c for c in self._during(begun, ended) if c.kind == "tell" and c.answered and c.sent + c.seconds < ended
        ]
        return len(tells) / (ended - begun)

    def stale(self, begun: float, ended: float) -> tuple[int, int]:
        """Stale picks, and all picks, of the asks between these."""
        calls = self._during(begun, ended)
        return sum(call.stale for call in calls), sum(call.picks for call in calls)

    def _during(self, begun: float, ended: float) -> list[Call]:
        return [call for call in self.calls if call.sent < ended and call.sent + call.seconds > begun]

    def __enter__(self) -> Self:
        self._process.start()
        self._pipe.recv()  # its loops have started
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._pipe.send("stop")
            self.calls, self.failures = self._pipe.recv()
        self._process.join(10.0)
        self._process.kill()


def _work(pipe: Connection, port: int, key: str, loops: int, pause: float) -> None:
    """The process of a `Neighbour`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    pipe.send(asyncio.run(_sample(pipe, port, key, loops, pause)))


async def _sample(pipe: Connection, port: int, key: str, loops: int, pause: float) -> tuple[list[Call], list[str]]:
    calls: list[Call] = []
    failures: list[str] = []
    over = asyncio.Event()
    tasks = [
        asyncio.create_task(_rounds(number, Client(port, key=key), pause, over, calls, failures))
        for number in range(loops)
    ]
    pipe.send("begun")
    await asyncio.to_thread(pipe.recv)
    over.set()
    await asyncio.wait(tasks, timeout=1.0)  # time for running requests that are not delayed
    for task in tasks:
        task.cancel()
    failures += [repr(e) for e in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(e, Exception)]
    return calls, failures


async def _rounds(
    number: int, client: Client, pause: float, over: asyncio.Event, calls: list[Call], failures: list[str]
) -> None:
    """Ask and tell until the end; a call that is cancelled then is recorded as unanswered."""
    path = f"/v1/experiments/{QUIET['name']}/picks"
    rng = np.random.default_rng(number)

    async def timed(kind: str, path: str, body: Any) -> Any:
        sent, before, picks = time.monotonic(), client.tries.total(), None
        try:
            content = (await client.call("POST", path, body)).content
            picks = content.get("picks", [])
            return content
        finally:
            took, again = time.monotonic() - sent, client.tries.total() - before
            stale = sum(pick["stale"] for pick in picks or [])
            calls.append(Call(kind, sent, took, again, picks is not None, len(picks or []), stale))

    for turn in itertools.count():
        if over.is_set():
            return
        try:
            asked = await timed("ask", path, {"worker": f"loop-{number}", "request_id": f"{number}-{turn}"})
            for pick in asked["picks"]:
                body = tensors.encode({"probabilities": rng.dirichlet(np.ones(10), pick["size"])})
                await timed("tell", f"{path}/{pick['number']}/batch?nonce={pick['nonce']}", body)
        except (Refused, NoAnswer) as error:
            failures.append(str(error))
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))


def resident(pid: int) -> float:
    """The current memory of the process in MiB."""
    return _read(f"/proc/{pid}/status", "VmRSS")


def peak(pid: int) -> float:
    """The peak of its memory since `reset_peak`."""
    return _read(f"/proc/{pid}/status", "VmHWM")


def reset_peak(pid: int) -> float:
    """Reset the peak; return the current memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid)


def processor_time(pid: int) -> float:
    """Seconds of processor time that the process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def deleted_files(pid: int) -> tuple[int, float]:
    """How many deleted files the process has open, and their MiB."""
    sizes: list[int] = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if str(file.readlink()).endswith(" (deleted)"):
                sizes.append(file.stat().st_size)
    return len(sizes), sum(sizes) / 2**20


def available() -> float:
    """The available memory of this machine."""
    return _read("/proc/meminfo", "MemAvailable")


def _read(path: str, field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(path).read_text())
    assert found is not None, f"{path} has no {field}"
    return int(found[1]) / 1024


@dataclass
class Outcome:
    """The outcome of an attack: phrases for the table, and the numbers in them."""

    figures: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def note(self, text: str, **numbers: Any) -> None:
        """Add a figure."""
        self.figures.append(text)
        self.numbers |= numbers

    def waited(self, neighbour: Neighbour, begun: float, ended: float, what: str = "others") -> None:
        """The waiting times of the other tenant between these times, p50 / p99 / longest, and its rounds per second."""
        parts = {kind: neighbour.between(begun, ended, kind) for kind in ("ask", "tell")}
        pace = neighbour.pace(begun, ended)
        text = ", ".join(f"{kind} {waits}" for kind, waits in parts.items())
        self.note(f"{what}: {text}, {pace:.0f} rounds/s", **{
            what: {"rounds a second": pace, **{kind: asdict(waits) for kind, waits in parts.items()}}
        })  # fmt: skip
