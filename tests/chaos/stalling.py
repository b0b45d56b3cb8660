"""Attacks with which one tenant holds up what all share: event loop, threads, temporary files, connections."""

from __future__ import annotations

import itertools
import random
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import numpy as np

from optimist_client import tensors
from optimist_client.models.picks import MAX_PICKS
from tests.support.keys import new_key

from .hostile import Scale, answer, attacking, in_turns, keep, said, status, tell_large
from .tenants import QUIET, Outcome, Tenants, peak, reset_peak, two_tenants

MEAN = {"name": "plain", "generators": ["a", "b"], "metric": {"name": "mean"}, "stop": False}
PLAIN = "/v1/experiments/plain"
SENT = {"content-type": tensors.MEDIA_TYPE}
TRIED = {"keep_log": True, "metric": {"name": "rke", "dimension": 64, "kernel": {"sigma": 20.0, "features": 200}}}
"""An experiment of which corrections are tried."""
CORRECTION = {"retract": [{"generator": "a", "position": 1}], "reason": "attack"}


def slow_exports(scale: Scale) -> Outcome:
    """Exports of 8 MiB by 15 connections of one key, which read slowly and leave."""
    outcome = Outcome()

    def export(_: httpx.Client) -> str:
        with connected(tenants, 4096) as connection:
            connection.sendall(head("/v1/experiments/kept/export", tenants.noisy_key))
            found, ends = answer(connection), time.monotonic() + scale.hammer / 3
            while time.monotonic() < ends:
                answer(connection, 0.5)
                time.sleep(0.5)
        return f"export {found}"

    with two_tenants() as tenants:
        keep(tenants, 8)
        in_turns(outcome, tenants, scale, {"15 exports": lambda: attacking(tenants, [export] * 15)})
    return outcome


def small_tensors(scale: Scale) -> Outcome:
    """Batches told together in bodies of 1 MiB that hold 100,000 empty tensors; four clients leave after 2 s."""
    outcome, body, large = Outcome(), (b"\x02" + bytes(7) + b"{}") * 100_000, list[str]()
    with two_tenants() as tenants:
        given = {"picks": "1.ab", "instance": made(tenants)["instance"]}

        def tell(client: httpx.Client) -> str:
            return status(
                partial(client.post, f"{PLAIN}/picks/batches", content=body, params=given, headers=SENT, timeout=2.0)
            )

        @contextmanager
        def beside() -> Iterator[Counter[str]]:
            with attacking(tenants, [tell] * 4) as answers:
                time.sleep(1.0)
                large.append(tell_large(tenants, scale.hold))
                yield answers

        in_turns(outcome, tenants, scale, {"4 loops": beside})
    outcome.note(f"another tenant's batch of 390 KiB: {'; '.join(large)}", large=large)
    return outcome


def shares(scale: Scale) -> Outcome:
    """Shares of an experiment that eight loops of one key make, as many as they can."""
    outcome = Outcome()

    def share(client: httpx.Client) -> str:
        return f"share {status(partial(client.post, f'{PLAIN}/shares', json={'note': 'y' * 200}))}"

    with two_tenants() as tenants:
        made(tenants)
        in_turns(outcome, tenants, scale, {"8 loops": lambda: attacking(tenants, [share] * 8)})
        live = len(tenants.noisy.get(f"{PLAIN}/shares").raise_for_status().json()["shares"])
    outcome.note(f"{live:,} shares", shares=live)
    return outcome


def wide(scale: Scale) -> Outcome:
    """Reports of 1,000 generators by a share in three loops; asks for 250 picks of them in three loops."""
    outcome, rows = Outcome(), np.random.default_rng(0).random((5, 1))

    def report(client: httpx.Client) -> str:
        return f"report {status(partial(client.get, f'{PLAIN}/report'))}"

    def ask(client: httpx.Client) -> str:
        return f"ask {status(partial(client.post, f'{PLAIN}/picks', json={'count': MAX_PICKS}))}"

    with two_tenants() as tenants:
        made(tenants, generators=[f"g{number}" for number in range(1000)])
        for number in range(0, 1000, 5):
            tenants.append("plain", f"g{number}", rows, "values")
        key = tenants.noisy.post(f"{PLAIN}/shares", json={}).raise_for_status().json()["key"]
        attacks = {
            "reports": lambda: attacking(tenants, [report] * 3, key),
            "asks": lambda: attacking(tenants, [ask] * 3),
        }
        in_turns(outcome, tenants, replace(scale, hammer=0.75 * scale.hammer), attacks)
    return outcome


