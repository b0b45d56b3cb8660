"""Reports as text, HTML, a data frame, tables and a plot, with watched metrics and costs; the progress of runs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from optimist_client import FixError, NotFoundError, Optimist, progress
from optimist_client.metrics import FID, RKE
from optimist_client.models import (
    Basis,
    Contrast,
    DecisionInfo,
    HardestRival,
    Rank,
    Ranking,
    Report,
    Standing,
    WatchedReport,
)
from optimist_client.models.decisions import BELOW_NOISE_NOTE, LimitVerdict, format_score
from optimist_client.models.reports import ALL_AT_ONCE
from optimist_client.progress import Line, RichBar, counted, expected_total, shown
from tests.support.reports import report, standing, standings, unwrapped, watched


def test_text_has_the_best_first_and_the_answer():
    lines = str(report()).splitlines()
    assert lines[0] == "digits: FID, 4,500 samples, decided"
    assert [line.split("  ")[0] for line in lines[2:5]] == ["b <i>", "a", "none"]
    assert lines[5] == "Best: b <i> with 97.0% confidence after 4,500 samples: FID 1.000 (0.500 to 1.500)."
    assert lines[6:] == [
        "Sure.",
        "Warning: b <i>: few samples.",
        "Uniform sampling would have spent about 9,000 samples (2.0 times).",
    ]
    assert len({len(line) for line in lines[1:5]}) == 1
    assert repr(report()) == str(report())


def contrast(generator: str, difference: float, margin: float | None, **fields: object) -> Contrast:
    known = {"against": "b <i>", "scale": "linear", "standard_error": margin and margin / 1.96}
    interval = (None, None) if margin is None else (difference - margin, difference + margin)
    known |= {"lower": interval[0], "upper": interval[1], "correlation": 0.9, "common": 180}
    return Contrast.model_validate({"generator": generator, "difference": difference, **known, **fields})


def paired(**fields: object) -> Report:
    """A report of a best generator, one whose interval overlaps the best one's, and one far behind."""
    rows = [standing("near", 1.6), standing("far", 3.0), standing("none", None), standing("b <i>", 1.0)]
    apart = [contrast("near", 0.6, 0.1), contrast("far", 2.0, 0.3, correlation=0.5, common=60)]
    return report(**{"standings": rows, "contrasts": apart, **fields})


@pytest.mark.parametrize(
    ("difference", "margin", "scale", "text"),
    [
        (0.9523, 0.592, "linear", "0.95 (0.36 to 1.54)"),
        (1234.5, 12.3, "linear", "1,234 (1,222 to 1,247)"),
        (-0.001, 0.3, "linear", "0.00 (-0.30 to 0.30)"),
        (0.25, 0.0, "linear", "0.25"),
        (0.5, None, "linear", "0.5"),
        (float("1e9"), 2e9, "linear", "1e+09 (-1e+09 to 3e+09)"),
        (0.032, 0.004, "log", "3.25% (2.84 to 3.67%)"),
        (0.4, 0.399, "linear", "0.400 (0.001 to 0.799)"),
        (0.5, None, "log", "64.9%"),
        (math.log(22.3), math.log(2.0), "log", "a factor of 22.3 (11.1 to 44.6)"),
        (0.8, 0.9, "log", "123% (-10 to 447%)"),
        (0.8, 800.0, "log", "123% (-100 to 1.01e+306%)"),
    ],
)
def test_a_difference_has_the_digits_that_its_margin_allows(difference: float, margin: float, scale: str, text: str):
    assert contrast("a", difference, margin, scale=scale).text == text


@pytest.mark.parametrize(
    ("upper", "text"),
    [(-0.1, "at least as good as b"), (0.0, "at least as good as b"), (0.5, "at most 0.5 worse than b")],
)
def test_who_meets_a_limit_is_as_good_where_nothing_worse_is_left(upper: float, text: str):
    numbers = {"value": -0.2, "lower": -0.4, "upper": upper, "allowed": 0.6}
    verdict = LimitVerdict(generator="a", title="FID", limit="within 2% of best", verdict="met", against="b", **numbers)
    assert verdict.text == text


