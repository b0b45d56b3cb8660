"""What people who know other packages look for: best, direction, plots of regret and picks, the same run in memory."""

from __future__ import annotations

import numpy as np
import pytest

import optimist
from optimist_client import FixError, Optimist
from optimist_client.metrics import Mean

SHIFTS = {"a": 1.0, "b": 0.0}


def drawing(generator: str):
    return lambda size, seed: np.random.default_rng(seed).standard_normal((size, 4)) + SHIFTS[generator]


GENERATORS = {generator: drawing(generator) for generator in SHIFTS}


@pytest.mark.long
def test_a_run_in_memory_is_the_run_of_a_service(client: Optimist, name: str, reference):
    # With a long wait for estimates, so that picks do not depend on how busy the machine is.
    experiment = client.create_experiment(name, list(SHIFTS), reference=reference, direction="minimize", max_wait=60)
    assert experiment.best is None
    served = experiment.run(GENERATORS)
    here = optimist.run(GENERATORS, reference=reference, direction="minimize", name=name)
    assert experiment.best == here.decision.best == "b"
    assert [(row.generator, row.samples) for row in served.standings] == [
        (row.generator, row.samples) for row in here.standings
    ]
    for row, other in zip(served.standings, here.standings, strict=True):
        assert row.score == pytest.approx(other.score, rel=1e-9)
        assert row.standard_error == pytest.approx(other.standard_error, rel=1e-9)
    assert served.decision.decided
    assert here.decision.confidence == pytest.approx(served.decision.confidence)

    report = experiment.report(charts=True)
    (regret,) = report.plot_regret().get_lines()
    assert regret.get_ydata()[-1] == pytest.approx(report.regret.total)
    shares = {line.get_label(): line.get_ydata()[-1] for line in report.plot_picks().get_lines()}
    assert shares == pytest.approx({row.generator: row.pick_ratio for row in report.standings})
    with pytest.raises(ValueError, match=r"experiment\.report\(charts=True\)"):
        experiment.report().plot_picks()


def test_a_wrong_direction_is_refused(client: Optimist, name: str, reference):
    for wrong, said in (("maximize", "lower scores of 'fid' are better"), ("up", "expected 'minimize' or 'maximize'")):
        with pytest.raises(FixError, match=said):
            client.create_experiment(name, ["a"], reference=reference, direction=wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match=said):
            optimist.Evaluation(["a"], reference=reference, direction=wrong)
    assert optimist.Evaluation(["a"], metric=Mean(), direction="maximize").best is None
    with pytest.raises(FixError, match="higher scores of 'mean' are better"):
        client.create_experiment(name, ["a"], metric=Mean(higher_is_better=True), direction="minimize")


def test_a_mean_takes_the_direction(client: Optimist, name: str):
    for number, metric in enumerate(("mean", Mean(), Mean(range=(0.0, 9.0)))):
        made = client.create_experiment(f"{name}-{number}", ["a", "b"], metric=metric, direction="minimize")
        again = client.create_experiment(f"{name}-{number}", ["a", "b"], metric=metric, direction="minimize")
        assert made.report().lower_is_better
        assert again.info.config == made.info.config
        assert not client.create_experiment(f"{name}-{number}-up", ["a"], metric=metric).report().lower_is_better
        here = optimist.Evaluation(["a", "b"], metric=metric, direction="minimize")
        assert here.report().lower_is_better
