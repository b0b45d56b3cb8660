"""The score of one batch in memory, by any metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from optimist.evaluation.arrays import Batch, arrays_of, check_arrays, reference_of, tensors_of
from optimist.evaluation.question import Question
from optimist.numerics.devices import find_device
from optimist.numerics.estimate import Estimate
from optimist.numerics.kernel.entropy import log_vendi
from optimist.numerics.kernel.exact import exact_spectrum
from optimist.numerics.kernel.settings import KernelSettings
from optimist.numerics.pairs.exact import exact_spectra
from optimist.numerics.registry import PAIRS


def score(
    batch: Batch,
    metric: str = "fid",
    *,
    reference: Any = None,
    order: float = 1.0,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    prompt_kernel: Mapping[str, Any] | None = None,
    bound: str = "influence",
    delta: float = 0.05,
    device: str = "cpu",
    **options: float,
) -> Estimate:
    """Score one set of samples: `batch` (n, d), float64 inside, on the `device`: "cpu", "cuda" or "cuda:<i>".

    `reference` (for "fid") is (mean (d,), covariance (d, d)) of real data, or real features (n, d). `order`,
    `truncation` and `kernel` are those of "vendi" (equations.md §3): kernel = dict(name="gaussian", sigma=…,
    features=r, seed=…) or with omegas=array (d, r); sigma="median" is the median distance of the batch; features=None
    is the exact kernel by its n × n matrix, whose score has no interval; name="nystrom" with landmarks=array (m, d), or
    with features=m for the first m rows; name="cosine". `prompt_kernel` is the same for the prompts of
    "conditional-vendi" and "information-vendi" (equations.md §4), with the r and the exactness of `kernel`.
    `options` are those of the bound (`sigma2, M, kappa, tau, mean_gap`; equations.md §1). `optimistic` is the
    interval's optimistic end. Raises ValueError for input that is not as expected.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 4))
    >>> score(x, "fid", reference=(np.zeros(4), np.eye(4))).samples
    200
    """
    place = find_device(device)
    of_reference = reference_of(reference, place)
    question = Question(metric, bound, delta, of_reference, order, truncation, kernel, prompt_kernel, options, place)
    arrays = arrays_of(batch, metric)
    check_arrays(arrays, question)
    tensors = tensors_of(arrays)
    question = question.fitted({name: [rows] for name, rows in tensors.items()})
    if question.is_exact:
        return _exact(tensors, question)
    limits = question.bound_for({name: rows.shape[1] for name, rows in tensors.items()})
    statistic = limits.statistic()
    statistic.update(*tensors.values())
    return limits.estimate(statistic)


def _exact(tensors: Mapping[str, Tensor], question: Question) -> Estimate:
    """The plug-in score of the exact kernels (equations.md §3, 4); nothing is known of its error."""
    tensors = {name: rows.to(question.device) for name, rows in tensors.items()}
    features, kernel = tensors["features"], _named(question.settings["kernel"])
    if question.metric in PAIRS:
        prompts = {f"prompt_{name}": value for name, value in _named(question.settings["prompt_kernel"]).items()}
        spectra = exact_spectra(features, tensors["prompts"], **kernel, **prompts)
        value = PAIRS[question.metric].of_spectra(spectra, question.order)
    else:
        order = 2.0 if question.metric == "rke" else question.order
        value = log_vendi(exact_spectrum(features, **kernel), order, question.truncation)
    return Estimate(value, value, len(features), -math.inf, math.inf, math.inf, scale="log", lower_is_better=False)


def _named(kernel: KernelSettings) -> dict[str, Any]:
    """Kernel and bandwidth as `exact_spectrum` takes them."""
    return {"kernel": kernel.name} | ({} if kernel.sigma is None else {"sigma": kernel.sigma})
