"""An online evaluation in memory (the papers' Protocol 1), and scores of a single batch. No I/O.

The service runs the same rooms over HTTP and Redis; simulations, tests and notebooks run this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from optimist.batches import check_features
from optimist.bounds import Track, make_bound
from optimist.estimates import Estimate
from optimist.metrics import Reference, make_metric
from optimist.policies import Arm, Decision, Policy, Stopping, check_policy, default_warmup, optimistic


def score(
    features: ArrayLike | torch.Tensor,
    metric: str = "fid",
    *,
    reference: Any,
    bound: str = "influence",
    delta: float = 0.05,
    **options: float,
) -> Estimate:
    """Score one set of samples: `features` (n, d), float64 inside.

    `reference` is (mean (d,), covariance (d, d)) of real data, or real features (n, d). `options` are those of the
    bound (`sigma2, M, kappa, tau, mean_gap`; equations.md §1). `optimistic` is the interval's optimistic end.
    Raises ValueError for input that is not as expected.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 4))
    >>> score(x, "fid", reference=(np.zeros(4), np.eye(4))).samples
    200
    """
    limits = make_bound(bound, make_metric(metric, reference=_reference(reference)), delta, **options)
    statistic = limits.metric.statistic(scatter=limits.needs_scatter)
    statistic.update(_batch(features, limits.metric.dimension))
    return limits.estimate(statistic)


class Evaluation:
    """Ask which generator to sample, tell the features that came out, read estimates and decision at any time.

    `generators` are names. `batch_size` is what a caller means to sample per pick; `tell` takes batches of any size,
    asked for or not. The first `warmup` batches of each generator are asked round in index order (None: 2, for the
    papers' bounds 1). Estimates are due when a generator's samples have grown by `rescore_growth` (0: every batch).
    `delta` and `tolerance` are those of the interval and the stopping rule. `options` are those of the bound.
    With the same `seed` and the same tells the picks are the same. Raises ValueError for what is not as expected.
    """

    def __init__(
        self,
        generators: Sequence[str],
        *,
        metric: str = "fid",
        reference: Any,
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
        if not generators or len(set(generators)) < len(generators):
            raise ValueError(f"expected at least one generator and distinct names, got {list(generators)}")
        if batch_size < 1 or rescore_growth < 0 or tolerance < 0 or seed < 0:
            raise ValueError("expected batch_size ≥ 1, rescore_growth ≥ 0, tolerance ≥ 0 and seed ≥ 0")
        check_policy(policy, bound)
        limits = make_bound(bound, make_metric(metric, reference=_reference(reference)), delta, **options)
        self.generators = tuple(generators)
        self.batch_size = batch_size
        self._dimension = limits.metric.dimension
        self._tracks = {name: Track(limits, rescore_growth) for name in self.generators}
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

    def tell(self, generator: str, features: ArrayLike | torch.Tensor) -> None:
        """Add features (n, d) of `generator`. Raises KeyError for an unknown name, ValueError for a bad batch."""
        track = self._tracks.get(generator)
        if track is None:
            raise KeyError(f"unknown generator {generator!r}; expected one of {', '.join(self.generators)}")
        due = track.add(_batch(features, self._dimension))
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
            Arm(name, self._estimates[name], self._tracks[name].statistic.samples, self._batches[name])
            for name in self.generators
        ]


def _reference(reference: Any) -> Reference | None:
    if reference is None or isinstance(reference, Reference):
        return reference
    if isinstance(reference, tuple):
        mean, covariance = reference
        return Reference(mean, covariance)
    rows = _array(reference)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"reference: expected (mean, covariance), or features (n, d) with n ≥ 2, got {rows.shape}")
    check_features(rows, rows.shape[1])
    return Reference(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)))


def _batch(features: ArrayLike | torch.Tensor, dimension: int) -> torch.Tensor:
    rows = _array(features)
    check_features(rows, dimension)
    return torch.from_numpy(rows)


def _array(values: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
    """A float64 copy, so that the caller may write over its own array."""
    plain = values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else values
    return np.array(plain, dtype=np.float64)
