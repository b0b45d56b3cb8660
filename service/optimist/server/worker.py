"""One of several API processes that `optimist serve` starts: a child by `optimist.process`, ready once it listens."""

from __future__ import annotations

import socket
from pathlib import Path

from optimist.api.middleware.limits import SharedCounters
from optimist.process import end_with_parent, live, say, take_order
from optimist.records import StoreError
from optimist.server.api import GRACE, ending_in_order, prepare, run_api
from optimist.settings import Settings
from optimist_client.errors import FixError


def main() -> int:
    """Read the order and answer requests; returns the exit code."""
    order = take_order()
    settings = Settings.model_validate_json(order["settings"])
    prepare(settings)
    counters = SharedCounters(settings.workers, order["number"], Path(order["counters"]))
    sockets = [socket.socket(fileno=each) for each in order["sockets"]]
    with ending_in_order() as told:
        end_with_parent(GRACE + 2)
        try:
            run_api(settings, order["redis_url"], counters, sockets, lambda: say({"ready": True}), told)
        except (StoreError, FixError) as error:
            say({"error": str(error)})
            return 1
    return 0


if __name__ == "__main__":
    live(main, "API process")
