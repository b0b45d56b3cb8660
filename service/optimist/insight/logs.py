"""Configures the process's log: readable text, or one JSON object per line with the id of the current request."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

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


def configure(kind: Literal["text", "json"], requests: bool = False) -> None:
    """Log to stderr: this package's messages, the warnings and errors of all others, and every request if set."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("optimist").setLevel(logging.INFO)
    REQUESTS.setLevel(logging.INFO if requests else logging.WARNING)
