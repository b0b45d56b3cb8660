"""One turn of a mixture: reads the statistics of all generators, and publishes weights under the mixture's claim."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from optimist.estimation.artefacts import mixture_of
from optimist.estimation.track import Track
from optimist.experiments.curves import curve_point
from optimist.insight.metrics import SCORING_SECONDS
from optimist.records import GeneratorState
from optimist.scoring.catching_up import timed
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.lending import Gathering, Lending, parts_of
from optimist.scoring.record import MixtureRecord
from optimist.scoring.threads import InThread
from optimist.store import Store


class _Made(NamedTuple):
    """A mixture as it is stored, and what charts keep of it."""

    payload: str
    point: str


def _made(tracks: Mapping[str, Track], experiment: ScoredExperiment) -> _Made:
    mixture = mixture_of(tracks, experiment.published)
    return _Made(json.dumps(mixture.to_dict(), allow_nan=False), curve_point(mixture, experiment.delta))


class Mixing:
    """One turn of the mixture of an experiment by one metric, whose record must have a claim and an experiment."""

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        record: MixtureRecord,
        experiment: ScoredExperiment,
        lending: Lending,
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._record = record
        self._experiment = experiment
        self._gathering = Gathering(store, in_thread, record, experiment, lending)

    async def run(self) -> None:
        """Make the mixture of all logs as they are now, if somebody wants it or it is due, unless it stands.

        Raises Superseded if another scorer has the claim, or if a batch that it was made of counts no longer; Damaged
        if neither snapshot nor log of a generator can be read; ValueError or ArithmeticError if there is no mixture.
        """
        record, state = self._record, await self._store.state(self._record.name)
        generators = state.mixable
        standing = await self._store.mixture(*record.subject)
        parts = {} if standing is None else standing.parts
        is_new = {g.ordinal: g.seq for g in generators} != {ordinal: part.seq for ordinal, part in parts.items()}
        if generators and is_new and (record.is_wanted or state.owes_mixture):
            await self._make(generators)
        # Whoever wants one of later batches, too, says so again.
        record.is_wanted = False

    async def _make(self, generators: list[GeneratorState]) -> None:
        record = self._record
        async with self._gathering.gathered(generators) as found:
            tracks = {generator.name: found[generator.ordinal].track for generator in generators}
            parts = parts_of(found)
            made, record.seconds = await self._in_thread(timed, _made, tracks, self._experiment)
        metric = self._experiment.bound.metric.name
        SCORING_SECONDS.labels(metric, "mixture").observe(record.seconds)
        await self._store.put_mixture(
            *(record.name, made.payload, record.token, parts),
            kernels=self._experiment.kernels,
            point=made.point,
            label=record.label,
        )
