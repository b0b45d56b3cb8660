"""An independent ledger of a whole service with faults: batches, indices and numbers, counted and computed anew.

    python -m tests.chaos.ledger [--seeds 4] [--rounds 2500] [--faults 12]

Threads ask for 1 to 64 picks at once and tell their batches together, half of them with the SDK and half by plain HTTP,
on four experiments whose picks have grown. Meanwhile API processes, scorers and Redis are killed, replies are lost, and
clocks jump. Some picks are never told, some late, some batches are told twice, and the answers to some are not waited
for. In the end each experiment is exported, and the ledger, which knows every batch by its bits, says what is wrong
with the log (`Accounts.check`), with the counts, and with the numbers (`check_numbers`). The exit code is 1 if anything
is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.archive.file import Archive
from optimist.estimates.estimate import Estimate
from optimist.records import codec
from optimist_client import Experiment, Optimist, OptimistError, Pick, tensors
from optimist_client.metrics import RKE, Gaussian
from optimist_client.models.picks import MAX_BATCHES
from tests.support.replay import replay

from .accounts import Accounts, Log, Logged, counted_rows, read_log, totals
from .adversary import Adversary
from .checks import calm
from .driver import create, service, spread
from .questions import GENERATORS, Question
from .wire import BUSY, Client

KINDS = ("kill api", "kill scorer", "kill redis", "set clock", "cut replies to workers")
QUESTIONS = (
    Question("mean", "mean", 1),
    Question("paired", "mean", 1),
    Question("fid", "fid", 8, watch=(RKE(kernel=Gaussian(sigma=4.0, features=16)),)),
    Question("rke", "rke", 4, {"name": "gaussian", "sigma": 2.0, "features": 32, "seed": 0}),
)
TENSORS = {"mean": "values", "paired": "values", "fid": "features", "rke": "features"}
PAIRED = frozenset({"paired", "fid"})
FIRST_ROWS = (3200, 3200)
"""Rows that every generator is given first: picks grow to 1 % of their generator's samples, at most 64."""
BATCH, GROWN = 4, 64
"""Samples of the first picks, and the most that a pick has."""


@dataclass(frozen=True)
class Plan:
    """The size of a run. `rounds`: batches that are acknowledged; `pause`: the longest time that a worker rests after a
    turn, so that estimates are made meanwhile."""

    rounds: int = 2500
    faults: int = 12
    workers: int = 8
    apis: int = 2
    scorers: int = 2
    lease: float = 10.0
    pause: float = 1.0
    limit: float = 900.0


@dataclass
class Outcome:
    """What a run has counted; `violations` is what is wrong."""

    seed: int
    violations: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


