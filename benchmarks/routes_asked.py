"""Asks with contexts per second: 16 workers ask which generator gets a prompt, and tell one score.

    python benchmarks/routes_asked.py [--seconds 3] [--repeats 3] [--workers 16] [--scoring]

A round is an ask and a tell, two requests. Beside it, alternately in one run: the same without contexts, in an
experiment for the best generator by the same scores. Both run on an embedded Redis with `appendfsync always`. Contexts
have 384 numbers, as JSON; the model has 256 features and 10 generators. It is published once, of made-up numbers, and
no scorer runs: what is measured is the API. With --scoring a scorer makes estimates and models beside it, by the
settings of a new experiment. "CPU" is processor time per round of the process that answers, the number that other jobs
on the machine disturb least. "client" is the share of one core that the load generator takes.

Then, in this process: what choosing takes for one context, and its parts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from optimist.numerics.routing.features import ContextMap
from optimist.numerics.routing.model import RouteModel
from optimist.numerics.routing.prompts import RoutedPrompt
from optimist.numerics.routing.ridge import Moments, Regressions
from optimist.policies import RoutePolicy
from optimist.policies.routing import SAMPLED
from optimist.records import MODEL, ChainedExtent
from optimist.store import ROUTES_UNIT, Store, connect, running_url
from optimist_client import Optimist, tensors
from optimist_client.models import AskRequest
from raw import HEADERS, JSON, RawClient, batch_path, free_port, process, redis_of
from rounds import Action, Variant, cells, header, line

WIDTH, FEATURES, GENERATORS = 384, 256, 10
NAMES = [f"g{place}" for place in range(GENERATORS)]
SCORE = tensors.encode({"values": np.array([[0.5]], dtype=np.float32)})
BODIES = 50
"""Different asks of each worker."""


def made_up_model() -> RouteModel:
    """The regressions of scores that depend on the context."""
    rng, contexts = np.random.default_rng(0), ContextMap.drawn(WIDTH, FEATURES, np.sqrt(2.0 * WIDTH))
    moments = []
    for _ in NAMES:
        features = contexts(rng.standard_normal((400, WIDTH)))
        scores = features @ rng.standard_normal(FEATURES) + rng.standard_normal(len(features))
        moments.append(Moments.from_rows(features, scores))
    found = Regressions.from_moments(moments)
    sampled = rng.standard_normal((SAMPLED, WIDTH)).astype(np.float32)
    return RouteModel.from_regressions(range(GENERATORS), [400] * GENERATORS, contexts, found, found.means, sampled)


def ask_of(contexts: int, seed: int) -> bytes:
    """The body of an ask with so many contexts."""
    rows = np.random.default_rng(seed).standard_normal((contexts, WIDTH)).astype(np.float32)
    return json.dumps({"contexts": rows.tolist()}).encode()


def worker(port: int, path: str, bodies: list[bytes]) -> Action:
    """One that asks, then tells a score for each pick of the answer."""
    client, asks = RawClient(port), itertools.cycle(bodies)

    def action() -> None:
        for pick in client.post(path, next(asks), JSON)["picks"]:
            client.post(batch_path(path, pick), SCORE, HEADERS)

    return action


async def publish(directory: Path, name: str, model: RouteModel) -> None:
    """Publish a model as made of the experiment's log as it is."""
    async with connect(running_url(directory) or "") as redis:
        store = Store(redis)
        claim, stored = await store.claim(name, ROUTES_UNIT, "benchmark", 600), await store.state(name)
        assert claim is not None
        logs = [(g, (await store.read_log(name, g.ordinal, g.seq - 1))[0]) for g in stored.routable]
        parts = [ChainedExtent(g.ordinal, g.seq, g.samples, entry.chain) for g, entry in logs]
        assert await store.put_artefact(name, MODEL, model.pack(), claim.token, parts)


