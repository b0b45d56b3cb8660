"""The process's log: for people, or one JSON object a line, with the id of the request that a line belongs to."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that this task answers."""
REQUESTS = logging.getLogger("optimist.requests")
"""A line for every request, where that is wanted; what it says is in `fields`."""


class JsonFormatter(logging.Formatter):
    """Records as JSON: time, level, logger, message; request_id, error and the record's `fields` where there are."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
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


def configure(kind: Literal["text", "json"], requests: bool = False) -> None:
    """Log warnings and errors of all of the process to stderr; and every request, if wanted."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    REQUESTS.setLevel(logging.INFO if requests else logging.WARNING)
