"""An online evaluation in memory (the papers' Protocol 1), and scores of a single batch. No I/O.

The service runs the same rooms over HTTP and Redis; simulations, tests and notebooks run this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from optimist.batches import TENSORS, check_batch, moments
from optimist.bounds import Bound, Track, make_bound
from optimist.estimates import Estimate
from optimist.metrics import Reference, exact_spectrum, log_vendi, make_metric
from optimist.policies import Arm, Decision, Policy, Stopping, check_policy, default_warmup, optimistic
from optimist_client.config import check_metric, resolve_preset

Batch = ArrayLike | torch.Tensor | Mapping[str, ArrayLike | torch.Tensor]
"""Rows (n, d) of what the metric scores: features, or class probabilities; or the same by name."""


def score(
    batch: Batch,
    metric: str = "fid",
    *,
    reference: Any = None,
    order: float = 1.0,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    bound: str = "influence",
    delta: float = 0.05,
    **options: float,
) -> Estimate:
    """Score one set of samples: `batch` (n, d), float64 inside.

    `reference` (for "fid") is (mean (d,), covariance (d, d)) of real data, or real features (n, d). `order`,
    `truncation` and `kernel` are those of "vendi" (equations.md §3): kernel = dict(name="gaussian", sigma=…,
    features=r, seed=…) or with omegas=array (d, r); features=None is the exact kernel by its n × n matrix, whose
    score has no interval; name="nystrom" with landmarks=array (m, d); name="cosine".
    `options` are those of the bound (`sigma2, M, kappa, tau, mean_gap`; equations.md §1). `optimistic` is the
    interval's optimistic end. Raises ValueError for input that is not as expected.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 4))
    >>> score(x, "fid", reference=(np.zeros(4), np.eye(4))).samples
    200
    """
    if kernel is not None and kernel.get("features", 1) is None:
        return _exact(batch, metric, kernel, 2.0 if metric == "rke" else order, truncation)
    question = _Question(metric, reference, order, truncation, kernel, bound, delta, options)
    arrays = _arrays(batch, metric)
    limits = question.bound_for(arrays)
    statistic = limits.statistic()
    statistic.update(*_checked(arrays, limits).values())
    return limits.estimate(statistic)


class Evaluation:
    """Ask which generator to sample, tell the batch that came out, read estimates and decision at any time.

    `generators` are names. `batch_size` is what a caller means to sample per pick; `tell` takes batches of any size,
    asked for or not. The first `warmup` batches of each generator are asked round in index order (None: 2, for "is" 4,
    for the papers' bounds 1). Estimates are due when a generator's samples have grown by `rescore_growth` (0: every
    batch). `policy` may be one of the papers' presets (`fid-ucb`, `fd-ucb`, `is-ucb`, `rke-ucb`, `vendi-ucb`,
    `naive-ucb`), which bring their bound, warm-up and growth. `delta` and `tolerance` are those of the interval and of
    the stopping rule. `reference`, `order`, `truncation`, `kernel` and `options` are as in `score`. The same `seed` and
    the same tells make the same picks. Raises ValueError for what is not as expected.
    """

    def __init__(
        self,
        generators: Sequence[str],
        *,
        metric: str = "fid",
        reference: Any = None,
        order: float = 1.0,
        truncation: int | None = None,
        kernel: Mapping[str, Any] | None = None,
        policy: str = "ucb",
        bound: str = "influence",
        batch_size: int = 5,
        warmup: int | None = None,
        rescore_growth: float = 0.04,
        delta: float = 0.05,
        tolerance: float = 0.0,
        seed: int = 0,
        **options: float,
    ) -> None:
        if isinstance(generators, str) or not generators or len(set(generators)) < len(generators):
            raise ValueError(f"expected at least one generator and distinct names, got {list(generators)}")
        finite = 0 <= rescore_growth < math.inf and 0 <= tolerance < math.inf  # false for NaN, too
        if batch_size < 1 or seed < 0 or not finite:
            raise ValueError("expected batch_size ≥ 1, seed ≥ 0, rescore_growth ≥ 0 and tolerance ≥ 0, all finite")
        if preset := resolve_preset(policy, metric):
            policy, bound = preset["policy"], preset["bound"]
            warmup, rescore_growth = warmup or preset["warmup"], preset["rescore_growth"]
        check_policy(policy, bound)
        self.generators = tuple(generators)
        self.batch_size = batch_size
        self._question = _Question(metric, reference, order, truncation, kernel, bound, delta, options)
        self._growth = rescore_growth
        self._bound: Bound | None = None  # made when the first batch tells the dimension
        self._tracks: dict[str, Track] = {}
        self._estimates: dict[str, Estimate | None] = dict.fromkeys(self.generators)
        self._batches = dict.fromkeys(self.generators, 0)
        self._stopping = Stopping(delta, tolerance)
        warmup = default_warmup(metric, bound) if warmup is None else warmup
        self._policy = Policy(policy, warmup, self._stopping, seed)

    @property
    def told(self) -> int:
        """Batches told so far, the t of decisions.md §3."""
        return sum(self._batches.values())

    def ask(self) -> str:
        """Name of the generator to sample next; the same until the next tell."""
        return self.generators[self._policy.pick(self._arms(), self.told, self.told + 1)]

    def tell(self, generator: str, batch: Batch) -> None:
        """Add a batch (n, d) of `generator`. Raises KeyError for an unknown name, ValueError for a bad batch."""
        if generator not in self._batches:
            raise KeyError(f"unknown generator {generator!r}; expected one of {', '.join(self.generators)}")
        arrays = _arrays(batch, self._question.metric)
        bound = self._bound or self._question.bound_for(arrays)
        tensors = _checked(arrays, bound)
        self._bound = bound
        track = self._tracks.setdefault(generator, Track(bound, self._growth))
        due = track.add(tensors)
        self._batches[generator] += 1
        if due:
            self._estimates[generator] = track.estimate()

    def estimates(self) -> dict[str, Estimate | None]:
        """The latest estimate of each generator, None before its first; `optimistic` is what `ucb` ranks by now."""
        return {
            name: estimate and replace(estimate, optimistic=optimistic(estimate, self.told))
            for name, estimate in self._estimates.items()
        }

    def decision(self) -> Decision:
        """Which generator is best, how sure that is, whether that is enough to stop, and why."""
        return self._stopping.decide(self._arms(), self.told)

    def _arms(self) -> list[Arm]:
        return [
            Arm(
                name,
                self._estimates[name],
                self._tracks[name].statistic.samples if name in self._tracks else 0,
                self._batches[name],
            )
            for name in self.generators
        ]


@dataclass
class _Question:
    """Metric and bound, checked at once; made for a dimension when a batch tells it."""

    metric: str
    reference: Any
    order: float
    truncation: int | None
    kernel: Mapping[str, Any] | None
    bound: str
    delta: float
    options: Mapping[str, float]

    def __post_init__(self) -> None:
        given = {"reference": self.reference, "truncation": self.truncation, "kernel": self.kernel}
        names = {name for name, value in given.items() if value is not None}
        check_metric(self.metric, self.bound, names | ({"order"} if self.order != 1.0 else set()))
        if self.reference is not None:
            self.reference = _reference(self.reference)
        # Nonsense is refused before there is a batch. The cosine kernel's width is the dimension, no less than t.
        self._make(self.truncation or 1)

    def bound_for(self, arrays: Mapping[str, NDArray[np.float64]]) -> Bound:
        """The bound for batches like this one."""
        rows = next(iter(arrays.values()))
        return self._make(rows.shape[1] if rows.ndim == 2 else 1)

    def _make(self, dimension: int) -> Bound:
        metric = make_metric(
            self.metric,
            dimension,
            reference=self.reference,
            order=self.order,
            truncation=self.truncation,
            kernel=self.kernel,
        )
        return make_bound(self.bound, metric, self.delta, **self.options)


def _exact(batch: Batch, metric: str, kernel: Mapping[str, Any], order: float, truncation: int | None) -> Estimate:
    """The plug-in score of the exact kernel (equations.md §3); nothing is known of its error."""
    if metric not in ("rke", "vendi"):
        raise ValueError(f"metric {metric!r} takes no kernel")
    arrays = _arrays(batch, metric)
    rows = arrays["features"]
    check_batch(arrays, TENSORS[metric], rows.shape[1] if rows.ndim == 2 else 1)
    spectrum = exact_spectrum(torch.from_numpy(rows), kernel.get("name", "gaussian"), kernel.get("sigma", math.nan))
    value = log_vendi(spectrum, order, truncation)
    return Estimate(value, value, len(rows), -math.inf, math.inf, math.inf, scale="log", lower_is_better=False)


def _reference(reference: Any) -> Reference:
    if isinstance(reference, Reference):
        return reference
    if isinstance(reference, tuple):
        mean, covariance = reference
        return Reference(mean, covariance)
    return Reference(*moments("reference, where it is no (mean, covariance) tuple", _array(reference)))


def _arrays(batch: Batch, metric: str) -> dict[str, NDArray[np.float64]]:
    """The batch's arrays by name, those that the metric expects first."""
    names = TENSORS[metric]
    by_name = batch if isinstance(batch, Mapping) else {names[0]: batch}
    return {name: _array(by_name[name]) for name in sorted(by_name, key=lambda name: (name not in names, name))}


def _checked(arrays: Mapping[str, NDArray[np.float64]], bound: Bound) -> dict[str, torch.Tensor]:
    check_batch(arrays, bound.metric.tensors, bound.metric.dimension)
    return {name: torch.from_numpy(arrays[name]) for name in bound.metric.tensors}


def _array(values: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
    """A float64 copy, so that the caller may write over its own array."""
    plain = values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else values
    return np.array(plain, dtype=np.float64)