class Worker:
    """A thread that asks and tells. The one with an even number uses the SDK."""

    def __init__(self, number: int, seed: int, port: int, accounts: Accounts, plan: Plan) -> None:
        self.largest = self.late = self.repeats = self.abandoned = 0
        self._number, self._accounts, self._plan = number, accounts, plan
        self._random, self._rng = random.Random(f"{seed} {number}"), np.random.default_rng([seed, number])
        self._url = f"http://127.0.0.1:{port}"
        self._sdk = Optimist(self._url, patience=plan.limit)
        self._http = httpx.Client(base_url=self._url, timeout=30.0)
        self._held: list[tuple[float, str, list[Pick]]] = []
        self._experiments: dict[str, Experiment] = {}

    def run(self, is_over: Callable[[], bool]) -> None:
        """Work until it is over. What fails is a violation."""
        try:
            with self._sdk, self._http:
                self._experiments = {one.name: self._sdk.experiment(one.name) for one in QUESTIONS}
                while not is_over():
                    self._turn()
                    time.sleep(self._random.uniform(0.0, self._plan.pause))
        except Exception as error:
            self._accounts.complain(f"worker {self._number} ended by {error!r}")

    def _turn(self) -> None:
        name = self._random.choice(QUESTIONS).name
        count = 1 if self._random.random() < 0.5 else int(64 ** self._random.random())
        picks = self._experiments[name].ask_all(count=count)
        self.largest = max(self.largest, *(pick.size for pick in picks))
        what = self._random.random()
        if what < 0.05:
            self.abandoned += len(picks)
        elif what < 0.15:
            self._held.append((time.monotonic() + self._random.uniform(0.0, 2.0 * self._plan.lease), name, picks))
        else:
            self._tell_all(name, picks)
        for due in [one for one in self._held if one[0] < time.monotonic()]:
            self._held.remove(due)
            self._tell_all(*due[1:])

    def _tell_all(self, name: str, picks: Sequence[Pick]) -> None:
        """Tell picks in groups of arbitrary sizes, each with rows that nobody else sends."""
        left = [(pick, self._rows(name, pick)) for pick in picks]
        while left:
            some = left[: self._random.randint(1, MAX_BATCHES)]
            del left[: len(some)]
            digests = [self._accounts.send((name, pick.generator), rows, pick.start) for pick, rows in some]
            if self._number % 2:
                self._tell_by_http(name, some, digests)
            else:
                self._tell_by_sdk(name, some, digests)

    def _tell_by_sdk(self, name: str, some: Sequence[tuple[Pick, NDArray[Any]]], digests: Sequence[str]) -> None:
        for _ in range(self._times()):
            try:
                replies = self._experiments[name].tell_all(some)
            except OptimistError as error:
                self._accounts.complain(f"{name}: {[pick.number for pick, _ in some][:4]} … were refused: {error}")
                return
            for digest, reply in zip(digests, replies, strict=True):
                self.late += reply.late
                self._accounts.acknowledge(digest, reply.generator, reply.position, reply.uncounted)

    def _tell_by_http(self, name: str, some: Sequence[tuple[Pick, NDArray[Any]]], digests: Sequence[str]) -> None:
        path = f"/v1/experiments/{name}/picks/batches"
        body = b"".join(tensors.encode({TENSORS[name]: rows}) for _, rows in some)
        params = {"picks": [f"{pick.number}.{pick.info.nonce}" for pick, _ in some]}
        given: dict[str, Any] = {
            "content": body,
            "params": params | {"instance": some[0][0].info.instance},
            "headers": {"content-type": tensors.MEDIA_TYPE},
        }
        if self._random.random() < 0.05:  # whether it was accepted is never known
            with contextlib.suppress(httpx.HTTPError):
                self._http.post(path, **given, timeout=httpx.Timeout(5.0, read=self._random.uniform(0.001, 0.01)))
            return
        for _ in range(self._times()):
            told = self._post(path, given)
            for (pick, _), digest in zip(some, digests, strict=True):
                if (answer := told["replies"].get(f"{pick.number}")) is None:
                    self._accounts.complain(f"{name}: {pick} was refused: {told['problems'].get(f'{pick.number}')}")
                else:
                    self.late += answer["late"]
                    self._accounts.acknowledge(digest, answer["generator"], answer["position"], answer["uncounted"])

    def _post(self, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, after as many attempts as it takes."""
        deadline = time.monotonic() + self._plan.limit
        while True:
            with contextlib.suppress(httpx.TransportError):
                reply = self._http.post(path, **given)
                if reply.status_code not in BUSY:
                    return reply.raise_for_status().json()
            if time.monotonic() > deadline:
                raise TimeoutError(path)
            time.sleep(self._random.uniform(0.05, 0.3))

    def _times(self) -> int:
        """How often a batch is told: now and then twice."""
        again = self._random.random() < 0.05
        self.repeats += again
        return 1 + again

    def _rows(self, name: str, pick: Pick) -> NDArray[np.floating]:
        """Rows of the generator and the seeds of a pick, and a little that is this worker's own."""
        width, step = next(one.dimension for one in QUESTIONS if one.name == name), 0.3 * "abc".index(pick.generator)
        common = np.stack([np.random.default_rng(seed).standard_normal(width) for seed in pick.seeds])
        rows = common * (1.0 + step) + step + 1e-3 * self._rng.standard_normal(common.shape)
        return rows.astype(self._random.choice((np.float32, np.float64)))


@dataclass
class Reader:
    """Reads reports until it is stopped, and keeps every estimate in them.

    `seen`: by experiment, label (None: of the metric that decides), generator and samples that were scored.
    """

    client: Client
    accounts: Accounts
    seen: dict[tuple[str, str | None, str, int], tuple[float | None, ...]] = field(default_factory=dict)

    async def run(self) -> None:
        """Read until cancelled. Two estimates of the same samples that differ are a violation."""
        while True:
            for question in QUESTIONS:
                self.read(question.name, (await self.client.call("GET", path_of(question))).content)
            await asyncio.sleep(0.2)

    def read(self, name: str, report: Mapping[str, Any]) -> None:
        """Keep the estimates of a report."""
        for label, standing in standings_in(report):
            if standing["scored_samples"]:
                key = name, label, standing["generator"], standing["scored_samples"]
                numbers = tuple(standing[field] for field in NUMBERS)
                if self.seen.setdefault(key, numbers) != numbers:
                    self.accounts.complain(f"{key} was reported as {self.seen[key]}, then as {numbers}")


NUMBERS = ("score", "standard_error", "lower", "upper")


def path_of(question: Question) -> str:
    """The path of its report."""
    return f"/v1/experiments/{question.name}/report"


def standings_in(report: Mapping[str, Any]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """All standings of a report, by None for the metric that decides, and by the labels of the others."""
    for label, one in {None: report, **report.get("watched", {})}.items():
        yield from ((label, standing) for standing in one["standings"])


def reported(estimate: Estimate) -> tuple[float | None, ...]:
    """The `NUMBERS` of an estimate, as a report must have them."""
    error = estimate.stopping_error
    if error is not None and estimate.scale == "log":
        error *= estimate.score
    ends = (estimate.natural(estimate.lower), estimate.natural(estimate.upper))
    return estimate.score, error, *(end if math.isfinite(end) else None for end in ends)


def check_numbers(archive: Path, seen: Mapping[tuple[str | None, str, int], tuple[float | None, ...]]) -> list[str]:
    """What differs from the estimates that are made again of an exported log: those that the archive holds, and those
    that reports had meanwhile, to the last bit; and which picks would be others.

    seen: by label, generator and samples.
    """
    torch.set_num_threads(1)  # the last bits of a sum depend on how many share it
    again = replay(archive)
    made = {None: again.estimates, **again.watched}
    wrong = [f"pick {one.pick.number} is of {one.pick.generator}, is now of {one.generator}"
             for one in again.picks if not one.is_reproduced]  # fmt: skip
    with archive.open("rb") as file:
        generators = Archive(file).contents.generators
    for label, (one, place) in itertools.product(made, zip(generators, GENERATORS, strict=True)):
        own = made[label][place]
        unit = next(iter(one.units.values())) if label is None else one.units[label]
        if unit.estimate is None or unit.estimate_position != max(own):
            wrong.append(f"{place} by {label}: scored at {unit.estimate_position}, was due at {max(own)}")
        elif codec.encode(own[unit.estimate_position]) != unit.estimate:
            wrong.append(f"{place} by {label}: the estimate at {unit.estimate_position} is another one when made again")
    by_samples = {
        (label, place, estimate.samples): reported(estimate)
        for label, generators in made.items()
        for place, estimates in generators.items()
        for estimate in estimates.values()
    }
    wrong += [
        f"{key}: reported as {numbers}, made again as {by_samples.get(key)}"
        for key, numbers in seen.items()
        if by_samples.get(key) != numbers
    ]
    return wrong


def check_formulas(question: Question, log: Log, report: Mapping[str, Any], archive: Path) -> list[str]:
    """What differs by more than 1e-9 from the plain formulas of a mean and its error, or of a Fréchet distance."""
    wrong: list[str] = []
    with archive.open("rb") as file:
        generators = Archive(file).contents.generators
    for standing, generator in zip(report["standings"], generators, strict=True):
        name, samples = standing["generator"], standing["scored_samples"]
        rows = counted_rows(log[name])[:samples]
        text = next(iter(generator.units.values())).estimate
        if len(rows) < samples or text is None:
            wrong.append(f"{question.name}/{name}: scored at {samples} samples, the log holds {len(rows)}")
            continue
        estimate = codec.decode(Estimate, text)
        if question.metric == "mean":
            error = math.sqrt(rows.var(ddof=1) / samples * (1.0 + 5.0 / samples))
            pairs = {"value": (rows.mean(), standing["score"]), "error": (error, estimate.standard_error)}
        else:
            pairs = {"distance": (frechet(question, rows), estimate.plug_in)}
        wrong += [
            f"{question.name}/{name}: the {what} is {float(mine)!r} by its formula, {theirs!r} by the service"
            for what, (mine, theirs) in pairs.items()
            if theirs is None or not abs(mine - theirs) <= 1e-9 * (1.0 + abs(mine))
        ]
    return wrong


def frechet(question: Question, rows: NDArray[np.float64]) -> float:
    """The Fréchet distance of rows (n, d) from the question's reference, with a covariance by 1/(n − 1)."""
    assert question.reference is not None
    mean, covariance = question.reference
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    own = np.cov(rows.T)
    cross = np.sqrt(np.clip(np.linalg.eigvalsh(root @ own @ root), 0.0, None)).sum()
    return float(((rows.mean(axis=0) - mean) ** 2).sum() + np.trace(own) + np.trace(covariance) - 2.0 * cross)


async def run(seed: int, plan: Plan, progress: Callable[[int], None] = lambda done: None) -> Outcome:
    """One run; `progress` is called with the number of acknowledged batches."""
    outcome, accounts, deadline = Outcome(seed), Accounts(), time.monotonic() + plan.limit
    with tempfile.TemporaryDirectory(prefix="ledger-") as place:
        async with service(Path(place), plan.apis, plan.scorers) as (redis, deployment, front, back):
            client, reader = Client(front.port), Reader(Client(front.port), accounts)
            for question in QUESTIONS:
                settings = {"keep_log": True, "paired": question.name in PAIRED, "rescore_growth": 0.005}
                await create(client, question, lease=plan.lease, seed=seed, max_wait=0.2, batch_size=BATCH, **settings)
            await asyncio.to_thread(_prime, deployment.ports[0], seed, accounts)
            await calm(client, QUESTIONS, 120.0)  # so that picks are made from estimates
            faults: list[str] = []
            adversary = Adversary(
                random.Random(seed),
                redis,
                deployment,
                front,
                back,
                plan.workers,
                lambda _: None,
                faults.append,
                kinds=KINDS,
            )
            workers = [Worker(number, seed, front.port, accounts, plan) for number in range(plan.workers)]
            reading = asyncio.create_task(reader.run())
            attack = asyncio.create_task(
                spread(adversary, plan.faults, plan.rounds, lambda: len(accounts.answers), progress)
            )

            def is_over() -> bool:
                is_done = len(accounts.answers) >= plan.rounds and len(faults) >= plan.faults
                return is_done or time.monotonic() > deadline

            with ThreadPoolExecutor(plan.workers) as threads:
                loop = asyncio.get_running_loop()
                await asyncio.gather(*(loop.run_in_executor(threads, one.run, is_over) for one in workers))
            if time.monotonic() > deadline:
                accounts.complain(f"the run did not end within {plan.limit:g} s")
            for task in (attack, reading):
                task.cancel()
            await asyncio.gather(attack, reading, return_exceptions=True)
            for task in (attack, reading):
                if not task.cancelled():
                    task.result()  # raises the error that ended it too early
            for api in deployment.apis:  # so that no request is under way
                api.kill()
            await adversary.heal()
            await asyncio.sleep(0.5)
            await deployment.ready()
            reports = await calm(client, QUESTIONS, plan.lease + 60.0)
            entries = list[Logged]()
            for question in QUESTIONS:
                archive = Path(place) / f"{question.name}.zip"
                await asyncio.to_thread(_export, deployment.ports[0], question.name, archive)
                log = read_log(archive)
                entries += [one for found in log.values() for one in found]
                report = reports[question.name]
                outcome.violations += await asyncio.to_thread(_check, question, archive, report, log, reader)
            for one in (client, reader.client):
                one.abort()
            accounts.violations += [line for child in (*deployment.children, redis.child) for line in child.exits]
    outcome.violations += accounts.violations
    outcome.figures = {
        "acknowledged": len(accounts.answers),
        "never answered": len(accounts.sent) - len(accounts.answers),
        "in the logs": len(entries),
        "told twice": sum(worker.repeats for worker in workers),
        "late": sum(worker.late for worker in workers),
        "left": sum(worker.abandoned for worker in workers),
        "not counted": sum(answers[0].position is None for answers in accounts.answers.values()),
        "in part": sum(one.counted is not None for one in entries),
        "largest": max(worker.largest for worker in workers),
        "estimates": len(reader.seen),
        "faults": len(faults),
        "wrong": len(outcome.violations),
    }
    return outcome


def _check(question: Question, archive: Path, report: Mapping[str, Any], log: Log, reader: Reader) -> list[str]:
    """All that is wrong with one experiment in the end."""
    name = question.name
    wrong = reader.accounts.check(name, log)
    counts = {one["generator"]: (one["batches"], one["samples"]) for _, one in standings_in(report)}
    if counts != totals(log) or report["rounds"] != sum(batches for batches, _ in totals(log).values()):
        wrong.append(f"{name}: the log has {totals(log)}, the report {counts} in {report['rounds']} rounds")
    if not all(one["scored"] for one in (report, *report.get("watched", {}).values())):
        wrong.append(f"{name}: estimates that are due have not been made")
    reader.read(name, report)
    seen = {key[1:]: numbers for key, numbers in reader.seen.items() if key[0] == name}
    wrong += [f"{name}: {text}" for text in check_numbers(archive, seen)]
    if question.metric in ("mean", "fid"):
        wrong += check_formulas(question, log, report, archive)
    return wrong


def _prime(port: int, seed: int, accounts: Accounts) -> None:
    """Give every generator its first rows, without picks."""
    rng = np.random.default_rng(seed)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        for question, generator in itertools.product(QUESTIONS, GENERATORS):
            start = 0
            for rows in FIRST_ROWS:
                values = rng.standard_normal((rows, question.dimension))
                digest = accounts.send((question.name, generator), values, start)
                reply = client.post(
                    f"/v1/experiments/{question.name}/generators/{generator}/batches",
                    content=tensors.encode({TENSORS[question.name]: values}),
                    params={"start": start},
                    headers={"content-type": tensors.MEDIA_TYPE, "idempotency-key": f"first-{start}"},
                )
                answer = reply.raise_for_status().json()
                accounts.acknowledge(digest, answer["generator"], answer["position"], answer["uncounted"])
                start += rows


def _export(port: int, name: str, path: Path) -> None:
    with Optimist(f"http://127.0.0.1:{port}") as client:
        client.experiment(name).export(path)


def table_of(outcomes: Sequence[Outcome]) -> Table:
    """One row per seed."""
    table = Table(box=box.MARKDOWN)
    for column in ("seed", *outcomes[0].figures):
        table.add_column(column, justify="right", no_wrap=True)
    for outcome in outcomes:
        table.add_row(*map(str, (outcome.seed, *outcome.figures.values())))
    return table


def main() -> int:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="number of runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    for name in ("rounds", "faults", "workers", "apis", "scorers"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    options = parser.parse_args()
    plan = Plan(**{name: value for name, value in vars(options).items() if name in Plan.__dataclass_fields__})
    console, outcomes = Console(width=200), list[Outcome]()
    for seed in range(options.first, options.first + options.seeds):
        outcomes.append(asyncio.run(run(seed, plan)))
        for text in outcomes[-1].violations:
            console.print(f"seed {seed}: {text}", markup=False, soft_wrap=True)
    console.print(table_of(outcomes))
    return int(any(outcome.violations for outcome in outcomes))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
