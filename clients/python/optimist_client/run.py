"""Implements `experiment.run`: loops that ask, call the user's functions, tell, and finally give up open picks."""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from optimist_client import models
from optimist_client.callbacks import Callback
from optimist_client.errors import ConflictError, FixError, GeneratorError, NotFoundError, OptimistError, StopError
from optimist_client.pick import PickOperations
from optimist_client.progress import ProgressDisplay
from optimist_client.transport import Transport
from optimist_client.validation import brief, is_mapping

if TYPE_CHECKING:
    from optimist_client.models import AskReply, DecisionInfo, Report

OLDEST = 30.0
"""Seconds that a pick which was asked ahead may wait for its worker; then it is given up for one of newer estimates. A
batch that takes as long does not notice an ask."""
AskResult = tuple["AskReply", PickOperations | None]
"""The reply to an ask, and its pick."""
Catch = type[Exception] | tuple[type[Exception], ...] | None
"""The exceptions that cost one batch, see `Experiment.run`."""
AskOnce = Callable[[str, float | None], Coroutine[Any, Any, AskResult]]
"""Asks once for a worker (its name, and the patience in seconds)."""


@dataclass(frozen=True)
class Makers:
    """The user's functions, see `Experiment.run`."""

    transport: Transport[Any]
    generators: Mapping[str, Callable[..., Any]]
    embed: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None
    embed_prompts: Callable[[list[str]], Any] | None
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The names of the embeddings, which are told with every batch: arguments for `tell`."""
    previews: Callable[[Any], Any] | None = None
    """Makes previews of what a generator returned; None: no previews are sent."""

    async def make(self, pick: PickOperations) -> dict[str, Any]:
        """Generate and embed the pick's samples. Returns the arguments for `tell`. Raises `GeneratorError`."""
        prompts = [pick.prompts] if pick.prompts else []
        generator = self.generators[pick.generator]
        args: list[Any] = [pick.size, pick.seed, *prompts]
        if "seeds" in (named := self._parameters[pick.generator]):
            values = {"seeds": pick.seeds, "seed": pick.seed, "prompts": pick.prompts}
            generator = partial(generator, **{name: value for name, value in values.items() if name in named})
            args = [pick.size]
        batch = await self._apply(pick, "generating", generator, *args)
        if batch is None:
            raise self._failure(pick, "generating", ValueError("it returned None, not samples"))
        shown: dict[str, Any] = {}
        if self.previews is not None:
            shown["previews"] = await self._apply(pick, "making previews", self.previews, batch)
        if is_mapping(self.embed):
            made: dict[str, Any] = dict(batch) if is_mapping(batch) and "samples" in batch else {"samples": batch}
            samples = made.pop("samples")
            for array, function in self.embed.items():
                made[array] = await self._apply(pick, f"embedding {array!r}", _with_prompts(function, pick), samples)
            batch = made
        elif self.embed is not None:
            batch = await self._apply(pick, "embedding", _with_prompts(self.embed, pick), batch)
        if missing := missing_in(batch):
            doing = "generating" if self.embed is None else "embedding"
            raise self._failure(pick, doing, ValueError(missing))
        if self.embed_prompts is None or not prompts:
            return {"batch": batch, **self.named, **shown}
        embedded = await self._apply(pick, "embedding prompts", self.embed_prompts, *prompts)
        return {"batch": batch, "prompts": embedded, **self.named, **shown}

    @cached_property
    def _parameters(self) -> dict[str, Set[str]]:
        return {name: _names(function) for name, function in self.generators.items()}

    async def _apply(self, pick: PickOperations, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return await self.transport.apply(function, *args)
        except Exception as error:
            raise self._failure(pick, doing, error) from error

    def _failure(self, pick: PickOperations, doing: str, error: Exception) -> GeneratorError:
        failure = GeneratorError(
            f"generator {pick.generator!r}: {doing} raised {type(error).__name__}: {error} "
            f"(pick {pick.number}: {pick.size} samples, seed {pick.seed}); the pick was given up",
            pick.generator,
        )
        failure.__cause__ = error
        return failure


def _with_prompts(function: Callable[..., Any], pick: PickOperations) -> Callable[..., Any]:
    """The function with the pick's prompts, if it has a parameter of this name."""
    return partial(function, prompts=pick.prompts) if pick.prompts and "prompts" in _names(function) else function


def _names(function: Callable[..., Any]) -> Set[str]:
    """The names of a function's parameters."""
    try:
        return inspect.signature(function).parameters.keys()
    except (TypeError, ValueError):  # a builtin
        return frozenset()


def missing_in(batch: Any) -> str:
    """The number of rows of a batch that have None or NaN in place of a number, in words; "" if there is none."""
    from optimist_client.tensors import PACKED, missing_rows

    for name, values in batch.items() if is_mapping(batch) else [("", batch)]:
        lost, rows = (0, 0) if name in PACKED else missing_rows(values)
        if lost:
            return f"{lost} of {rows} rows{name and f' of {name}'} {'has' if lost == 1 else 'have'} None or NaN"
    return ""


class Failures:
    """The batches that failed in one call of `run`, and which of them may. Raises FixError for wrong `catch`."""

    def __init__(self, catch: Catch, in_a_row: int = 10) -> None:
        """in_a_row: batches of a generator that fail one after the other, after which a run ends whatever it may
        catch: else one whose generator always fails would never end.
        """
        kinds: tuple[Any, ...] = catch if isinstance(catch, tuple) else (catch,)
        if catch is not None and not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise FixError(f"catch: expected classes of exceptions, such as (TimeoutError,), got {brief(catch)}")
        self._catch, self._max_in_a_row = catch, in_a_row
        self._lock = threading.Lock()
        self._told: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._failed: dict[str, models.Failure] = {}

    def count_told(self, generator: str) -> None:
        """Note a batch that was told."""
        with self._lock:
            self._told[generator] += 1
            self._in_a_row[generator] = 0

    def add(self, pick: PickOperations, error: GeneratorError) -> None:
        """Note a batch that failed. Raises the error if it is none of those that may cost a batch."""
        cause, name = error.__cause__, error.generator
        if self._catch is not None and not isinstance(cause, self._catch):
            raise error
        with self._lock:
            self._in_a_row[name] += 1
            earlier = self._failed.get(name)
            batches = 1 + (earlier.batches if earlier else 0)
            batches_told = self._told[name]
            if self._catch is None and batches > max(1.0, 0.01 * (batches_told + batches)):
                raise GeneratorError(
                    f"{error}. {batches} of its {batches + batches_told} batches failed, by default 1 or 1% may: "
                    "catch=(…) names the exceptions of which all may",
                    name,
                ) from cause
            if self._in_a_row[name] >= self._max_in_a_row:
                many = f"{error}. {self._max_in_a_row} batches failed one after the other"
                raise GeneratorError(many, name) from cause
            samples = pick.size + (earlier.samples if earlier else 0)
            last = f"{type(cause).__name__}: {cause}"
            self._failed[name] = models.Failure(generator=name, batches=batches, samples=samples, last=last)

    def within(self, report: models.Report) -> models.Report:
        """The report with these failures."""
        with self._lock:
            return report.model_copy(update={"failures": [*self._failed.values()]}) if self._failed else report


def check_functions(generators: Any, embed: Any = None) -> None:
    """Raise FixError unless `generators` is a mapping of names to functions, and `embed` a function or such a mapping,
    or None."""
    example = 'such as {"old": old, "new": new}'
    if not is_mapping(generators):
        kind = type(generators).__name__
        raise FixError(f"generators: expected functions by the names of their generators, {example}; got a {kind}")
    for name, function in generators.items():
        if not callable(function):
            raise FixError(f"generators: {name!r}: expected a function (size, seed), got {brief(function)}")
    for array, function in embed.items() if is_mapping(embed) else (() if embed is None else (("", embed),)):
        if not callable(function):
            said = f"expected a function of the samples, got {brief(function)}"
            raise FixError(f"embed: {array and f'{array!r}: '}{said}; `optimist_client.embedders` has some")


class Allowance:
    """The samples, cost and seconds that one call of `run` may use.

    Raises FixError for `max_cost` if a cost is unknown, and for a timeout that is not above 0.
    """

    def __init__(
        self,
        max_samples: int | None,
        max_cost: float | None,
        costs: Mapping[str, float | None],
        timeout: float | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0.0:
            raise FixError(f"timeout: expected seconds above 0, got {timeout}")
        self._end = math.inf if timeout is None else time.monotonic() + timeout
        unknown = [name for name, cost in costs.items() if cost is None]
        if max_cost is not None and unknown:
            raise FixError(f"max_cost: every generator needs a cost; {', '.join(unknown)} have none")
        self._max_samples = math.inf if max_samples is None else max_samples
        self._max_cost = math.inf if max_cost is None else max_cost
        self._costs = costs
        self._lock = threading.Lock()
        self._samples = 0
        self._cost = 0.0

    def is_left(self) -> bool:
        """True if any samples, cost and time are left."""
        return self._samples < self._max_samples and self._cost < self._max_cost and self.seconds_left > 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the timeout; infinite without one."""
        return self._end - time.monotonic()

    def take(self, pick: PickOperations) -> bool:
        """Subtract a pick, and return whether it is within the allowance. If not, nothing is left afterwards."""
        with self._lock:
            self._samples += pick.size
            self._cost += pick.size * (self._costs.get(pick.generator) or 0.0)
            # The factor allows for rounding errors in the sum.
            return self._samples <= self._max_samples and self._cost <= (1 + 1e-12) * self._max_cost

    def give_back(self, pick: PickOperations) -> None:
        """Add the samples of a pick that failed. What it cost may have been paid."""
        with self._lock:
            self._samples -= pick.size


class Reporting:
    """Calls functions with a new report, at most every `EVERY` seconds."""

    EVERY = 1.0

    def __init__(
        self, transport: Transport[Any], read: Callable[[], Coroutine[Any, Any, Report]], functions: Sequence[Callback]
    ) -> None:
        """read: reads the report from the service."""
        self._transport = transport
        self._read = read
        self._functions = functions
        self._lock = threading.Lock()
        self._next = 0.0

    async def turn(self) -> None:
        """Read and show a report if it is time, and no other loop is about to."""
        with self._lock:
            if not self._functions or time.monotonic() < self._next:
                return
            self._next = math.inf
        try:
            await self.show(await self._read())
        finally:
            self._next = time.monotonic() + self.EVERY

    async def show(self, report: Report) -> None:
        """Call the functions with a report."""
        for function in self._functions:
            await self._transport.apply(function, report)


class Run:
    """The loops of one call of `run` and their shared state: the allowance, the open picks, and whether to end."""

    def __init__(
        self,
        transport: Transport[Any],
        makers: Makers,
        draw: AskOnce,
        progress: ProgressDisplay,
        allowance: Allowance,
        reporting: Reporting,
        failures: Failures,
    ) -> None:
        self._transport = transport
        self._failures = failures
        self._makers = makers
        self._draw = draw
        self._progress = progress
        self._allowance = allowance
        self._reporting = reporting
        self._asks_on = sum(len(quote(name)) for name in makers.generators) <= 4000
        """True if a tell asks for the next pick, as it does where the names of all generators fit into a URL."""
        self._lock = threading.Lock()
        self._told = 0
        self._open: set[PickOperations] = set()
        self._ending = False
        self._has_ended = False
        """True if the newest answer says that the experiment has: picks whose samples nobody has begun to generate are
        given up. In memory a batch that comes after it may overturn the decision."""

    async def work(self, workers: int, ahead: int = 0) -> None:
        """Run this many workers until all have ended. Raises the first error of one.

        ahead: how many further picks each has in hand. They are in loops of their own, of which as many as there are
        workers generate at once, while the others tell, ask, and wait.
        """
        self._slots = self._transport.slots(workers)
        await self._transport.together([self._loop] * (workers * (1 + ahead)), self._interrupted)

    async def _loop(self) -> None:
        worker = f"run-{uuid.uuid4().hex}"
        following: AskResult | None = None
        try:
            while following is not None or (not self._ending and self._allowance.is_left()):
                reply, pick = following or await self._ask(worker)
                following, self._has_ended = None, reply.ended
                self._show(0, reply.decision)
                if pick is not None:
                    following = await self._serve(pick, worker)
                elif reply.retry_after is not None:
                    await self._transport.sleep(min(reply.retry_after, max(self._allowance.seconds_left, 0.0)))
                else:
                    return
        except BaseException:
            self._ending = True
            raise

    async def _ask(self, worker: str) -> AskResult:
        async with self._giving_up(worker):
            return await self._draw(worker, None)

    async def _serve(self, pick: PickOperations, worker: str) -> AskResult | None:
        """Generate and tell the pick if the allowance permits. Returns the next ask's reply if the tell included it."""
        reason = "the run ended"
        self._open.add(pick)
        try:
            await self._reporting.turn()
            if self._ending or not self._allowance.take(pick):
                return None
            since = time.monotonic()
            async with self._slots:
                is_old = time.monotonic() - since > OLDEST
                if self._ending or self._has_ended or is_old:
                    self._allowance.give_back(pick)
                    reason = "it waited too long for its worker" if is_old else reason
                    return None
                try:
                    told = await self._makers.make(pick)
                except GeneratorError as error:
                    self._failures.add(pick, error)
                    self._allowance.give_back(pick)
                    reason = f"{error}"
                    return None
            if pick.settled:  # given up meanwhile because of Ctrl-C in the main thread
                return None
            asks_on = self._asks_on and not self._ending and self._allowance.is_left()
            try:
                async with self._giving_up(worker):
                    reply = await PickOperations.tell(pick, **told, next=asks_on)
            except (ConflictError, NotFoundError, StopError):
                # The pick was given up elsewhere, or the service has lost it: the next ask says how to continue.
                pick.settled = True
                return None
            self._failures.count_told(pick.generator)
            self._show(pick.size)
            return None if reply.next is None else (reply.next, pick.next)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            if not isinstance(error, GeneratorError):
                error.add_note(f"in pick {pick.number}, of generator {pick.generator!r}")
            raise
        finally:
            await pick.leave(reason)
            self._open.discard(pick)

    @contextlib.asynccontextmanager
    async def _giving_up(self, worker: str) -> AsyncGenerator[None]:
        """If a request is interrupted, give up the pick that it may have opened, by asking again as the same worker."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            with contextlib.suppress(OptimistError):
                _, pick = await self._draw(worker, 2.0)
                if pick is not None:
                    await pick.leave("interrupted")
            raise

    async def _interrupted(self) -> None:
        """Give up all open picks. Loops in other threads end when their current function returns."""
        self._ending = True
        for pick in list(self._open):
            await pick.leave("interrupted")

    def _show(self, told: int, decision: DecisionInfo | None = None) -> None:
        with self._lock:
            self._told += told
            self._progress.update(self._told, decision)
