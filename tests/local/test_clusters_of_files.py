"""Files and arrays whose rows come in clusters, such as epochs of a question."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist.datasets.sets import WantedArrays, reader, sets_in
from optimist.local.contrast import contrast_of_sets, mixture_of_sets, question_on
from optimist.local.offline import questions_by, score_files
from optimist_client.embedders import Sentences
from optimist_client.errors import FixError
from optimist_client.metrics import Mean
from optimist_client.rows import Fields
from tests.support.commands import invoked

QUESTIONS, EPOCHS = 30, 4
KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 4}
rng = np.random.default_rng(12)


def mirrored(values: np.ndarray) -> np.ndarray:
    """With the same of the other sign, so that values have no skewness, which would widen a difference."""
    return np.concatenate([values, -values])


HARD = mirrored(rng.standard_normal(QUESTIONS // 2))
VALUES = {
    name: shift + HARD[:, None] + mirrored(0.6 * rng.standard_normal((QUESTIONS // 2, 1))) + mirrored(noise)
    for name, shift, noise in (
        ("ada", 0.0, rng.standard_normal((15, EPOCHS))),
        ("bob", 0.4, rng.standard_normal((15, EPOCHS))),
    )
}
ROWS = {
    name: [
        (f"q{question}", epoch, float(values[question, epoch]))
        for epoch in range(EPOCHS)
        for question in rng.permutation(QUESTIONS)
    ]
    for name, values in VALUES.items()
}


def written(folder: Path, name: str) -> Path:
    file = folder / f"{name}.csv"
    with file.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "epoch", "score"])
        table.writerows(ROWS[name])
    return file


def by_clusters(values: np.ndarray, labels: list[str]) -> float:
    """The cluster-robust variance of a mean, as of statsmodels (cov_type "cluster" of a constant), times 1 + 5/m."""
    names = sorted(set(labels))
    m, n = len(names), len(values)
    scores = values - values.mean()
    meat = sum(float(sum(s for s, label in zip(scores, labels, strict=True) if label == name)) ** 2 for name in names)
    # statsmodels multiplies by m/(m − 1) · (n − 1)/(n − 1), as there is one parameter.
    return meat / n**2 * m / (m - 1) * (1 + 5 / m)


def paired_values() -> tuple[np.ndarray, list[str]]:
    """Differences of the k-th rows of each question, and their questions."""
    labels = [f"q{question}" for question in range(QUESTIONS) for _ in range(EPOCHS)]
    return (VALUES["ada"] - VALUES["bob"]).flatten(), labels


def test_scores_of_epochs_have_cluster_robust_errors(tmp_path: Path):
    files = [written(tmp_path, name) for name in ROWS]
    found = {row.name: row for row in score_files(files, questions_by("mean"), fields=Fields(cluster="id"))}
    for name, rows in ROWS.items():
        expected = by_clusters(np.array([value for *_, value in rows]), [question for question, *_ in rows])
        assert found[name].estimate.stopping_error ** 2 == pytest.approx(expected, rel=1e-9)
        assert found[name].estimate.units == (QUESTIONS, "prompts")
        assert "clusters by the field id" in found[name].basis.text


def test_differences_of_epochs_have_cluster_robust_errors(tmp_path: Path):
    files = {name: written(tmp_path, name) for name in ROWS}
    values, labels = paired_values()
    found = optimist.contrast(files, "mean", paired=True, cluster="id")
    (between,) = found.contrasts
    assert between.standard_error**2 == pytest.approx(by_clusters(values, labels), rel=1e-9)
    assert abs(between.difference) == pytest.approx(abs(values.mean()), rel=1e-9)
    assert between.common == QUESTIONS * EPOCHS
    # As if all samples were independent it would be smaller.
    assert between.standard_error > 1.3 * math.sqrt(values.var(ddof=1) / len(values))
    fields = Fields(cluster="id")
    question = question_on("mean", True)
    same = contrast_of_sets(sets_in([*files.values()], WantedArrays({"values": 1}, fields=fields), True), question)
    assert same.contrasts == found.contrasts


def on_list(values: np.ndarray) -> float:
    """The variance of a mean on exactly these questions, each as often: that within questions."""
    within = float(np.square(values - values.mean(1, keepdims=True)).sum()) / (values.size - len(values))
    return within / values.size * (1 + 5 / values.size)


def test_scores_and_differences_on_exactly_these_questions(tmp_path: Path):
    files = {name: written(tmp_path, name) for name in ROWS}
    found = optimist.contrast(files, "mean", paired=True, cluster="id", prompts_are="list")
    assert "on exactly these prompts" in f"{found}"
    by_list = questions_by("mean", prompts_are="list")
    alone = score_files([*files.values()], by_list, fields=Fields(cluster="id"))
    for row in alone:
        assert row.estimate.stopping_error**2 == pytest.approx(on_list(VALUES[row.name]), rel=1e-9)
        assert found.estimates[row.name].stopping_error == pytest.approx(row.estimate.stopping_error, rel=1e-12)
    (between,) = found.contrasts
    assert between.standard_error**2 == pytest.approx(on_list(VALUES["ada"] - VALUES["bob"]), rel=1e-9)
    shown = invoked("contrast", *files.values(), "--paired", "--cluster", "id", "--prompts-are", "list", "--json")
    assert json.loads(shown.stdout)["contrasts"][0]["standard_error"] == between.standard_error


def test_answers_that_are_repeatable_are_exact_on_their_list():
    once = {name: {"values": values[:, :1], "of": np.arange(QUESTIONS)} for name, values in VALUES.items()}
    how: dict[str, Any] = {"metric": Mean(repeatable=True), "cluster": "of", "prompts_are": "list"}
    found = optimist.contrast(once, paired=True, **how)
    (between,) = found.contrasts
    assert (between.standard_error, found.estimates["ada"].stopping_error) == pytest.approx((0.0, 0.0), abs=1e-8)
    assert between.difference == pytest.approx(abs((VALUES["ada"] - VALUES["bob"])[:, 0].mean()))
    every = {"values": VALUES["ada"].reshape(-1, 1), "of": np.repeat(np.arange(QUESTIONS), EPOCHS)}
    assert "they are not repeatable" in optimist.score(every, **how).warnings[-1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompts_are": "list"}, "in files and arrays those that cluster names; found none"),
        ({"prompts_are": "these", "cluster": "of"}, "expected 'sample' or 'list', got 'these'"),
        ({"metric": Mean(repeatable=True), "cluster": "of"}, "repeatable: expected prompts_are='list'"),
        ({"metric": "kid", "prompts_are": "list", "cluster": "of"}, "metric 'kid' has no score on a list"),
    ],
)
def test_lists_that_cannot_be_are_refused(settings: dict[str, Any], message: str):
    metric = settings.pop("metric", "mean")
    of = {"reference": np.eye(6)[:, :1]} if metric == "kid" else {}
    name = "features" if metric == "kid" else "values"
    rows = {name: np.arange(8.0)[:, None], "of": list("aabbccdd")}
    batch = rows if "cluster" in settings else {name: rows[name]}
    with pytest.raises(FixError, match=message):
        optimist.score(batch, metric, **of, **settings)
    with pytest.raises(FixError, match=message):
        optimist.contrast({"a": batch, "b": batch}, metric, **of, **settings)


def test_arrays_in_memory_name_their_clusters():
    arrays = {
        name: {"values": np.array([[row[2]] for row in rows]), "question": [row[0] for row in rows]}
        for name, rows in ROWS.items()
    }
    found = optimist.contrast(arrays, "mean", cluster="question")
    for name, rows in ROWS.items():
        expected = by_clusters(np.array([row[2] for row in rows]), [row[0] for row in rows])
        alone = optimist.score(arrays[name], "mean", cluster="question")
        assert alone.stopping_error**2 == pytest.approx(expected, rel=1e-9)
        assert found.estimates[name].stopping_error == pytest.approx(alone.stopping_error, rel=1e-12)
    with pytest.raises(FixError, match="expected arrays by name, one of them 'prompt'"):
        optimist.score(arrays["ada"], "mean", cluster="prompt")
    with pytest.raises(FixError, match="expected the bound 'influence'"):
        optimist.score(arrays["ada"], "mean", range=(-9, 9), bound="betting", cluster="question")
    both = {name: {"features": np.eye(4), "of": list("aabb")} for name in ROWS}
    with pytest.raises(FixError, match="mixtures count samples"):
        mixture_of_sets(
            reader(both, {"features": None}, False, Fields(cluster="of")), question_on("rke", kernel=KERNEL)
        )


def test_rows_of_features_count_clusters_too():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(40), 5)
    rows = rng.standard_normal((40, 3))[clusters] + 0.1 * rng.standard_normal((200, 3))
    moments = np.zeros(3), np.eye(3)
    counted = optimist.score({"features": rows, "of": clusters}, "fid", reference=moments, cluster="of")
    plain = optimist.score(rows, "fid", reference=moments)
    assert counted.value == plain.value
    assert counted.design_effect == pytest.approx(5.0, rel=0.1)
    assert counted.stopping_error == pytest.approx(plain.stopping_error * math.sqrt(5.0 * 1.125 / 1.025), rel=0.1)


def test_repeated_ids_need_a_cluster(tmp_path: Path):
    files = [written(tmp_path, name) for name in ROWS]
    refused = " ".join(invoked("contrast", *files, "--paired", code=1).output.split())
    assert "name generators by --by epoch, or let errors count questions by --cluster id" in refused
    found = invoked("contrast", *files, "--paired", "--cluster", "id", "--json")
    values, labels = paired_values()
    (between,) = json.loads(found.stdout)["contrasts"]
    assert between["standard_error"] ** 2 == pytest.approx(by_clusters(values, labels), rel=1e-9)
    refused = " ".join(invoked("score", *files, "--cluster", "question", code=1).output.split())
    assert "no field 'question' (cluster)" in refused


class Numbers(Sentences):
    """Texts are numbers."""

    name = "numbers"

    def __init__(self) -> None:
        pass

    def embed(self, batch: Any) -> np.ndarray:
        return np.array([[float(part) for part in text.split()] for text in batch], np.float32)


def test_compare_counts_the_clusters_of_rows(tmp_path: Path):
    rng, files = np.random.default_rng(5), list[Path]()
    for name in ("ada", "bob"):
        # Four answers to each of 25 questions.
        answers = [
            (question, own + 0.1 * rng.standard_normal())
            for question, own in enumerate(rng.standard_normal(25))
            for _ in range(4)
        ]
        rows = [{"id": question, "text": f"{value} {rng.standard_normal()}"} for question, value in answers]
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    how: dict[str, Any] = {"embed": Numbers(), "reference": (np.zeros(2), np.eye(2)), "stop": False}
    found = optimist.compare(files, fields=Fields(cluster="id"), cache=tmp_path, **how)
    assert found.common == 100
    for row in found.report.standings:
        assert row.samples == 100
        assert 1.5 < row.design_effect < 4.0
    assert "batch" not in "".join(warning for row in found.report.standings for warning in row.warnings)
