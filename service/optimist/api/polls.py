"""Reports, and what dashboards poll: reports with their charts, and the list of experiments. Each is made once for all
who ask while nothing has changed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakValueDictionary

from optimist.api.pages import TaggedBody, page_of
from optimist.cache import Cache
from optimist.experiments.curves import ProgressCurve, mixture_curve
from optimist.experiments.goals.base import WithModel
from optimist.experiments.outlines import Outline
from optimist.experiments.report import report_of
from optimist.experiments.state import PolicyState
from optimist.records import HISTORY, Artefact, ArtefactPoint, ExperimentState, NotFound, Unavailable
from optimist.store import Store
from optimist.store.index import Indexed
from optimist.turns import aside, charged
from optimist_client.goals import find_goal, known_goal
from optimist_client.models import (
    Experiment,
    ExperimentPage,
    Mixture,
    OpenPickInfo,
    Progress,
    Report,
    Rival,
    Standing,
    Summary,
)
from optimist_client.models.standings import unscored

KEPT = 64
"""Reports that are kept until their experiments change."""
BODIES = 8
"""Answers of one report that are kept, by the batches that the caller knows."""

if TYPE_CHECKING:
    from optimist.api.app_state import AppState

_Result = TypeVar("_Result")
_SHOWN = {"number", "generator", "size", "worker", "opened", "stale"}


class Shared:
    """Answers that many ask for at once: each is made once, and given to all who ask within `fresh` seconds."""

    def __init__(self, fresh: float = 1.0) -> None:
        self._fresh = fresh
        self._made: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[_Result]]) -> _Result:
        """The answer under this key: a recent one, or the result of `make`, whose errors it raises."""
        now = time.monotonic()
        self._made = {
            key: (at, task) for key, (at, task) in self._made.items() if not task.done() or now - at < self._fresh
        }
        cached = self._made.get(key)
        if cached is None or (cached[1].done() and (cached[1].cancelled() or cached[1].exception() is not None)):
            cached = self._made[key] = (now, asyncio.ensure_future(make()))
        # Whoever goes away leaves the others what they wait for.
        return await asyncio.shield(cached[1])

    def forget(self, key: Hashable) -> None:
        """Have the answer under this key made anew for the next who asks."""
        self._made.pop(key, None)


@dataclass
class ReportAnswer:
    """A report, the state that it is made from, and until when it stands if nothing changes, in Unix seconds."""

    fingerprint: bytes
    until: float
    state: PolicyState
    report: Report
    body: TaggedBody


@dataclass
class Poll:
    """One report and the progress curve that led to it."""

    made: ReportAnswer
    curve: ProgressCurve
    mixtures: Sequence[ArtefactPoint] | None
    """The mixtures over time; None where they are not the goal."""
    tables: Sequence[ArtefactPoint] | None
    """The tables over time; None where the goal has no model."""
    _bodies: Cache[int, TaggedBody] = field(default_factory=lambda: Cache(BODIES))

    def body(self, after: int) -> TaggedBody:
        """The report, with the parts of its charts that came after so many batches."""
        after = after if after <= self.curve.told else 0
        body = self._bodies.get(after)
        if body is None:
            state = self.made.state
            names = [generator.name for generator in state.stored.generators]
            picks = [
                OpenPickInfo(deadline=leased.deadline, **state.open_picks[leased.number].model_dump(include=_SHOWN))
                for leased in state.stored.open_picks[-100:]  # the newest
            ]
            rounds, samples, batches = self.curve.checkpoints(after)
            progress = Progress(
                instance=state.stored.instance,
                told=self.curve.told,
                stride=self.curve.stride,
                rounds=rounds,
                samples=samples,
                generators=self.curve.generators(names, batches, after),
                mixture=None if self.mixtures is None else mixture_curve(self.mixtures, names, after),
                picks=picks,
                **self._charted(after),
            )
            report = self.made.report.model_copy(update={"progress": progress})
            body = self._bodies.put(after, TaggedBody.from_text(report.model_dump_json()))
        return body

    def _charted(self, after: int) -> dict[str, Any]:
        goal = self.made.state.goal
        return goal.charted(self.tables, after) if isinstance(goal, WithModel) and self.tables is not None else {}


class CachedPoints:
    """A cache of the points of artefacts of one kind, by the metric that decides: only the new ones are read."""

    def __init__(
        self, store: Store, kind: Literal["mixture", "table"], growth: Callable[[Experiment], float | None]
    ) -> None:
        """growth: None of an experiment without such points."""
        self._store = store
        self._kind: Literal["mixture", "table"] = kind
        self._growth = growth
        self._points = Cache[str, tuple[tuple[str, int], list[ArtefactPoint]]]()

    async def points(self, experiment: Experiment) -> list[ArtefactPoint] | None:
        """All points of an experiment; None where it has none."""
        if self._growth(experiment) is None:
            return None
        name, origin = experiment.config.name, (experiment.instance, self._store.incarnation)
        made, points = self._points.pop(name) or (origin, list[ArtefactPoint]())
        points = points if made == origin else []
        artefact = Artefact(self._kind, experiment.config.metric.shown_label)
        new = await self._store.artefact_curve(name, artefact, max(0, len(points) - 1))
        if new[:1] != points[-1:]:  # Redis has lost some, or batches were retracted
            points = []
            new = await self._store.artefact_curve(name, artefact)
        return self._points.put(name, (origin, [*points[:-1], *new]))[1]


class Polls:
    """The reports and lists that this process has lately given; nothing in it is needed to make them anew."""

    def __init__(self, app: AppState) -> None:
        store = self._store = app.store
        self._app = app
        self._shared = Shared()
        self._curves = Cache[str, tuple[tuple[str, int], ProgressCurve]]()
        """Progress curves, which are continued; any other is made from its whole history."""
        self._summaries = Cache[str, tuple[bytes, Summary]](10_000)
        """Summaries are kept with the fingerprint of their experiment, read just before."""
        self._kept = Cache[str, ReportAnswer](KEPT)
        self._polls = Cache[str, Poll](KEPT)
        self._next: dict[str, asyncio.Task[ReportAnswer]] = {}
        """The reports that are not begun yet: all who ask for one by then get the same."""
        self._making = WeakValueDictionary[str, asyncio.Lock]()
        self._mixtures = CachedPoints(store, "mixture", lambda experiment: experiment.mixture_growth)
        self._tables = CachedPoints(store, "table", lambda experiment: experiment.model_growth)

    async def now(self, name: str) -> ReportAnswer:
        """The report as it is now, whose decision is latched if there is one: the one before where nothing has changed
        that it is made from. Raises NotFound, Replaced."""
        if name not in self._next:
            self._next[name] = asyncio.create_task(charged(self._in_turn(name)))
        return await asyncio.shield(self._next[name])

    async def report(self, name: str, after: int) -> TaggedBody:
        """The report as of at most a second ago, with its charts from `after` batches on. Raises NotFound, Replaced."""
        poll = await self._shared.get(("report", name), lambda: self._poll(name))
        return poll.body(after)

    def changed(self, name: str) -> None:
        """Have the report of an experiment made anew: somebody has just changed it here, and will want to see that."""
        self._shared.forget(("report", name))

    async def page(
        self,
        limit: int,
        after: Indexed | None = None,
        only: Set[str] = frozenset(),
        tag: str | None = None,
        search: str | None = None,
        *,
        old: bool = False,
    ) -> TaggedBody:
        """The newest experiments, or those after a place; of `only` these, if any.

        tag, search: of those that `outlines.matches` finds. old: as of at most a second ago, else as they are now.
        """
        if not old:
            return await self._page(limit, after, only, tag, search)
        key = ("page", limit, after, frozenset(only), tag, search)
        return await self._shared.get(key, lambda: self._page(limit, after, only, tag, search))

    async def _in_turn(self, name: str) -> ReportAnswer:
        async with self._making.setdefault(name, asyncio.Lock()):
            del self._next[name]
            (fingerprint,) = await self._store.fingerprints([name])
            made = self._kept.pop(name)
            if made is None or not fingerprint or made.fingerprint != fingerprint or time.time() >= made.until:
                made = await self._made(name, fingerprint)
            return self._kept.put(name, made)

    async def _made(self, name: str, fingerprint: bytes) -> ReportAnswer:
        experiment = await self._app.experiment(name)
        state = await self._app.latched_state(experiment)
        _check_same(experiment, state.stored)
        report = await self._app.report_on(state, self._app.settings.hint_after)
        body = await aside(state.stored.breadth, lambda: TaggedBody.from_text(report.model_dump_json()))
        until = min((leased.deadline for leased in state.stored.open_picks), default=math.inf)
        until = min(until, state.awaits_until)
        return ReportAnswer(fingerprint, until, state, report, body)

    async def _poll(self, name: str) -> Poll:
        made, poll = await self.now(name), self._polls.pop(name)
        if poll is None or poll.made is not made:
            experiment, stored = made.state.experiment, made.state.stored
            curve = await self._curve(experiment, stored)
            mixtures, tables = await self._mixtures.points(experiment), await self._tables.points(experiment)
            _check_same(await self._app.experiment(name), stored)
            poll = Poll(made, curve, mixtures, tables)
        return self._polls.put(name, poll)

    async def _curve(self, experiment: Experiment, stored: ExperimentState) -> ProgressCurve:
        name = experiment.config.name
        origin = stored.instance, self._store.incarnation
        cached_origin, curve = self._curves.pop(name) or (origin, ProgressCurve())
        curve = await self._continued(experiment, stored, curve if cached_origin == origin else ProgressCurve())
        return self._curves.put(name, (origin, curve))[1]

    async def _continued(self, experiment: Experiment, stored: ExperimentState, curve: ProgressCurve) -> ProgressCurve:
        """The curve with the batches that came since, or a new one where Redis has lost some of those in the curve."""
        name, generators = experiment.config.name, len(stored.generators)
        history = await self._store.history(name, curve.start)
        labels = experiment.config.metrics
        points = {label: await self._store.curves(name, curve.starts(label, generators), label) for label in labels}
        _check_same(await self._app.experiment(name), stored)
        # Not more than was told when the state was read: the report and its charts are of one moment.
        history = history[: max(0, HISTORY.itemsize * stored.told - curve.start)]
        followed = await asyncio.to_thread(curve.follows, history, points)
        return await self._continued(experiment, stored, ProgressCurve()) if followed is None else followed

    async def _page(
        self, limit: int, after: Indexed | None, only: Set[str], tag: str | None, search: str | None
    ) -> TaggedBody:
        async def wanted(names: Sequence[str]) -> list[Outline | None]:
            outlines = await self._app.outlines(names)
            return [outline if outline is not None and outline.matches(tag, search) else None for outline in outlines]

        places = [place for place in await self._store.newest(after) if not only or place.name in only]
        outlines, following = await page_of(places, limit, wanted)
        summaries: list[Summary] = []
        fingerprints = await self._store.fingerprints([outline.experiment.config.name for outline in outlines])
        for outline, fingerprint in zip(outlines, fingerprints, strict=True):
            with suppress(NotFound, Replaced):  # deleted meanwhile
                summaries.append(await self._summary(outline, fingerprint))
        return TaggedBody.from_text(ExperimentPage(experiments=summaries, next=following).model_dump_json())

    async def _summary(self, outline: Outline, fingerprint: bytes) -> Summary:
        """The line of an experiment in the list, made anew unless its fingerprint, read just before, is as it was."""
        name = outline.experiment.config.name
        made, summary = self._summaries.pop(name) or (b"", None)
        if summary is None or not fingerprint or made != fingerprint:
            state = await self._app.state(outline.experiment)
            _check_same(outline.experiment, state.stored)
            table = await self._app.table(state)
            summary = _summary(outline, report_of(state, explain=False, table=table))
        return self._summaries.put(name, (fingerprint, summary))[1]


class Replaced(Unavailable):
    """The experiment was deleted and another one made under its name, while it was read."""


def _check_same(experiment: Experiment, stored: ExperimentState) -> None:
    """Raise Replaced where a state is of another experiment of this name."""
    if stored.instance != experiment.instance:
        raise Replaced(f"experiment {experiment.config.name!r} was made again while it was read")


def _summary(outline: Outline, report: Report) -> Summary:
    decision = report.decision
    weights = {name: weight for name, weight in decision.weights.items() if weight >= 0.005}  # at most 200 of them
    goal = known_goal(report.goal)
    score: Mixture | Standing | None = report.mixture
    if not goal.names_mixture:
        named = None if goal.has_contexts else decision.best
        score = next((standing for standing in report.standings if standing.generator == named), None)
    return Summary(
        name=report.experiment,
        goal=report.goal,
        metric=report.metric,
        title=report.title,
        created=outline.experiment.created,
        active=report.active,
        open_picks=report.open_picks,
        tags=report.tags,
        note=report.note[:200],
        generators=len(report.standings),
        generator_names=[standing.generator for standing in report.standings[:16]],
        prompts=outline.prompts,
        prompts_digest=outline.prompts_digest,
        state=report.state,
        incomplete=any(standing.incomplete for standing in report.standings),
        decision=decision.model_copy(update={"warnings": (), "verdicts": (), "hardest": None, "weights": weights}),
        score=score and score.score if report.routes is None else report.routes.best_score,
        below_noise=isinstance(score, Standing) and score.below_noise,
        standard_error=score and score.standard_error,
        lower=score and score.lower,
        upper=score and score.upper,
        unscored=unscored(report.standings),
        rival=_rival(report),
        samples=report.samples,
        budget=report.budget,
        cost=report.cost,
        decision_cost=report.decision_cost,
    )


def _rival(report: Report) -> Rival | None:
    """The generator with the second best score. None where no best one is asked for."""
    others = [
        standing
        for standing in report.standings
        if standing.generator != report.decision.best and standing.score is not None
    ]
    if not others or report.decision.best is None or not find_goal(report.goal).names_one:
        return None
    sign = 1.0 if report.lower_is_better else -1.0
    near = min(others, key=lambda standing: sign * (standing.score or 0.0))
    return Rival(generator=near.generator, score=near.score or 0.0, lower=near.lower, upper=near.upper)