def utf16(scale: Scale) -> Outcome:
    """Batches of 15 MiB in JSON that is encoded in UTF-16, in three loops."""
    outcome = Outcome()
    # Of the bytes of the name some are quotes in UTF-8.
    body = ('{"\u0122":[' + "[]," * (5 * 2**19) + '0],"values":[[1]]}').encode("utf-16-le")
    with two_tenants() as tenants:
        made(tenants)
        [pick] = tenants.noisy.post(f"{PLAIN}/picks", json={}).raise_for_status().json()["picks"]
        path = f"{PLAIN}/picks/{pick['number']}/batch?nonce={pick['nonce']}"

        def tell(client: httpx.Client) -> str:
            found = status(partial(client.post, path, content=body, headers={"content-type": "application/json"}))
            if found == "503":  # there is memory for one of them; who waits gets it
                time.sleep(random.uniform(0.2, 1.0))
            return found

        key, before = new_key(tenants.directory, "worker", "noisy"), reset_peak(tenants.api)
        in_turns(outcome, tenants, scale, {"3 loops": lambda: attacking(tenants, [tell] * 3, key)})
        grown = peak(tenants.api) - before
    outcome.note(f"API +{grown:,.0f} MiB", peak=grown)
    return outcome


def returned(scale: Scale) -> Outcome:
    """Batches appended by four loops, with the index of their first row, after 8,000 picks were given back."""
    outcome, starts, slices = Outcome(), itertools.count(10**6, 7), Counter[str]()
    with two_tenants() as tenants:
        names = [f"g{number}" for number in range(8)]
        made(tenants, generators=names, batch_size=1, grow=False)

        def give_back(pick: dict[str, Any]) -> None:
            path = f"{PLAIN}/picks/{pick['number']}"
            slices[status(partial(tenants.noisy.delete, path, params={"nonce": pick["nonce"]}))] += 1

        def append(client: httpx.Client) -> str:
            headers = SENT | {"idempotency-key": uuid.uuid4().hex}
            path, body = f"{PLAIN}/generators/g0/batches", tensors.encode({"values": np.ones((1, 1))})
            given = {"start": next(starts)}
            return f"append {status(partial(client.post, path, content=body, headers=headers, params=given))}"

        with ThreadPoolExecutor(8) as threads:
            for name in names:  # all picks of one before any is given back, or their slices would be handed out again
                asked, picks = {"count": MAX_PICKS, "generators": [name]}, list[dict[str, Any]]()
                while len(picks) < 1000 and (more := tenants.noisy.post(f"{PLAIN}/picks", json=asked).json()["picks"]):
                    picks += more
                list(threads.map(give_back, picks))
        in_turns(outcome, tenants, scale, {"4 loops": lambda: attacking(tenants, [append] * 4)}, turns=2)
    outcome.note(f"given back: {said(slices)}", returned=dict(slices))
    return outcome


def trials(scale: Scale) -> Outcome:
    """Trials of a correction, of an experiment that watches a metric, by four loops of one key."""
    outcome, waits = Outcome(), list[str]()

    def trial(client: httpx.Client, name: str = "plain") -> str:
        path = f"/v1/experiments/{name}/corrections?trial=true"
        return f"trial {status(partial(client.post, path, json=CORRECTION))}"

    def timed(what: str) -> None:
        begun = time.monotonic()
        found = trial(tenants.quiet, "own")
        waits.append(f"{found} {what} after {time.monotonic() - begun:.1f} s")

    @contextmanager
    def beside() -> Iterator[Counter[str]]:
        with attacking(tenants, [trial] * 4) as answers:
            time.sleep(1.0)
            timed("beside them")
            yield answers

    with two_tenants() as tenants:
        watched = {"name": "vendi", "label": "w", "order": 1.5, "kernel": {"sigma": 21.0, "features": 200}}
        made(tenants, **TRIED, watch=[watched])
        tenants.quiet.post("/v1/experiments", json=MEAN | {"name": "own", "keep_log": True}).raise_for_status()
        rng = np.random.default_rng(0)
        for generator, number in itertools.product("ab", range(4)):
            tenants.append("plain", generator, rng.standard_normal((200, 64)))
            headers, body = SENT | {"idempotency-key": f"{number}"}, tensors.encode({"values": rng.random((5, 1))})
            tenants.quiet.post(f"/v1/experiments/own/generators/{generator}/batches", content=body, headers=headers)
        tenants.report("plain")
        timed("alone")
        in_turns(outcome, tenants, scale, {"4 loops": beside})
    outcome.note(f"another tenant's {'; '.join(waits)}", trials=waits)
    return outcome


