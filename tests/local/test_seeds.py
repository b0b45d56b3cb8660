"""Generators that ignore seeds, in memory: their samples have no indices."""

from __future__ import annotations

import numpy as np
import pytest

from optimist import Evaluation, run


def test_samples_of_a_generator_that_ignores_seeds_are_not_compared_by_index():
    rng = np.random.default_rng(0)
    rows = rng.random((40, 1))
    for seeds, is_compared in ((True, True), ({"b": False}, False), (False, False)):
        evaluation = Evaluation(["a", "b"], metric="mean", seeds=seeds)
        for name, shift in (("a", 0.0), ("b", 0.1)):
            evaluation.tell(name, rows + shift)
        assert evaluation.next_start("b") == 40
        found = evaluation.estimates()["b"]
        assert (found.pairing is not None and bool(np.isfinite(found.pairing.influence).any())) == is_compared


def test_a_run_takes_seeds_and_refuses_unknown_names():
    generators = {name: lambda size, seed: np.random.default_rng(seed).random((size, 1)) for name in "ab"}
    report = run(generators, metric="mean", seeds={"a": False}, budget=40, stop=False, progress=False)
    assert report.samples == 40
    with pytest.raises(ValueError, match="seeds: no generator is called c"):
        run(generators, metric="mean", seeds={"c": False}, progress=False)
    with pytest.raises(ValueError, match="expected true or false, got 'no'"):
        run(generators, metric="mean", seeds="no", progress=False)
