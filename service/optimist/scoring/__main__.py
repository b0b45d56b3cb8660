"""The scorer of `optimist serve`: a child by `optimist.process`, which reports its state every second."""

from __future__ import annotations

import contextlib
import logging
import time

from optimist.metrics.devices import find_device
from optimist.process import configure_log, end_with_parent, in_background, live, say, take_order
from optimist.records import StoreError
from optimist.scoring.scorer import Scorer, score_for_ever
from optimist.settings import load
from optimist_client.errors import FixError

_log = logging.getLogger(__name__)


def main() -> int:
    """Read the settings and score; returns the exit code."""
    settings = take_order()
    configure_log(settings["log_format"])
    try:
        load(settings["metrics"])
        device = find_device(settings["device"])
    except FixError as error:
        say({"error": str(error)})
        return 1
    say({"ready": True})
    # Eight seconds to release the generators.
    end_with_parent(8.0)
    try:
        score_for_ever(
            settings["redis_url"], device, settings["warm_bytes"], lambda scorer: in_background(report_on, scorer)
        )
    except StoreError as error:
        _log.error("%s", error)
        return 1
    return 0


def report_on(scorer: Scorer) -> None:
    """Report on the scorer once a second; in a thread, as writing blocks while the parent does not read."""
    with contextlib.suppress(OSError):  # the parent is gone
        while True:
            say({"at_work": scorer.is_alive})
            time.sleep(1.0)


if __name__ == "__main__":
    live(main, "scorer")