def long_records(scale: Scale) -> Outcome:
    """Pages of one batch with 16 MiB of records, read by four loops of a viewer."""
    outcome, rows = Outcome(), 2**11
    records = np.full((rows, 2**13), ord("x"), np.uint8)
    records[:, [0, -1]] = ord('"')
    records[-1, 1:5] = list("😀".encode())  # so that each character of the page takes four bytes

    def read(client: httpx.Client) -> str:
        return f"page {status(partial(client.get, f'{PLAIN}/generators/a/records'))}"

    with two_tenants() as tenants:
        made(tenants, keep_log=True)
        body = tensors.encode({"values": np.ones((rows, 1)), "records": records})
        headers = SENT | {"idempotency-key": "long"}
        tenants.noisy.post(f"{PLAIN}/generators/a/batches", content=body, headers=headers).raise_for_status()
        key, before = new_key(tenants.directory, "viewer", "noisy"), reset_peak(tenants.api)
        in_turns(outcome, tenants, scale, {"4 loops": lambda: attacking(tenants, [read] * 4, key)})
        grown = peak(tenants.api) - before
    outcome.note(f"API +{grown:,.0f} MiB", peak=grown)
    return outcome


def connections(scale: Scale) -> Outcome:
    """1,300 connections without a key that send nothing; 1,200 of one key, each with an ask that waits."""
    outcome, waits = Outcome(), dict[str, list[str]]()

    def hold(request: bytes, count: int) -> str:
        """Open so many connections, and keep them open for a turn."""
        with ExitStack() as stack:
            ends, held = time.monotonic() + scale.hammer / 3, 0
            while time.monotonic() < ends:
                if held < count:
                    try:
                        stack.enter_context(connected(tenants)).sendall(request)
                        held += 1
                        continue
                    except OSError:
                        pass
                time.sleep(0.05)
        return f"held {held}"

    @contextmanager
    def beside(what: str, request: bytes, count: int) -> Iterator[Counter[str]]:
        """Three loops that hold so many in all, and how long a new connection of the other tenant waits beside them."""
        with attacking(tenants, [lambda _: hold(request, count // 3)] * 3) as answers:
            time.sleep(1.0)
            begun, headers = time.monotonic(), {"authorization": f"Bearer {tenants.quiet_key}"}
            url = f"{tenants.service.url}/v1/experiments/{QUIET['name']}"
            found = status(partial(httpx.get, url, headers=headers, timeout=5.0))
            waits.setdefault(what, []).append(f"{found} after {time.monotonic() - begun:.1f} s")
            yield answers

    with two_tenants() as tenants:
        kernel = {"sigma": "median", "features": 16}
        metric = {"name": "rke", "dimension": 4, "kernel": kernel}
        made(tenants, metric=metric, max_wait=60, rescore_growth=0)  # which has no estimates for asks
        key = new_key(tenants.directory, "worker", "noisy")
        ask = head(f"{PLAIN}/picks", key, b'{"count": 1}')
        attacks = {"idle": (b"", 1300), "asking": (ask, 1200)}
        in_turns(
            outcome,
            tenants,
            replace(scale, hammer=0.75 * scale.hammer),
            {what: partial(beside, what, *given) for what, given in attacks.items()},
            turns=2,
        )
    for what, found in waits.items():
        outcome.note(f"a new connection beside those that are {what}: {'; '.join(found)}", **{f"new, {what}": found})
    return outcome


def made(tenants: Tenants, **settings: Any) -> dict[str, Any]:
    """The experiment of `noisy` that is attacked, with these settings."""
    return tenants.noisy.post("/v1/experiments", json=MEAN | settings).raise_for_status().json()


def connected(tenants: Tenants, buffer: int | None = None) -> socket.socket:
    """A connection to the API, which keeps at most about `buffer` bytes that were not read."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(2.0)
    try:
        connection.connect(("127.0.0.1", tenants.service.port))
    except OSError:
        connection.close()
        raise
    return connection


def head(path: str, key: str, body: bytes | None = None) -> bytes:
    """A whole request: a GET, or a POST of a body of JSON."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {key}"]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