def test_a_column_has_the_same_number_of_decimals():
    ends = {"near": (27.8, 11.0), "far": (41.7, 8.8), "none": (260.0, 90.0)}
    rows = [standing("near", 1.6, standard_error=0.009), standing("b <i>", 1.0, standard_error=0.02)]
    made = report(standings=rows, contrasts=[contrast(name, *one) for name, one in ends.items()])
    assert Contrast.column(made.contrasts) == ["27.8 (16.8 to 38.8)", "41.7 (32.9 to 50.5)", "260.0 (170.0 to 350.0)"]
    assert [score for score, _ in Standing.columns(made.standings)] == ["1.6000", "1.0000"]
    assert made.standings[1].score_text == "1.000"
    fine = [contrast("near", 1.0, 1e-5), contrast("far", 100.0, 50.0)]
    assert Contrast.column(fine) == ["1.000000 (0.999990 to 1.000010)", "100.00 (50.00 to 150.00)"]


def test_a_score_below_noise_is_called_so_and_explained():
    clipped = {"lower": 0.0, "upper": 0.004, "standard_error": 0.002, "below_noise": True}
    made = report(standings=[standing("a", 3.0), standing("b <i>", 0.0, **clipped)])
    assert made.answer.endswith("FID 0 (below noise) (0.0000 to 0.0040).")
    assert BELOW_NOISE_NOTE in made.sentences
    assert str(made).splitlines()[2].startswith("b <i>      0 (below noise)  0.0000 to 0.0040")
    assert r"0 (below noise) & 0.0000 to 0.0040" in made.table("latex")
    assert BELOW_NOISE_NOTE not in report().sentences


@pytest.mark.parametrize(("last", "begins"), [(1, "Ranks: "), (2, f"Ranks{ALL_AT_ONCE}: ")])
def test_ranks_do_not_contradict_the_decision(last: int, begins: str):
    """All ranks hold at once, and may leave open which one is the best, although that is decided."""
    places = [("b <i>", 1, last), ("near", last, 2), ("far", 3, 3)]
    ranks = Ranking(delta=0.05, ranks=[Rank(generator=n, first=a, last=b) for n, a, b in places], decided=[1])
    assert f"{begins}{ranks.text}" in paired(ranks=ranks).sentences


def test_time_left_is_that_of_the_samples_that_are_expected():
    rival = HardestRival(
        generator="a", difference=1, standard_error=1, tolerance=0, needed=3, more_samples=(100, 300), holds_until=4000
    )
    running = DecisionInfo(best="b", confidence=0.2, decided=False, reason="", hardest=rival)
    assert [expected_total(200, running, most) for most in (None, 10_000, 400)] == [500, 500, 400]
    unknown = running.model_copy(update={"hardest": None})
    assert [expected_total(200, unknown, most) for most in (None, 400)] == [None, 400]
    assert expected_total(200, running.model_copy(update={"decided": True}), 400) == 200


def test_a_contrast_is_a_sentence():
    far = "far is worse than b <i> by 2.00 (1.70 to 2.30); correlation 0.90 over 180 common samples"
    assert str(contrast("far", 2.0, 0.3)) == far
    ahead = contrast("near", -0.032, 0.04, scale="log", common=0, correlation=0.0)
    assert str(ahead) == "b <i> is worse than near by 3.3% (-0.8 to 7.5%), which may be chance; no samples in common"
    unknown = "new is worse than b <i> by 0.5, with an interval that is not known yet"
    assert str(contrast("new", 0.5, None)).startswith(unknown)


def test_the_difference_from_the_best_comes_first():
    lines = str(paired()).splitlines()
    assert [re.split(r"  +", line)[:3] for line in lines[1:6]] == [
        ["generator", "worse by", "score"],
        ["b <i>", "best", "1.000"],
        ["near", "0.60 (0.50 to 0.70)", "1.600"],
        ["far", "2.00 (1.70 to 2.30)", "3.000"],
        ["none", "…", "…"],
    ]
    assert "<td>near</td><td>0.60 (0.50 to 0.70)</td>" in paired()._repr_html_()
    unsure = DecisionInfo(best="b <i>", confidence=0.2, decided=False, reason="")
    assert paired(decision=unsure).worse_by["b <i>"] == "leads"
    assert "worse" not in str(report()).splitlines()[1]
    early = paired(decision=DecisionInfo(best=None, confidence=None, decided=False, reason="no estimate of none"))
    assert (early.worse_by["b <i>"], early.in_order[0].generator) == ("leads", "b <i>")
    # The best one leads the table, even where another one's score is a little better.
    assert next(row.generator for row in paired(lower_is_better=False).in_order) == "b <i>"


