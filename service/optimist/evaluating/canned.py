"""A server of canned models, with OpenAI's chat route: for the demo, and for tests. It answers on 127.0.0.1 alone."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Say = Callable[[str, int], str]
"""The answer to a prompt, the content of the last message, and a seed."""


@dataclass(frozen=True)
class CannedModel:
    """A model: what it says, and how it misbehaves. Shares are of its requests, at random."""

    say: Say
    delay: float = 0.0
    """Seconds until it answers."""
    fails: float = 0.0
    """The share answered by HTTP 500."""
    broken: float = 0.0
    """The share whose answer is cut in the middle of its JSON."""
    busy: float = 0.0
    """The share answered by HTTP 429, with `Retry-After`."""
    pause: float = 1.0
    """The seconds of that."""
    hangs: float = 0.0
    """The share that is never answered."""
    refuses: float = 0.0
    """The share answered by HTTP 400, as a filter does."""
    schemas: bool = True
    """True: it takes a JSON schema; else a request with one is answered by HTTP 400."""
    streams: bool = False
    """True: it sends its answers in pieces, even where nobody asked for that."""
    input: float = 0.0
    """Dollars for a million tokens of prompts."""
    output: float = 0.0
    """Dollars for a million tokens of answers."""


@dataclass(frozen=True)
class ServedRequest:
    """A request that came, and what was charged for it."""

    id: str
    model: str
    status: int
    """The HTTP status; 0 while it is not answered."""
    cost: float = 0.0
    key: str = field(default="", repr=False)
    """The key that came with it."""


class CannedServer:
    """Serves models until it is closed. `url` is their `base_url`; `served` lists the requests, in order of arrival."""

    def __init__(self, models: Mapping[str, CannedModel], seed: int = 0, port: int = 0) -> None:
        """port: 0 for any that is free. Raises OSError where it is not."""
        self.served: dict[str, ServedRequest] = {}
        self.max_at_once = 0
        self._models, self._random = models, random.Random(seed)
        self._lock, self._closing, self._at_once = threading.Lock(), threading.Event(), 0
        self._server = _Server(("127.0.0.1", port), _handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, body: Mapping[str, Any], id: str, key: str) -> _Answer:
        """The answer to a request; returns when it is to be sent."""
        name = str(body.get("model"))
        with self._lock:
            self._at_once += 1
            self.max_at_once = max(self.max_at_once, self._at_once)
            self.served[id] = ServedRequest(id, name, 0, key=key)
            draws = [self._random.random() for _ in range(5)]
        try:
            reply = self._answered(self._models.get(name), body, draws)
        finally:
            with self._lock:
                self._at_once -= 1
        with self._lock:
            self.served[id] = ServedRequest(id, name, reply.status, reply.cost, key)
        return reply

    def _answered(self, model: CannedModel | None, body: Mapping[str, Any], draws: list[float]) -> _Answer:
        if model is None:
            return _error(404, f"no model {body.get('model')!r}")
        hangs, busy, fails, refuses, broken = draws
        if hangs < model.hangs:
            self._closing.wait()
            return _error(500, "closing")
        if busy < model.busy:
            return _error(429, "too many requests", {"Retry-After": f"{model.pause:g}"})
        self._closing.wait(model.delay)
        if fails < model.fails:
            return _error(500, "it went wrong here")
        if refuses < model.refuses or ("response_format" in body and not model.schemas):
            return _error(400, "a filter stops this prompt")
        prompt = str(body["messages"][-1]["content"])
        text = model.say(prompt, int(body.get("seed") or 0))
        sent, made = len(prompt.split()) + 4, len(text.split()) + 1
        cost = (model.input * sent + model.output * made) / 1e6
        usage = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
        if model.streams or body.get("stream"):
            pieces = [{"choices": [{"delta": {"content": word}}]} for word in text.splitlines(keepends=True) or [""]]
            last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}
            events = "".join(f"data: {json.dumps(event)}\n\n" for event in (*pieces, last))
            return _Answer(200, f"{events}data: [DONE]\n\n".encode(), "text/event-stream", cost=cost)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        content = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage})
        if broken < model.broken:
            return _Answer(200, content[: len(content) // 2].encode())
        return _Answer(200, content.encode(), cost=cost)

    @property
    def dollars(self) -> float:
        """The dollars charged for all requests."""
        with self._lock:
            return sum(request.cost for request in self.served.values())

    def close(self) -> None:
        """End. Requests that hang are let go."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cost: float = 0.0


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> _Answer:
    return _Answer(status, json.dumps({"error": {"message": message}}).encode(), headers=headers or {})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


def _handler_of(canned: CannedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path != "/v1/chat/completions":
                reply = _error(404, f"no {self.path} here")
            else:
                key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                id = self.headers.get("X-Client-Request-Id") or uuid.uuid4().hex
                reply = canned.answer(json.loads(content), id, key)
            self.send_response(reply.status)
            fixed = {"Content-Type": reply.media_type, "Content-Length": f"{len(reply.body)}"}
            for name, value in {**fixed, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return Handler
