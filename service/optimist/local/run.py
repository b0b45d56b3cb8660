"""`optimist.run`: functions are sampled and compared in this process, as `experiment.run` does with a service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from optimist.datasets.references import read_reference
from optimist.experiments.assignment import NO_LIMIT, Assignment
from optimist.experiments.settling import keep_returned
from optimist.local.evaluation import Evaluation
from optimist.records import Returned
from optimist_client import models, tensors
from optimist_client.callbacks import Callback
from optimist_client.drivers import BlockingTransport
from optimist_client.errors import ConflictError, FixError
from optimist_client.metrics import Metric
from optimist_client.metrics.mean import check_unaudited
from optimist_client.operations import run as finished
from optimist_client.pick import Pick, PickOperations
from optimist_client.progress import shown
from optimist_client.run import Allowance, Catch, Failures, Makers, Reporting, Run, check_functions


class LocalService:
    """Answers the asks and tells of one experiment from an `Evaluation`. It is thread-safe.

    Sample i of every generator has the seed and the prompt that it has in a service with the same `seed`.
    """

    def __init__(self, evaluation: Evaluation, name: str) -> None:
        self.evaluation = evaluation
        self.name = name
        self._lock = threading.RLock()
        state = evaluation.state
        # An evaluation that goes on has picks behind it, whose numbers must not come again.
        state.stored.rounds = max(state.stored.rounds, state.stored.told)
        size = evaluation.batch_size
        for generator in state.stored.generators:
            # As in the service, picks begin at multiples of the batch size.
            generator.handed = max(generator.handed, -(-evaluation.next_start(generator.name) // size) * size)
            gaps = starmap(Returned, evaluation.gaps(generator.name))
            keep_returned(state.stored, generator, [*generator.returned, *gaps])

    def report(self) -> models.Report:
        """The report at this moment."""
        with self._lock:
            return self.evaluation.report(self.name)

    def ask(self, worker: str | None, generators: Sequence[str] | None) -> models.AskReply:
        """A new pick among these generators (None: all), or none after the end and while the budget is on its way."""
        with self._lock:
            now, picks, lacked = self.evaluation.now(), list[models.Pick](), None
            if not now.has_ended:
                request = models.AskRequest(worker=worker, generators=None if generators is None else [*generators])
                assignment = Assignment(self.evaluation.state, NO_LIMIT)
                picks, lacked = [*assignment.answer(request, stale=False)], assignment.lacked
            again = None if picks or now.has_ended else 0.05  # seconds, while open picks use up the budget
            return models.AskReply(
                picks=picks,
                state=now.phase,
                ended=now.has_ended,
                decision=now.decision,
                retry_after=again,
                waited_for=lacked,
            )

    def tell(self, number: int, arrays: Mapping[str, NDArray[Any]]) -> models.TellReply:
        """Tell a batch for an open pick.

        Raises `FixError` for a bad batch, `ConflictError` for a pick that is not open.
        """
        with self._lock:
            evaluation = self.evaluation
            if number not in evaluation.state.open_picks:
                raise ConflictError(f"pick {number} is not open")
            pick = evaluation.state.open_picks[number]
            batch: dict[str, Any] = {name: array for name, array in arrays.items() if name != tensors.RECORDS}
            if tensors.IDS in batch:
                batch[tensors.IDS] = tensors.unpack_ids(batch[tensors.IDS])
            rows = min((len(array) for array in batch.values()), default=0)
            if rows > pick.size or (pick.prompts and rows != pick.size):
                raise FixError(f"pick {number}: expected {pick.size} rows, got {rows}")
            evaluation.settle(pick, batch)
            samples, batches = evaluation.counts(pick.generator)
            reply: dict[str, Any] = {"samples": samples, "batches": batches, "position": batches, "late": False}
            reply["findings"] = evaluation.findings(pick.generator, batches)
            return models.TellReply(pick=number, generator=pick.generator, **reply)

    def give_up(self, number: int) -> None:
        """Give up a pick, whose indices are handed out again."""
        with self._lock:
            self.evaluation.state.give_up(number)


_OF_SERVICES = frozenset({"dimension", "prompt_dimension"})
"""Settings that a service needs and that follow from the batches here."""


def run(
    generators: Mapping[str, Callable[..., Any]],
    embed: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
    *,
    embed_prompts: Callable[[list[str]], Any] | None = None,
    max_samples: int | None = None,
    max_cost: float | None = None,
    timeout: float | None = None,
    workers: int = 1,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    catch: Catch = None,
    evaluation: Evaluation | None = None,
    name: str = "run",
    metric: str | Metric = "fid",
    reference: Any = None,
    budget: int | None = None,
    stop: bool | None = None,
    **settings: Any,
) -> models.Report:
    """Sample the generators until it is sure which is the best one, in this process. Returns the report.

    The arguments up to `catch` are as in `Experiment.run` and mean the same: `experiment.run(generators, embed)`
    is the same with a service, which keeps every batch. The others are as in `create_experiment`: `metric` and its
    `reference` (real features, a (mean, covariance) pair, or a file), `prompts`, `budget` in samples, `stop`, and of
    `settings` those that `Evaluation` takes, with the same defaults, such as `watch`, `tolerance` and `costs`. The same
    generator and index have the same seed and prompt as with a service.

    evaluation: one to go on with, which then has the batches of this run; it brings its own metrics,
    prompts and settings. Raises as `Experiment.run` does, and FixError for wrong settings.

    >>> def model(mean):
    ...     return lambda size, seed: np.random.default_rng(seed).normal(mean, 1.0, (size, 4))
    >>> real = np.random.default_rng(0).standard_normal((500, 4))
    >>> run({"good": model(0.0), "bad": model(1.0)}, reference=real, progress=False).decision.best
    'good'
    """
    check_functions(generators, embed)
    failures = Failures(catch)
    if workers < 1:
        raise FixError(f"workers: expected at least 1, got {workers}")
    if evaluation is None:
        if len(generators) == 1:
            raise FixError("generators: expected two or more to compare, got 1: `optimist.score` scores one")
        if isinstance(reference, str | Path):
            reference = read_reference(Path(reference))
        accepted: dict[str, Any] = {name: value for name, value in settings.items() if name not in _OF_SERVICES}
        evaluation = Evaluation([*generators], metric=metric, reference=reference, **accepted)
    else:
        asked = {"metric": metric != "fid", "reference": reference is not None}
        if given := [*settings, *(setting for setting, is_given in asked.items() if is_given)]:
            raise FixError(f"{', '.join(given)}: the evaluation brings its own settings")
    if unknown := [name for name in generators if name not in evaluation.generators] or ["none"] * (not generators):
        raise FixError(f"generators: expected some of {', '.join(evaluation.generators)}; got {', '.join(unknown)}")
    state = evaluation.state
    check_unaudited(state.config.metrics.values(), "a run")
    if state.config.asks.has_contexts:
        raise FixError("goal: a router is asked with the context of each prompt: use Evaluation.ask(context=…)")
    state.budget = state.budget if budget is None else budget
    state.stops = state.stops if stop is None else stop
    service = LocalService(evaluation, name)
    transport = InMemory(service)
    costs = {row.generator: row.cost_per_sample for row in service.report().standings if row.generator in generators}
    allowance = Allowance(max_samples, max_cost, costs, timeout)
    makers = Makers(transport, generators, embed, embed_prompts)
    first = evaluation.arrays[0]

    async def draw(worker: str, patience: float | None) -> tuple[models.AskReply, PickOperations | None]:
        del patience
        reply = service.ask(worker, list(generators))
        return reply, Pick(transport, reply.picks[0], first, list(generators)) if reply.picks else None

    async def read() -> models.Report:
        return service.report()

    with shown(progress, name, max_samples or budget) as display:
        listeners = [*callbacks, display.show] if display.shows_reports else callbacks
        reporting = Reporting(transport, read, listeners)
        finished(Run(transport, makers, draw, display, allowance, reporting, failures).work(workers))
        report = failures.within(service.report())
        finished(reporting.show(report))
    return report


class InMemory(BlockingTransport):
    """Answers the calls of picks from a `LocalService`. There is no connection."""

    def __init__(self, service: LocalService) -> None:
        self._service = service

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        media_type: str | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
        is_long: bool = False,
    ) -> Any:
        """Tell or give up the pick that the path names."""
        del json, media_type, patience, is_long
        number = path.partition("/picks/")[2].partition("/")[0]
        if method == "DELETE":
            return self._service.give_up(int(number))
        assert body is not None
        reply, asked = self._service.tell(int(number), tensors.decode(body)), params or {}
        if not asked.get("next"):
            return reply
        return reply.model_copy(update={"next": self._service.ask(asked.get("worker"), asked.get("generators"))})

    async def close(self) -> None:
        """Do nothing: there is no connection."""