def test_equal_scores_are_in_the_order_of_their_differences():
    """Scores below noise are all 0, and differences say which is which."""
    rows = [standing(name, 0.0) for name in ("a", "b <i>", "c", "d")]
    apart = [contrast(name, difference, 0.1) for name, difference in (("a", 0.3), ("c", 0.2), ("d", 0.1))]
    assert [row.generator for row in paired(standings=rows, contrasts=apart).in_order] == ["b <i>", "d", "c", "a"]


def test_why_intervals_overlap_is_said_where_they_do():
    said = (
        "The interval of near overlaps that of b <i>, but their difference is sure: with the same seeds or prompts "
        "(180 samples, correlation 0.90) luck cancels."
    )
    assert paired().overlap_text == said
    assert said in unwrapped(paired())
    both = [contrast("near", 0.6, 0.1), contrast("far", 0.6, 0.3, correlation=0.5, common=60)]
    text = paired(contrasts=both, standings=[standing(name, 1.0) for name in ("near", "far", "b <i>")]).overlap_text
    assert text.startswith("The intervals of all others overlap that of b <i>, but their differences from it are sure")
    assert "60 to 180 samples, correlation 0.50 to 0.90" in text
    # Two independent scores would show this difference as well.
    alone = [standing("near", 1.8, standard_error=0.25), standing("b <i>", 1.0)]
    assert paired(standings=alone, contrasts=[contrast("near", 0.8, 0.1)]).overlap_text == ""
    wide = {"near": (8.0, 1.0, 6.0, 10.0), "b <i>": (4.0, 0.5, 2.0, 7.0)}
    rows = [standing(name, v, standard_error=s, lower=low, upper=up) for name, (v, s, low, up) in wide.items()]
    for difference, is_said in ((0.3, True), (0.8, False)):  # of logarithms, whose errors are 1/8 each
        made = paired(standings=rows, contrasts=[contrast("near", difference, 0.1, scale="log")], scale="log")
        assert bool(made.overlap_text) == is_said
    for silent in (contrast("near", 0.6, 0.7), contrast("near", 0.6, 0.1, common=0), contrast("far", 2.0, 0.3)):
        assert paired(contrasts=[silent]).overlap_text == ""
    assert report().overlap_text == ""


def test_anomalous_and_retracted_batches_are_named():
    anomaly = {"generator": "a", "position": 3, "pick": None, "samples": 5, "told": 1.0, "findings": ["odd"]}
    gone = {"generator": "a <i>", "position": 3, "pick": 7, "samples": 5, "when": 1.0, "reason": "wrong weights"}
    made = report(
        anomalies=[anomaly, anomaly, {**anomaly, "retracted": True}],
        retractions=[gone] * 6 + [{**gone, "position": None, "pick": None, "reason": ""}],
    )
    assert str(made).splitlines()[-7:] == [
        "2 anomalous batches count: see `anomalies`, `retract` and `accept`.",
        "Retracted: 2 earlier.",
        *["Retracted: batch 3 of a <i> (pick 7, 5 samples): wrong weights."] * 4,
        "Retracted: all batches of a <i> (5 samples): no reason given.",
    ]
    assert "batch 3 of a &lt;i&gt; (pick 7" in made._repr_html_()


def test_text_of_a_report_without_an_answer():
    assert "Not decided yet: b <i> leads after 4,500 samples, with 97.0% confidence: FID" in str(report(decided=False))
    said = str(report(best=None, decided=False)).splitlines()
    assert said[-2:] == [
        "No answer yet after 4,500 samples: not every generator has a score.",
        "Warning: b <i>: few samples.",
    ]
    higher = report(best="a", lower_is_better=False)
    assert [row.generator for row in higher.in_order] == ["a", "b <i>", "none"]


def test_brackets_have_a_column_where_there_are_some():
    assert "bracket" not in str(report())
    assert "bracket" not in report().to_dict()["standings"][0]
    shown = report(standings=[standing("a", 3.0, bracket=(2.0, 4.5)), standing("none", None)])
    lines = str(shown).splitlines()
    assert lines[1].endswith("bracket")
    assert lines[2].endswith("2.000 … 4.500")
    assert "<td>2.000 … 4.500</td>" in shown._repr_html_()
    assert Report.model_validate(json.loads(json.dumps(shown.to_dict()))) == shown


