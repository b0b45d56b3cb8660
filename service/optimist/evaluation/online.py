"""An online evaluation in memory: the papers' Protocol 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimist.evaluation.arrays import (
    Batch,
    arrays_of,
    check_arrays,
    columns_of,
    reference_scales,
    tensors_of,
)
from optimist.evaluation.question import Question, by_label, prepared, with_real_data
from optimist.evaluation.told import Start, Told, checked_costs, checked_prompts, checked_start, names_of
from optimist.evaluation.track import Track
from optimist.evaluation.tracks import Tracks
from optimist.numerics.checks import check_number, check_text, check_whole
from optimist.numerics.devices import find_device
from optimist.numerics.estimate import Estimate
from optimist.numerics.modes import Mode, PromptGroup
from optimist.numerics.plausibility import WARNED, Plausibility, magnitudes, sized
from optimist.policies import (
    Arm,
    Decision,
    Policy,
    Stopping,
    check_policy,
    contrast,
    explained,
    optimistic,
    warmup_batches,
)
from optimist_client.config import MAX_MAGNITUDE, RULES, check_prompts_are, resolve_preset
from optimist_client.metrics import Metric
from optimist_client.models import Contrast
from optimist_client.tensors import IDS, unpack_ids
from optimist_client.tolerance import checked as checked_tolerance


class Evaluation:
    """Ask which generator to sample, tell the batch that came out, read estimates and decision at any time.

    `generators` are names. `batch_size` is the number of samples that a caller plans per pick; `tell` takes batches of
    any size, also without a pick. The first `warmup` batches of each generator are asked for in turn (None: 2, for "is"
    4, for the papers' bounds 1; always as many as open kernels need). Estimates are due when a generator's samples have
    grown by `rescore_growth` (None: 0.04; 0: every batch). `policy` may be one of the papers' presets (`fid-ucb`,
    `fd-ucb`, `is-ucb`, `rke-ucb`, `vendi-ucb`, `naive-ucb`, `greedy`), which set bound, warm-up and growth; otherwise
    `bound` None is "influence". `delta` is that of the interval and of the stopping rule, `tolerance` the difference
    that does not matter to the rule: a number on the estimates' scale, or a share of the best score ("1%"). `metric`,
    its settings (`reference`, `order`, `truncation`, `kernel`, `prompt_kernel`) and `options` are as in `score`, but
    open kernels are fixed by the first samples of all generators together; before that there are no estimates. The same
    `seed` and the same tells give the same picks. Statistics live on the `device`, as in `score`. A batch is refused if
    a value exceeds the usual size by the factor `max_magnitude`; from a factor of 1000 on a warning is issued. `rules`
    is the version that an experiment keeps from its creation; by default the newest. With `prompts_are` "list" the
    score is that on exactly the `prompts`, a list of texts or ids; samples should go through it in passes, and `tell`
    must be told which prompt each belongs to. `paired` says that sample i of every generator was made with the same
    seed, or prompt: from rules 4 on and under the bound "influence", generators are then compared by index. It is
    harmless where it is not true. `watch` are further metrics, as objects, of the same samples; a batch then holds the
    arrays of all (`Metric.array_names`) by name. They have the bound "influence" and estimates of their own, which
    equal those of an evaluation by that metric alone, and decide nothing. `next_start` gives the index from which seeds
    can be made:

        name = evaluation.ask()
        start = evaluation.next_start(name)
        evaluation.tell(name, np.stack([sample(name, seed=start + i) for i in range(evaluation.batch_size)]))

    Raises ValueError for invalid arguments.
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
        policy: str = "ucb",
        bound: str | None = None,
        batch_size: int = 5,
        warmup: int | None = None,
        rescore_growth: float | None = None,
        delta: float = 0.05,
        tolerance: float | str = 0.0,
        seed: int = 0,
        device: str = "cpu",
        max_magnitude: float = MAX_MAGNITUDE,
        rules: int = RULES,
        prompts: Sequence[str] | None = None,
        prompts_are: str = "sample",
        paired: bool = True,
        costs: Mapping[str, float] | None = None,
        **options: float,
    ) -> None:
        names, place = names_of(generators), find_device(device)
        check_text("bound", "influence" if bound is None else bound)
        preset: dict[str, Any] = {"bound": bound or "influence", "warmup": None, "rescore_growth": 0.04}
        declared = with_real_data(
            metric,
            reference=reference,
            order=order,
            truncation=truncation,
            kernel=kernel,
            prompt_kernel=prompt_kernel,
        )
        preset |= resolve_preset(check_text("policy", policy), type(declared), bound)
        policy, bound = str(preset.get("policy", policy)), str(preset["bound"])
        growth = check_number("rescore_growth", preset["rescore_growth"] if rescore_growth is None else rescore_growth)
        if not 0 <= growth < math.inf:
            raise ValueError(f"rescore_growth must be finite and not negative, not {growth}")
        tolerance = checked_tolerance(tolerance)
        declared.check_tolerance(tolerance)
        check_whole("batch_size", batch_size, 1)
        check_whole("seed", seed, 0)
        if warmup is not None:
            check_whole("warmup", warmup, 1)
        check_policy(policy, bound, type(declared))
        self.generators = names
        self.batch_size = batch_size
        self._costs = checked_costs(costs, names) if rules >= 5 else {}
        check_prompts_are(prompts_are, bool(prompts), bound)
        metrics = by_label([declared, *map(with_real_data, watch)])
        if prompts is not None and not any(metric.takes_prompts for metric in metrics.values()):
            raise ValueError(f"metric {declared.name!r} does not take prompts")
        if not isinstance(paired, bool):
            raise ValueError(f"paired: expected True or False, got {paired!r}")
        self._list_length = len(prompts or ()) if prompts_are == "list" else None
        self._metrics: dict[str, Tracks] = {}  # by label, the one that decides first
        for label, metric in metrics.items():
            how = {"bound": bound, "options": options} if metric is declared else {}
            how["prompts"] = (self._list_length or None) if metric.scores_lists else None
            how |= {"device": place, "rules": rules, "paired": paired, "generators": len(names)}
            question = Question(prepared(metric, place), delta=delta, **how)
            self._metrics[label] = Tracks(question, names, growth)
        columns_of(self._questions)  # raises where metrics cannot read the same array
        self._primary = self._metrics[declared.shown_label]
        self._checks_sizes = rules >= 2
        scales = reference_scales(metrics.values())
        self._plausibility = Plausibility(scales, check_number("max_magnitude", max_magnitude))
        self._widths: dict[str, int] | None = None  # of the batches: the first one tells
        self._samples, self._batches, self._ends = (dict.fromkeys(names, 0) for _ in range(3))
        self._stopping = Stopping(delta, tolerance, rules)
        given = preset["warmup"] if warmup is None else warmup
        needed = self._primary.question.rows_to_fit(len(self.generators))
        batches = warmup_batches(type(declared), bound, given, needed, batch_size)
        self._policy = Policy(policy, batches, self._stopping, seed)

    @property
    def told(self) -> int:
        """Batches told so far, the t of decisions.md §3."""
        return sum(self._batches.values())

    def ask(self) -> str:
        """Name of the generator to sample next; the same until the next tell."""
        return self.generators[self._policy.pick(self._arms(), self.told, self.told + 1)]

    def next_start(self, generator: str) -> int:
        """1 + the largest index told of `generator`: where "next" starts. Raises KeyError for an unknown name."""
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
        """Add a batch (n, d) of `generator`. Raises KeyError for an unknown name, ValueError for a bad batch.

        A batch that is refused changes nothing. The id of a sample without one says in which place it was told.
        prompt_indices: with `prompts_are` "list", the place of each sample's prompt in the list. A batch without them
        counts as one with prompts drawn at random.
        start: the index of the batch's first sample, by which paired generators are compared; the others follow it.
        "next" is the index after the largest one told. With None the samples have no index, and are not compared.
        """
        self._check_name(generator)
        arrays = check_arrays(arrays_of(batch, columns_of(self._questions)), self._questions, self._widths)
        sizes = magnitudes(arrays, sized(question.metric for question in self._questions)) if self._checks_sizes else []
        odd = self._plausibility.check(sizes)
        tensors = tensors_of(arrays)
        rows = len(next(iter(tensors.values())))
        listed = checked_prompts(prompt_indices, rows, self._list_length)
        indices = checked_start(start, rows, self._ends[generator])
        first = self._samples[generator]
        ids = unpack_ids(arrays[IDS]) if IDS in arrays else [f"{row}" for row in range(first, first + rows)]
        told = Told(tensors, ids, listed, indices)
        # What may be refused comes first, for all metrics.
        begun = {label: tracks.begun(generator, told) for label, tracks in self._metrics.items()}
        for label, tracks in self._metrics.items():
            tracks.add(generator, told, begun[label])
        self._widths = {name: tensor.shape[1] for name, tensor in tensors.items()}
        if odd:
            warnings.warn(f"values over {WARNED:,.0f} times the usual size: {'; '.join(odd)}", stacklevel=2)
        else:
            self._plausibility.add(generator, sizes, rows)
        self._samples[generator] += rows
        self._batches[generator] += 1
        self._ends[generator] = max(self._ends[generator], 0 if indices is None else sum(indices))
        self._score()

    def estimates(self, metric: str | None = None) -> dict[str, Estimate | None]:
        """The latest estimate of each generator, None before its first; `optimistic` is what `ucb` ranks by now.

        metric: the label of one of the metrics; None: the one that decides. Raises KeyError for another label.
        """
        return {
            name: estimate and replace(estimate, optimistic=optimistic(estimate, self.told))
            for name, estimate in self._of(metric).estimates.items()
        }

    @property
    def watched(self) -> dict[str, dict[str, Estimate | None]]:
        """The `estimates` of each watched metric by its label."""
        return {label: self.estimates(label) for label in list(self._metrics)[1:]}

    def decision(self, explain: bool = True) -> Decision:
        """The best generator, the confidence in it, whether that is enough to stop, and the reason.

        `explain` adds a verdict for each rival and the comparison with the closest one, which takes half a millisecond.
        """
        arms = self._arms()
        return explained(self._policy, arms, self.told) if explain else self._stopping.decide(arms, self.told)

    def contrast(self, generator: str, against: str, *, metric: str | None = None) -> Contrast:
        """How much worse `generator` scores than `against`, with the error of the difference.

        metric: as of `estimates`. Raises KeyError for an unknown name or label, ValueError if the two are the same or
        one of them has no estimate.
        """
        for name in (generator, against):
            self._check_name(name)
        found = self._of(metric).estimates
        one, other = (Arm(name, found[name]) for name in (generator, against))
        return contrast(one, other, self._stopping.delta)

    def modes(self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None) -> list[Mode]:
        """The generator's largest modes, each with the ids of the samples that show it most (equations.md §3c).

        metric: as of `estimates`. Raises KeyError for an unknown name or label, ValueError for metrics without modes
        and before the first estimate.
        """
        track = self._track(generator, metric)
        return track.modes(check_whole("count", count, 1), check_whole("samples", samples, 1))

    def prompt_groups(
        self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None
    ) -> list[PromptGroup]:
        """The score by type of prompt, the largest first, each with samples of such prompts (equations.md §4).

        Raises as `modes` does; only the scores of pairs have prompts.
        """
        track = self._track(generator, metric)
        return track.prompt_groups(check_whole("count", count, 1), check_whole("samples", samples, 1))

    @property
    def _questions(self) -> list[Question]:
        return [tracks.question for tracks in self._metrics.values()]

    def _check_name(self, generator: str) -> None:
        if generator not in self._batches:
            raise KeyError(f"unknown generator {generator!r}; expected one of {', '.join(self.generators)}")

    def _of(self, metric: str | None) -> Tracks:
        if metric is not None and metric not in self._metrics:
            raise KeyError(f"unknown metric {metric!r}; expected one of {', '.join(self._metrics)}")
        return self._primary if metric is None else self._metrics[metric]

    def _track(self, generator: str, metric: str | None) -> Track:
        self._check_name(generator)
        return self._of(metric).track(generator)

    def _score(self) -> None:
        """Make the estimates that are due now. An error of one metric is raised after the others are made."""
        errors: list[Exception] = []
        for label, tracks in self._metrics.items():
            try:
                tracks.score()
            except Exception as error:
                error.add_note(f"in the estimate by {label!r}")
                errors.append(error)
        if errors:
            raise errors[0]

    def _arms(self) -> list[Arm]:
        found = self._primary.estimates
        return [Arm(g, found[g], self._samples[g], self._batches[g], cost=self._costs.get(g)) for g in self.generators]
