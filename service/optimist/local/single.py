"""The score of one batch in memory, by any metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.datasets.sets import clusters_beside
from optimist.estimation.arrays import Batch, arrays_of, check_arrays, tensors_of
from optimist.estimation.question import Question, by_label, declared_of
from optimist.estimation.streaming import StreamingEstimator
from optimist.local.basis import allowing_for_copies, hashes_in
from optimist.metrics.devices import find_device
from optimist.metrics.threads import few_threads
from optimist.numerics.estimate import Estimate
from optimist_client.config import BoundOptions, PromptsAre, check_prompts_are
from optimist_client.errors import FixError
from optimist_client.metrics import Metric


@overload
def score(batch: Batch, metric: str | Metric = "fid", **settings: Any) -> Estimate: ...
@overload
def score(batch: Batch, metric: Sequence[Metric], **settings: Any) -> dict[str, Estimate]: ...
def score(
    batch: Batch,
    metric: str | Metric | Sequence[Metric] = "fid",
    *,
    bound: str = "influence",
    delta: float = 0.05,
    cluster: str | None = None,
    prompts_are: PromptsAre = "sample",
    device: str = "cpu",
    **settings: Any,
) -> Estimate | dict[str, Estimate]:
    """Score one set of samples: `batch` (n, d), float64 inside, on the `device`: "cpu", "cuda" or "cuda:<i>".

    `metric` is a metric of `optimist_client.metrics`, such as `FID(reference=…)`, or a text, such as "fid" or
    "rke:kernel.sigma=10". Its settings may also be given here. `reference` (for "fid") is (mean (d,), covariance
    (d, d)) of real data, or real features (n, d).
    `order`, `truncation` and `kernel` are those of "vendi" (equations.md §3): kernel = dict(name="gaussian", sigma=…,
    features=r, seed=…) or with omegas=array (d, r); sigma="median" is the median distance of the batch;
    features="exact" is the kernel itself by its n × n matrix, of up to 10,000 samples; name="nystrom" with
    landmarks=array (m, d), or with features=m for the first m rows; name="cosine". `prompt_kernel` is the same for the
    prompts of "conditional-vendi" and "information-vendi" (equations.md §4), with the `features` of `kernel`.
    Options of the bound are given here, too (`sigma2, M, kappa, tau, mean_gap`; equations.md §1). `optimistic` is the
    interval's optimistic end. With several metrics, as objects, the batch has their arrays by name, and the answer is
    the estimate of each by its label. Rows with the same value of the array `cluster` (n,) of the batch are one
    cluster, which errors count instead of rows; with `prompts_are="list"` they are all there are, and the score is that
    on exactly these prompts. Raises FixError for invalid input.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 4))
    >>> score(x, "fid", reference=(np.zeros(4), np.eye(4))).samples
    200
    """
    place = find_device(device)
    labels = None
    if not isinstance(metric, str | Metric):
        labelled = by_label(metric)
        arrays: Mapping[str, Any] = batch if isinstance(batch, Mapping) else {}
        if missing := {name for one in metric for name in one.array_names.values()} - arrays.keys():
            raise FixError(f"expected the arrays of all metrics by name; found no {', '.join(sorted(missing))}")
        how: dict[str, Any] = {"bound": bound, "delta": delta, "device": device, "cluster": cluster, **settings}
        how["prompts_are"] = prompts_are
        beside = () if cluster is None else (cluster,)
        parts = {
            label: {name: arrays[name] for name in (*one.array_names.values(), *beside) if name in arrays}
            for label, one in labelled.items()
        }
        return {label: score(parts[label], one, **how) for label, one in labelled.items()}
    options = {name: settings.pop(name) for name in BoundOptions.model_fields if name in settings}
    check_prompts_are(prompts_are, cluster is not None, bound)
    question = Question(
        declared_of(metric, place, **settings), bound, delta, options, place, are_list=prompts_are == "list"
    )
    if cluster is not None:
        if bound != "influence":
            raise FixError(f"cluster: expected the bound 'influence', got {bound!r}")
        batch, labels = clusters_beside("batch", batch, cluster)
    arrays = arrays_of(batch, question.reads.values())
    if len(arrays) > 1 and not arrays.keys() & set(question.reads.values()):
        expected = ", ".join(question.reads.values())
        raise FixError(
            f"expected one set of samples, with the array {expected}; got {', '.join(arrays)}: "
            "`optimist.contrast` compares several sets by name"
        )
    arrays = check_arrays(arrays, [question])
    tensors = question.own(tensors_of(arrays))
    question = question.fitted({name: [rows] for name, rows in tensors.items()})
    widths = {name: rows.shape[1] for name, rows in tensors.items()}
    clusters = None if labels is None else torch.from_numpy(np.unique(labels, return_inverse=True)[1])
    question = question.on_clusters(0 if clusters is None else int(clusters.max()) + 1)
    limits = question.bound_for(widths)

    def estimated(places: slice | NDArray[np.int64]) -> Estimate:
        if clusters is not None:
            part = {name: rows[places] for name, rows in tensors.items()}
            estimator = StreamingEstimator(limits, 0.0, clusters=question.counts)
            estimator.add(part, [""] * len(clusters[places]), clusters[places])
            return estimator.estimate()
        statistic = limits.statistic()
        count = len(next(iter(tensors.values())))
        with few_threads(count if question.is_exact else sum(widths.values()), count):
            statistic.update(*(rows[places] for rows in tensors.values()))
            return limits.estimate(statistic)

    return allowing_for_copies(estimated(slice(None)), hashes_in(arrays, question), question, estimated)
