"""Reports with watched metrics and costs: as text, HTML, data frames and plots, and where metrics disagree."""

from __future__ import annotations

from importlib import import_module

import pytest

from optimist_client import NotFoundError
from optimist_client.metrics import FID, RKE
from optimist_client.models import DecisionInfo, Report, WatchedReport
from tests.support.reports import report as one_metric
from tests.support.reports import standings, watched


def report(*metrics: WatchedReport, **fields: object) -> Report:
    made = {"standings": standings({"b <i>": 2.0, "c": 4.0, "a": 1.0}), "samples": 300, "rounds": 60}
    return one_metric("a", uniform_samples=900, watched={one.label: one for one in metrics}, **{**made, **fields})


def test_without_watched_metrics_a_report_is_as_before():
    assert "By metric" not in str(report())
    assert "watched" not in report().to_dict()
    assert report().disagreement == ""


def test_text_has_a_table_of_generators_and_metrics():
    lines = str(report(watched("rke", "b <i>"), watched("vendi", None))).splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].startswith("By metric (↓ lower is better, ↑ higher is better")
    assert table[1].split("  ")[0] == "generator"
    assert [part.strip() for part in table[1].split("  ") if part.strip()][1:] == ["FID ↓, decides", "RKE ↑", "VENDI ↑"]
    assert [line.split("  ")[0] for line in table[2:]] == ["a", "b <i>", "c"]
    assert "1.000 (0.500 to 1.500) *" in table[2]
    assert "3.000 (2.500 to 3.500) *" in table[3]
    assert [line.count("*") for line in table[2:]] == [1, 1, 0]
    assert table[4].count("…") == 2


def test_html_escapes_names_and_has_the_warnings_of_all_metrics():
    rows = standings({"b <i>": None}, warnings=("not scored: <torn>",), incomplete=True)
    shown = report(watched("rke", None, None, standings=[*standings({"a": 2.0, "c": 1.0}), *rows]))._repr_html_()
    assert shown.count("<table>") == 2
    assert "b <i>" not in shown
    assert "<torn>" not in shown
    assert "RKE: b &lt;i&gt;: not scored: &lt;torn&gt;." in shown


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        ([("rke", "a", 0.9, False)], ""),
        ([("rke", None, None, False)], ""),
        (
            [("rke", "b <i>", 0.991, True)],
            "Metrics disagree on the best: FID (97.0% confidence), which decides, names a; "
            "RKE (99.1% confidence) names b <i>.",
        ),
        (
            [
                ("rke", "b <i>", 0.5, False),
                ("vendi", "b <i>", 0.001, False),
                ("is", "a", 0.6, True),
                ("ken", "c", None, False),
            ],
            "Metrics disagree on the best: FID (97.0% confidence), which decides, names a; RKE (50.0% confidence) and "
            "VENDI name b <i>; KEN names c; IS (60.0% confidence) agrees with FID. No metric that disagrees is sure.",
        ),
    ],
)  # fmt: skip
def test_a_sentence_says_where_metrics_disagree(
    metrics: list[tuple[str, str | None, float | None, bool]], sentence: str
):
    known = [watched(label, best, confidence, sure=sure) for label, best, confidence, sure in metrics]
    made = report(*known)
    assert made.disagreement == sentence
    assert (sentence in made.sentences) == bool(sentence)
    undecided = report(*known, decision=DecisionInfo(best=None, confidence=None, decided=False, reason="none"))
    assert undecided.disagreement == ""


def test_a_watched_report_survives_the_wire():
    made = report(watched("rke", "b <i>"))
    assert Report.model_validate_json(made.model_dump_json()) == made
    assert made.to_dict()["watched"]["rke"]["confidence_text"] == "90.0%"


def test_frames_have_columns_by_metric():
    pytest.importorskip("pandas")
    made = report(watched("rke", "b <i>"))
    frame = made.to_pandas()
    assert list(frame.index) == ["a", "b <i>", "c"]
    assert list(frame["rke:score"][:2]) == [2.0, 3.0]
    assert frame["rke:score"].isna()["c"]
    assert list(frame["rke:upper"][:2]) == [2.5, 3.5]
    own = made.watched["rke"].to_pandas()
    assert list(own.index) == ["b <i>", "a", "c"]
    assert "rke:score" not in own.columns


def test_a_plot_shows_the_metric_of_a_label():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    made = report(watched("rke", "b <i>"))
    axes = made.plot(metric="rke")
    assert axes.get_xlabel() == "RKE (higher is better)"
    assert axes.get_title() == "digits\nFID, 300 samples, decided"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b <i> (100)", "a (100)", "c (100)"]
    import_module("matplotlib.pyplot").close("all")
    with pytest.raises(NotFoundError):
        made.plot(metric="fid-2")


def test_costs_are_said_with_what_uniform_sampling_would_have_taken():
    made = report(cost=312.0, decision_cost=300.0, uniform_cost=3110.4)
    assert str(made).splitlines()[0] == "digits: FID, 300 samples, cost 312 (300 at the decision), decided"
    assert made.sentences[-1] == "Uniform sampling would have cost about 3,110 (10.0 times)."
    assert "at the decision" not in str(report(cost=312.0, decision_cost=312.0))


def test_a_metric_is_titled_apart_from_others_of_its_class():
    kernel = {"name": "gaussian", "sigma": 1.0, "features": 8}
    rke = {"kernel": kernel, "dimension": 4}
    assert FID().shown_title == "FID"
    assert FID(reads="dinov2").shown_title == "FID (dinov2)"
    assert FID(label="clean", reads="dinov2").shown_title == "FID (clean)"
    assert RKE.model_validate({**rke, "label": "rke"}).shown_title == "RKE"