@pytest.mark.parametrize(
    ("score", "error", "text"),
    [
        (17.2789, 0.7, "17.279"),
        (1.00771, 0.0011, "1.0077"),
        (0.6, 2e-9, "0.600000"),
        (5.2e-8, 1.7e-9, "5.2e-08"),
        (-3.21e-5, 2e-7, "-3.21e-05"),
        (0.0, 1e-9, "0"),
        (549195.256, 27_000.0, "549,195"),
        (-0.2, 150.0, "0"),
        (1234.5, None, "1234.500"),
    ],
)
def test_a_score_has_the_digits_that_its_error_allows(score: float, error: float | None, text: str):
    assert format_score(score, error) == text


def test_warnings_of_several_generators_are_one_line():
    few = [f"few samples: {count} of 100" for count in (10, 20, 20)]
    rows = [standing(name, 1.0, warnings=(text,)) for name, text in zip(("a", "b <i>", "c"), few, strict=True)]
    gone = standing("d", 1.0, warnings=("torn",)).model_copy(update={"state": "retired"})
    for listed, said in {
        (rows[0],): "a: few samples: 10 of 100",
        (rows[1], rows[2], standing("d", 1.0)): "b <i>, c: few samples: 20 of 100",
        (rows[0], rows[1], standing("d", 1.0)): "a, b <i>: few samples",
        tuple(rows): "all generators: few samples",
        tuple(rows[1:]): "all generators: few samples: 20 of 100",
        (*rows[1:], gone): "all generators: few samples: 20 of 100",
    }.items():
        made = report(standings=[*listed], best=listed[0].generator)
        assert [line for line in str(made).splitlines() if line.startswith("Warning")] == [f"Warning: {said}."]
        assert made._repr_html_().count("few samples") == 1


def test_html_escapes_names_and_shows_warnings():
    shown = report()._repr_html_()
    assert "b &lt;i&gt;" in shown
    assert "<i>" not in shown
    assert shown.count("<tr") == 4
    assert 'bold"><td>b &lt;i&gt;' in shown
    assert "few samples" in shown
    how = report(how="Intervals at δ = 0.05 by the bound 'influence'.")
    assert "Intervals at δ = 0.05" in how._repr_html_()
    assert "Intervals at δ = 0.05" not in str(how)


def test_a_data_frame_has_a_row_a_generator():
    pytest.importorskip("pandas")
    frame = report().to_pandas()
    assert list(frame.index) == ["b <i>", "a", "none"]
    assert frame.loc["a", "score"] == 3.0
    assert frame["score"].isna().sum() == 1
    assert next(iter(frame.columns)) == "state"
    frame = paired().to_pandas()
    assert list(frame.columns)[:3] == ["difference", "difference_lower", "difference_upper"]
    assert frame.loc["far"].tolist()[:5] == [2.0, 1.7, 2.3, 0.5, 60]
    assert frame["difference"].isna().sum() == 2


