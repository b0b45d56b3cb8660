"""A child process that is started again when it dies: the embedded redis-server, the scorer, an API process.

One thread, the keeper, owns the child's life: it starts it, follows it to its end, and starts it again. Once a child
has served, the keeper tries for ever: what stops it may pass, as a full disk does.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from optimist.records import CannotStart

SHORTEST, LONGEST = 0.1, 30.0
"""Pauses before a child is started again: none after the first death, then doubling each time."""
_log = logging.getLogger(__name__)


class Supervised(ABC):
    """A child process, from `start` until `stop`. A context manager, which stops it in the end.

    what: what logs call it. grace: seconds in which it must have ended when told to.
    `pid`: of the present child; another one after each new start. `ready`: done once the first child serves; raises
    what the first child could not begin for.
    """

    def __init__(self, what: str, grace: float) -> None:
        self.pid = 0
        self.ready: Future[None] = Future()
        self._what = what
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        # For the kernel the parent is the *thread* that started the child; so this thread lives as long as the child.
        self._keeper = threading.Thread(target=self._keep, name=f"{what} keeper", daemon=True)

    @abstractmethod
    def spawn(self) -> subprocess.Popen[bytes]:
        """A new child. Raises OSError where it cannot be started."""

    @abstractmethod
    def follow(self, process: subprocess.Popen[bytes]) -> bool:
        """True if the child, which has ended now, has served; `has_begun` is called once it does.

        Raises for a child that says why it cannot begin.
        """

    def tell_to_end(self, process: subprocess.Popen[bytes]) -> None:
        """Tell the child to end in order."""
        process.terminate()

    def has_begun(self) -> None:
        """Note that the present child serves."""
        if not self.ready.done():
            self.ready.set_result(None)
        else:
            _log.info("%s (process %d) has started again", self._what, self.pid)

    @property
    def running(self) -> bool:
        """False while there is no child: stopped, or not yet started again."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the first child. A signal may end this process in the middle of it: call it where `stop` follows."""
        self._keeper.start()

    def begin_to_stop(self) -> None:
        """Tell the child to end, and start no other."""
        with self._spawning:
            self._stopping.set()
        if self._process is not None:
            self.tell_to_end(self._process)

    def stop(self) -> None:
        """Let the child end in order, and kill it if it takes longer than it may; idempotent."""
        self.begin_to_stop()
        if self._process is not None:
            self.end(self._process)
        if self._keeper.is_alive():
            self._keeper.join()

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End one child, in order where it does so in time."""
        self.tell_to_end(process)
        try:
            process.wait(self._grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _keep(self, steady: float = 60.0, max_deaths: int = 5) -> None:
        """steady: seconds that a child must have lived for its death to count as the first. max_deaths: before one has
        served, until starting it is given up."""
        pause, deaths = 0.0, 0
        while True:
            begun = time.monotonic()
            try:
                level, how = logging.WARNING, self._live()
                deaths += 1
                if deaths == max_deaths and not self.ready.done():
                    raise CannotStart(f"{self._what} died {max_deaths} times as it started: {how}")
            except Exception as error:
                if self._process is not None:
                    self.end(self._process)
                if not (self._stopping.is_set() or self.ready.done()):
                    self.ready.set_exception(error)
                    return
                level, how = logging.ERROR, str(error)
            if self._stopping.is_set():
                return
            if time.monotonic() - begun > steady:
                pause = 0.0
            _log.log(level, "%s; starting it again%s", how, f" in {pause:g} s" if pause else "")
            self._stopping.wait(pause)
            pause = min(max(2.0 * pause, SHORTEST), LONGEST)

    def _live(self) -> str:
        """The end of one child, in words. Raises CannotStart if it ends by itself without having served."""
        with self._spawning:
            if self._stopping.is_set():
                return f"{self._what} was stopped"
            try:
                process = self._process = self.spawn()
            except OSError as error:
                raise CannotStart(f"{self._what} cannot be started: {error}") from error
        self.pid = process.pid
        has_served = self.follow(process)
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        how = f"{self._what} (process {process.pid}) {how}"
        if code > 0 and not has_served:
            raise CannotStart(how)
        return how
