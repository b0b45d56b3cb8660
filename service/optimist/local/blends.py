"""The best blend of generators whose samples are already there: `mixture`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from optimist.estimation.arrays import Batch
from optimist.estimation.artefacts import check_blends, mixture_of
from optimist.estimation.question import Question, declared_of
from optimist.local.sets import Samples, reader, seen, tracked
from optimist.metrics.devices import find_device
from optimist.policies import Stopping, shown_mixture
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.models import Mixture


def mixture(
    samples: Mapping[str, Batch | str | Path],
    metric: str | Metric = "fid",
    *,
    paired: bool = False,
    reference: Any = None,
    order: float = 1.0,
    truncation: int | None = None,
    kernel: Mapping[str, Any] | None = None,
    delta: float = 0.05,
    device: str = "cpu",
) -> Mixture:
    """The best blend of some generators, of each a set of samples by name: arrays (n, d), or files.

    It has the weights of the blend, its score, what it gains over the best single generator with an error, and by how
    much another blend may be better; `print` shows them. The weights come from one half of the samples, the scores from
    the other, and the other way round. The metric is one whose blends have a score: "fid", "rke", "vendi" without
    truncation, "mmd" or "cmmd"; its settings are those of `score`, and open kernels are fixed by the first rows of all
    sets. With `paired`, row i of every set was made from the same seed or prompt. Raises FixError for invalid samples
    (naming the set), for fewer than 4 of one, and for invalid settings.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal((400, 2))
    >>> found = mixture({"left": z[:200] - (2, 0), "right": z[200:] + (2, 0)}, "rke", kernel=dict(
    ...     name="gaussian", sigma=1.0, features=100))
    >>> [round(one.weight, 1) for one in found.weights], found.confidence > 0.99
    ([0.5, 0.5], True)
    """
    place = find_device(device)
    given = {"reference": reference, "order": order, "truncation": truncation, "kernel": kernel}
    question = Question(declared_of(metric, place, **given), "influence", delta, device=place, paired=paired)
    return blend_of(reader(samples, question), question)


def blend_of(
    sets: Callable[[], Iterable[Samples]], question: Question, begun: Callable[[str], None] = lambda name: None
) -> Mixture:
    """The best blend of the sets, which are read twice, in the same order, so that one is in memory at a time.

    `begun` is called with the name of each set before it is read the second time. Raises FixError as `mixture` does.
    """
    check_blends(question)
    if question.is_exact:
        raise FixError("kernel: features=None, the exact kernel, has no blends: a mixture needs features=r")
    names, _, first = seen(sets(), question)
    if len(names) < 2:
        raise FixError(f"expected two or more sets of samples to blend, got {len(names)}")
    question = question.fitted(first)
    tracks = {name: track for _, name, track in tracked(sets(), names, question, begun)}
    return shown_mixture(mixture_of(tracks), question.metric, Stopping(question.delta))
