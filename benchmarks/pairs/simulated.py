"""Workers and a scorer in simulated time: what a batch and an estimate take is said, and nothing is measured."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from problems import Problem
from races import DELTA, Change
from streams import BATCH, GROWTH, places_of
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import grown_size
from optimist.policies import Arm, Policy, Stopping
from optimist.policies.policy import warmup_batches

SECONDS = 0.25
"""What a batch of 5 takes on average."""
PATIENCE = 2.0
"""How long an ask waits at most, in seconds."""
THREADS = 2
"""Of a scorer. Each makes the estimates of one generator at a time."""


class Flight:
    """Generators that tell a stream in batches of 5, each at its own time."""

    def __init__(self, problem: Problem, names: tuple[str, ...], number: int) -> None:
        places = places_of(problem, number)
        self._rows: dict[str, dict[str, Tensor]] = {name: problem.rows(name, places) for name in names}
        self._estimators = {name: StreamingEstimator(problem.bound(), GROWTH, paired=True) for name in names}
        self._rng = np.random.default_rng([number, 1])
        self._due: list[tuple[float, int, int, str]] = []
        self._next = dict.fromkeys(names, 0)
        self.now = 0.0
        """Seconds since the beginning."""

    def begin(self, name: str, hangs: bool = False, size: int = BATCH) -> float:
        """Begin the next batch of a generator, which is never told if its worker `hangs`. Returns what it takes."""
        start = self._next[name]
        self._next[name] = start + size
        seconds = SECONDS * size / BATCH * self._rng.exponential()
        if not hangs:
            heapq.heappush(self._due, (self.now + seconds, start, size, name))
        return seconds

    @property
    def next(self) -> float:
        """When the next batch is done; infinite if none is on its way."""
        return self._due[0][0] if self._due else np.inf

    def tell(self) -> tuple[str, int, bool]:
        """Tell the batch that is done first: its generator, its size, and whether an estimate is due."""
        self.now, start, size, name = heapq.heappop(self._due)
        batch = {array: rows[start : start + size] for array, rows in self._rows[name].items()}
        return name, size, self._estimators[name].add(batch, [""] * size, None, (start, size))

    def samples(self, name: str) -> int:
        """The samples that a generator has told."""
        return self._estimators[name].samples

    def estimate(self, name: str) -> Estimate:
        """The estimate of all that a generator has told."""
        return self._estimators[name].estimate()


@dataclass(frozen=True)
class Service:
    """How a service answers the workers of a race."""

    workers: int
    scoring: float
    """Seconds that an estimate takes, for each of its samples."""
    rank: int
    """The samples beyond which every estimate takes three times as long as with so many, as FID's do."""
    late: float
    """The share of a generator's samples that its estimate may lack without an ask waiting for the next one."""
    grows: bool
    """Whether picks grow."""

    def seconds(self, samples: int) -> float:
        """What an estimate from so many samples takes."""
        return self.scoring * (samples if samples <= self.rank else 3 * self.rank)


@dataclass(frozen=True)
class Outcome:
    """How a race has ended."""

    best: str | None
    """For which generator it was decided; None if a generator had no samples left."""
    samples: int
    seconds: float
    waited: float
    """Seconds that all workers together waited for picks."""


