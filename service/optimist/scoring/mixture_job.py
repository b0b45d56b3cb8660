"""One quantum of a mixture: reads the statistics of all generators, publishes weights under the mixture's claim."""

from __future__ import annotations

from collections.abc import Mapping

from optimist.estimation.artefacts import mixture_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.curves import curve_point
from optimist.records import Artefact, GeneratorState, codec
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.score_job import timed
from optimist.scoring.statistic_set import CombinedJob, Made, parts_of
from optimist.scoring.tasks import MixtureTask


def _made(estimators: Mapping[str, StreamingEstimator], experiment: ScoredExperiment) -> Made:
    mixture = mixture_of(estimators, experiment.published)
    return Made(codec.encode(mixture), curve_point(mixture, experiment.delta))


class MixtureJob(CombinedJob[MixtureTask]):
    """One quantum of the mixture of an experiment by one metric."""

    async def run(self) -> None:
        """Make the mixture of all logs as they are now, if somebody wants it or it is due, unless it stands.

        Raises Superseded if another scorer has the claim, or if a batch that it was made of counts no longer;
        CorruptData if neither snapshot nor log of a generator can be read; ValueError or ArithmeticError if there is no
        mixture.
        """
        task, state = self.task, await self.store.state(self.task.name)
        generators = state.mixable
        standing = await self.store.artefact(task.name, Artefact("mixture", task.label))
        parts = {} if standing is None else standing.parts
        is_new = {g.ordinal: g.seq for g in generators} != {ordinal: part.seq for ordinal, part in parts.items()}
        if generators and is_new and (task.is_wanted or state.is_mixture_ready):
            await self._make(generators)
        # Whoever wants one of later batches, too, says so again.
        task.is_wanted = False

    async def _make(self, generators: list[GeneratorState]) -> None:
        task = self.task
        async with self._acquired(generators) as statistics:
            estimators = {generator.name: statistics[generator.ordinal].estimator for generator in generators}
            parts = parts_of(statistics)
            made, task.seconds = await self.in_thread(timed, _made, estimators, self.experiment)
        self._observe("mixture", task.seconds)
        await self._put(Artefact("mixture", task.label), made.payload, parts, made.point)
