"""`Chat` against a server of canned models over real HTTP: retries, pauses, limits, deadlines, costs, and its key."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from optimist.evaluating.canned import CannedModel, CannedServer
from optimist_client import FixError
from optimist_client.chat import Call, Chat, FailedCall, LateCall, Pace, RefusedCall, UnusableEndpoint
from optimist_client.chat import pace as pacing
from tests.support.processes import answered_by

SECRET = "sk-0123456789abcdefghij"
PRICE = {"input": 2.0, "output": 10.0}
PAUSES = {"seconds": lambda: "1.2", "date": lambda: formatdate(time.time() + 2, usegmt=True)}


def echo(prompt: str, seed: int) -> str:
    return f"{prompt} {seed}"


def chat_of(server: CannedServer, model: str = "m", **settings: Any) -> Chat:
    return Chat(base_url=server.url, model=model, price=PRICE, **settings)


class Noted:
    """Collects calls by their ids, each with what became of it."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.begun: list[str] = []

    def __call__(self, call: Call) -> None:
        if call.outcome == "begun":
            self.begun.append(call.id)
        self.calls[call.id] = call


def test_an_answer_says_what_it_cost():
    with CannedServer({"m": CannedModel(echo, input=2.0, output=10.0)}) as server, chat_of(server) as chat:
        reply = chat.ask("two words", seed=7)
        messages = chat.ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}], seed=8)
    assert (reply.text, messages.text, reply.finish) == ("two words 7", "hi 8", "stop")
    assert (reply.input_tokens, reply.output_tokens) == (6, 4)
    assert reply.cost == pytest.approx((2.0 * 6 + 10.0 * 4) / 1e6)
    assert reply.cost + messages.cost == pytest.approx(server.dollars)


@pytest.mark.parametrize("asked", [True, False])
def test_streams_are_read_whether_or_not_they_were_asked_for(asked: bool):
    model = CannedModel(lambda prompt, seed: "one\ntwo ☃", input=2.0, output=10.0, streams=not asked)
    with CannedServer({"m": model}) as server, chat_of(server, stream=asked) as chat:
        reply = chat.ask("go on")
    assert (reply.text, reply.finish) == ("one\ntwo ☃", "stop")
    assert reply.cost == pytest.approx(server.dollars)


def test_200_calls_at_once_with_failures_are_each_noted_and_add_up():
    noted = Noted()
    model = CannedModel(echo, delay=0.02, fails=0.05, broken=0.05, busy=0.1, pause=0.05, input=2.0, output=10.0)
    with (
        CannedServer({"m": model}) as server,
        chat_of(server, at_once=200, tries=12, note=noted) as chat,
        ThreadPoolExecutor(200) as threads,
    ):
        replies = [*threads.map(lambda seed: chat.ask("a question", seed=seed), range(400))]
    assert [reply.text for reply in replies] == [f"a question {seed}" for seed in range(400)]
    assert sorted(noted.begun) == sorted(server.served), "each request is noted, under the id that the server saw"
    assert len(noted.begun) == len(noted.calls) > 400
    found = Counter(call.outcome for call in noted.calls.values())
    assert found["answered"] == 400
    assert found["paused"] == sum(one.status == 429 for one in server.served.values()) > 0
    assert found["failed"] > 0
    assert sum(reply.cost for reply in replies) == pytest.approx(server.dollars)
    assert sum(call.cost for call in noted.calls.values()) == pytest.approx(server.dollars)


def test_no_more_than_the_limit_are_on_their_way():
    with CannedServer({"m": CannedModel(echo, delay=0.03)}) as server, ThreadPoolExecutor(20) as threads:
        pace = Pace(4)  # of two models of one endpoint
        with chat_of(server, pace=pace) as one, chat_of(server, pace=pace) as other:
            [*threads.map(lambda seed: (one if seed % 2 else other).ask("x", seed=seed), range(40))]
    assert server.max_at_once == 4


def test_no_more_begin_within_a_minute_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pacing, "MINUTE", 0.4)
    begun = list[float]()

    def noted(prompt: str, seed: int) -> str:
        begun.append(time.monotonic())
        return ""

    with (
        CannedServer({"m": CannedModel(noted)}) as server,
        chat_of(server, per_minute=5) as chat,
        ThreadPoolExecutor(12) as threads,
    ):
        [*threads.map(lambda seed: chat.ask("x", seed=seed), range(12))]
    begun.sort()
    assert begun[5] - begun[0] > 0.3
    assert begun[10] - begun[0] > 0.7


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_pause_that_is_asked_for_holds_for_all_calls(form: str):
    asked = list[float]()

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(time.monotonic())
            if len(asked) == 1:
                self.send_response(429)
                self.send_header(
                    "Retry-After", "1.2" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
                )
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": "ok"}}]}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with (
        answered_by(Busy) as url,
        Chat(base_url=f"{url}/v1", model="m", at_once=1) as chat,
        ThreadPoolExecutor(3) as threads,
    ):
        assert [reply.text for reply in threads.map(chat.ask, ["a", "b", "c"])] == ["ok"] * 3
    assert min(one - asked[0] for one in asked[1:]) > 0.9


def test_a_pause_longer_than_its_patience_fails():
    with (
        CannedServer({"m": CannedModel(echo, busy=1.0, pause=3600)}) as server,
        chat_of(server, patience=5) as chat,
        pytest.raises(FailedCall, match=r"pauses of more than 5 s: .* HTTP 429"),
    ):
        chat.ask("x")
    assert len(server.served) == 1


