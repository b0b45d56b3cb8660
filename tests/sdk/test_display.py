"""Reports as text, HTML, a data frame and a plot; progress in terminals, notebooks and files."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from optimist_client.models import DecisionInfo, Report, Standing
from optimist_client.progress import Line, RichBar, TqdmBar, shown


def standing(generator: str, score: float | None, **fields: object) -> Standing:
    known = {} if score is None else {"error": 0.25, "lower": score - 0.5, "upper": score + 0.5}
    counts = {"samples": 1500, "batches": 300, "pick_ratio": 0.5, "pending": 0, "scored_samples": 1500}
    return Standing(
        generator=generator,
        state="active",
        score=score,
        **{**dict.fromkeys(("error", "lower", "upper"))} | known | counts | fields,
    )


def report(best: str | None = "b <i>", decided: bool = True, **fields: object) -> Report:
    made = {
        "experiment": "digits",
        "metric": "fid",
        "lower_is_better": True,
        "state": "decided" if decided else "running",
        "ended": decided,
        "decision": DecisionInfo(best=best, confidence=0.97, decided=decided, reason="sure"),
        "standings": [standing("a", 3.0), standing("none", None), standing("b <i>", 1.0, warnings=("few samples",))],
        "samples": 4500,
        "rounds": 900,
        "open_picks": 0,
        "budget": None,
        "regret": None,
        "optimal_pick_ratio": 0.5,
        "uniform_samples": 9000,
        "scored": True,
    }
    return Report.model_validate({**made, **fields})


def test_text_has_the_best_first_and_the_answer():
    lines = str(report()).splitlines()
    assert lines[0] == "digits: FID, 4,500 samples, decided"
    assert [line.split("  ")[0] for line in lines[2:5]] == ["b <i>", "a", "none"]
    assert lines[5] == "b <i> is best with 97.0% confidence after 4,500 samples: FID 1.000 (interval 0.500 to 1.500)."
    assert lines[6:] == ["Sure.", "Uniform sampling would have spent about 9,000 samples (2.0 times)."]
    assert len({len(line) for line in lines[1:5]}) == 1


def test_suspicious_and_retracted_batches_are_named():
    suspect = {"generator": "a", "position": 3, "pick": None, "samples": None, "told": None, "findings": ["odd"]}
    gone = {"generator": "a <i>", "position": 3, "pick": 7, "samples": 5, "when": 1.0, "reason": "wrong weights"}
    made = report(
        suspects=[suspect, suspect, {**suspect, "retracted": True}],
        retractions=[gone] * 6 + [{**gone, "position": None, "pick": None, "reason": ""}],
    )
    assert str(made).splitlines()[-7:] == [
        "2 suspicious batches count: see `suspects` and `retract`.",
        "Retracted: 2 earlier.",
        *["Retracted: batch 3 of a <i> (pick 7, 5 samples): wrong weights."] * 4,
        "Retracted: all batches of a <i> (5 samples): no reason given.",
    ]
    assert "batch 3 of a &lt;i&gt; (pick 7" in made._repr_html_()


def test_text_of_a_report_without_an_answer():
    assert "b <i> leads, undecided," in str(report(decided=False))
    assert str(report(best=None, decided=False)).endswith("No winner: not every generator has an estimate.")
    higher = report(lower_is_better=False)
    assert [row.generator for row in higher.ranking] == ["a", "b <i>", "none"]


def test_brackets_have_a_column_where_there_are_some():
    assert "bracket" not in str(report())
    assert "bracket" not in report().to_dict()["standings"][0]
    shown = report(standings=[standing("a", 3.0, bracket=(2.0, 4.5)), standing("none", None)])
    lines = str(shown).splitlines()
    assert lines[1].endswith("bracket")
    assert lines[2].endswith("2.000 … 4.500")
    assert "<td>2.000 … 4.500</td>" in shown._repr_html_()
    assert Report.model_validate(json.loads(json.dumps(shown.to_dict()))) == shown


def test_html_escapes_names_and_shows_warnings():
    shown = report()._repr_html_()
    assert "b &lt;i&gt;" in shown
    assert "<i>" not in shown
    assert shown.count("<tr") == 4
    assert 'bold"><td>b &lt;i&gt;' in shown
    assert "few samples" in shown


def test_plain_values_are_json():
    values = report().to_dict()
    assert Report.model_validate(json.loads(json.dumps(values))) == report()


def test_a_data_frame_has_a_row_a_generator():
    pytest.importorskip("pandas")
    frame = report().to_pandas()
    assert list(frame.index) == ["b <i>", "a", "none"]
    assert frame.loc["a", "score"] == 3.0
    assert frame["score"].isna().sum() == 1


def test_a_plot_has_a_point_and_an_interval_a_score(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = import_module("matplotlib.pyplot")
    axes = report().plot()
    drawn = [tuple(line.get_xdata()) for line in axes.lines]
    assert drawn == [(0.5, 1.5), (1.0,), (2.5, 3.5), (3.0,)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b <i> (1,500)", "a (1,500)", "none (1,500)"]
    given = pyplot.subplots()[1]
    assert report().plot(given) is given
    pyplot.close("all")


@pytest.mark.parametrize("length", [3, 100])
def test_no_label_of_a_saved_plot_is_cut_off(length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = import_module("matplotlib.pyplot")
    names = ["W" * length, "b"]
    axes = report(experiment="e" * min(length, 64), standings=[standing(name, 1.0) for name in names]).plot()
    axes.figure.savefig(tmp_path / "report.png")
    page = axes.figure.bbox
    for text in (*axes.get_yticklabels(), axes.title, axes.xaxis.label):
        box = text.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text
    pyplot.close("all")


DECISION = DecisionInfo(best="a", confidence=0.9, decided=False, reason="")


def test_a_line_elsewhere_is_written_when_the_samples_have_doubled():
    file = io.StringIO()
    line = Line("digits", 40, file)
    for samples in range(5, 45, 5):
        line.update(samples, DECISION)
    line.close()
    assert file.getvalue().splitlines() == [f"digits: {n} of 40 samples  a 90.0%" for n in (5, 10, 20, 40, 40)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("bar", "library"), [(Line, "sys"), (TqdmBar, "tqdm"), (RichBar, "rich")])
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
        with shown(wanted, "digits", None) as progress:
            progress.update(5, None)
        written = capsys.readouterr().err
        assert written.splitlines() == ["digits: 5 samples"] * (2 if wanted else 0)


IN_A_NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(kernel=None, config={"IPKernelApp": {}})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell, version_info=(9,))
sys.modules["ipywidgets"] = None
from optimist_client.progress import shown
with shown(None, "digits", 40) as progress:
    progress.update(40, None)
"""


def test_a_notebook_without_widgets_shows_text_and_no_warning():
    pytest.importorskip("tqdm")
    done = subprocess.run([sys.executable, "-W", "error", "-c", IN_A_NOTEBOOK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "digits: 100%" in done.stderr
