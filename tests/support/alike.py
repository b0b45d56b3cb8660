"""An experiment of a service and an evaluation in memory that were told the same."""

from __future__ import annotations

from optimist import Evaluation
from optimist_client import Experiment
from optimist_client.models import Report
from tests.support.processes import scored


def same(experiment: Experiment, evaluation: Evaluation) -> Report:
    """The report, once all is scored: the scores of both are equal to the last bit."""
    report = scored(experiment)
    standings = {row.generator: row for row in report.standings}
    for name, found in evaluation.estimates().items():
        if found is None:
            continue
        row, bracket = standings[name], found.bracket and tuple(map(found.natural, found.bracket))
        expected = (found.score, found.natural(found.lower), found.natural(found.upper), bracket)
        assert (row.score, row.lower, row.upper, row.bracket) == expected, name
    return report
