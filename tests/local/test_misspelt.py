"""What is misspelt, or given where something else belongs, is told what was meant, in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import optimist
from optimist_client import FixError
from optimist_client.metrics import FID, RKE, Mean
from optimist_client.metrics.texts import parts, split

Z = np.random.default_rng(0).standard_normal((60, 4))
REF = (np.zeros(4), np.eye(4))
BOTH: dict[str, Any] = dict.fromkeys("ab", lambda size, seed: np.zeros(size))
EMBED = "expected a function of the samples, got 'inception'; `optimist_client.embedders` has some"
KERNEL = ": it is part of a kernel, kernel={'sigma': …}, as text kernel.sigma=…"
RANGE = "range: expected the least and the largest value, such as (0, 10); got 10"
SETS = (
    "expected one set of samples, with the array features; got a, b: `optimist.contrast` compares several sets by name"
)
wrong: Any = {"refernce": 1}

MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: optimist.run(BOTH, metrc="mean"), "metrc: unknown, did you mean metric?"),
    (lambda: optimist.run(BOTH, metric="mean", max_sample=5), "max_sample: unknown, did you mean max_samples?"),
    (
        lambda: optimist.run(BOTH, metric="mean", range=10),
        "range: unknown: it is a setting of a metric, given in it, as text metric='…:range=…'",
    ),
    (
        lambda: optimist.Evaluation(["a", "b"], metric="mean", tolerence=0.1),  # pyright: ignore[reportCallIssue]
        "tolerence: unknown, did you mean tolerance?",
    ),
    (
        lambda: optimist.score(Z, "fid", referense=REF),
        "metric 'fid' takes reference; it does not take referense, did you mean reference?",
    ),
    (
        lambda: optimist.score(Z, "rke", sigma=10),
        f"metric 'rke' takes dimension, kernel; it does not take sigma{KERNEL}",
    ),
    (lambda: optimist.run(BOTH, metric="rke", sigma=10), f"sigma: unknown{KERNEL}"),
    (lambda: RKE(sigma=10), f"sigma: unknown field{KERNEL}"),  # pyright: ignore[reportCallIssue]
    (lambda: FID(**wrong), "refernce: unknown field, did you mean reference?"),
    (lambda: Mean(range=10), RANGE),  # pyright: ignore[reportArgumentType]
    (lambda: optimist.score(Z[:, 0], "mean", range=10), RANGE),
    (lambda: optimist.run(BOTH, "inception", metric="mean"), f"embed: {EMBED}"),  # pyright: ignore[reportArgumentType]
    (lambda: optimist.run(BOTH, {"values": "inception"}, metric="mean"), f"embed: 'values': {EMBED}"),  # pyright: ignore[reportArgumentType]
    (
        lambda: optimist.run(BOTH, reference=(np.zeros(3), np.eye(4))),
        "covariance: expected shape (3, 3) to go with the mean, got (4, 4)",
    ),
    (lambda: optimist.score({"a": Z, "b": Z}, "fid", reference=REF), SETS),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[said[:40] for _, said in MISTAKES])
def test_what_was_meant_is_said_in_one_line(mistake: Callable[[], Any], said: str):
    with pytest.raises(FixError) as refused:
        mistake()
    assert str(refused.value) == said


def test_percentages_are_called_so():
    rows = np.random.default_rng(0).dirichlet(np.ones(10), 100)
    with pytest.raises(FixError, match=r"These are percentages: divide them by 100$"):
        optimist.score(100.0 * rows, "is")
    with pytest.raises(FixError, match=r"Logits must go through a softmax first$"):
        optimist.score(np.log(rows), "is")


def test_a_range_needs_no_brackets_in_a_text():
    assert parts("mean:range=0,10,higher_is_better=false") == parts("mean:range=[0,10],higher_is_better=false")
    assert parts("mean:reads=a,range=-1.5,1e3")[1] == {"reads": "a", "range": [-1.5, 1000.0]}
    assert split("kid,mean:range=0,10,vendi:kernel.sigma=10,order=2") == [
        "kid",
        "mean:range=0,10",
        "vendi:kernel.sigma=10,order=2",
    ]
    with pytest.raises(FixError, match="expected name:setting=value"):
        parts("mean:range=0,ten")


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("rke:sigma=-1", f"it does not take sigma{KERNEL}"),
        ("rke:kernel.sigma=-1", "sigma must be positive and finite, not -1.0"),
        ("vendi:order=-1", "order: expected at least 1e-06, got -1.0"),
        ("mean:range=5,1", "range: expected the least value and a larger one, got 5 and 1"),
        ("kid", "the metric 'kid' needs a reference: real features (n, d)"),
    ],
)
def test_settings_of_metrics_are_checked_before_a_run_generates_anything(metric: str, said: str):
    called: list[int] = []
    counted: Any = lambda *given, **_: called.append(1)  # noqa: E731
    with pytest.raises(FixError) as refused:
        optimist.run({"a": counted, "b": counted}, counted, metric=metric)
    assert str(refused.value).endswith(said)
    assert not called
