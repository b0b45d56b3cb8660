"""The scorer of `optimist serve`: a child process, started again when it dies. Its torch is not this process's.

One thread, the keeper, owns the child's life: it starts it, hears what it says (`optimist.scoring.__main__`), waits for
it, and starts it again. The child ends when its standard input is closed, as it is when this process dies however.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from prometheus_client import REGISTRY, ProcessCollector

from optimist.insight.metrics import RELAY, SCORER_RESTARTS
from optimist.numerics.devices import DeviceError
from optimist.settings import Settings
from optimist.store import CannotStart

SILENT = 30.0
"""Seconds without a word of the child, which has one every second, after which it cannot be at work."""
STOP_SECONDS = 10.0
"""Seconds in which the child must have ended when told to; a little more than it gives itself."""
SHORTEST, LONGEST = 0.5, 10.0
"""Seconds before a child that died is started again: twice as many each time."""
STEADY = 60.0
"""Seconds that a child must have lived for the next one to be started as if it were the first that died."""

_log = logging.getLogger(__name__)


class ScorerProcess:
    """A scorer of our own, until `stop`. `pid`: of the present child; another one after each new start."""

    def __init__(self, redis_url: str, settings: Settings) -> None:
        self.pid = 0
        self.ready: Future[None] = Future()
        """Done when the first child has found its device; it begins when Redis answers."""
        # Not on the command line, which every user of the machine may read: URLs hold passwords.
        passed_on = settings.model_dump(include={"device", "warm_bytes", "log_format", "metrics"})
        order = {"redis_url": redis_url, **passed_on}
        self._order = json.dumps(order).encode() + b"\n"
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = -SILENT
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name="scorer-keeper", daemon=True)
        self._keeper.start()

    @property
    def at_work(self) -> bool:
        """Whether the child lives, and goes its rounds."""
        return time.monotonic() - self._heard < SILENT

    def stop(self) -> None:
        """Let the child let go of its generators, and end."""
        with self._spawning:
            self._stopping.set()
        if self._process is not None:
            _end(self._process)
        self._keeper.join()

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
                self.ready.set_exception(CannotStart(f"the scorer {how}"))
            if self.ready.done() and self.ready.exception() is not None:
                return
            pause = SHORTEST if time.monotonic() - begun > STEADY else pause
            SCORER_RESTARTS.inc()
            _log.warning("the scorer %s; starting it again in %.1f s", how, pause)
            self._stopping.wait(pause)
            pause = min(2.0 * pause, LONGEST)

    def _live(self) -> tuple[str, bool]:
        """Have one child to its end: how that came, and whether it was killed and not to blame."""
        process = self._spawn()
        if process is None:
            return "was stopped", True
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                # One that is killed may leave half a line.
                with contextlib.suppress(json.JSONDecodeError):
                    self._take(json.loads(line))
            self._heard = -SILENT
            code = process.wait()
        RELAY.end_life()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"(process {process.pid}) {how}", code < 0

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        """Start a child and give it its order; None once `stop` was called."""
        with self._spawning:
            if self._stopping.is_set():
                return None
            process = self._process = subprocess.Popen(
                # -P: what lies in the working directory is no module of ours.
                [sys.executable, "-P", "-m", "optimist.scoring"],
                # Keeps Ctrl-C from the child: the service stops first, then stops it.
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
        if "metrics" in word:
            self._heard = time.monotonic() if word["at_work"] else -SILENT
            RELAY.take(word["metrics"])
        elif "ready" in word and not self.ready.done():
            self.ready.set_result(None)
        elif "error" in word and not self.ready.done():
            self.ready.set_exception(DeviceError(word["error"]))
        elif "error" in word:
            _log.error("the scorer cannot begin: %s", word["error"])


@contextmanager
def scorer_process(redis_url: str, settings: Settings) -> Iterator[ScorerProcess]:
    """A scorer that has found its device, for as long as the context; it is ended in order before that is left.

    When it dies it is started again, soon where it had lived long: what it held is derived from what Redis holds.
    Raises DeviceError where its device is not here, CannotStart where it cannot even begin.
    """
    scorer = ScorerProcess(redis_url, settings)
    usage = ProcessCollector("scorer", lambda: scorer.pid)
    try:
        scorer.ready.result()
        yield scorer
    finally:
        REGISTRY.unregister(usage)
        scorer.stop()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
