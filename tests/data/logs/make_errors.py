"""Makes `errors.json`: cluster-robust errors by statsmodels of the scores in `promptfoo/results.json`.

Run it in an environment with statsmodels: `python tests/data/logs/make_errors.py`.
"""

import json
from pathlib import Path

import numpy as np
import statsmodels.api as sm

HERE = Path(__file__).parent


def clustered(values, columns, questions):
    """Coefficients and errors of a regression, with the correction m/(m − 1) for m clusters alone."""
    groups = np.unique(questions, return_inverse=True)[1]
    found = sm.OLS(values, columns).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
    m = len({*questions})
    return found.params[-1], found.bse[-1] * np.sqrt(m / (m - 1))


def main():
    rows = json.loads((HERE / "promptfoo/results.json").read_text())["results"]["results"]
    rows = [row for row in rows if row["failureReason"] != 2]
    model = np.array([row["provider"]["label"] for row in rows])
    question = np.array([row["vars"]["number"] for row in rows])
    answers = {}
    for metric, values in {
        "pass": np.array([float(row["success"]) for row in rows]),
        "score": np.array([float(row["score"]) for row in rows]),
        "brevity": np.array([float(row["namedScores"]["brevity"]) for row in rows]),
    }.items():
        is_small = (model == "small").astype(float)
        alone = {
            name: clustered(values[model == name], np.ones(sum(model == name)), question[model == name])
            for name in ("large", "small")
        }
        difference = clustered(values, np.column_stack([np.ones(len(values)), is_small]), question)
        answers[metric] = {"means": alone, "small less large": difference}
    (HERE / "errors.json").write_text(f"{json.dumps(answers, indent=1)}\n")


main()