def test_a_plot_has_a_point_and_an_interval_a_score(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = import_module("matplotlib.pyplot")
    axes = report().plot()
    drawn = [tuple(line.get_xdata()) for line in axes.lines]
    assert drawn == [(0.5, 1.5), (1.0,), (2.5, 3.5), (3.0,)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b <i> (1,500)", "a (1,500)", "none (1,500)"]
    assert axes.figure.legends == []
    axes = paired().plot()
    near, far = (tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "|")
    assert (*near, *far) == pytest.approx((1.5, 1.7, 2.7, 3.3))  # from the best score, 1
    assert next(text.get_text() for text in axes.figure.legends[0].get_texts()) == "interval of the score"
    ratios = [contrast("near", 0.6, 0.1, scale="log")]
    axes = paired(contrasts=ratios, scale="log", lower_is_better=False).plot()
    (near,) = (tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "|")
    assert near == pytest.approx((math.exp(-0.5), math.exp(-0.7)))
    given = pyplot.subplots()[1]
    assert paired().plot(given) is given
    assert report().plot(given) is given
    pyplot.close("all")


def test_no_label_of_a_saved_plot_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = import_module("matplotlib.pyplot")
    names = ["W" * 100, "b"]
    rows = [standing(name, 1.0) for name in names]
    apart = [contrast(names[0], 0.5, 0.1, against="b")]
    axes = report("b", experiment="e" * 64, standings=rows, contrasts=apart).plot()
    axes.figure.savefig(tmp_path / "report.png")
    page = axes.figure.bbox
    for text in (*axes.get_yticklabels(), axes.title, axes.xaxis.label, axes.figure.legends[0]):
        box = text.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text
    pyplot.close("all")


DECISION = DecisionInfo(best="a", confidence=0.9, decided=False, reason="")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time by which lines are due; a test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_line_elsewhere_is_written_every_ten_seconds_with_the_time_that_is_left(clock: list[float]):
    file = io.StringIO()
    line = Line("digits", 400, file)
    for samples in range(0, 200, 40):
        line.update(samples, DECISION)
        clock[0] += 6.0
    line.close()
    assert file.getvalue().splitlines() == [
        "digits: 80 of 400 samples, about 0:00:48 left  a 90.0%",
        "digits: 160 of 400 samples, about 0:00:36 left  a 90.0%",
        "digits: 160 of 400 samples, about 0:00:45 left  a 90.0%",
    ]


def test_a_terminal_sees_which_step_it_is(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr", Terminal())
    with counted("scoring", 3) as step:
        step(2, "a[b]")
    written = sys.stderr.getvalue()
    assert all(said in written for said in ("scoring", "2/3", "a[b]"))
    with counted("scoring", None) as step:
        step(7, "b")
    assert "/?" not in sys.stderr.getvalue()


def test_steps_are_counted_in_lines_once_they_take_long(clock: list[float], capsys: pytest.CaptureFixture[str]):
    for seconds, lines in ((0.1, []), (6.0, ["trials: 2 of 3, about 0:00:12 left  b", "trials: 3 of 3  c"])):
        with counted("trials", 3) as step:
            for name in "abc":
                clock[0] += seconds
                step(1, name)
        assert capsys.readouterr().err.splitlines() == lines
    with counted("trials", 3, wanted=False) as step:
        step()
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("bar", "library"), [(Line, "sys"), (RichBar, "rich")])
@pytest.mark.parametrize("total", [None, 1000])
def test_bars_show_samples_and_leader(bar, library: str, total: int | None):
    pytest.importorskip(library)
    file = Terminal()
    made = bar("digits", total, file)
    made.update(5, None)
    made.update(35, DECISION)
    made.close()
    last = file.getvalue()
    assert "digits" in last
    assert "35" in last
    assert "a 90.0%" in last


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    for wanted in (None, False, True):
        with shown(wanted, "digits", None) as display:
            display.update(5, None)
        written = capsys.readouterr().err
        assert written.splitlines() == ["digits: 5 samples"] * bool(wanted)


ROWS = {"standings": [standing("b_2", 1.0), standing("50% & more|", 0.1 + 0.2, lower=None), standing("none", None)]}


def test_markdown_has_a_row_a_generator_with_the_best_first():
    assert report("50% & more|", **ROWS).table().splitlines() == [
        "| generator | FID | interval | samples |",
        "| --- | ---: | ---: | ---: |",
        r"| 50% & more\| | 0.300 | -∞ to 0.800 | 1,500 |",
        "| b_2 | 1.000 | 0.500 to 1.500 | 1,500 |",
        "| none | – | – | 1,500 |",
    ]


def test_latex_escapes_what_it_would_read_as_commands():
    lines = report("50% & more|", **ROWS).table("latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[4] == r"50\% \& more| & 0.300 & -$\infty$ to 0.800 & 1,500 \\"
    assert lines[5].startswith(r"b\_2 & ")
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_csv_has_the_numbers_as_they_are_and_watched_metrics_where_they_are_wanted():
    made = report("50% & more|", **ROWS)
    watch = watched("rke", "b_2", standings=[*made.standings[1:], standing("b_2", 7.0)])
    made = made.model_copy(update={"watched": {"rke": watch}})
    head, first, second, last = csv.reader(io.StringIO(made.table("csv", metrics=True)))
    assert head == ["generator", "FID", "FID lower", "FID upper", "RKE", "RKE lower", "RKE upper", "samples"]
    assert [float(first[1]), first[2]] == [0.1 + 0.2, ""]
    assert (second[0], second[4], last[0], last[1:4]) == ("b_2", "7.0", "none", ["", "", ""])


def test_html_escapes_names():
    assert "<td>b &lt;i&gt;</td><td>1.000</td>" in report().table("html")


def test_an_unknown_format_is_refused():
    with pytest.raises(FixError, match="expected one of markdown, latex, csv, html; got 'pdf'"):
        report().table("pdf")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("url", ["localhost:8000", "127.0.0.1", "ftp://x", ""])
def test_an_address_that_is_not_of_http_is_refused_at_once(url: str):
    with pytest.raises(FixError, match="begins with http:// or https://"):
        Optimist(url)


def by_metrics(*metrics: WatchedReport, **fields: object) -> Report:
    made = {"standings": standings({"b <i>": 2.0, "c": 4.0, "a": 1.0}), "samples": 300, "rounds": 60}
    return report("a", uniform_samples=900, watched={one.label: one for one in metrics}, **{**made, **fields})


def test_without_watched_metrics_a_report_is_as_before():
    assert "By metric" not in str(by_metrics())
    assert "watched" not in by_metrics().to_dict()
    assert by_metrics().disagreement == ""


def test_text_has_a_table_of_generators_and_metrics():
    lines = str(by_metrics(watched("rke", "b <i>"), watched("vendi", None))).splitlines()
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
    shown = by_metrics(watched("rke", None, None, standings=[*standings({"a": 2.0, "c": 1.0}), *rows]))._repr_html_()
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
    made = by_metrics(*known)
    assert made.disagreement == sentence
    assert (sentence in made.sentences) == bool(sentence)
    undecided = by_metrics(*known, decision=DecisionInfo(best=None, confidence=None, decided=False, reason="none"))
    assert undecided.disagreement == ""


def test_a_watched_report_survives_the_wire():
    made = by_metrics(watched("rke", "b <i>"))
    assert Report.model_validate_json(made.model_dump_json()) == made
    assert made.to_dict()["watched"]["rke"]["confidence_text"] == "90.0%"


def test_frames_have_columns_by_metric():
    pytest.importorskip("pandas")
    made = by_metrics(watched("rke", "b <i>"))
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
    made = by_metrics(watched("rke", "b <i>"))
    axes = made.plot(metric="rke")
    assert axes.get_xlabel() == "RKE (higher is better)"
    assert axes.get_title() == "digits\nFID, 300 samples, decided"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b <i> (100)", "a (100)", "c (100)"]
    import_module("matplotlib.pyplot").close("all")
    with pytest.raises(NotFoundError):
        made.plot(metric="fid-2")


def test_costs_are_said_with_what_uniform_sampling_would_have_taken():
    made = by_metrics(cost=312.0, decision_cost=300.0, uniform_cost=3110.4)
    assert str(made).splitlines()[0] == "digits: FID, 300 samples, cost 312 (300 at the decision), decided"
    assert made.sentences[-1] == "Uniform sampling would have cost about 3,110 (10.0 times)."
    assert "at the decision" not in str(by_metrics(cost=312.0, decision_cost=312.0))


def test_a_metric_is_titled_apart_from_others_of_its_class():
    kernel = {"name": "gaussian", "sigma": 1.0, "features": 8}
    rke = {"kernel": kernel, "dimension": 4}
    assert FID().shown_title == "FID"
    assert FID(reads="dinov2").shown_title == "FID (dinov2)"
    assert FID(label="clean", reads="dinov2").shown_title == "FID (clean)"
    assert RKE.model_validate({**rke, "label": "rke"}).shown_title == "RKE"


def test_an_experiment_that_cannot_be_scored_says_why():
    rows = [standing("a", None, warnings=("not scored: all rows are equal",)), standing("b", None)]
    shown = report(None, False, standings=rows, contrasts=[], state="warming up", samples=200)
    assert shown.state_text == "cannot be scored"
    assert str(shown).splitlines()[0].endswith("cannot be scored")
    assert "No answer after 200 samples: it cannot be scored. a: all rows are equal." in str(shown)
    assert report(None, False, standings=rows[1:], state="warming up").state_text == "warming up"


def test_what_an_answer_rests_on_is_one_line_of_it():
    basis = Basis(rows={"a": 1500, "b": 1500}, distinct={"a": 3})
    shown = report(basis=basis)
    assert str(shown).splitlines().count(basis.text) == 1
    assert basis.text in shown._repr_html_()
    assert shown.to_dict()["basis"]["rows"] == basis.rows
    assert "Rests on" not in f"{report()}{report()._repr_html_()}{report(basis=Basis(rows={'a': 0}))}"
