"""Evaluations in memory by scores of rows whose samples come in clusters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist.experiments.slices import prompt_order

WIDTH, BATCH = 3, 5
REAL = np.zeros(WIDTH), np.eye(WIDTH)
FID: dict[str, Any] = {"metric": "fid", "reference": REAL, "batch_size": BATCH, "rescore_growth": 0.0}


def told(evaluation: Evaluation, prompts: int, samples: int, begin: int = 0) -> None:
    """Tell rows of generators that answer a prompt nearly alike whenever it is asked; b is worse."""
    rng = np.random.default_rng(4)
    effects = {"a": rng.standard_normal((prompts, WIDTH)), "b": 2.0 + rng.standard_normal((prompts, WIDTH))}
    for start in range(begin, samples, BATCH):
        order = prompt_order(prompts, 0, start, BATCH)
        for name, effect in effects.items():
            rows = effect[order] + 0.1 * np.random.default_rng((start, ord(name))).standard_normal((BATCH, WIDTH))
            evaluation.tell(name, rows, prompt_indices=order if evaluation.state.config.prompts else None)


@pytest.mark.long
def test_prompts_that_come_again_are_counted(tmp_path: Path):
    few, many, plain = (
        Evaluation(["a", "b"], prompts=prompts, **FID)
        for prompts in ([f"{n}" for n in range(12)], [f"{n}" for n in range(25)], None)
    )
    told(few, 12, 60)
    assert not few.decision().decided
    assert few.decision().reason == "fewer than 20 prompts of a, b"
    told(many, 25, 100)
    told(plain, 25, 100)
    assert many.decision().decided
    seen = len({*prompt_order(25, 0, 0, 100)})
    for name, before in plain.estimates().items():
        found = many.estimates()[name]
        assert (found.units, before.units) == ((seen, "prompts"), (100, "samples"))
        assert found.value == before.value
        # Samples of a prompt count as one.
        assert found.stopping_error > 1.7 * before.stopping_error
    many.save(tmp_path / "kept.npz")
    restored = Evaluation.load(tmp_path / "kept.npz")
    for one in (many, restored):
        told(one, 25, 120, 100)
    assert restored.estimates() == many.estimates()


def test_a_prompt_that_is_repeated_is_one_cluster():
    evaluation = Evaluation(["a"], prompts=["cat", "dog", "cat"], **FID)
    rows = np.random.default_rng(0).standard_normal((9, WIDTH))
    evaluation.tell("a", rows, prompt_indices=[0, 1, 2] * 3)
    assert evaluation.estimates()["a"].units == (2, "prompts")


def test_batches_are_counted_where_they_are_clusters():
    evaluation = Evaluation(["a", "b"], clusters="batch", **FID)
    told(evaluation, 25, 95)
    assert evaluation.decision().reason == "fewer than 20 batches of a, b"
    told(evaluation, 25, 100, 95)
    assert evaluation.decision().decided
    assert evaluation.estimates()["a"].units == (20, "batches")


def test_clusters_need_standard_errors():
    with pytest.raises(ValueError, match="clusters: 'batch' needs the bound 'influence'"):
        Evaluation(["a", "b"], clusters="batch", metric="fid", reference=REAL, bound="theorem", policy="ucb")
