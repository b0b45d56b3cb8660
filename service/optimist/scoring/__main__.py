"""The scorer that `optimist serve` starts: it lives as long as its standard input is open.

The first line there says what to do. The answers are objects, one a line, on standard output: {"ready": true} once the
device is found, or {"error": why it is not}; then once a second whether the scorer is at work, and its metrics.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from optimist.insight.logs import configure
from optimist.insight.metrics import SCORER
from optimist.insight.relay import report
from optimist.numerics.devices import DeviceError, find_device
from optimist.numerics.registry import MetricsError, load
from optimist.scoring.alone import score_for_ever
from optimist.scoring.scorer import Scorer
from optimist.store import StoreError

PERIOD = 1.0
"""Seconds between its words."""
GRACE = 8.0
"""Seconds that it has to let go of its generators once its parent is gone."""

_log = logging.getLogger(__name__)


def main() -> int:
    """Take the order and score; the exit code."""
    # Without a buffer: the interpreter cannot end while a thread waits in one.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        line = orders.readline()
    if not line:
        return 0  # its parent died meanwhile
    order = json.loads(line)
    configure(order["log_format"])
    try:
        load(order["metrics"])
        device = find_device(order["device"])
    except (DeviceError, MetricsError) as error:
        say({"error": str(error)})
        return 1
    say({"ready": True})
    _in_background(end_with_parent)
    try:
        score_for_ever(
            order["redis_url"], device, order["warm_bytes"], lambda scorer: _in_background(report_on, scorer)
        )
    except StoreError as error:
        _log.error("%s", error)
        return 1
    return 0


def say(word: dict[str, object]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Wait until standard input is closed, then end in order; after the grace in any case."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def report_on(scorer: Scorer) -> None:
    """Say how the scorer does; in a thread, as a parent that stands still takes nothing."""
    with contextlib.suppress(OSError):  # the parent is gone
        while True:
            say({"at_work": scorer.is_alive, "metrics": report(SCORER)})
            time.sleep(PERIOD)


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:
        code = 1  # its parent died as it started
    except Exception:
        _log.exception("the scorer failed")
        code = 1
    # An eigenproblem cannot be cancelled, and nobody wants its result any more: threads are not waited for.
    os._exit(code)
