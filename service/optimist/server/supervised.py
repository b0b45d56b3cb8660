"""The child processes of `optimist serve`, the scorer and the API processes: each is started again when it dies.

`optimist.process` is the part of the child. The scorer is a process of its own so that torch is not in this one.

A child ends when its standard input is closed, as it is when this process dies however; as it starts, by SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import Counter

from optimist.api.middleware.limits import SharedCounters
from optimist.insight import shared
from optimist.insight.metrics import API_RESTARTS, SCORER_RESTARTS
from optimist.records import CannotStart
from optimist.server.api import GRACE
from optimist.server.children import SCORER, spawned
from optimist.settings import Settings
from optimist.supervised import Supervised


class ServiceProcess(Supervised):
    """A process of our own, which takes an order and says when it is ready.

    name: by which it counts (`insight.shared`). module: the one to run. restarts: counts its deaths. files: the
    descriptors that it inherits. begun: the first child, where it runs already.
    """

    def __init__(
        self,
        what: str,
        name: str,
        module: str,
        order: dict[str, Any],
        *,
        grace: float,
        restarts: Counter,
        files: Sequence[int] = (),
        begun: subprocess.Popen[bytes] | None = None,
    ) -> None:
        super().__init__(f"the {what}", grace)
        self._module, self._name = module, name
        self._order = json.dumps(order).encode() + b"\n"
        self._restarts = restarts
        self._files = files
        self._begun = begun
        self._is_ready = False

    def spawn(self) -> subprocess.Popen[bytes]:
        """A child that has its order."""
        if self.pid:
            self._restarts.inc()
        self._is_ready = False
        process = self._begun or spawned(self._module, self._name, self._files)
        self._begun = None
        assert process.stdin is not None
        try:
            process.stdin.write(self._order)
            process.stdin.flush()
        except BrokenPipeError:  # it died at once: what it did not take must not be written again
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        return process

    def follow(self, process: subprocess.Popen[bytes]) -> bool:
        """True if the child, which has ended now, was ready. Raises the reason that it gave why it cannot begin."""
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                # A process that is killed may leave half a line.
                with contextlib.suppress(json.JSONDecodeError):
                    self._take(json.loads(line))
        return self._is_ready

    def tell_to_end(self, process: subprocess.Popen[bytes]) -> None:
        """Close its input, or terminate a child that does not look at it yet: it has nothing to put in order."""
        if not self._is_ready:
            process.terminate()
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()

    def heard(self, word: dict[str, Any]) -> None:
        """Take something else that the child says."""

    def _take(self, word: dict[str, Any]) -> None:
        if "error" in word:
            raise CannotStart(f"{self._what} cannot begin: {word['error']}")
        if "ready" in word:
            self._is_ready = True
            self.has_begun()
        else:
            self.heard(word)


class ScorerProcess(ServiceProcess):
    """A scorer, which begins when Redis answers; the counters say whether it is at work."""

    def __init__(
        self,
        redis_url: str,
        settings: Settings,
        counters: SharedCounters,
        begun: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._counters = counters
        passed_on = settings.model_dump(include={"device", "warm_bytes", "log_format", "metrics"})
        order = {"redis_url": redis_url, **passed_on}
        run = "scorer", shared.SCORER, SCORER, order
        # A little longer than it gives itself.
        super().__init__(*run, grace=10.0, restarts=SCORER_RESTARTS, begun=begun)

    def heard(self, word: dict[str, Any]) -> None:
        """Note for all API processes whether the scorer's sweeps go on."""
        self._counters.hear(word["at_work"])

    def follow(self, process: subprocess.Popen[bytes]) -> bool:
        """True if the scorer, which has ended now, was ready; none is at work from then on."""
        try:
            return super().follow(process)
        finally:
            self._counters.hear(False)


@contextmanager
def scorer_process(
    redis_url: str, settings: Settings, counters: SharedCounters, begun: subprocess.Popen[bytes] | None = None
) -> Generator[None]:
    """A scorer for as long as the context; it is ended in order before that is left. begun: it, where it runs already.

    It is waited for where its device, or a module of its metrics, may not be here. Otherwise it starts beside this
    process, which is told to end if it cannot. When it dies it is started again, soon where it had lived long: what it
    held is derived from what Redis holds. Raises CannotStart where it cannot even begin, as without its device.
    """
    scorer = ScorerProcess(redis_url, settings, counters, begun)
    try:
        scorer.start()
        if settings.device != "cpu" or settings.metrics:
            scorer.ready.result()
        else:
            scorer.ready.add_done_callback(_end_without_scorer)
        yield
    finally:
        scorer.stop()
        if scorer.ready.done():
            scorer.ready.result()


def _end_without_scorer(ready: Future[None]) -> None:
    if ready.exception() is not None:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def workers(redis_url: str, settings: Settings, counters: Path, sockets: Sequence[socket.socket]) -> Generator[None]:
    """API processes, `settings.workers` of them, for as long as the context. All accept from the same sockets.

    A new connection thus waits for none that is dead, hangs or starts. This process keeps the sockets open: what
    connects while all are dead waits for the next one. In the end requests in progress are answered. Raises CannotStart
    where one cannot begin.
    """
    files = [each.fileno() for each in sockets]
    started: list[ServiceProcess] = []
    try:
        for number in range(settings.workers):
            order = {
                "redis_url": redis_url,
                "settings": settings.model_dump_json(),
                "counters": str(counters),
                "number": number,
                "sockets": files,
            }
            run = "API process", f"{shared.API}{number + 1}", "optimist.server.worker", order
            worker = ServiceProcess(*run, grace=GRACE + 4, restarts=API_RESTARTS, files=files)
            started.append(worker)
            worker.start()
        for worker in started:
            worker.ready.result()
        yield
    finally:
        # Whoever connects once the processes have stopped accepting is refused, and waits for none that is gone.
        for each in sockets:
            each.close()
        for worker in started:
            worker.begin_to_stop()
        for worker in started:
            worker.stop()
