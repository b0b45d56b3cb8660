"""Rows that are there more than once, rows of the reference, and rows that are all equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import optimist
from optimist.anomalies.copies import copies_among, hashes_of
from tests.support.commands import invoked
from tests.support.reports import unwrapped

RNG = np.random.default_rng(0)
REAL, GOOD = RNG.standard_normal((1000, 16)), RNG.standard_normal((100, 16))
KERNEL = {"name": "gaussian", "sigma": 4.0, "features": 64}


def test_equal_rows_have_equal_hashes_whatever_their_type():
    rows = np.random.default_rng(0).integers(0, 3, (5000, 12)).astype(np.float32)
    hashes = hashes_of(rows)
    assert len(np.unique(hashes)) == len(np.unique(rows, axis=0))
    np.testing.assert_array_equal(hashes_of(rows.astype(np.float64)), hashes)
    np.testing.assert_array_equal(hashes_of(-np.zeros((2, 3))), hashes_of(np.zeros((2, 3))))
    found = copies_among(hashes[:100], hashes[50:150])
    assert (found.rows, found.shared >= 50) == (100, True)


@pytest.mark.parametrize(
    ("metric", "how"), [("fid", {"reference": REAL}), ("kid", {"reference": REAL}), ("vendi", {"kernel": KERNEL})]
)
def test_the_interval_of_a_gathered_copy_counts_distinct_rows(metric: str, how: dict):
    one, four = (optimist.score(rows, metric, **how) for rows in (GOOD, np.tile(GOOD, (4, 1))))
    assert four.standard_error == one.standard_error
    assert four.upper - four.lower == pytest.approx(one.upper - one.lower)
    assert four.samples == 400
    assert "every row is there 4 times (100 of 400 rows are distinct)" in four.warnings[-1]
    assert not [text for text in one.warnings if "row" in text and "distinct" in text]


def test_rows_that_repeat_unequally_are_warned_about_and_stay():
    rows = np.concatenate([REAL[:90] + 0.1, np.tile(REAL[:1] + 0.1, (10, 1))])
    found = optimist.score(rows, "fid", reference=REAL)
    assert any("10 of 100 rows repeat others (90 are distinct)" in text for text in found.warnings)
    few = optimist.score(np.concatenate([rows[:90], RNG.standard_normal((300, 16))]), "fid", reference=REAL)
    assert not any("repeat" in text for text in few.warnings)


def test_means_and_probabilities_may_repeat():
    assert optimist.score(np.tile([[0.0], [1.0]], (50, 1)), "mean").warnings == ()
    assert not [text for text in optimist.score(np.tile(np.eye(5), (20, 1)), "is").warnings if "row" in text]


def test_nothing_is_known_of_the_error_of_equal_rows():
    found = optimist.score(np.ones((200, 16)), "fid", reference=REAL)
    assert (found.standard_error, np.isinf(found.upper)) == (None, True)
    assert "all 200 rows are equal" in found.warnings[-1]


def test_equal_rows_have_a_score_where_their_distances_fix_the_bandwidth():
    evaluation = optimist.Evaluation(["a", "b"], metric="rke", kernel={"sigma": "median"}, batch_size=128)
    for _ in range(4):
        for name in ("a", "b"):
            evaluation.tell(name, np.ones((128, 4)))
    report = evaluation.report()
    assert ([row.score for row in report.standings], report.state_text) == ([1.0, 1.0], "running")
    assert all("all 512 rows are equal" in row.warnings[-1] for row in report.standings)


def test_files_say_what_they_share(tmp_path: Path):
    for name, rows in {"real": REAL, "honest": GOOD, "memorised": REAL[:100], "again": GOOD}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    files = [tmp_path / f"{name}.npy" for name in ("honest", "memorised", "again")]
    for command in ("score", "contrast"):
        out = invoked(command, *files, "--reference", tmp_path / "real.npy", code=0).stdout
        assert "memorised: 100 of 100 rows are rows of the reference" in out
        assert "again: 100 of 100 rows are rows of honest" in out
        assert "Rests on 100 rows each, 100 of memorised of the reference." in out


def test_a_contrast_and_a_mixture_count_distinct_rows():
    sets = {"a": GOOD, "b": GOOD + 0.3}
    once, often = (
        optimist.contrast({name: np.tile(rows, (times, 1)) for name, rows in sets.items()}, reference=REAL)
        for times in (1, 4)
    )
    assert once.contrasts[0].standard_error == pytest.approx(often.contrasts[0].standard_error)
    assert often.basis.distinct == {"a": 100, "b": 100}
    mixed = optimist.mixture({name: np.tile(rows, (4, 1)) for name, rows in sets.items()}, reference=REAL)
    assert mixed.basis is not None
    assert mixed.basis.distinct == {"a": 100, "b": 100}
    assert str(mixed).splitlines()[-1] == mixed.basis.text
    assert mixed.basis.text in mixed._repr_html_()
    assert any("every row is there 4 times" in text for text in mixed.warnings)


def test_a_decision_that_rests_on_real_rows_is_provisional(tmp_path: Path):
    def told(**settings: str) -> optimist.Evaluation:
        evaluation = optimist.Evaluation(["honest", "memorised"], reference=REAL, **settings)
        for start in range(0, 400, 50):
            evaluation.tell("honest", np.random.default_rng(start).standard_normal((50, 16)) + 1.0)
            evaluation.tell("memorised", REAL[start : start + 50])
        return evaluation

    evaluation = told()
    evaluation.save(tmp_path / "saved.npz")
    for one in (evaluation, optimist.Evaluation.load(tmp_path / "saved.npz")):
        report = one.report()
        assert (report.decision.best, report.decision.decided, report.decision.provisional) == ("memorised", True, True)
        assert "400 of 400 rows are rows of the reference" in unwrapped(report)
        assert report.basis is not None
        assert report.basis.shared == {"memorised": 400}
    assert evaluation.accept("memorised")
    assert not evaluation.report().decision.provisional
    assert not told(on_anomaly="ignore").report().decision.provisional