class Scorer:
    """Threads that make the estimates that are due; the generator that has waited longest comes first."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._due: dict[int, list[Estimate]] = {}  # by the generators' places
        self._made: list[tuple[float, int, Estimate]] = []  # what is being made, by when it is done

    def add(self, place: int, estimate: Estimate) -> None:
        """An estimate is due. It replaces the one before, unless that one belongs to the history."""
        due = self._due.setdefault(place, [])
        if due and (due[-1].pairing is None or due[-1].pairing.told != (0, due[-1].samples)):
            due.pop()
        due.append(estimate)

    @property
    def next(self) -> float:
        """When the next estimate is done; infinite if none is being made."""
        return self._made[0][0] if self._made else np.inf

    def start(self, now: float) -> None:
        """Start with the next generators, if threads are free."""
        busy = {place for _, place, _ in self._made}
        for place in [place for place in self._due if place not in busy][: THREADS - len(busy)]:
            found = self._due.pop(place)
            done = now + sum(self._service.seconds(each.samples) for each in found)
            heapq.heappush(self._made, (done, place, found[-1]))

    def publish(self) -> tuple[float, int, Estimate]:
        """When an estimate is done, the place of its generator, and the estimate."""
        return heapq.heappop(self._made)


class Race:
    """Workers who ask `top-two` until it decides, in simulated time."""

    def __init__(
        self, problem: Problem, names: tuple[str, ...], number: int, service: Service, change: Change, horizon: int
    ) -> None:
        """change: what to make of estimates. horizon: the most samples of a generator."""
        warmup = warmup_batches(type(problem.question.metric), "influence")
        self._policy = Policy("top-two", warmup, Stopping(DELTA), number)
        self._flight, self._scorer = Flight(problem, names, number), Scorer(service)
        self._arms, self._due = [Arm(name) for name in names], [0] * len(names)
        self._asks = [(0.0, tuple(self._due))] * service.workers
        self._told, self._waited = 0, 0.0
        self._service, self._change, self._horizon = service, change, horizon

    def play(self) -> Outcome:
        """Play it to its end."""
        deciding: tuple[int, ...] | None = None  # what was due when the rule was first satisfied, as long as it is
        while True:
            decision = self._policy.stopping.decide(self._arms, self._told)
            deciding = (deciding or tuple(self._due)) if decision.decided else None
            if deciding and self._lacks_nothing(deciding, 0.0):
                return self._ended(decision.best)
            late = 0.0 if decision.decided else self._service.late
            for ask in [*self._asks]:
                came, due = ask
                warms_up = any(arm.batches + arm.pending_batches < self._policy.warmup for arm in self._arms)
                if warms_up or self._flight.now >= came + PATIENCE or self._lacks_nothing(due, late):
                    self._asks.remove(ask)
                    if not self._open(came):
                        return self._ended(None)
            self._go_on()

    def _ended(self, best: str | None) -> Outcome:
        return Outcome(best, sum(arm.samples for arm in self._arms), self._flight.now, self._waited)

    def _lacks_nothing(self, due: Sequence[int], late: float) -> bool:
        """Whether no generator lacks more than this share of the samples with which an estimate was due."""
        known = [0 if arm.estimate is None else arm.estimate.samples for arm in self._arms]
        return all(samples >= (1.0 - late) * needed for samples, needed in zip(known, due, strict=True))

    def _open(self, came: float) -> bool:
        """Give a pick to the ask that came then. Returns whether its generator has samples left."""
        opened = sum(arm.batches + arm.pending_batches for arm in self._arms)
        place = self._policy.pick(self._arms, self._told, opened + 1)
        arm, on_their_way = self._arms[place], sum(each.pending_samples for each in self._arms)
        size = grown_size(BATCH, arm.samples, on_their_way, 0.0, 1.0) if self._service.grows else BATCH
        if arm.samples + arm.pending_samples + size > self._horizon:
            return False
        self._flight.begin(arm.name, size=size)
        self._waited += self._flight.now - came
        pending = arm.pending_samples + size, arm.pending_batches + 1
        self._arms[place] = replace(arm, pending_samples=pending[0], pending_batches=pending[1])
        return True

    def _go_on(self) -> None:
        """Go on to the next event: an estimate is done, a batch is told, or an ask has waited for long enough."""
        over = min((came + PATIENCE for came, _ in self._asks), default=np.inf)
        if self._scorer.next <= min(self._flight.next, over):
            self._flight.now, place, made = self._scorer.publish()
            self._arms[place] = replace(self._arms[place], estimate=made)
        elif self._flight.next <= over:
            self._tell()
        else:
            self._flight.now = over
        self._scorer.start(self._flight.now)

    def _tell(self) -> None:
        """Tell the next batch, whose worker then asks."""
        name, size, is_due = self._flight.tell()
        self._told += 1
        place = [arm.name for arm in self._arms].index(name)
        arm = self._arms[place]
        self._arms[place] = replace(
            arm,
            samples=arm.samples + size,
            batches=arm.batches + 1,
            pending_samples=arm.pending_samples - size,
            pending_batches=arm.pending_batches - 1,
        )
        if is_due:
            made = self._change(name, self._flight.estimate(name))
            self._scorer.add(place, made)
            self._due[place] = made.samples
        self._asks.append((self._flight.now, tuple(self._due)))
