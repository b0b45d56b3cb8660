"""An online evaluation in memory: the papers' Protocol 1."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from optimist.estimation.arrays import Batch, arrays_of, check_arrays, columns_of, reference_scales, tensors_of
from optimist.estimation.metric_estimators import (
    MetricEstimators,
    Start,
    StreamBatch,
    checked_costs,
    checked_prompts,
    checked_start,
    names_of,
    score_due,
)
from optimist.estimation.question import Question, by_label, prepared, with_real_data
from optimist.local.goals import GoalSettings
from optimist.local.scales import Scales
from optimist.local.session import Session
from optimist.metrics.devices import find_device
from optimist.numerics.batches import check_number, check_whole
from optimist.numerics.mixture import Mixture
from optimist.numerics.plausibility import Plausibility, levelled, magnitudes, sized
from optimist.policies import Stopping, blend_counts
from optimist_client.config import MAX_MAGNITUDE, check_prompts_are, check_seeds, seedless_of
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.models import Blend
from optimist_client.tensors import IDS, unpack_ids
from optimist_client.tolerance import checked as checked_tolerance

_GIVEN = (
    *("goal", "policy", "bound", "batch_size", "warmup", "rescore_growth", "delta", "tolerance", "seed"),
    *("max_magnitude", "on_anomaly", "prompts", "prompts_are", "paired", "seeds", "costs", "options"),
)
"""The arguments that a saved evaluation is made with again, beside generators and metrics."""


class Evaluation(Session):
    """Ask which generator to sample, tell the batch that came out, read estimates and decision at any time.

    `generators` are names. `batch_size` is the number of samples that a caller plans per pick; `tell` takes batches of
    any size, also without a pick. The first `warmup` batches of each generator are asked for in turn (None: 2, for "is"
    4, for the papers' bounds 1; always as many as open kernels need). Estimates are due when a generator's samples have
    grown by `rescore_growth` (None: 0.04; 0: every batch). `policy` is by default that of the service, "top-two" (under
    bounds without standard errors "ucb"), and may be one of the papers' presets
    (`fid-ucb`, `fd-ucb`, `is-ucb`, `rke-ucb`, `vendi-ucb`, `naive-ucb`, `greedy`), which set bound, warm-up and growth;
    otherwise `bound` None is "influence". `delta` is that of the interval and of the stopping rule, `tolerance` the
    difference that does not matter to the rule: a number on the estimates' scale, or a share of the best score ("1%"),
    with the `goal` "mixture" of the mixture's. Samples are then spent to know the best mixture of all generators, by
    the policy "ogd" (None), "uniform", or one as published: `mixture-ucb-cab`, `mixture-ucb-ogd`, `mixture-greedy`,
    under which the mixture is made after every batch; otherwise whenever samples have grown by a quarter. `metric`, its
    settings (`reference`, `order`, `truncation`, `kernel`, `prompt_kernel`) and `options` are as in `score`, but open
    kernels are fixed by the first samples of all generators together; before that there are no estimates. The same
    `seed` and the same tells give the same picks. Statistics live on the `device`, as in `score`. A batch is refused if
    a value exceeds the usual size by the factor `max_magnitude`. A warning is issued for one that is on another scale
    than others; unless `on_anomaly` is "ignore", a decision that rests on it is provisional until it is accepted. With
    `prompts_are` "list" the score is that on exactly the `prompts`, a list of texts or ids; samples should go through
    it in passes, and `tell` must be told which prompt each belongs to. `paired` says that sample i of every generator
    was made with the same seed, or prompt: under the bound "influence", generators are then compared by index. It is
    harmless where it is not true. `seeds` is False, for all generators or by name, where they ignore seeds: their
    samples have no indices. `watch` are further metrics, as objects, of the same samples; a batch then holds the arrays
    of all (`Metric.array_names`) by name. They have the bound "influence" and estimates of their own, which equal those
    of an evaluation by that metric alone, and decide nothing. `direction` ("minimize", "maximize") is that of the
    metric, or is refused; a `Mean` that was not given `higher_is_better` takes it. `next_start` gives the index from
    which seeds can be made:

        name = evaluation.ask()
        start = evaluation.next_start(name)
        evaluation.tell(name, np.stack([sample(name, seed=start + i) for i in range(evaluation.batch_size)]))

    Raises FixError for invalid arguments.
    """

    def __init__(
        self,
        generators: Sequence[str],
        *,
        metric: str | Metric = "fid",
        watch: Sequence[Metric] = (),
        reference: Any = None,
        order: float = 1.0,
        truncation: int | None = None,
        kernel: Mapping[str, Any] | None = None,
        prompt_kernel: Mapping[str, Any] | None = None,
        goal: str = "best",
        policy: str | None = None,
        bound: str | None = None,
        batch_size: int = 5,
        warmup: int | None = None,
        rescore_growth: float | None = None,
        delta: float = 0.05,
        tolerance: float | str = 0.0,
        seed: int = 0,
        device: str = "cpu",
        max_magnitude: float = MAX_MAGNITUDE,
        on_anomaly: Literal["hold", "ignore"] = "hold",
        prompts: Sequence[str] | None = None,
        prompts_are: str = "sample",
        paired: bool = True,
        seeds: bool | Mapping[str, bool] = True,
        costs: Mapping[str, float] | None = None,
        direction: str | None = None,
        **options: float,
    ) -> None:
        names, place = names_of(generators), find_device(device)
        self._given = {name: value for name, value in locals().items() if name in _GIVEN}  # what `save` writes
        directed = with_real_data(
            metric,
            reference=reference,
            order=order,
            truncation=truncation,
            kernel=kernel,
            prompt_kernel=prompt_kernel,
        )
        declared = directed.in_direction(direction)
        goal_settings = GoalSettings.from_arguments(
            goal, policy, bound, declared, prompts_are, warmup=warmup, growth=rescore_growth
        )
        tolerance = checked_tolerance(tolerance)
        declared.check_decides()
        declared.check_tolerance(tolerance)
        check_whole("batch_size", batch_size, 1)
        check_whole("seed", seed, 0)
        self.batch_size = batch_size
        self._costs = checked_costs(costs, names)
        check_prompts_are(prompts_are, bool(prompts), goal_settings.bound)
        metrics = by_label([declared, *map(with_real_data, watch)])
        if prompts is not None and not any(metric.takes_prompts for metric in metrics.values()):
            raise FixError(f"metric {declared.name!r} does not take prompts")
        if not isinstance(paired, bool):
            raise FixError(f"paired: expected True or False, got {paired!r}")
        check_seeds(seeds, names)
        self._seedless = seedless_of(seeds, names)
        paired = paired and seeds is not False
        self._list_length = len(prompts or ()) if prompts_are == "list" else None
        self._declared = metrics
        estimators: dict[str, MetricEstimators] = {}  # by label, the one that decides first
        for label, metric in metrics.items():
            how = {"bound": goal_settings.bound, "options": options} if metric is declared else {}
            how["prompts"] = (self._list_length or None) if metric.scores_lists else None
            how |= {"device": place, "paired": paired, "generators": len(names)}
            question = Question(prepared(metric, place), delta=delta, **how)
            estimators[label] = MetricEstimators(question, names, goal_settings.growth)
        super().__init__(names, estimators, Stopping(delta, tolerance))
        columns_of(self._questions)  # raises where metrics cannot read the same array
        if on_anomaly not in ("hold", "ignore"):
            raise FixError(f'on_anomaly: expected "hold" or "ignore", got {on_anomaly!r}')
        scales = reference_scales(metrics.values())
        self._plausibility = Plausibility(scales, check_number("max_magnitude", max_magnitude))
        self._scales = Scales(self.generators, scales, ignored=on_anomaly == "ignore")
        self._widths: dict[str, int] | None = None  # of the batches: the first one tells
        needed = self._primary.question.rows_to_fit(len(names))
        self._aim = goal_settings.aim(declared, self._stopping, seed, batch_size, needed)
        self._credits = [0.0] * len(names)

    def ask(self, *, among: Collection[str] | None = None, pending: Mapping[str, int] | None = None) -> str:
        """Name of the generator to sample next; with the same arguments the same until the next tell.

        among: the generators that can be sampled; None: all. pending: how many batches of `batch_size` of each were
        asked for and have not been recorded. Raises NotFoundError for an unknown name, FixError if none can be sampled.
        """
        for name in (*(among or ()), *(pending or ())):
            self._check_name(name)
        arms = self._arms(pending)
        if among is not None:
            arms = [replace(arm, active=arm.name in among) for arm in arms]
        return self.generators[self._aim.pick(arms, self.told)]

    def next_start(self, generator: str) -> int:
        """1 + the largest index of `generator`, where "next" starts. Raises NotFoundError for an unknown name."""
        self._check_name(generator)
        return self._ends[generator]

    def tell(
        self,
        generator: str,
        batch: Batch,
        *,
        prompt_indices: Sequence[int] | None = None,
        start: Start = "next",
    ) -> None:
        """Add a batch (n, d) of `generator`. Raises NotFoundError for an unknown name, FixError for a bad batch.

        A batch that is refused changes nothing. The id of a sample without one says in which place it was recorded.
        prompt_indices: with `prompts_are` "list", the place of each sample's prompt in the list. A batch without them
        counts as one with prompts drawn at random.
        start: the index of the batch's first sample, by which paired generators are compared; the others follow it.
        "next" is the index after the largest one told. With None the samples have no index, and are not compared.
        """
        self._check_name(generator)
        arrays = check_arrays(arrays_of(batch, columns_of(self._questions)), self._questions, self._widths)
        declared = [question.metric for question in self._questions]
        widths = {name: array.shape[1] for name, array in arrays.items()}
        sizes = magnitudes(arrays, sized(declared), levelled(declared, widths))
        is_usual = self._plausibility.check(sizes)
        tensors = tensors_of(arrays)
        rows = len(next(iter(tensors.values())))
        listed = checked_prompts(prompt_indices, rows, self._list_length)
        indices = checked_start(start, rows, self._ends[generator])
        first = self._samples[generator]
        ids = unpack_ids(arrays[IDS]) if IDS in arrays else [f"{row}" for row in range(first, first + rows)]
        told = StreamBatch(tensors, ids, listed, None if generator in self._seedless else indices)
        # What may be refused comes first, for all metrics.
        begun = {label: estimators.begun(generator, told) for label, estimators in self._metrics.items()}
        for label, estimators in self._metrics.items():
            estimators.add(generator, told, begun[label])
        self._widths = {name: tensor.shape[1] for name, tensor in tensors.items()}
        if is_usual:
            self._plausibility.add(generator, sizes, rows)
        self._samples[generator] += rows
        self._batches[generator] += 1
        self._scales.add(generator, self._batches[generator], sizes, rows)
        if findings := self.findings(generator, self._batches[generator]):
            warnings.warn(f"batch {self._batches[generator]} of {generator} {'; '.join(findings)}", stacklevel=2)
        self._ends[generator] = max(self._ends[generator], 0 if indices is None else sum(indices))
        score_due(self._metrics)
        self._aim.follow(self._primary, self._arms())

    def findings(self, generator: str, position: int) -> list[str]:
        """Phrases that say what is anomalous about a batch, by all recorded batches. position: as of `accept`."""
        return [f"is {text}" for text in self._scales.findings(generator, position)]

    def accept(self, generator: str, position: int | None = None) -> bool:
        """Accept a batch on another scale than others as it is; without a position, all of a generator so far.

        A decision that rests on it is then no longer provisional. position: of the batch among those of its generator,
        from 1. Returns False if it had been accepted. Raises NotFoundError for an unknown name, FixError for a position
        without a batch.
        """
        self._check_name(generator)
        told = self._batches[generator]
        if position is not None and not 1 <= check_whole("position", position, 1) <= told:
            raise FixError(f"position: {generator!r} has {told} batches, got {position}")
        return self._scales.accept(generator, position, told)

    def blend(self, size: int) -> Blend:
        """The counts of samples to take next of each generator, `size` in all, to serve users with the best mixture.

        With the goal "mixture" the weights are those of the newest mixture, else of one made now. What one call rounds
        the next ones make up for: all counts together differ from the shares by less than one sample each, as long as
        the weights are the same. Raises FixError before there is a mixture, as `mixture` does.
        """
        check_whole("size", size, 1)
        found = self._aim.mixture or self._primary.mixture()
        counts, self._credits = blend_counts(found.weights, self._credits, size)
        shared = zip(self.generators, counts, strict=True)
        weights = dict(zip(self.generators, found.weights, strict=True))
        return Blend(counts={name: count for name, count in shared if count}, weights=weights)

    @property
    def latest_mixture(self) -> Mixture | None:
        """With the goal "mixture" the newest mixture, by which picks are made; None before the first."""
        return self._aim.mixture

    @property
    def _questions(self) -> list[Question]:
        return [estimators.question for estimators in self._metrics.values()]
