"""`optimist.run`: functions are sampled and compared in this process, as `experiment.run` does with a service."""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.experiments.slices import first_seed, prompt_order
from optimist.local.evaluation import Evaluation
from optimist.local.offline import read_reference
from optimist_client import models, tensors
from optimist_client.callbacks import Callback
from optimist_client.drivers import BlockingTransport
from optimist_client.errors import ConflictError, FixError
from optimist_client.metrics import Metric
from optimist_client.operations import run as finished
from optimist_client.pick import Pick, PickOperations
from optimist_client.progress import shown
from optimist_client.run import Allowance, Makers, Reporting, Run, check_functions

_AGAIN = 0.05
"""Seconds after which to ask again while open picks use up the budget."""
_SEQUENCE = 2**22
"""Seeds of a generator where generators are not paired, as in the service."""


class LocalService:
    """Answers the asks and tells of one experiment from an `Evaluation`. It is thread-safe.

    Sample i of every generator has the seed and the prompt that it has in a service with the same `seed`.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        name: str,
        *,
        budget: int | None = None,
        stop: bool = True,
    ) -> None:
        """budget: recorded samples after which there are no more picks. stop: whether a decision ends them, too."""
        self.evaluation = evaluation
        self.name = name
        settings = evaluation.settings
        self._seed: int = settings["seed"]
        self._paired: bool = settings["paired"]
        self._prompts: list[str] = list(settings["prompts"] or ())
        self._is_list = settings["prompts_are"] == "list"
        self._budget, self._stop = budget, stop
        self._lock = threading.RLock()
        self._open: dict[int, models.Pick] = {}
        # An evaluation that goes on has picks behind it, whose numbers must not come again.
        self._rounds = evaluation.told
        names, size = evaluation.generators, evaluation.batch_size
        # As in the service, picks begin at multiples of the batch size.
        self._handed = {generator: -(-evaluation.next_start(generator) // size) * size for generator in names}
        self._returned: dict[str, list[tuple[int, int]]] = {generator: [] for generator in names}

    def report(self) -> models.Report:
        """The report at this moment."""
        with self._lock:
            return self.evaluation.report(self.name, budget=self._budget, pending=self._pending())

    def ask(self, worker: str | None, generators: Sequence[str] | None) -> models.AskReply:
        """A new pick among these generators (None: all), or none after the end and while the budget is on its way."""
        with self._lock:
            now = self.evaluation.decision(explain=False)
            known = {field: getattr(now, field) for field in ("best", "confidence", "decided", "reason")}
            decision = models.DecisionInfo(**known)
            left = None if self._budget is None else self._budget - self.evaluation.samples
            ended = (now.decided and self._stop) or (left is not None and left <= 0)
            state = "running" if not ended else "decided" if now.decided and self._stop else "out of budget"
            on_the_way = sum(pick.size for pick in self._open.values())
            if ended or (left is not None and left <= on_the_way):
                again = None if ended else _AGAIN
                return models.AskReply(picks=[], state=state, ended=ended, decision=decision, retry_after=again)
            most = self.evaluation.batch_size if left is None else min(self.evaluation.batch_size, left - on_the_way)
            pick = self._next(worker, generators, most)
            return models.AskReply(picks=[pick], state=state, ended=False, decision=decision)

    def tell(self, number: int, arrays: Mapping[str, NDArray[Any]]) -> models.TellReply:
        """Tell a batch for an open pick.

        Raises `FixError` for a bad batch, `ConflictError` for a pick that is not open.
        """
        with self._lock:
            pick = self._open.get(number)
            if pick is None:
                raise ConflictError(f"pick {number} is not open")
            batch: dict[str, Any] = dict(arrays)
            if tensors.IDS in batch:
                batch[tensors.IDS] = tensors.unpack_ids(batch[tensors.IDS])
            rows = min((len(array) for array in batch.values()), default=0)
            if rows > pick.size or (self._prompts and rows != pick.size):
                raise FixError(f"pick {number}: expected {pick.size} rows, got {rows}")
            indices = None if pick.prompt_indices is None else np.array(pick.prompt_indices[:rows])
            listed = None if indices is None else indices.tolist()
            self.evaluation.tell(pick.generator, batch, start=pick.start, prompt_indices=listed)
            del self._open[number]
            assert pick.start is not None
            self._hand_back(pick.generator, pick.start + rows, pick.size - rows)
            samples, batches = self.evaluation.counts(pick.generator)
            known: dict[str, Any] = {"samples": samples, "batches": batches, "position": batches, "late": False}
            known["findings"] = self.evaluation.findings(pick.generator, batches)
            return models.TellReply(pick=number, generator=pick.generator, **known)

    def give_up(self, number: int) -> None:
        """Give up a pick, whose indices are handed out again."""
        with self._lock:
            pick = self._open.pop(number, None)
            if pick is not None:
                assert pick.start is not None
                self._hand_back(pick.generator, pick.start, pick.size)

    def _next(self, worker: str | None, generators: Sequence[str] | None, most: int) -> models.Pick:
        pending = self._pending()
        name = self.evaluation.ask(among=generators, pending=pending)
        start, size = self._slice(name, most)
        ordinal = self.evaluation.generators.index(name)
        first = first_seed(self._seed) + (0 if self._paired else _SEQUENCE * ordinal)
        order: list[int] = []
        if self._prompts:
            order = prompt_order(len(self._prompts), self._seed, start, size, passes=self._is_list)
        self._rounds += 1
        pick = models.Pick(
            experiment=self.name,
            instance="memory",
            number=self._rounds,
            generator=name,
            size=size,
            prompts=[self._prompts[index] for index in order] or None,
            prompts_start=start if order else None,
            prompt_indices=order if self._is_list else None,
            start=start,
            seed=(first + start) % 2**32,
            positions=[],
            batches=[],
            pending_samples=[],
            pending_batches=[pending.get(each, 0) for each in self.evaluation.generators],
            told=self.evaluation.told,
            stale=False,
            worker=worker,
            request_id="",
            opened=time.time(),
            nonce=f"{self._rounds:x}",  # nothing here loses a pick
        )
        self._open[pick.number] = pick
        return pick

    def _slice(self, name: str, most: int) -> tuple[int, int]:
        """The indices of the next pick, those that were returned first."""
        if self._returned[name]:
            start, size = self._returned[name].pop(0)
            taken = min(most, size)
            self._hand_back(name, start + taken, size - taken)
            return start, taken
        start = self._handed[name]
        self._handed[name] += self.evaluation.batch_size
        self._hand_back(name, start + most, self.evaluation.batch_size - most)
        return start, most

    def _hand_back(self, name: str, start: int, size: int) -> None:
        if size > 0:
            insort(self._returned[name], (start, size))

    def _pending(self) -> dict[str, int]:
        return Counter(pick.generator for pick in self._open.values())


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
    evaluation: Evaluation | None = None,
    name: str = "run",
    metric: str | Metric = "fid",
    reference: Any = None,
    prompts: list[str] | None = None,
    budget: int | None = None,
    stop: bool = True,
    **settings: Any,
) -> models.Report:
    """Sample the generators until it is sure which is the best one, in this process. Returns the report.

    The arguments up to `progress` are those of `Experiment.run` and mean the same: `experiment.run(generators, embed)`
    is the same with a service, which keeps every batch. The others are those of `create_experiment`: `metric` and its
    `reference` (real features, a (mean, covariance) pair, or a file), `prompts`, `budget` in samples, `stop`, and of
    `settings` those that `Evaluation` takes, with the same defaults, such as `watch`, `tolerance` and `costs`. The same
    generator and index have the same seed and prompt as with a service.

    evaluation: one to go on with, which then has the batches of this run; it brings its own metrics,
    prompts and settings. Raises as `Experiment.run` does, and FixError for wrong settings.

    >>> import numpy as np
    >>> def model(mean):
    ...     return lambda size, seed: np.random.default_rng(seed).normal(mean, 1.0, (size, 4))
    >>> real = np.random.default_rng(0).standard_normal((500, 4))
    >>> run({"good": model(0.0), "bad": model(1.0)}, reference=real, progress=False).decision.best
    'good'
    """
    check_functions(generators)
    if workers < 1:
        raise FixError(f"workers: expected at least 1, got {workers}")
    if evaluation is None:
        evaluation = _evaluation(generators, metric, reference, prompts, settings)
    else:
        asked = {"metric": metric != "fid", "reference": reference is not None, "prompts": prompts is not None}
        if given := [*settings, *(setting for setting, is_given in asked.items() if is_given)]:
            raise FixError(f"{', '.join(given)}: the evaluation brings its own settings")
    if unknown := [one for one in generators if one not in evaluation.generators] or ["none"] * (not generators):
        raise FixError(f"generators: expected some of {', '.join(evaluation.generators)}; got {', '.join(unknown)}")
    service = LocalService(evaluation, name, budget=budget, stop=stop)
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
        finished(Run(transport, makers, draw, display, allowance, reporting).work(workers))
        report = service.report()
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


def _evaluation(
    generators: Mapping[str, Any],
    metric: str | Metric,
    reference: Any,
    prompts: list[str] | None,
    settings: Mapping[str, Any],
) -> Evaluation:
    known = {name: value for name, value in settings.items() if name not in _OF_SERVICES and name != "bound_options"}
    if isinstance(reference, str | Path):
        reference = read_reference(Path(reference))
    options = dict(settings.get("bound_options") or {})
    return Evaluation([*generators], metric=metric, reference=reference, prompts=prompts, **known, **options)
