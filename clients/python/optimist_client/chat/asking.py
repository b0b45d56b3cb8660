"""`Chat`: prompts to a language model, with retries, pauses, limits and deadlines, and what each answer cost."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Self

import httpx

from optimist_client.chat.calls import Call, ChatPrompt, Outcome, Reply
from optimist_client.chat.endpoint import Endpoint
from optimist_client.chat.errors import FailedCall, LateCall, RefusedCall, UnusableEndpoint
from optimist_client.chat.pace import Pace
from optimist_client.chat.replies import Unreadable, parsed, read
from optimist_client.connections import retry_after
from optimist_client.errors import FixError
from optimist_client.validation import valid

_REFUSED = frozenset({400, 413, 422})
"""The answers that concern this prompt alone."""
_AGAIN = frozenset({408, 409, 425})
"""The answers below 500 after which the same request may succeed."""


class Chat:
    """A language model behind OpenAI's chat route. It is thread-safe.

    with Chat(base_url="http://127.0.0.1:8000/v1", model="qwen-small", price={"input": 0.1, "output": 0.4}) as chat:
        reply = chat.ask("What is the capital of Peru?", seed=1)
        print(reply.text, reply.cost, reply.seconds)
    """

    def __init__(
        self,
        endpoint: Endpoint | None = None,
        *,
        timeout: float = 60.0,
        patience: float = 120.0,
        tries: int = 5,
        pace: Pace | None = None,
        note: Callable[[Call], None] | None = None,
        **settings: Any,
    ) -> None:
        """endpoint: the model; or its fields as `settings`.

        timeout: seconds that a request may take. Whatever comes later is a `LateCall`, and is not asked for again: it
        may have been charged. An answer that comes in pieces is given up with the first piece after that.
        patience: seconds in all that are waited for an endpoint that asks for pauses (`Retry-After`).
        tries: requests that may fail for one answer; after so many it is a `FailedCall`.
        pace: limits that are shared with other models of the endpoint. note: is called when a request begins and ends.
        Raises FixError for wrong settings, and for a key that is not there.
        """
        self.endpoint = valid(Endpoint, settings) if endpoint is None else endpoint
        for name, value in {"timeout": timeout, "patience": patience, "tries": tries}.items():
            if not value > 0:
                raise FixError(f"{name}: expected a number above 0, got {value!r}")
        self.timeout, self._patience, self._tries = timeout, patience, tries
        self._pace = Pace(self.endpoint.at_once, self.endpoint.per_minute) if pace is None else pace
        self._note: Callable[[Call], None] = _ignored if note is None else note
        self._key = self.endpoint.key
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(timeout, connect=min(10.0, timeout), pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.endpoint.at_once),
            follow_redirects=False,  # the key is for this host alone
        )

    def ask(self, prompt: ChatPrompt, *, seed: int | None = None, schema: Mapping[str, Any] | None = None) -> Reply:
        """The answer to a prompt, a text or messages.

        schema: a JSON schema that the answer is to keep. Raises `LateCall` for no answer in time, `FailedCall` for none
        in several attempts, `RefusedCall` where the endpoint does not take this prompt, and `UnusableEndpoint` where it
        takes none.
        """
        body = self.endpoint.body(prompt, seed, schema)
        waited, failed = 0.0, 0
        while True:
            wait = min(8.0, 0.25 * 2**failed) * random.uniform(0.5, 1.0)
            try:
                with self._pace.turn():
                    return self._once(body)
            except _Paused as asked:
                wait = max(wait, asked.seconds)
                waited += wait
                if waited > self._patience:
                    raise FailedCall(f"it asked for pauses of more than {self._patience:g} s: {asked}") from None
                self._pace.pause(wait)
            except LateCall:
                raise
            except FailedCall:
                failed += 1
                if failed >= self._tries:
                    raise
                time.sleep(wait)

    def _once(self, body: Mapping[str, Any]) -> Reply:
        """The answer of one request."""
        call = Call(uuid.uuid4().hex)
        self._note(call)
        since = time.monotonic()

        def ended(error: Exception, outcome: Outcome) -> NoReturn:
            self._note(replace(call, outcome=outcome, seconds=time.monotonic() - since, error=f"{error}"))
            raise error from None

        def check() -> None:
            if time.monotonic() - since > self.timeout:
                raise httpx.ReadTimeout("")

        url, sent = f"{self.endpoint.base_url}/chat/completions", {"X-Client-Request-Id": call.id}
        try:
            with self._http.stream("POST", url, json=body, headers=sent) as reply:
                content = read(reply, check)
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            late = LateCall(f"{self}: no answer within {self.timeout:g} s", self.timeout)
            ended(late, "late")
        except httpx.TransportError as error:
            ended(FailedCall(f"{self}: {self._masked(f'{type(error).__name__}: {error}')}"), "failed")
        except (Unreadable, httpx.DecodingError) as error:
            ended(FailedCall(f"{self}: {error}"), "failed")
        except (httpx.InvalidURL, UnicodeError) as error:
            ended(UnusableEndpoint(f"{self}: {self._masked(f'{error}')}"), "failed")
        except BaseException as error:  # such as Ctrl-C
            self._note(replace(call, outcome="failed", seconds=time.monotonic() - since, error=type(error).__name__))
            raise
        if not reply.is_success:
            error = self._refusal(reply, content)
            paused: Outcome = "paused" if isinstance(error, _Paused) else "failed"
            ended(error, "refused" if isinstance(error, RefusedCall) else paused)
        try:
            found = parsed(content, reply.headers.get("content-type", ""))
        except Unreadable as error:
            ended(FailedCall(f"{self}: {error}"), "failed")
        seconds, price = time.monotonic() - since, self.endpoint.price
        if found.tokens is None and (price.input or price.output):
            hint = "expected usage in its answers, as its price is for tokens; else give the price of a call"
            ended(UnusableEndpoint(f"{self}: {hint}, as price: {{call: 0.001}}"), "failed")
        sent, made = found.tokens or (0, 0)
        took: dict[str, Any] = {"seconds": seconds, "input_tokens": sent, "output_tokens": made}
        took["cost"] = price.of(sent, made)
        self._note(replace(call, outcome="answered", **took))
        return Reply(self._masked(found.text), finish=found.finish, **took)

    def _refusal(self, reply: httpx.Response, content: bytes) -> Exception:
        """The error of an answer that is none."""
        status, said = reply.status_code, self._masked(content.decode(errors="replace"))
        short = " ".join(said.split())[:300]
        message = f"{self}: HTTP {status}" + f": {short}" * bool(short)
        pause = retry_after(reply.headers)
        if status == 429 and "insufficient_quota" in said:
            return UnusableEndpoint(message)
        if status == 429 or (status == 503 and pause is not None):
            return _Paused(message, pause or 0.0)
        if status >= 500 or status in _AGAIN:
            return FailedCall(message)
        if status in _REFUSED:
            return RefusedCall(message)
        if 300 <= status < 400:
            hint = "it sends elsewhere, which is not followed: give the address that answers"
            return UnusableEndpoint(f"{self}: HTTP {status}: {hint}")
        return UnusableEndpoint(message)

    def _masked(self, text: str) -> str:
        """The text without the key, which what answers at a wrong address may send back."""
        return text.replace(self._key, "…") if self._key else text

    def __str__(self) -> str:
        return f"{self.endpoint.model} at {self.endpoint.base_url}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Paused(FailedCall):
    """The endpoint asked to wait for so many seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


def _ignored(call: Call) -> None:
    """Note nothing."""
