"""Attacks by which one tenant takes what another one needs: memory, threads, Redis, the scorer."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from optimist_client import tensors

from .hostile import NEVER, NOISY, NPZ, Scale, answer, hammering, moments, said, status, stop_short, zeros
from .outcomes import Outcome
from .tenants import Neighbour, two_tenants
from .usage import peak, reset_peak, resident


def zero_archives(scale: Scale) -> Outcome:
    """Small `.npz` bodies of zeros that unpack to 237 MiB each."""
    outcome, body = Outcome(), zeros(scale.rows)
    with two_tenants() as tenants:
        tenants.noisy.post("/v1/experiments", json=NOISY).raise_for_status()
        append = "/v1/experiments/noisy/generators/a/batches"

        def send(path: str) -> str:
            headers = {"content-type": NPZ, "idempotency-key": "zeros"}
            return status(lambda: tenants.noisy.post(path, content=body, headers=headers, timeout=50.0))

        with Neighbour(tenants) as neighbour:
            begun = time.monotonic()
            for what, path, count in (("one", NEVER, 1), (f"{scale.at_once} at once", NEVER, scale.at_once),
                                      (f"{scale.at_once} appended", append, scale.at_once)):  # fmt: skip
                before = reset_peak(tenants.api)
                with ThreadPoolExecutor(count) as threads:
                    answers = Counter(threads.map(send, [path] * count))
                grown = peak(tenants.api) - before
                outcome.note(f"{what}: API +{grown:,.0f} MiB, {said(answers)}", **{what: grown})
            ended = time.monotonic()
        outcome.waited(neighbour, begun, ended)
    outcome.numbers["body"] = len(body)
    return outcome


def slow_bodies(scale: Scale) -> Outcome:
    """Two bodies of 256 MiB that stop 8 bytes short, where all bodies together may take 512 MiB."""
    outcome = Outcome()
    limits = {"OPTIMIST_MAX_BODY": scale.body, "OPTIMIST_MAX_MEMORY": 2 * scale.body}
    with two_tenants(**{name: str(value) for name, value in limits.items()}) as tenants:
        tenants.noisy.post("/v1/experiments", json=NOISY).raise_for_status()
        # At a moment when nobody has a request on its way: an attacker tries until there is one.
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
    """Uploads of moments of 2048 dimensions, all at once, and SIGTERM in the middle of as many again."""
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
            answers = Counter(threads.map(upload, range(scale.uploads)))
            ended = time.monotonic()
        outcome.waited(neighbour, begun - 3.0, begun, "quiet")
        outcome.waited(neighbour, begun, ended)
        outcome.note(f"{said(answers)} after {ended - begun:.1f} s", seconds=ended - begun)
        for number in range(scale.uploads):
            threads.submit(upload, scale.uploads + number)
        time.sleep(1.0)
        taken = tenants.end(2 * scale.hold)
        text = f"not obeyed in {2 * scale.hold:.0f} s" if taken is None else f"obeyed after {taken:.1f} s"
        outcome.note(f"SIGTERM {text}", sigterm=taken)
    return outcome


def open_picks(scale: Scale) -> Outcome:
    """As many picks as one tenant can open on its own experiments, by whatever worker's name, and asking on."""
    outcome = Outcome()
    with two_tenants() as tenants, Neighbour(tenants, pause=0.0) as neighbour:
        time.sleep(5.0)

        def ask(name: str, worker: str | None) -> None:
            asked = {"worker": worker, "count": 1000}
            status(lambda: tenants.noisy.post(f"/v1/experiments/{name}/picks", json=asked))

        begun = time.monotonic()
        for what, workers in {"one worker": ["one"] * 15, "many workers": [f"{n}" for n in range(15)],
                              "no name": [None] * 15}.items():  # fmt: skip
            name = what.replace(" ", "-")
            config = {"name": name, "generators": ["a"], "metric": "is", "dimension": 10, "lease": 3600}
            tenants.noisy.post("/v1/experiments", json=config).raise_for_status()
            for worker in workers:
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


def feature_maps(scale: Scale) -> Outcome:
    """Kernel experiments of four rows each, whose frequencies take as much as is accepted, 1 GiB together."""
    outcome, dimension, features = Outcome(), 1300, 8192
    with two_tenants(OPTIMIST_WARM_BYTES=str(256 * 2**20)) as tenants, Neighbour(tenants) as neighbour:
        scorer = tenants.service.scorer_pid()
        assert scorer is not None
        config = {"generators": ["a"], "metric": "rke", "dimension": dimension}

        def create(number: int) -> int:
            kernel = {"sigma": 40.0, "features": features, "seed": number}
            return tenants.noisy.post(
                "/v1/experiments", json={**config, "name": f"maps-{number}", "kernel": kernel}
            ).status_code

        while (found := create(0)) == 422 and features > 64:
            outcome.note(f"{dimension} × {features}: {found}")
            features //= 2
        size = dimension * features / 2**17
        count = max(1, round(scale.maps / size))
        before, begun = reset_peak(scorer), time.monotonic()
        rows = np.random.default_rng(0).standard_normal((4, dimension))
        for number in range(count):
            create(number)
            tenants.append(f"maps-{number}", "a", rows)
        for number in range(count):
            tenants.report(f"maps-{number}", max(0.0, begun + 50.0 - time.monotonic()))
        ended, grown = time.monotonic(), peak(scorer) - before
        text = f"{count} maps of {size:.0f} MiB: scorer +{grown:,.0f} MiB at most"
        outcome.note(f"{text}, +{resident(scorer) - before:,.0f} in the end", peak=grown, end=resident(scorer) - before)
    outcome.waited(neighbour, begun, ended)
    return outcome


def everything(scale: Scale) -> Outcome:
    """All of it at once: eight slow bodies, asks for 1000 picks, uploads of references, zips of zeros."""
    outcome = Outcome()
    for make, size in ((moments, scale.dimension), (zeros, scale.rows)):
        make(size)  # before anything is timed
    with two_tenants() as tenants, Neighbour(tenants) as neighbour:
        time.sleep(scale.hammer / 2)
        before, begun = reset_peak(tenants.api), time.monotonic()
        with hammering(tenants, scale) as answers:
            time.sleep(scale.hammer)
            ended, grown = time.monotonic(), peak(tenants.api) - before
            found = Counter(answers)
        neighbour.__exit__()
    quiet = {kind: neighbour.between(begun - scale.hammer / 2, begun, kind) for kind in ("ask", "tell")}
    hammered = {kind: neighbour.between(begun, ended, kind) for kind in ("ask", "tell")}
    ratios = {kind: hammered[kind].p99 / quiet[kind].p99 for kind in quiet}
    outcome.waited(neighbour, begun - scale.hammer / 2, begun, "quiet")
    outcome.waited(neighbour, begun, ended, "hammered")
    text = ", ".join(f"{kind} {ratio:.1f} ×" for kind, ratio in ratios.items())
    outcome.note(f"p99 against quiet: {text}", ratios=ratios)
    outcome.note(f"API +{grown:,.0f} MiB; {said(found)}", peak=grown, answers=found)
    return outcome
