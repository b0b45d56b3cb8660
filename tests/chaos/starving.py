"""Attacks with which one tenant uses up shared resources: memory, threads, Redis, the scorer."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import numpy as np

from optimist_client import tensors
from optimist_client.models.picks import MAX_PICKS
from tests.support.keys import new_key

from .hostile import (
    NEVER,
    NOISY,
    Scale,
    answer,
    archives,
    asking,
    attacking,
    hammering,
    importing,
    in_turns,
    json_asks,
    large,
    moments,
    said,
    status,
    stop_short,
    tell_large,
    watching,
)
from .tenants import Neighbour, Outcome, peak, reset_peak, resident, two_tenants


def large_batches(scale: Scale) -> Outcome:
    """Batches of 64 MiB, told for a pick that does not exist; appended with a NaN."""
    outcome, body, wrong = Outcome(), large(scale.rows), large(scale.rows, float("nan"))
    append = "/v1/experiments/noisy/generators/a/batches"
    with two_tenants() as tenants:
        tenants.noisy.post("/v1/experiments", json=NOISY).raise_for_status()

        def grown(path: str, content: bytes, count: int) -> tuple[float, str]:
            """MiB by which the API grew at most, and its answers to this many bodies at once."""

            def send(_: int) -> str:
                headers = {"content-type": tensors.MEDIA_TYPE, "idempotency-key": "large"}
                return status(lambda: tenants.noisy.post(path, content=content, headers=headers, timeout=45.0))

            before = reset_peak(tenants.api)
            with ThreadPoolExecutor(count) as threads:
                answers = Counter(threads.map(send, range(count)))
            return peak(tenants.api) - before, said(answers)

        with Neighbour(tenants) as neighbour:
            begun = time.monotonic()
            for what, path, content, count in (
                ("one", NEVER, body, 1),
                (f"{scale.at_once} at once", NEVER, body, scale.at_once),
                (f"{scale.at_once} appended, with a NaN", append, wrong, scale.at_once),
            ):
                size, answers = grown(path, content, count)
                outcome.note(f"{what}: API +{size:,.0f} MiB, {answers}", **{what: size})
            ended = time.monotonic()
        outcome.waited(neighbour, begun, ended)
    outcome.numbers["body"] = len(body)
    return outcome


def slow_bodies(scale: Scale) -> Outcome:
    """Two bodies of 256 MiB that stop 8 bytes short, `MAX_MEMORY` of 512 MiB."""
    outcome = Outcome()
    limits = {"OPTIMIST_MAX_BODY": scale.body, "OPTIMIST_MAX_MEMORY": 2 * scale.body}
    with two_tenants(**{name: str(value) for name, value in limits.items()}) as tenants:
        tenants.noisy.post("/v1/experiments", json=NOISY).raise_for_status()
        # While no other request is running: an attacker tries until there is such a moment.
        connections = [stop_short(tenants, scale.body) for _ in range(2)]
        with Neighbour(tenants) as neighbour:
            begun = time.monotonic()
            time.sleep(scale.hold)
            ended = time.monotonic()
        answers = Counter(answer(connection, 0.1) for connection in connections)
        for connection in connections:
            connection.close()
    outcome.waited(neighbour, begun, ended)
    outcome.note(f"slow ones: {said(answers)} in {scale.hold:.0f} s")
    return outcome


def references(scale: Scale) -> Outcome:
    """Six references of d = 2048 uploaded at once, then SIGTERM during six more."""
    outcome, body = Outcome(), moments(scale.dimension)
    headers = {"content-type": tensors.MEDIA_TYPE}

    def upload(number: int) -> str:
        parameters = {"name": f"reference-{number}"}
        return status(
            lambda: tenants.noisy.post(
                "/v1/references", params=parameters, content=body, headers=headers, timeout=scale.hold
            )
        )

    with two_tenants() as tenants, ThreadPoolExecutor(2 * scale.uploads) as threads:
        with Neighbour(tenants) as neighbour:
            time.sleep(3.0)
            begun = time.monotonic()
            uploads = [threads.submit(upload, number) for number in range(scale.uploads)]
            time.sleep(0.5)
            large = tell_large(tenants, scale.hold)
            answers = Counter(upload.result() for upload in uploads)
            ended = time.monotonic()
        outcome.waited(neighbour, begun - 3.0, begun, "quiet")
        outcome.waited(neighbour, begun, ended)
        text = f"{said(answers)} after {ended - begun:.1f} s; another tenant's batch of 390 KiB: {large}"
        outcome.note(text, seconds=ended - begun)
        for number in range(scale.uploads):
            threads.submit(upload, scale.uploads + number)
        time.sleep(1.0)
        taken = tenants.end(scale.hold)
        text = f"not obeyed in {scale.hold:.0f} s" if taken is None else f"obeyed after {taken:.1f} s"
        outcome.note(f"SIGTERM {text}", sigterm=taken)
    return outcome


def open_picks(scale: Scale) -> Outcome:
    """One tenant opens as many picks as it can and continues to ask; the other works without pause."""
    outcome = Outcome()
    with two_tenants() as tenants, Neighbour(tenants, pause=0.0) as neighbour:
        time.sleep(5.0)

        def ask(name: str, worker: str | None) -> None:
            asked = {"worker": worker, "count": MAX_PICKS}
            status(lambda: tenants.noisy.post(f"/v1/experiments/{name}/picks", json=asked, timeout=5.0))

        begun = time.monotonic()
        named = {"one worker": ["one"] * 60, "many workers": [f"{n}" for n in range(60)], "no name": [None] * 60}
        for what, workers in named.items():
            name, deadline = what.replace(" ", "-"), time.monotonic() + scale.hold / 3
            config = {"name": name, "generators": ["a"], "metric": {"name": "is", "dimension": 10}, "lease": 3600}
            tenants.noisy.post("/v1/experiments", json=config).raise_for_status()
            for worker in workers:
                if time.monotonic() < deadline:
                    ask(name, worker)
            opened = tenants.report(name, 0.0)["open_picks"]
            outcome.note(f"{what}: {opened:,} open", **{what: opened})
        full = time.monotonic()
        while time.monotonic() < full + scale.hold / 3:
            ask("no-name", None)
        ended = time.monotonic()
    outcome.waited(neighbour, begun - 5.0, begun, "quiet")
    outcome.waited(neighbour, begun, full, "while they are opened")
    outcome.waited(neighbour, full, ended, "others")
    return outcome


def lists(scale: Scale) -> Outcome:
    """15 experiments with 20,000 prompts of 700 characters each, listed in a loop by four clients."""
    outcome, prompts, sizes = Outcome(), [f"{n:0700}" for n in range(20_000)], [0]

    def listing(client: httpx.Client) -> str:
        sizes.append(len(client.get("/v1/experiments").raise_for_status().content))
        return "list 200"

    with two_tenants() as tenants:
        for number in range(15):
            config = {"name": f"long-{number}", "generators": ["a"], "metric": {"name": "mean"}, "prompts": prompts}
            tenants.noisy.post("/v1/experiments", json=config, timeout=45.0).raise_for_status()
        before = reset_peak(tenants.api)
        in_turns(outcome, tenants, scale, {"listed": lambda: attacking(tenants, [listing] * 4)})
        grown = peak(tenants.api) - before
    most = max(sizes) / 2**20
    outcome.note(f"lists of at most {most:.2f} MiB: API +{grown:,.0f} MiB", largest=most, grown=grown)
    return outcome


def imports(scale: Scale) -> Outcome:
    """Archives sent by three loops with one key: of 24 MiB, with 400,000 slices given back, without their end."""
    outcome = Outcome()

    def unfinished(_: httpx.Client) -> str:
        with stop_short(tenants, scale.body, "/v1/import?name=never") as connection:
            return f"unfinished {answer(connection, 5.0)}"

    with two_tenants() as tenants:
        whole, long = archives(tenants)
        loops = {"whole ones": importing(whole), "400,000 slices": importing(long), "unfinished": unfinished}
        in_turns(
            outcome, tenants, scale, {what: partial(attacking, tenants, [loop] * 3) for what, loop in loops.items()}
        )
    outcome.numbers["body"] = len(whole)
    return outcome


def feature_maps(scale: Scale) -> Outcome:
    """1 GiB of feature maps in experiments with four rows, `WARM_BYTES` of 256 MiB."""
    outcome, dimension, features = Outcome(), 1300, 8192
    with two_tenants(OPTIMIST_WARM_BYTES=str(256 * 2**20)) as tenants, Neighbour(tenants) as neighbour:
        scorer = tenants.service.scorer_pid()
        assert scorer is not None

        def create(number: int) -> int:
            kernel = {"sigma": 40.0, "features": features, "seed": number}
            metric = {"name": "rke", "dimension": dimension, "kernel": kernel}
            config = {"name": f"maps-{number}", "generators": ["a"], "metric": metric}
            return tenants.noisy.post("/v1/experiments", json=config).status_code

        while (found := create(0)) == 422 and features > 64:
            outcome.note(f"{dimension} × {features}: {found}")
            features //= 2
        size = dimension * features / 2**17
        count = max(1, round(scale.maps / size))
        before, begun = reset_peak(scorer), time.monotonic()
        deadline, rows = begun + 1.5 * scale.hold, np.random.default_rng(0).standard_normal((4, dimension))
        for number in range(count):
            create(number)
            tenants.append(f"maps-{number}", "a", rows)
        reports = [tenants.report(f"maps-{n}", max(0.0, deadline - time.monotonic())) for n in range(count)]
        ended, grown, left = time.monotonic(), peak(scorer) - before, resident(scorer) - before
        text = f"{count} maps of {size:.0f} MiB, {sum(report['scored'] for report in reports)} scored"
        outcome.note(f"{text}: scorer +{grown:,.0f} MiB at most, +{left:,.0f} in the end", peak=grown, end=left)
    outcome.waited(neighbour, begun, ended)
    return outcome


def large_asks(scale: Scale) -> Outcome:
    """One worker's key sends asks in JSON one after another: of 16 MiB, and as large as they may be."""
    outcome = Outcome()
    with two_tenants() as tenants:
        bodies, key = json_asks(tenants), new_key(tenants.directory, "worker", "noisy")
        in_turns(outcome, tenants, scale, {
            "asks of 16 MiB": lambda: attacking(tenants, [asking(bodies[False])], key),
            "largest asks allowed": lambda: attacking(tenants, [asking(bodies[True])], key),
        })  # fmt: skip
    return outcome


def watched(scale: Scale) -> Outcome:
    """Batches for four generators of an experiment with growth 0, which watches no metric, or 16."""
    outcome = Outcome()
    with two_tenants() as tenants:
        kinds = {"none watched": 0, "16 watched": 16}
        in_turns(outcome, tenants, scale, {what: partial(watching, tenants, n) for what, n in kinds.items()})
    return outcome


def everything(scale: Scale) -> Outcome:
    """One tenant, all at once: eight slow bodies, asks for 250 picks, uploads of d = 2048, batches of 16 MiB."""
    outcome = Outcome()
    for make, size in ((moments, scale.dimension), (large, scale.rows // 4)):
        make(size)  # before anything is timed
    with two_tenants() as tenants:
        before = reset_peak(tenants.api)
        in_turns(outcome, tenants, scale, {"hammered": lambda: hammering(tenants, scale)})
        grown = peak(tenants.api) - before
    outcome.note(f"API +{grown:,.0f} MiB", peak=grown)
    return outcome
