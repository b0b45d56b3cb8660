"""The part of a process that `optimist serve` starts: it reads its order, reports, and ends with its parent.

The first line of standard input is the order, a JSON object. It is not on the command line, which every user of the
machine may read, as URLs hold passwords. On standard output the process writes one JSON object a line: {"ready": true}
or {"error": the reason} as it starts. Until then it ends by SIGTERM, and later when its standard input is closed.

Besides, what every process of the service sets of itself: its log (readable text, or one JSON object a line with the id
of the current request), how its C library gives memory back to the system, and which of its threads have the
processors, and the interpreter, first.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that the current task handles."""
REQUESTS = logging.getLogger("optimist.requests")
"""Logs one line per request if that is enabled, with its details in the record's `fields`."""


class JsonFormatter(logging.Formatter):
    """Formats records as JSON: time, level, logger, message, and if present request_id, error and the `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := REQUEST_ID.get()) is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps({**line, **getattr(record, "fields", {})}, default=str)


def configure_log(kind: Literal["text", "json"], requests: bool = False) -> None:
    """Log to stderr: this package's messages, the warnings and errors of all others, and every request if set."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("optimist").setLevel(logging.INFO)
    REQUESTS.setLevel(logging.INFO if requests else logging.WARNING)


_log = logging.getLogger(__name__)


def stay_behind() -> None:
    """Leave the processors to other threads, from now on: for one that seldom holds the interpreter, which others would
    wait for."""
    with contextlib.suppress(AttributeError, OSError):  # only Linux has priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def answer_soon() -> None:
    """Have the threads of this process wait for one another no longer than needed."""
    # By default 5 ms: whoever reads or writes to a connection waits for that after each time.
    sys.setswitchinterval(0.001)


def give_back_from(size: int) -> None:
    """Return blocks of `size` bytes or more to the system as soon as they are freed.

    Otherwise glibc keeps freed blocks of up to 32 MiB, in a heap for each thread.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(-3, size)  # M_MMAP_THRESHOLD


def take_order() -> dict[str, Any]:
    """The order of the parent. Exits where that died meanwhile."""
    # Unbuffered: the interpreter cannot exit while a thread waits in a buffered read.
    with open(0, "rb", buffering=0, closefd=False) as stream:
        line = stream.readline()
    return json.loads(line) if line else sys.exit(0)


def say(message: dict[str, object]) -> None:
    """Write a message to the parent, as one line of JSON."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def end_with_parent(grace: float) -> None:
    """Once standard input is closed, send this process SIGTERM, and end it after at most `grace` seconds."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(1)

    in_background(wait)


def in_background(work: Callable[..., None], *arguments: object) -> None:
    """Run it in a thread that does not keep the process alive."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def live(work: Callable[[], int], name: str) -> NoReturn:
    """Do the work, and end the process with the code that it returns; `name` is what a log calls the process."""
    try:
        code = work()
    except BrokenPipeError:
        code = 1  # its parent died as it started
    except Exception:
        _log.exception("the %s failed", name)
        code = 1
    # Do not wait for threads: an eigenproblem cannot be cancelled, and its result is no longer needed.
    os._exit(code)
