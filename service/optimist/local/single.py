"""The score of one batch in memory, by any metric."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.anomalies.copies import Hashes
from optimist.datasets.sets import clusters_beside
from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import RawBatch, arrays_of, check_arrays, real_data_of, tensors_of
from optimist.estimation.question import Question, by_label, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.basis import allowing_for_copies, hashes_in
from optimist.local.shards import Executor, are_shards, files_of, score_shards
from optimist.metrics.bound import Bound
from optimist.metrics.devices import find_device
from optimist.metrics.threads import few_threads
from optimist.references.real_data import RealData
from optimist_client.config import BoundOptions, PromptsAre, check_prompts_are
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.metrics.mean import check_unaudited

Samples = RawBatch | Path | Sequence[str | Path]


@overload
def score(batch: Samples, metric: str | Metric = "fid", **settings: Any) -> Estimate: ...
@overload
def score(batch: Samples, metric: Sequence[Metric], **settings: Any) -> dict[str, Estimate]: ...
def score(
    batch: Samples,
    metric: str | Metric | Sequence[Metric] = "fid",
    *,
    bound: str = "influence",
    delta: float = 0.05,
    cluster: str | None = None,
    prompts_are: PromptsAre = "sample",
    device: str = "cpu",
    executor: Executor | None = None,
    **settings: Any,
) -> Estimate | dict[str, Estimate]:
    """Score one set of samples: `batch` (n, d), float64 inside, on the `device`: "cpu", "cuda" or "cuda:<i>".

    `metric` is a metric of `optimist_client.metrics`, such as `FID(reference=…)`, or a text, such as "fid" or
    "rke:kernel.sigma=10". Its settings may also be given here. `reference` (for "fid") is (mean (d,), covariance
    (d, d)) of real data, or real features (n, d).
    `order`, `truncation` and `kernel` are as in "vendi" (equations.md §3): kernel = dict(name="gaussian", sigma=…,
    features=r, seed=…) or with omegas=array (d, r); sigma="median" is the median distance of the batch;
    features="exact" is the kernel itself by its n × n matrix, of up to 10,000 samples; name="nystrom" with
    landmarks=array (m, d), or with features=m for the first m rows; name="cosine". `prompt_kernel` is the same for the
    prompts of "conditional-vendi" and "information-vendi" (equations.md §4), with the `features` of `kernel`.
    Options of the bound are given here, too (`sigma2, M, kappa, tau, mean_gap`; equations.md §1). `optimistic` is the
    interval's optimistic end. With several metrics, as objects, the batch has their arrays by name, and the answer is
    the estimate of each by its label. Rows with the same value of the array `cluster` (n,) of the batch are one
    cluster, which errors count instead of rows; with `prompts_are="list"` they are all there are, and the score is that
    on exactly these prompts.

    The samples may be in many files instead: a list of these, or their folder, whose statistics are made by tasks of
    the `executor` and merged (None: file by file). Raises FixError for invalid input, and RuntimeError where a task
    fails, which name the file.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 4))
    >>> score(x, "fid", reference=(np.zeros(4), np.eye(4))).samples
    200
    """
    torch_device = find_device(device)
    if isinstance(metric, str | Metric):
        label, metrics = None, [metric]
    else:
        label, metrics = [*by_label(metric)], _sharing_real_data(metric)
    samples: Any = batch
    files = files_of(batch) if are_shards(batch) else None
    if executor is not None and files is None:
        raise FixError("executor: expected samples in files, a list of these or their folder")
    if label is not None and files is None:
        arrays: Mapping[str, Any] = batch if isinstance(batch, Mapping) else {}
        names = {name for each in metrics if isinstance(each, Metric) for name in each.array_names.values()}
        if missing := names - arrays.keys():
            raise FixError(f"expected the arrays of all metrics by name; found no {', '.join(sorted(missing))}")
        samples = {name: rows for name, rows in arrays.items() if name in {*names, cluster}}
    options = {name: settings.pop(name) for name in BoundOptions.model_fields if name in settings}
    check_prompts_are(prompts_are, cluster is not None, bound)
    how: dict[str, Any] = {"options": options, "device": torch_device, "are_list": prompts_are == "list"}
    questions = [Question(declared_of(each, torch_device, **settings), bound, delta, **how) for each in metrics]
    if files is None:
        estimates = scores(samples, questions, cluster)
    elif cluster is None:
        estimates = score_shards(files, questions, executor)
    else:
        raise FixError("cluster: expected samples in memory, or in one file")
    return estimates[0] if label is None else dict(zip(label, estimates, strict=True))


def _sharing_real_data(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics, of which those that were given the same real features share what is made of them."""
    made: dict[int, RealData] = {}
    sharing: list[Metric] = []
    for metric in metrics:
        given = metric.setting("reference")
        if isinstance(given, np.ndarray | Tensor):
            if id(given) not in made:
                made[id(given)] = real_data_of(given)
            metric = metric.model_copy(update={"reference": made[id(given)]})
        sharing.append(metric)
    return sharing


