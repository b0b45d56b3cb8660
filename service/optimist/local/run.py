"""`optimist.run`: functions are sampled and compared in this process, as `experiment.run` does with a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from optimist.local.evaluation import Evaluation
from optimist.local.offline import read_reference
from optimist.local.service import LocalService
from optimist_client import models, tensors
from optimist_client.callbacks import Callback
from optimist_client.drivers import BlockingTransport
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.operations import run as finished
from optimist_client.pick import Pick, PickOperations
from optimist_client.progress import shown
from optimist_client.run import Allowance, Makers, Reporting, Run, check_functions

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
        """Do nothing."""


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
