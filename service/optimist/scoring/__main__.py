"""The scorer that `optimist serve` starts. It ends when its standard input is closed.

The first line of standard input is a JSON object of settings. On standard output it writes one JSON object a line:
{"ready": true} once the device is found, or {"error": the reason}; then, once a second, whether the scorer is alive,
and its metrics.
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
"""Seconds between messages."""
GRACE = 8.0
"""Seconds that the scorer has to release its generators after its parent ended."""

_log = logging.getLogger(__name__)


def main() -> int:
    """Read the settings and score; returns the exit code."""
    # Unbuffered: the interpreter cannot exit while a thread waits in a buffered read.
    with open(0, "rb", buffering=0, closefd=False) as stream:
        line = stream.readline()
    if not line:
        return 0  # the parent died meanwhile
    settings = json.loads(line)
    configure(settings["log_format"])
    try:
        load(settings["metrics"])
        device = find_device(settings["device"])
    except (DeviceError, MetricsError) as error:
        say({"error": str(error)})
        return 1
    say({"ready": True})
    _in_background(end_with_parent)
    try:
        score_for_ever(
            settings["redis_url"], device, settings["warm_bytes"], lambda scorer: _in_background(report_on, scorer)
        )
    except StoreError as error:
        _log.error("%s", error)
        return 1
    return 0


def say(message: dict[str, object]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Wait until standard input is closed, then stop the scorer; end the process after at most `GRACE` seconds."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def report_on(scorer: Scorer) -> None:
    """Report on the scorer once a second; in a thread, as writing blocks while the parent does not read."""
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
    # Do not wait for threads: an eigenproblem cannot be cancelled, and its result is no longer needed.
    os._exit(code)
