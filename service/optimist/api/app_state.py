"""The state of an API process that routes are given: store, settings, and dispatchers of experiments that it serves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.types import Scope

from optimist.api.middleware.permissions import Caller
from optimist.api.polls import Polls
from optimist.api.problems import ApiError, invalid
from optimist.api.redis_health import RedisHealth
from optimist.cache import Cache
from optimist.dispatch.dispatcher import Dispatcher
from optimist.dispatch.states import read_levels, state_of, want_answers, with_decision_latched
from optimist.experiments.anomalies import NOTHING, Anomalies, AnomalyLog, repeats
from optimist.experiments.assignment import PickLimits
from optimist.experiments.decision import GeneratorLevels, anomalous_among
from optimist.experiments.goals.base import WithModel
from optimist.experiments.outlines import Outline
from optimist.experiments.report import LoadedMixture, mixture_of, report_of
from optimist.experiments.state import PolicyState
from optimist.insight.metrics import count_tell
from optimist.records import Artefact, Contents, NotFound, Settled
from optimist.settings import Settings
from optimist.store import SCORED, Store, name_of, namespace_of
from optimist.turns import aside
from optimist_client.metrics import Metric
from optimist_client.models import Experiment, Mixture, Report, TellReply
from optimist_client.validation import each_in_words

RESTED = 300.0
"""Seconds after which a dispatcher that nobody has called is dropped. The next call makes it anew."""


def metric_called(experiment: Experiment, name: str) -> Metric:
    """The metric with this label, "" for the one that decides. Raises `ApiError` 422 for another label."""
    metrics = experiment.config.metrics
    metric = metrics.get(name or next(iter(metrics)))
    if metric is None:
        raise invalid(f"metric: expected one of {', '.join(metrics)}; got {name!r}")
    return metric


def table_of(experiment: Experiment) -> Artefact:
    """The table of the model of an experiment."""
    return Artefact("table", experiment.config.metric.shown_label)


@dataclass
class AppState:
    """State of one API process; nothing in it outlives the process or needs to."""

    store: Store
    settings: Settings
    redis_health: RedisHealth
    _dispatchers: dict[str, Dispatcher] = field(default_factory=dict)
    """The one that was asked for the longest ago first."""
    _recent: Cache[str, tuple[str, Experiment]] = field(
        default_factory=lambda: Cache(2**25, lambda parsed: 2**12 + len(parsed[0]))
    )
    """The texts and parsed configs of experiments that were last read, or made. Each counts 4 KiB beyond its text."""
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _outlines: Cache[str, Outline] = field(default_factory=lambda: Cache(2**26, lambda outline: 2**12 + outline.size))
    """The outlines of experiments, for lists."""
    _states: Cache[str, PolicyState] = field(default_factory=lambda: Cache())
    """Last states, so that the next one is parsed only where it differs."""
    _mixtures: Cache[tuple[str, str], LoadedMixture] = field(default_factory=lambda: Cache())
    _anomalous: Cache[str, tuple[str, Anomalies, Sequence[GeneratorLevels]]] = field(default_factory=lambda: Cache())
    _namespaces: dict[str, AppState] = field(default_factory=dict)
    _anomaly_log: AnomalyLog = field(default_factory=AnomalyLog)
    polls: Polls = field(init=False)

    def __post_init__(self) -> None:
        self.polls = Polls(self)
        limits = self.settings
        self._pick_limits = PickLimits(
            limits.max_open_picks, limits.max_worker_picks, limits.max_key_picks, limits.max_lease
        )

    def in_namespace(self, namespace: str) -> AppState:
        """The state of one namespace in this process; `self` is shared by all namespaces and answers no request."""
        app = self._namespaces.get(namespace)
        if app is None:
            app = self._namespaces[namespace] = AppState(
                self.store.in_namespace(namespace), self.settings, self.redis_health, _anomaly_log=self._anomaly_log
            )
        return app

    async def experiment(self, name: str) -> Experiment:
        """The experiment called `name`, as it is now. Raises `NotFound`.

        Raises ApiError with status 503 if a newer version created it, with fields or under rules that this one does not
        know: a newer process answers when the request is sent again.
        """
        text = await self.store.config(name)
        if text is None:
            self._recent.pop(name)
            self._dispatchers.pop(name, None)
            raise NotFound(f"no experiment is called {name!r}")
        cached = self._recent.get(name)
        if cached is None or cached[0] != text:
            try:
                experiment = Experiment.model_validate_json(text)
            except ValidationError as error:
                detail = f"{name!r}: {each_in_words(error.errors(include_url=False))}: is it of a newer version?"
                raise ApiError(503, "unreadable", "Cannot be read by this version", detail, action="retry") from None
            try:
                experiment.check_rules()
            except ValueError as error:
                raise ApiError(503, "newer-rules", "Created by a newer version", f"{error}", action="retry") from None
            cached = self._recent.put(name, (text, experiment))
            self._outlines.put(name, Outline.from_experiment(experiment))
        return cached[1]

    async def outlines(self, names: Sequence[str]) -> list[Outline | None]:
        """The outline of each of the experiments with its present tags and note; None where it is not there."""
        now = zip(names, await self.store.labels(names), await self.store.instances(names), strict=True)
        return [
            None if instance is None else await self._outline(name, instance, controls)
            for name, controls, instance in now
        ]

    async def _outline(self, name: str, instance: str, controls: Mapping[str, str]) -> Outline | None:
        if not self._has_outline(name, instance):
            async with self._reading:  # one at a time: with its prompts an experiment can have 80 MB
                if not self._has_outline(name, instance):
                    try:
                        experiment = await self.experiment(name)
                    except NotFound:  # deleted meanwhile
                        return None
                    if not self._has_outline(name, experiment.instance):
                        self._outlines.put(name, Outline.from_experiment(experiment))
        outline = self._outlines.get(name)
        return None if outline is None else outline.with_labels(controls)

    def _has_outline(self, name: str, instance: str) -> bool:
        outline = self._outlines.get(name)
        return outline is not None and outline.experiment.instance == instance

    async def state(self, experiment: Experiment) -> PolicyState:
        """The state of an experiment by all metrics, or of the one that has taken its name, as it is now.

        Raises `NotFound`.
        """
        name = experiment.config.name
        earlier = self._states.pop(name)
        stored = await self.store.state(name, None if earlier is None else earlier.stored, all_metrics=True)
        return self._states.put(name, await state_of(experiment, stored, earlier))

    async def mixture(self, state: PolicyState, metric: Metric | None = None) -> Mixture | None:
        """The newest mixture by this metric, None for the one that decides; None without one."""
        metric = metric or state.config.metric
        if state.goal.mixture is not None and metric == state.config.metric:
            return mixture_of(state)
        if "mixtures" not in metric.offers:
            return None
        place = (state.config.name, metric.shown_label)
        stored = await self.store.artefact(state.config.name, Artefact("mixture", metric.shown_label))
        mixture = LoadedMixture.from_stored(stored, self._mixtures.pop(place))
        if mixture is None:
            return None
        return mixture_of(state, self._mixtures.put(place, mixture), metric)

    async def table(self, state: PolicyState) -> Any:
        """The newest table of a goal `WithModel`; None before the first, and with another goal."""
        if not isinstance(state.goal, WithModel):
            return None
        stored = await self.store.artefact(state.config.name, table_of(state.experiment))
        return None if stored is None else state.goal.read_table(state, stored)

    async def report(self, experiment: Experiment) -> Report:
        """The report on an experiment as it is now, whose decision is not latched. Raises `NotFound`."""
        return await self.report_on(await self.state(experiment))

    async def latched_state(self, experiment: Experiment) -> PolicyState:
        """The `state` as it is now, whose decision is latched if there is one. Raises `NotFound`."""
        state = await self.state(experiment)
        await want_answers(self.store, state)
        return await with_decision_latched(self.store, state) if state.is_scored else state

    async def report_on(self, state: PolicyState, hint_after: int | None = None) -> Report:
        """The report on a state that was just read. hint_after: as in `report_of`."""
        mixture, table = await self.mixture(state), await self.table(state)
        anomalous = await self.anomalous(state)
        audits = await self.store.audits(state.config.name) if state.config.metric.is_audited else None
        made = partial(report_of, state, hint_after, mixture=mixture, table=table, anomalous=anomalous, audits=audits)
        return await aside(state.stored.breadth, made)

    async def anomalous(self, state: PolicyState) -> Anomalies:
        """The batches on another scale, by a state that was just read."""
        stored = state.stored
        now = f"{stored.instance} {stored.version} {stored.state_token}"
        made, anomalous, levels = self._anomalous.pop(state.config.name) or ("", NOTHING, ())
        if made != now:
            # Levels change only with the state: they are read again only when it has another token.
            made, levels = now, await read_levels(self.store, state, levels)
            anomalous = anomalous_among(state, levels)
        return self._anomalous.put(state.config.name, (made, anomalous, levels))[1]

    async def ordinal(self, experiment: Experiment, generator: str) -> int:
        """The ordinal of an experiment's generator, retired or not. Raises `NotFound`."""
        names: Sequence[str] = experiment.config.generators
        if generator not in names:  # added since; reading the state takes long where many picks are open
            names = [added.name for added in (await self.store.state(experiment.config.name)).generators]
        if generator not in names:
            raise NotFound(f"experiment {experiment.config.name!r} has no generator {generator!r}")
        return names.index(generator)

    async def generator_name(self, experiment: Experiment, ordinal: int) -> str:
        """The name of an experiment's generator of this ordinal."""
        names = experiment.config.generators
        if ordinal < len(names):
            return names[ordinal]
        return (await self.store.state(experiment.config.name)).generators[ordinal].name  # added since

    async def told(self, experiment: Experiment, settled: Settled, contents: Contents) -> TellReply:
        """The answer for an accepted batch of these contents, which is counted."""
        count_tell(settled)
        generator = await self.generator_name(experiment, settled.generator)
        findings = [] if settled.copy is None else [repeats(settled.copy.copy_of)]
        if contents.repeated:
            findings.append(f"has {contents.repeated:,} of {contents.rows:,} rows that repeat others of it")
        if settled.doubtful:
            with contextlib.suppress(NotFound):  # deleted meanwhile
                anomalous = await self.anomalous(await self.state(experiment))
                findings += anomalous.findings.get((settled.generator, settled.seq), [])
        if findings:
            full = self.store.full_name(experiment.config.name)
            self._anomaly_log.warn(full, generator, settled.seq, findings)
        return TellReply(
            pick=settled.pick,
            generator=generator,
            samples=settled.samples,
            batches=settled.batches,
            position=settled.seq or None,
            late=settled.late,
            duplicate=settled.duplicate,
            uncounted=settled.uncounted,
            findings=findings,
        )

    async def served(self, name: str, scope: Scope) -> Dispatcher:
        """The dispatcher of the experiment as this process last saw it, without asking Redis first.

        Its asks and tells raise NotFound where that one is gone: see `is_replaced`, for which it is noted in the scope
        of the request. Raises like `experiment` where it was never seen.
        """
        dispatcher = self._dispatchers.get(name)
        experiment = await self.experiment(name) if dispatcher is None else dispatcher.info
        dispatcher = scope["served"] = self.dispatcher(experiment)
        return dispatcher

    def dispatcher(self, experiment: Experiment) -> Dispatcher:
        """The experiment's dispatcher in this process; a new one when the experiment was deleted and made again."""
        name, now = experiment.config.name, time.monotonic()
        dispatcher = self._dispatchers.pop(name, None)
        if dispatcher is None or dispatcher.info.instance != experiment.instance:
            dispatcher = Dispatcher(self.store, experiment, self._pick_limits)
        dispatcher.called = now
        self._dispatchers[name] = dispatcher  # at the end
        # Whoever rests longest is first, so that this looks at one that stays at most. Nobody waits for one that rests:
        # an ask waits for a minute at most.
        while now - (oldest := next(iter(self._dispatchers.values()))).called > RESTED:
            del self._dispatchers[oldest.info.config.name]
        return dispatcher

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Wake the dispatchers when estimates, mixtures, or models are announced."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        async with self.store.announcements(SCORED) as announcements:
            async for announcement in announcements:
                if announcement is None:
                    for app in self._namespaces.values():
                        app.wake_all()
                else:
                    full = announcement.experiment
                    if (app := self._namespaces.get(namespace_of(full))) is not None:
                        app.wake(name_of(full))

    def wake_all(self) -> None:
        """Have every dispatcher read the state of its experiment again."""
        for dispatcher in self._dispatchers.values():
            dispatcher.wake()

    def wake(self, name: str) -> None:
        """Have the dispatcher of this experiment, if there is one, read its state again."""
        if (dispatcher := self._dispatchers.get(name)) is not None:
            dispatcher.wake()


def app_state_of(request: Request) -> AppState:
    """The application's state for the caller's namespace."""
    caller: Caller = request.scope["caller"]
    return request.app.state.shared.in_namespace(caller.namespace)


async def is_replaced(request: Request) -> bool:
    """True if the experiment that a request was served by is another one by now. Raises NotFound if there is none."""
    dispatcher: Dispatcher | None = request.scope.get("served")
    if dispatcher is None:
        return False
    app = app_state_of(request)
    fresh = app.dispatcher(await app.experiment(dispatcher.info.config.name))
    return fresh.info.instance != dispatcher.info.instance


# No plain function, which FastAPI would call in a thread.
async def _app_state(request: Request) -> AppState:
    return app_state_of(request)


AppStateDep = Annotated[AppState, Depends(_app_state)]