def routed(client: Optimist, port: int, directory: Path, scoring: bool) -> str:
    """An experiment that has a model, of a scorer or of made-up numbers; the path of its picks."""
    growth: dict[str, Any] = {} if scoring else {"rescore_growth": 1.0}
    client.create_experiment(
        "routed",
        NAMES,
        metric="mean",
        goal="route",
        context=WIDTH,
        context_features=FEATURES,
        context_bandwidth=float(np.sqrt(2.0 * WIDTH)),
        **growth,
    )
    path = "/v1/experiments/routed/picks"
    worker(port, path, [ask_of(3 * GENERATORS, 0)])()
    if not scoring:
        asyncio.run(publish(directory, "routed", made_up_model()))
    raw = RawClient(port)
    while "model" not in (pick := raw.post(path, ask_of(1, 0), JSON)["picks"][0]):
        time.sleep(0.05)
    assert pick["probability"] is not None
    return path


def plain(client: Optimist, scoring: bool) -> str:
    """An experiment for the best generator by the same scores."""
    growth: dict[str, Any] = {} if scoring else {"rescore_growth": 1.0}
    client.create_experiment("plain", NAMES, metric="mean", batch_size=1, stop=False, max_wait=0.0, **growth)
    return "/v1/experiments/plain/picks"


def choosing() -> None:
    """Print what choosing a generator takes here, in processor time."""
    model, policy = made_up_model(), RoutePolicy()
    rows = np.random.default_rng(1).standard_normal((BODIES, WIDTH)).astype(np.float32)
    body, packed, places = ask_of(1, 1), model.pack(), itertools.cycle(range(BODIES))
    asked = AskRequest.model_validate_json(body)

    def chosen() -> None:
        place = next(places)
        means, widths = model.predict(rows[place : place + 1])
        policy.pick(policy.chances(means[0], widths[0]), place)

    means, widths = model.predict(rows[:1])
    costs = np.geomspace(1.0, 100.0, GENERATORS)
    ceiled = RoutePolicy(ceiling=10.0)
    frontier = ceiled.frontier(*model.sampled, costs)
    print("\nProcessor time of one choice, in this process\n")
    header("", "µs")
    parts: dict[str, Callable[[], object]] = {
        "choosing a generator": chosen,
        "of it: means and widths": lambda: model.predict(rows[:1]),
        "of it: probabilities": lambda: policy.chances(means[0], widths[0]),
        "beside it, with a ceiling: the price": lambda: ceiled.paced(frontier, 1.0),
        "and once for each model: what allocations cost": lambda: ceiled.frontier(*model.sampled, costs),
        "reading the body": lambda: AskRequest.model_validate_json(body),
        "its context as float32": lambda: np.array(asked.contexts, dtype=np.float32),
        "packing what is stored": RoutedPrompt(rows[0], 0.5, "a prompt").pack,
        f"reading a model of {len(packed) / 2**20:.1f} MiB": lambda: RouteModel.unpack(packed),
    }
    for name, action in parts.items():
        action()
        begun = time.process_time()
        for _ in range(200):
            action()
        line(name, f"{(time.process_time() - begun) / 200 * 1e6:.0f}")


def main() -> None:
    """Run the measurements and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one turn")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each variant")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--scoring", action="store_true", help="run a scorer beside it")
    options = parser.parse_args()
    print(f"d = {WIDTH}, r = {FEATURES}, G = {GENERATORS}; {os.cpu_count()} cores, {platform.machine()}\n")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="routes-asked-")))
        port, data = free_port(), f"{directory}/data"
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--data-dir={data}"]
        serve += [] if options.scoring else ["--no-scoring"]
        pid = stack.enter_context(process(serve, port))
        client = stack.enter_context(Optimist(f"http://127.0.0.1:{port}"))
        paths = plain(client, options.scoring), routed(client, port, Path(data), options.scoring)
        asks = [[ask_of(1, BODIES * place + k) for k in range(BODIES)] for place in range(options.workers)]
        every, answering = range(options.workers), [[pid], [], [redis_of(pid)]]
        variants = [
            Variant("ask and tell", [worker(port, paths[0], [b"{}"]) for _ in every], answering),
            Variant("ask with a context", [worker(port, paths[1], asks[place]) for place in every], answering),
        ]
        for variant in variants:
            variant.warm_up()
        for _ in range(options.repeats):
            for variant in variants:
                variant.turn(options.seconds)
        header("", "API", "rounds/s", "p50, ms", "p99, ms", "CPU, µs", "scorer, µs", "Redis, µs", "client")
        for variant in variants:
            line(*cells(variant))
    choosing()


if __name__ == "__main__":
    main()
