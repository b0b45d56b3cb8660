"""The child processes of `optimist serve`, the scorer and the API processes: each is started again when it dies.

`optimist.process` is the part of the child. The scorer is a process of its own so that torch is not in this one.

One thread, the keeper, owns the child's life: it starts it, hears what it says, waits for it, and starts it again. The
child ends when its standard input is closed, as it is when this process dies however; as it starts, by SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
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
from optimist.settings import Settings
from optimist_client.errors import FixError

SHORTEST, LONGEST = 0.5, 10.0
"""Seconds before a child that died is started again: twice as many each time."""
STEADY = 60.0
"""Seconds that a child must have lived for the next one to be started as if it were the first that died."""

_log = logging.getLogger(__name__)
SCORER_GRACE = 10.0
"""Seconds in which the scorer must have ended when told to; a little more than it gives itself."""


class SupervisedProcess:
    """A process of our own, from `start` until `stop`. `pid`: of the present child; another one after each new start.

    what: what logs call it. name: by which it counts (`insight.shared`). module: the one to run. grace: seconds in
    which it must have ended when told to. restarts: counts its deaths. files: the descriptors that it inherits.
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
    ) -> None:
        self.pid = 0
        self.ready: Future[None] = Future()
        """Done when the first child has said that it is ready."""
        self._what = what
        # -P: what lies in the working directory is no module of ours.
        self._command = [sys.executable, "-P", "-m", module]
        self._environment = {**os.environ, shared.NAME: name}
        self._order = json.dumps(order).encode() + b"\n"
        self._grace = grace
        self._restarts = restarts
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name=f"{name}-keeper", daemon=True)

    def start(self) -> None:
        """Start the first child. A signal may end this process in the middle of it: call it where `stop` follows."""
        self._keeper.start()

    def begin_to_stop(self) -> None:
        """Tell the child to end, and start no other."""
        with self._spawning:
            self._stopping.set()
        if self._process is None:
            return
        if not self._is_ready:
            # It does not look at its input yet, and has nothing to put in order.
            self._process.terminate()
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def stop(self) -> None:
        """Let the child end in order; kill it if it takes longer than it may."""
        self.begin_to_stop()
        if self._process is not None:
            try:
                self._process.wait(self._grace)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._keeper.is_alive():
            self._keeper.join()

    def heard(self, word: dict[str, Any]) -> None:
        """Take something else that the child says."""

    def ended(self) -> None:
        """Note that there is no child now."""

    def refused(self, reason: str) -> Exception:
        """The error that `ready` raises where the first child says why it cannot begin."""
        return CannotStart(reason)

    def _keep(self) -> None:
        pause = SHORTEST
        while True:
            begun = time.monotonic()
            try:
                how, is_mishap = self._live()
            except OSError as error:
                how, is_mishap = f"cannot be started: {error}", False
            if self._stopping.is_set():
                return
            if not (self.ready.done() or is_mishap):
                self.ready.set_exception(CannotStart(f"the {self._what} {how}"))
            if self.ready.done() and self.ready.exception() is not None:
                return
            pause = SHORTEST if time.monotonic() - begun > STEADY else pause
            self._restarts.inc()
            _log.warning("the %s %s; starting it again in %.1f s", self._what, how, pause)
            self._stopping.wait(pause)
            pause = min(2.0 * pause, LONGEST)

    def _live(self) -> tuple[str, bool]:
        """Start a child and wait for its end. Returns how it ended, and whether it was killed: not to blame."""
        process = self._spawn()
        if process is None:
            return "was stopped", True
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                # A process that is killed may leave half a line.
                with contextlib.suppress(json.JSONDecodeError):
                    self._take(json.loads(line))
            self.ended()
            code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"(process {process.pid}) {how}", code < 0

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        """Start a child and give it its order; None once `stop` was called."""
        with self._spawning:
            if self._stopping.is_set():
                return None
            self._is_ready = False
            process = self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                pass_fds=self._files,
                # Keeps Ctrl-C from the child: the service stops it when its turn has come.
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it died at once
                process.stdin.write(self._order)
                process.stdin.flush()
        self.pid = process.pid
        return process

    def _take(self, word: dict[str, Any]) -> None:
        if "ready" in word:
            self._is_ready = True
            if not self.ready.done():
                self.ready.set_result(None)
        elif "error" in word and not self.ready.done():
            self.ready.set_exception(self.refused(word["error"]))
        elif "error" in word:
            _log.error("the %s cannot begin: %s", self._what, word["error"])
        else:
            self.heard(word)


class ScorerProcess(SupervisedProcess):
    """A scorer, which begins when Redis answers; the counters say whether it is at work."""

    def __init__(self, redis_url: str, settings: Settings, counters: SharedCounters) -> None:
        self._counters = counters
        passed_on = settings.model_dump(include={"device", "warm_bytes", "log_format", "metrics"})
        order = {"redis_url": redis_url, **passed_on}
        super().__init__(
            "scorer", shared.SCORER, "optimist.scoring", order, grace=SCORER_GRACE, restarts=SCORER_RESTARTS
        )

    def heard(self, word: dict[str, Any]) -> None:
        """Note for all API processes whether the scorer's sweeps go on."""
        self._counters.hear(word["at_work"])

    def ended(self) -> None:
        """Note that no scorer is at work."""
        self._counters.hear(False)

    def refused(self, reason: str) -> Exception:
        """The error of a scorer whose device is not here."""
        return FixError(reason)


@contextmanager
def scorer_process(redis_url: str, settings: Settings, counters: SharedCounters) -> Generator[None]:
    """A scorer for as long as the context; it is ended in order before that is left.

    It is waited for where its device, or a module of its metrics, may not be here. Otherwise it starts beside this
    process, which is told to end if it cannot. When it dies it is started again, soon where it had lived long: what it
    held is derived from what Redis holds. Raises FixError where its device is not here, CannotStart where it cannot
    even begin.
    """
    scorer = ScorerProcess(redis_url, settings, counters)
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
    started: list[SupervisedProcess] = []
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
            one = SupervisedProcess(*run, grace=GRACE + 4, restarts=API_RESTARTS, files=files)
            started.append(one)
            one.start()
        for one in started:
            one.ready.result()
        yield
    finally:
        # Whoever connects once the processes have stopped accepting is refused, and waits for none that is gone.
        for each in sockets:
            each.close()
        for one in started:
            one.begin_to_stop()
        for one in started:
            one.stop()
