"""Sets of samples that are there: `contrast`, their differences with intervals, and `mixture`, their best mixture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optimist.datasets.sets import SampleSet, naming, reader
from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import RawBatch, columns_of
from optimist.estimation.artefacts import check_mixtures, mixture_of
from optimist.estimation.question import Question, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.audits import LABELS
from optimist.local.basis import Arrays, BasisReader, allowing_for_copies, copies_of
from optimist.local.streams import seen, streamed
from optimist.metrics.devices import find_device
from optimist.policies import Arm, Cheapest, LimitOn, Stopping, shown_mixture
from optimist.policies.audits import said_of_judge
from optimist.policies.cheapest import LimitTable
from optimist.policies.contrasts import contrasts_among, described, pointwise
from optimist.policies.ranks import ranking_of
from optimist.policies.reports import scores_and_intervals
from optimist.records import codec
from optimist_client import layout
from optimist_client.config import PromptsAre, check_prompts_are
from optimist_client.errors import FixError
from optimist_client.limits import Limit
from optimist_client.metrics import Metric
from optimist_client.metrics.mean import OfValues
from optimist_client.models import Basis, Contrast, LimitVerdict, Mixture, Ranking
from optimist_client.rows import Fields
from optimist_client.tolerance import checked

_INNER = ("pairing", "prompted", "audited")
"""The fields of an estimate that comparisons need, which are not printed."""
_SCORES = ("generator", "score", "interval", "samples")
_LIMITS = ("generator", "limit", "verdict", "by")
_DIFFERENCES = ("generator", "against", "worse by", "correlation", "in common")


@dataclass(frozen=True)
class Comparison:
    """The scores of some generators and their differences. `print` shows both.

    Every interval covers 1 − `delta` for itself: of twenty differences, one outside its interval is to be expected at
    `delta` = 0.05.
    """

    metric: Metric
    delta: float
    paired: bool
    """True: sample i of every generator was made from the same seed or prompt, as the caller said."""
    estimates: Mapping[str, Estimate]
    """The estimate of each generator, best first."""
    between: tuple[Contrast, ...]
    """The differences of each two generators, the worse against the better; first those from the best."""
    basis: Basis
    """The basis of the answer."""
    prompts_are: PromptsAre = "sample"
    """The population of scores: prompts like these, where prompts are known, or exactly these."""
    limits: tuple[LimitVerdict, ...] = ()
    """The verdict on each generator by each limit; all hold together with probability 1 − `delta`."""
    cheapest: str | None = None
    """The cheapest generator that surely meets all limits, while every cheaper one misses one; None where that is not
    known, and without costs and limits."""
    judge: tuple[str, ...] = ()
    """The worth of the judge where people audit one, and a warning for each generator that it favours."""

    @property
    def best(self) -> str:
        """The generator with the best score."""
        return next(iter(self.estimates))

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The differences of all other generators from the best one, in the order of the scores."""
        return tuple(contrast for contrast in self.between if contrast.against == self.best)

    def ranking(self) -> Ranking:
        """The ranks of the generators, as intervals that all hold together with 1 − `delta`, unless there are looks at
        other samples of theirs: of what grows, `Evaluation` and services allow for each look."""
        arms = [Arm(name, estimate) for name, estimate in self.estimates.items()]
        return ranking_of(arms, self.delta, span=self.metric.limits.get("values"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: `scores` as of `optimist score --json`, all differences, and the ranks."""
        scores = [
            {
                "name": name,
                "score": estimate.score,
                **{key: value for key, value in codec.plain(estimate).items() if key not in _INNER},
            }
            for name, estimate in self.estimates.items()
        ]
        between = [contrast.model_dump(mode="json") for contrast in self.between]
        limited = {"limits": [verdict.model_dump(mode="json") for verdict in self.limits], "cheapest": self.cheapest}
        return {
            "metric": self.metric.name,
            "delta": self.delta,
            "paired": self.paired,
            "prompts_are": self.prompts_are,
            "scores": scores,
            "contrasts": between,
            "ranks": self.ranking().model_dump(mode="json"),
            "basis": self.basis.model_dump(mode="json"),
            **(limited if self.limits else {}),
            **({"judge": list(self.judge)} if self.judge else {}),
        }

    def to_pandas(self) -> Any:
        """The differences as a pandas DataFrame, one row for each two generators. Raises ModuleNotFoundError."""
        import pandas

        rows = [contrast.model_dump() for contrast in self.between]
        return pandas.DataFrame(rows).set_index(["generator", "against"])

    def page(self, every: bool = False) -> layout.Page:
        """The scores and the differences: of more than six generators those from the best alone, unless `every`."""
        shown = self.between if every or len(self.estimates) <= 6 else self.contrasts
        texts = scores_and_intervals(self.estimates.values())
        estimated = zip(self.estimates.items(), texts, strict=True)
        scores = [(name, *text, _counted(estimate)) for (name, estimate), text in estimated]
        # What is not paired has nothing in common.
        is_paired = any(contrast.common for contrast in shown)
        differences = [
            (arm.generator, arm.against, text, *((f"{arm.correlation:z.2f}", f"{arm.common:,}") if is_paired else ()))
            for arm, text in zip(shown, Contrast.column(shown), strict=True)
        ]
        head = _DIFFERENCES if is_paired else _DIFFERENCES[:3]
        how = "paired" if self.paired else "independent samples"
        how += ", on exactly these prompts" if self.prompts_are == "list" else ""
        title = f"{self.metric.title}, {how}, {100.0 * (1.0 - self.delta):.4g}% intervals"
        of_all = set[str].intersection(*(set(estimate.warnings) for estimate in self.estimates.values()))
        warnings = [
            f"{name}: {warning}"
            for name, estimate in self.estimates.items()
            for warning in estimate.warnings
            if warning not in of_all
        ]
        warnings += sorted(of_all)
        scored = layout.Table(_SCORES, scores, title=title, first_to_go=("samples",))
        apart = layout.Table(head, differences, left=("against",), first_to_go=("in common", "correlation"))
        ranking = self.ranking()
        ranks = ["", f"Ranks: {ranking.text}"] if ranking.says_more else []
        judge = [f"{self.judge[0][0].upper()}{self.judge[0][1:]}.", *self.judge[1:]] if self.judge else []
        said = [*ranks, *self._by_limits(), *judge, *warnings]
        return layout.Page([scored, self.basis.text, "", apart, *said])

    def _by_limits(self) -> list[layout.Table | str]:
        """The verdicts by each limit, and what they say of the cheapest; nothing without limits."""
        rows = [(verdict.generator, verdict.limit, verdict.verdict, verdict.text) for verdict in self.limits]
        said = [] if self.cheapest is None else [f"{self.cheapest} is the cheapest that is good enough."]
        table = layout.Table(_LIMITS, rows, left=_LIMITS, sentences="by")
        return ["", table, *said] if rows else []

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.page()}"


def contrast(
    samples: Mapping[str, RawBatch | str | Path],
    metric: str | Metric = "fid",
    *,
    paired: bool = False,
    cluster: str | None = None,
    prompts_are: PromptsAre = "sample",
    delta: float = 0.05,
    good_enough: float | str | None = None,
    limits: Sequence[str] = (),
    costs: Mapping[str, float] | None = None,
    device: str = "cpu",
    **settings: Any,
) -> Comparison:
    """Compare two or more sets of samples, by name: arrays (n, d), arrays by name for scores of pairs, or files.

    With `paired`, row i of every set was made from the same seed or the same prompt; the sets may differ in length. A
    difference then has an error of its own, smaller than the two scores' where the rows vary together. How much they do
    is estimated from the first 256 rows, or from all where a row is one number; if they do not, the error is the error
    of independent samples, so a wrong claim does no harm. Rows with the same value of the field `cluster` of tables, or
    of the array of this name, are one cluster, as epochs of a question are: errors then count clusters. With
    `prompts_are="list"` the clusters are all there are: the scores are those on exactly these prompts. With a judge,
    `Mean(reads="human", proxy="judge")`, the array `reads` has what people say of some of the rows, chosen at random,
    and NaN of the others; the scores are by the people. With a `doubt`, or several judges, they were chosen at random
    within each fifth of the doubt. The metric and its settings are as in `score`. `good_enough` is how much worse
    than the best a good generator may be, a difference or a share such as "2%", and `limits` are such as "within 0.01
    of production" or "> 0.8": each generator then has a verdict, and with `costs` of a sample the cheapest good one is
    named; open kernels are fixed by the first rows of all sets, as a new experiment fixes them. Raises FixError for
    invalid samples (naming the set) and settings.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal((200, 4))
    >>> found = contrast({"a": z, "b": 1.1 * z}, "fid", reference=(np.zeros(4), np.eye(4)), paired=True)
    >>> found.best, found.contrasts[0].common
    ('a', 200)
    """
    question = question_on(metric, paired, delta, device, prompts_are, **settings)
    wanted = [*([] if good_enough is None else [Limit("best", checked(good_enough, "good_enough: "))])]
    wanted += [Limit.of(text, "limits: ") for text in limits]
    fields = Fields(cluster=cluster, labels=labels_of(question.metric))
    sets = reader(samples, columns_of([question]), question.is_paired, fields)
    return contrast_of_sets(sets, question, limits=wanted, costs=costs)


def labels_of(metric: Metric) -> str | None:
    """The field, or array, of what people say; None where nobody audits a judge."""
    return (metric.reads or LABELS) if metric.is_audited else None


def audited_by(metric: Metric, fields: Fields) -> Metric:
    """The metric whose scores the judges in these fields give to all samples, and people to some. Raises FixError where
    it has none, and for a field that is named twice."""
    if not isinstance(metric, OfValues):
        raise FixError(f"labels: expected a mean or a win rate, got the metric {metric.name!r}")
    judges = (fields.field or "judge").split(",")
    proxy = judges if len(judges) > 1 else judges[0]
    by_people = metric.model_copy(update={"proxy": proxy, "doubt": fields.doubt, "reads": LABELS})
    by_people.check_apart(fields.labels)
    return by_people


def question_on(
    metric: str | Metric,
    paired: bool = False,
    delta: float = 0.05,
    device: str = "cpu",
    prompts_are: PromptsAre = "sample",
    **settings: Any,
) -> Question:
    """The question that sets of samples are compared by. Raises FixError for settings that are not valid."""
    torch_device = find_device(device)
    check_prompts_are(prompts_are, has_prompts=True, bound="influence")
    declared = declared_of(metric, torch_device, **settings)
    return Question(declared, "influence", delta, device=torch_device, paired=paired, are_list=prompts_are == "list")


def limits_named(limits: Mapping[str, str], metric: Metric) -> list[str]:
    """The limits of files, which have one metric. Raises FixError for the label of another one."""
    if foreign := sorted(limits.keys() - {metric.shown_label}):
        raise FixError(f"--limit: expected limits on {metric.shown_label}, got {', '.join(foreign)}")
    return [*limits.values()]


def contrast_of_sets(
    sets: Callable[[], Iterable[SampleSet]],
    question: Question,
    begun: Callable[[str], None] = lambda name: None,
    limits: Sequence[Limit] = (),
    costs: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare the sets, which are read twice, in the same order, so that one is in memory at a time.

    `begun` is called with the name of each set before it is scored. limits, costs: as of `contrast`. Raises FixError as
    `contrast` does.
    """
    names, lengths, first, clusters, audits = seen(sets(), question)
    if len(names) < 2:
        raise FixError(f"expected two or more sets of samples to compare, got {len(names)}")
    is_audited = labels_of(question.metric) is not None
    if is_audited and (clusters or question.are_list):
        raise FixError("labels: errors count the rows that people have scored; expected no clusters, and no list")
    question = question.fitted(first).on_clusters(len(clusters))
    answers = audits.answers() if is_audited else {}
    estimates: dict[str, Estimate] = {}
    read = BasisReader(question)
    for samples, name, estimator in streamed(sets(), names, question, begun, lengths, clusters, answers):
        arrays, hashes = read.add(samples, name)

        def distinct(indices: Any, arrays: Arrays = arrays, samples: SampleSet = samples, name: str = name) -> Estimate:
            part = samples.at(indices, arrays)
            return next(streamed([part], [name], question, lambda name: None, clusters=clusters))[2].estimate()

        with naming(samples):
            estimate = allowing_for_copies(estimator.estimate(), hashes, question, distinct)
            estimates[name] = replace(estimate, warnings=(*estimate.warnings, *read.shared))
    # By index: names of files may be longer than names of generators may be.
    arms = [Arm(f"{index}", estimate) for index, estimate in enumerate(estimates.values())]
    contrasts = contrasts_among(arms)
    ranked = sorted(range(len(arms)), key=lambda index: (index != contrasts.best, contrasts.losses[index]))
    between = [
        contrast.model_copy(
            update={"generator": names[int(contrast.generator)], "against": names[int(contrast.against)]}
        )
        for rank, better in enumerate(ranked)
        for contrast in described([arms[index] for index in ranked[rank:]], pointwise(question.delta), f"{better}")
    ]
    table = _table(limits, costs or {}, names, [*estimates.values()], question) if limits else None
    named = None if table is None or not table.is_decided or table.leader is None else names[table.leader]
    in_order = {names[index]: estimates[names[index]] for index in ranked}
    prompts_are = "list" if question.are_list else "sample"
    basis = read.basis
    if is_audited:
        basis = basis.model_copy(update={"notes": (*basis.notes, audits.note)})
    return Comparison(
        question.metric,
        question.delta,
        question.is_paired,
        in_order,
        tuple(between),
        basis,
        prompts_are,
        () if table is None else table.verdicts(),
        named,
        said_of_judge([Arm(name, estimate) for name, estimate in estimates.items()]),
    )


def rows_to_label(
    sets: Callable[[], Iterable[SampleSet]], question: Question, count: int
) -> tuple[list[str], tuple[int, int]]:
    """The ids of up to `count` rows to label next (`Audits.next`); how many rows have all labels, and all rows.

    Raises FixError as `contrast` does.
    """
    audits = seen(sets(), question).audits
    return audits.next(count), audits.counts


def _table(
    limits: Sequence[Limit],
    costs: Mapping[str, float],
    names: Sequence[str],
    estimates: Sequence[Estimate],
    question: Question,
) -> LimitTable:
    """The verdicts by these limits at one look. Raises FixError for a limit or a cost of another generator."""
    if unknown := sorted(({limit.against for limit in limits} | costs.keys()) - {"", *names}):
        raise FixError(f"limits, costs: no generator is called {', '.join(unknown)}")
    metric = question.metric
    for limit in limits:
        limit.check(metric, "good_enough, limits")
    span = metric.limits.get("values") if isinstance(metric, OfValues) else None
    rule = Cheapest(question.delta, tuple(LimitOn("", limit, metric.title, span) for limit in limits))
    arms = [
        Arm(name, estimate, estimate.samples, cost=costs.get(name))
        for name, estimate in zip(names, estimates, strict=True)
    ]
    return LimitTable(rule, arms, None)


def _counted(estimate: Estimate) -> str:
    """The samples, or how many of them people have scored."""
    of = "" if estimate.audited is None else f"{len(estimate.audited.audits):,} of "
    return f"{of}{estimate.samples:,}"


def mixture(
    samples: Mapping[str, RawBatch | str | Path],
    metric: str | Metric = "fid",
    *,
    paired: bool = False,
    delta: float = 0.05,
    device: str = "cpu",
    **settings: Any,
) -> Mixture:
    """The best mixture of some generators, of each a set of samples by name: arrays (n, d), or files.

    It has the weights of the mixture, its score, what it gains over the best single generator with an error, and by how
    much another mixture may be better; `print` shows them. The weights come from one half of the samples, the scores
    from the other, and the other way round. The metric is one whose mixtures have a score: "fid", "rke", "vendi"
    without truncation, "mmd" or "cmmd"; its settings are as in `score`, and open kernels are fixed by the first rows
    of all sets. With `paired`, row i of every set was made from the same seed or prompt. Raises FixError for invalid
    samples (naming the set), for fewer than 4 of one, and for invalid settings.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal((400, 2))
    >>> found = mixture({"left": z[:200] - (2, 0), "right": z[200:] + (2, 0)}, "rke", kernel=dict(
    ...     name="gaussian", sigma=1.0, features=100))
    >>> [round(one.weight, 1) for one in found.weights], found.confidence > 0.99
    ([0.5, 0.5], True)
    """
    question = question_on(metric, paired, delta, device, **settings)
    return mixture_of_sets(reader(samples, columns_of([question]), question.is_paired), question)


def mixture_of_sets(
    sets: Callable[[], Iterable[SampleSet]], question: Question, begun: Callable[[str], None] = lambda name: None
) -> Mixture:
    """The best mixture of the sets, which are read twice, in the same order, so that one is in memory at a time.

    `begun` is called with the name of each set before it is read the second time. Raises FixError as `mixture` does.
    """
    check_mixtures(question)
    if question.is_exact:
        raise FixError("kernel: features='exact', the kernel itself, has no mixtures: a mixture needs features=r")
    names, _, first, clusters, _ = seen(sets(), question)
    if clusters:
        raise FixError("cluster: the errors of mixtures count samples; expected none")
    if len(names) < 2:
        raise FixError(f"expected two or more sets of samples to blend, got {len(names)}")
    question = question.fitted(first)
    estimators: dict[str, StreamingEstimator] = {}
    read, said = BasisReader(question), list[str]()
    for samples, name, estimator in streamed(sets(), names, question, begun):
        _, hashes = read.add(samples, name)
        estimators[name] = estimator
        copies = () if hashes is None else copies_of(hashes, question).warnings
        said += [f"{name}: {warning}" for warning in (*copies, *read.shared)]
    mixture = shown_mixture(mixture_of(estimators), question.metric, Stopping(question.delta))
    return mixture.model_copy(update={"basis": read.basis, "warnings": (*mixture.warnings, *said)})
