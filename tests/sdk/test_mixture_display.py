"""Mixtures as text, HTML, a data frame and a plot; reports and progress of the goal "mixture"."""

from __future__ import annotations

import io
from importlib import import_module

import pytest

from optimist_client.models import DecisionInfo, Mixture, MixtureWeight, Report
from optimist_client.models.decisions import recipe
from optimist_client.progress import Line
from tests.support import reports
from tests.support.reports import standings

WEIGHTS = {"a": 0.38, "b <i>": 0.62, "c": 0.0}


def mixture(weights: dict[str, float] = WEIGHTS, **fields: object) -> Mixture:
    made = {"experiment": "digits", "label": "rke", "title": "RKE", "lower_is_better": False, "scale": "log"}
    made["weights"] = [
        MixtureWeight(generator=name, weight=weight, samples=400, contribution=weight / 10.0)
        for name, weight in weights.items()
    ]
    made |= {"score": 14.2, "standard_error": 0.3, "lower": 13.6, "upper": 14.8, "best": "b <i>", "best_score": 12.6}
    made |= {"gain": 0.116, "gain_standard_error": 0.028, "gain_lower": 0.061, "gain_upper": 0.171}
    made |= {"confidence": 0.9991, "gap": 0.001, "gap_bound": 0.008, "samples": 1200, "positions": [80, 80, 80]}
    return Mixture.model_validate({**made, **fields})


def report(**fields: object) -> Report:
    decision = DecisionInfo(
        best="b <i>", confidence=0.999, decided=True, reason="no mixture is better", weights=WEIGHTS
    )
    made = {"goal": "mixture", "metric": "rke", "title": "RKE", "lower_is_better": False, "scale": "log"}
    made |= {"decision": decision, "standings": standings(dict.fromkeys(WEIGHTS, 11.0)), "uniform_samples": None}
    return reports.report(**{**made, "samples": 1200, **fields})


def test_text_has_the_largest_weight_first_and_what_the_mixture_gains():
    title, head, first, second, third, *said = str(mixture()).splitlines()
    assert title == "digits: best mixture by RKE, 1,200 samples"
    assert (head.split("  ")[0], first.split()[:3], second.split()[:2], third.split()[1:]) == (
        "generator",
        ["b", "<i>", "62.0%"],
        ["a", "38.0%"],
        ["0.0%", "400", "not", "worse"],
    )
    assert said == [
        "The best mixture is 62% b <i> + 38% a: RKE 14.200 (13.600 to 14.800), "
        "better than b <i> alone by 12.3% (6.3 to 18.6%).",
        "No mixture of these generators is better than this one by more than 0.803%.",
    ]


ALONE = "No mixture is better than b <i> alone, as far as the samples show: RKE 12.600."
SMALL = {"title": "MMD²", "score": 0.000586, "standard_error": 0.00027, "lower": -0.0000001, "upper": 0.00112}
LINEAR = {"scale": "linear", "lower_is_better": True}


@pytest.mark.parametrize(
    ("weights", "fields", "said"),
    [
        ((0.0, 1.0), {"gain": 0.0}, ALONE),
        ((0.0, 1.0), {"gain": -0.01}, ALONE),
        ((0.003, 0.997), {"gain": 0.0001}, "No mixture is better than b <i> alone"),
        ((0.997, 0.003), {"gain": 0.1}, "The best mixture is 100% a"),
        ((0.38, 0.62), {"gain_lower": -0.01}, ", too close to call against b <i> alone: better by 12% (-1 to 19%)."),
        ((0.38, 0.62), {**SMALL, **LINEAR, "best_score": 0.01, "gain": 0.0097}, "MMD² 0.00059 (0.00000 to 0.00112)"),
        ((0.38, 0.62), {"title": "FID", **LINEAR, "gain": -0.1, "best_score": 0.0}, "FID 0 (below noise)."),
    ],
)
def test_the_first_sentence_says_whether_a_mixture_is_better(
    weights: tuple[float, float], fields: dict[str, object], said: str
):
    assert said in mixture(dict(zip(WEIGHTS, weights, strict=False)), **fields).sentences[0]


def test_warnings_and_old_mixtures_are_said():
    said = mixture(stale=True, warnings=("few samples of a",)).sentences
    assert said[2:] == [
        "More samples, or generators, have come since the mixture was made.",
        "Warning: few samples of a.",
    ]
    shown = mixture()._repr_html_()
    assert "b &lt;i&gt;" in shown
    assert "<i>" not in shown


def test_a_data_frame_has_a_row_per_generator():
    frame = mixture().to_pandas()
    assert list(frame.index) == ["b <i>", "a", "c"]
    assert frame.loc["a"].to_dict() == {"weight": 0.38, "samples": 400, "contribution": pytest.approx(0.038)}


def test_a_plot_has_a_bar_per_generator():
    import_module("matplotlib").use("Agg")
    axes = mixture().plot()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([62.0, 38.0, 0.0])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b <i> (400)", "a (400)", "c (400)"]
    assert mixture().plot(axes) is axes
    import_module("matplotlib.pyplot").close(axes.figure)


def test_a_recipe_names_the_largest_weights():
    assert recipe({"a": 1.0, "b": 0.0}) == "100% a"
    many = {f"g{n}": 0.1 for n in range(10)}
    assert recipe(many) == "10% g0 + 10% g1 + 10% g2 + 10% g3 + 10% g4 and 5 more"


def test_the_report_speaks_of_the_mixture():
    made = report(mixture=mixture())
    assert made.sentences == [
        "Best: 62% b <i> + 38% a after 1,200 samples: RKE 14.200 (13.600 to 14.800), "
        "better than b <i> alone by 12.3% (6.3 to 18.6%).",
        "No mixture is better.",
        mixture().gap_text,
    ]
    assert " weight " in str(made).splitlines()[1]
    assert "is best" not in str(made)


def test_the_report_before_the_first_mixture():
    unknown = {"best": None, "confidence": None, "decided": False, "reason": "no mixture yet"}
    made = report(state="out of budget", decision=DecisionInfo(**unknown, warnings=("odd batches",)))
    assert made.sentences == ["No mixture yet after 1,200 samples.", "No mixture yet.", "Warning: odd batches."]


def test_the_progress_of_a_run_shows_the_weights():
    file = io.StringIO()
    line = Line("digits", 2000, file)
    line.update(1200, report().decision)
    line.close()
    assert file.getvalue().splitlines()[-1] == (
        "digits: 1,200 of 2,000 samples  62% b <i> + 38% a (better than b <i>: 99.9%)"
    )
    assert report().decision.rank == "leads"


def test_reports_on_the_best_generator_say_nothing_of_mixtures():
    sent = report(goal="best", decision=DecisionInfo(best="a", confidence=None, decided=False, reason="")).model_dump()
    assert not {"goal", "mixture"} & sent.keys()
    assert "weights" not in sent["decision"]


def test_the_bound_is_said_once_and_a_report_on_the_best_generator_has_its_mixture():
    made = mixture()
    decision = DecisionInfo(best="b <i>", confidence=0.999, decided=True, reason="no other is better by 0.803%")
    assert made.gap_text not in report(mixture=made, decision=decision).sentences
    assert made.gap_text in report(mixture=made).sentences
    assert made.sentences[0] in report(mixture=made, goal="best").sentences
