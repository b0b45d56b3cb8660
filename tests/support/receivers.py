"""A program that messages are sent to: it notes them, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.processes import answered_by

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass
class Sent:
    """A message as it arrived. `status`: what was answered; None: nothing."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int | None = None

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Where messages arrive. `answer`: the status of the answer to each, or None to hang until the end."""

    answer: Callable[[Sent], int | None] = lambda sent: 204
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    endless: bool = False
    """Whether answers have a body without an end."""
    arrived: list[Sent] = field(default_factory=list[Sent])
    url: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def answered(self, status: int = 204) -> list[Sent]:
        return [sent for sent in self.arrived if sent.status == status]

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        sent = Sent(request.path, {name.lower(): value for name, value in request.headers.items()}, body)
        self.arrived.append(sent)
        status = self.answer(sent)
        if status is None:
            self._ended.wait()
            return
        request.send_response(status)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()
        sent.status = status
        while self.endless and not self._ended.is_set():
            request.wfile.write(b"x" * 65_536)

    def end(self) -> None:
        self._ended.set()


@contextmanager
def receiving(**how: Any) -> Iterator[Receiver]:
    """A receiver on a port of this machine."""
    receiver = Receiver(**how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                receiver.serve(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_PUT = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Handler) as url:
        receiver.url = url
        try:
            yield receiver
        finally:
            receiver.end()