def test_an_endpoint_that_hangs_is_late_and_not_asked_again():
    noted = Noted()
    with CannedServer({"m": CannedModel(echo, hangs=1.0)}) as server, chat_of(server, timeout=0.3, note=noted) as chat:
        with pytest.raises(LateCall, match=r"no answer within 0\.3 s") as found:
            chat.ask("x")
        assert len(server.served) == 1
    assert found.value.seconds == 0.3
    assert [call.outcome for call in noted.calls.values()] == ["late"]


def test_an_answer_that_dribbles_is_late():
    class Dribbles(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            for _ in range(400):
                time.sleep(0.05)
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    since = time.monotonic()
    with answered_by(Dribbles) as url, Chat(base_url=f"{url}/v1", model="m", timeout=0.3) as chat:
        with pytest.raises(LateCall):
            chat.ask("x")
        assert time.monotonic() - since < 10.0


def test_an_endpoint_that_always_fails_is_given_up():
    with (
        CannedServer({"m": CannedModel(echo, broken=1.0)}) as server,
        chat_of(server, tries=2) as chat,
        pytest.raises(FailedCall, match="no valid JSON in an answer of"),
    ):
        chat.ask("x")
    assert len(server.served) == 2


def test_a_prompt_that_is_refused_is_not_sent_again():
    with (
        CannedServer({"m": CannedModel(echo, refuses=1.0)}) as server,
        chat_of(server) as chat,
        pytest.raises(RefusedCall, match=r"HTTP 400: .*a filter stops this prompt"),
    ):
        chat.ask("x")
    assert len(server.served) == 1


def test_a_model_that_is_not_there_ends_it():
    with CannedServer({}) as server, chat_of(server) as chat, pytest.raises(UnusableEndpoint, match="HTTP 404"):
        chat.ask("x")


class Mirror(BaseHTTPRequestHandler):
    """Sends back what it was sent, with the status that the path begins with."""

    elsewhere = "http://127.0.0.1:1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status = int(self.path.split("/")[1])
        said = str(self.headers)
        answer = json.dumps({"choices": [{"message": {"content": said}}]}) if status == 200 else said
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.elsewhere}/v1?{SECRET}")
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("status", [200, 302, 400, 401, 418, 500])
def test_no_answer_and_no_error_repeats_the_key(status: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAT_KEY", f" {SECRET}\n")
    noted = Noted()
    with answered_by(Mirror) as url:
        how: dict[str, Any] = {"api_key": "env:CHAT_KEY", "tries": 1, "note": noted}
        with Chat(base_url=f"{url}/{status}", model="m", **how) as chat:
            try:
                said = chat.ask("x").text
                assert "Bearer …" in said
            except Exception as error:
                said = "".join(traceback.format_exception(error))
                assert f"HTTP {status}" in said
            assert SECRET not in said + repr(chat.endpoint) + f"{chat}" + repr(noted.calls)


def test_a_redirect_does_not_carry_the_key_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAT_KEY", SECRET)
    came = list[str]()

    class Elsewhere(Mirror):
        def do_GET(self) -> None:
            came.append(self.path)

        do_POST = do_GET

    with answered_by(Elsewhere) as elsewhere:
        Mirror.elsewhere = elsewhere
        with (
            answered_by(Mirror) as url,
            Chat(base_url=f"{url}/302", model="m", api_key="env:CHAT_KEY") as chat,
            pytest.raises(UnusableEndpoint, match="it sends elsewhere, which is not followed"),
        ):
            chat.ask("x")
    assert came == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": f"http://me:{SECRET}@host/v1"}, "base_url: expected one without user, password and options"),
        ({"base_url": f"http://host/v1?key={SECRET}"}, "base_url: expected one without user, password and options"),
        ({"base_url": "file:///etc/passwd"}, "base_url: expected one that begins with http"),
        ({"api_key": SECRET}, "api_key: expected"),
        ({"api_key": "env:CHAT_NO_KEY"}, "env:CHAT_NO_KEY: expected a key, found none"),
        ({"options": {"stream": True}}, "options: stream: expected beside options"),
        ({"temprature": 0.3}, "temprature: unknown field, did you mean temperature?"),
        ({"price": {"input": float("nan")}}, "price.input: expected"),
    ],
)
def test_wrong_settings_are_said_in_one_line(settings: dict[str, Any], message: str):
    with pytest.raises(FixError) as found:
        Chat(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})
    assert message in str(found.value)
    assert SECRET not in str(found.value)
    assert "\n" not in str(found.value)


def test_a_price_for_tokens_needs_their_count():
    class Uncounted(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": "ok"}}]}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Uncounted) as url:
        how: dict[str, Any] = {"base_url": f"{url}/v1", "model": "m"}
        with (
            Chat(**how, price={"input": 1.0}) as chat,
            pytest.raises(UnusableEndpoint, match="expected usage in its answers"),
        ):
            chat.ask("x")
        with Chat(**how, price={"call": 0.5}) as chat:
            assert chat.ask("x").cost == 0.5


def test_an_endpoint_that_is_not_there_fails():
    with (
        Chat(base_url="http://127.0.0.1:1/v1", model="m", tries=1) as chat,
        pytest.raises(FailedCall, match="ConnectError"),
    ):
        chat.ask("x")
