"""One quantum of the model of an experiment: publishes it, as asks are answered from it, and its table."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from optimist.estimation.learner import Learner
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.goals.base import WithModel
from optimist.experiments.state import PolicyState
from optimist.insight.metrics import SCORING_FAILURES
from optimist.records import (
    Artefact,
    ChainedExtent,
    CorruptData,
    ExperimentState,
    LogExtent,
    StoredArtefact,
    is_outgrown,
)
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.score_job import timed
from optimist.scoring.statistic_set import CombinedJob, Made, parts_of
from optimist.scoring.tasks import ModelTask
from optimist_client.errors import reason
from optimist_client.goals import OWN_GROWTH
from optimist_client.models import Experiment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The result of reading all statistics while they were locked."""

    model: bytes
    """b"" where it is not due."""
    rows: Any
    """Rows for the table; None if no table is made."""
    parts: list[ChainedExtent]


def _model(estimators: Mapping[int, StreamingEstimator], experiment: ScoredExperiment) -> bytes:
    return _learner_of(experiment).model(estimators)


def _learner_of(experiment: ScoredExperiment) -> Learner:
    assert experiment.learner is not None, "the goal has a model, and this metric decides"
    return experiment.learner


def _table(
    experiment: Experiment,
    state: ExperimentState,
    model: StoredArtefact | None,
    rows: Any,
    parts: list[ChainedExtent],
) -> Made:
    """The table, by the newest model, if any."""
    now = PolicyState(experiment, state)
    goal = now.goal
    assert isinstance(goal, WithModel)
    if model is not None and state.model is not None:
        now.put_goal(goal := goal.with_model(replace(state.model, payload=model.payload)))
    made = goal.table(now, rows, {part.generator: LogExtent(part.seq, part.samples) for part in parts})
    return Made(made.model_dump_json(), goal.table_point(made))


class ModelJob(CombinedJob[ModelTask]):
    """One quantum of the model of an experiment.

    The model is made when it is due, but no sooner than `PUBLISH_EVERY` seconds after the last. The table is made when
    somebody wants it, or its samples have grown by a quarter: then in a quantum of its own, as it takes longer.
    """

    async def run(self) -> None:
        """Make what is due or wanted of all logs as they are now, unless it stands.

        A generator of which neither snapshot nor log can be read is left out. Raises Superseded if another scorer has
        the claim, or if a batch that something was made of counts no longer; CorruptData if no generator can be read;
        ValueError or ArithmeticError if there is no model.
        """
        task, state = self.task, await self.store.state(self.task.name)
        standing = await self.store.artefact(task.name, Artefact("table", task.label))
        tabled = {} if standing is None else standing.parts
        # Whoever wants a table of later batches says so again, perhaps during this quantum.
        is_wanted, task.is_wanted = task.is_wanted, False
        if state.model_growth is None or not state.modelled:
            return
        makes_model = state.is_model_ready and task.may_publish and self._has_news(state)
        makes_table = is_wanted and (
            {ordinal: seq for ordinal, (seq, _) in tabled.items()}
            != {ordinal: seq for ordinal, (seq, _) in self._readable(state).items()}
            or (standing is not None and await self._has_other_costs(standing, state))
        )
        if not makes_model and not makes_table:
            return
        taken = await self._taken(state, makes_model, makes_table)
        if taken.model:
            await self._put(Artefact("model", task.label), taken.model, taken.parts)
            task.published = time.monotonic()
        if taken.rows is not None:
            await self._put_table(taken.rows, taken.parts, state)
        # Growth of samples after which a table is made without a request.
        elif is_outgrown(tabled, {part.generator: LogExtent(part.seq, part.samples) for part in taken.parts}, 0.25):
            task.is_wanted = task.again = True

    def _readable(self, state: ExperimentState) -> dict[int, LogExtent]:
        left_out = self.task.left_out
        return {g.ordinal: LogExtent(g.seq, g.samples) for g in state.modelled if g.ordinal not in left_out}

    def _has_news(self, state: ExperimentState) -> bool:
        """True if the model is due for another reason than generators that could not be read the last time."""
        if state.model is None or not self.task.left_out:
            return True
        return is_outgrown(state.model.parts, self._readable(state), state.model_growth or 0.0, OWN_GROWTH)

    async def _has_other_costs(self, table: StoredArtefact, state: ExperimentState) -> bool:
        """True if costs have changed since the table was made."""
        text = await self.store.config(self.task.name)
        if text is None:
            return False
        now = PolicyState(Experiment.model_validate_json(text), state)
        assert isinstance(now.goal, WithModel)
        return now.goal.has_other_costs(now, now.goal.read_table(now, table))

    async def _taken(self, state: ExperimentState, makes_model: bool, makes_table: bool) -> _Taken:
        task, model, rows = self.task, b"", None
        async with self._acquired(state.modelled, without_corrupt=True) as statistics:
            task.left_out = frozenset(generator.ordinal for generator in state.modelled) - statistics.keys()
            if not statistics:
                raise CorruptData("the log of no generator can be read")
            estimators = {ordinal: cached.estimator for ordinal, cached in statistics.items()}
            parts = parts_of(statistics)
            if makes_model:
                model, task.seconds = await self.in_thread(timed, _model, estimators, self.experiment)
                self._observe("model", task.seconds)
            if makes_table:
                rows = await self.in_thread(_learner_of(self.experiment).rows, estimators, len(state.generators))
        return _Taken(model, rows, parts)

    async def _put_table(self, rows: Any, parts: list[ChainedExtent], state: ExperimentState) -> None:
        """Make the table after the model was published, and generators have quanta again."""
        task, text = self.task, await self.store.config(self.task.name)
        if text is None:
            return
        experiment = Experiment.model_validate_json(text)
        newest = Artefact("model", task.label)
        model = await self.store.artefact(task.name, newest) if experiment.config.keeps_budget else None
        made_of = experiment, state, model, rows, parts
        try:
            made, task.table_seconds = await self.in_thread(timed, _table, *made_of)
        except Exception as error:
            # Asks are answered from the model, which goes on without it.
            SCORING_FAILURES.inc()
            _log.exception("the table of %s cannot be made", task)
            note = f"the table cannot be made: {reason(error)}"
            await self.store.put_scoring_error(*task.address, note, task.token, task.label)
            return
        self._observe("table", task.table_seconds)
        await self._put(Artefact("table", task.label), made.payload, parts, made.point)