def scores(batch: RawBatch, questions: Sequence[Question], cluster: str | None = None) -> list[Estimate]:
    """The estimate of each question by one set of samples, which is read once; several metrics need arrays by name.

    Estimates whose statistics are the same share one. Raises FixError as `score` does.
    """
    check_unaudited((question.metric for question in questions), "a score")
    labels = None
    if cluster is not None:
        if others := {question.bound for question in questions} - {"influence"}:
            raise FixError(f"cluster: expected the bound 'influence', got {others.pop()!r}")
        batch, labels = clusters_beside("batch", batch, cluster)
    given = arrays_of(batch, [name for question in questions for name in question.reads.values()])
    clusters = None if labels is None else torch.from_numpy(np.unique(labels, return_inverse=True)[1])
    tensors: dict[str, Tensor] = {}
    hashes: dict[str, Hashes | None] = {}
    shared = _Shared()
    estimates: list[Estimate] = []
    for question in questions:
        names = question.reads.values()
        arrays = given if len(questions) == 1 else {name: given[name] for name in names}
        if len(arrays) > 1 and not arrays.keys() & {*names}:
            raise FixError(
                f"expected one set of samples, with the array {', '.join(names)}; got {', '.join(arrays)}: "
                "`optimist.contrast` compares several sets by name"
            )
        arrays = check_arrays(arrays, [question])
        tensors |= {name: rows for name, rows in tensors_of(arrays).items() if name not in tensors}
        array = question.reads[question.arrays[0]]
        if array not in hashes:
            hashes[array] = hashes_in(arrays, question)
        rows = question.own(tensors)
        question = question.fitted({name: [each] for name, each in rows.items()})
        question = question.on_clusters(0 if clusters is None else int(clusters.max()) + 1)
        estimated = partial(_estimate, question, rows, clusters, shared)
        estimates.append(allowing_for_copies(estimated(None), hashes[array], question, estimated))
    return estimates


def _estimate(
    question: Question,
    tensors: Mapping[str, Tensor],
    clusters: Tensor | None,
    shared: _Shared,
    indices: NDArray[np.int64] | None,
) -> Estimate:
    """The estimate of the rows of tensors (n, …) at these places, None: of all."""
    widths = {name: rows.shape[1] for name, rows in tensors.items()}
    limits, part = question.bound_for(widths), tensors
    if indices is not None:
        part = {name: rows[indices] for name, rows in tensors.items()}
        clusters = None if clusters is None else clusters[indices]
    count = len(next(iter(part.values())))
    if clusters is not None:
        estimator = StreamingEstimator(limits, 0.0, clusters=question.counts)
        estimator.add(part, [""] * count, clusters)
        return estimator.estimate()
    with few_threads(count if question.is_exact else sum(widths.values()), count):
        return limits.estimate(shared.statistic(limits, tuple(part.values())))


class _Shared:
    """The statistics of one set of samples."""

    def __init__(self) -> None:
        self._made: list[tuple[object, tuple[Tensor, ...], list[Tensor], Any]] = []

    def statistic(self, limits: Bound, rows: tuple[Tensor, ...]) -> Any:
        """The statistic of these rows; one where two metrics take the same, by rows, layout, state and identity."""
        statistic = limits.alone()
        kind = type(statistic), statistic.layout, {name: each.shape for name, each in statistic.state().items()}
        identity = [tensor for _, tensors in limits.metric.identity() for tensor in tensors]
        for other, of_rows, others, made in self._made:
            if (
                other == kind
                and all(map(operator.is_, rows, of_rows))
                and len(others) == len(identity)
                and all(map(torch.equal, identity, others))
            ):
                return made
        statistic.update(*rows)
        self._made.append((kind, rows, identity, statistic))
        return statistic
