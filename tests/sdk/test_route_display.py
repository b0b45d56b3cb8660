"""Tables of routes as text, HTML, a data frame and a plot; reports of the goal "route"."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from optimist_client.models import DecisionInfo, Report, Routes
from tests.support import reports
from tests.support.reports import unwrapped

SAVINGS = {"cost": 1.4, "single_cost": 3.0, "dearest_cost": 3.0, "saved": 640.0, "saved_dearest": 640.0}


def kind(share: float, example: str, winner: str, *scores: float | None, **fields: Any) -> dict[str, Any]:
    rows = [
        {"generator": name, "score": score, "standard_error": None if score is None else 0.02, "traffic": traffic}
        for name, score, traffic in zip(("large <i>", "small"), scores, (0.125, 0.875), strict=True)
    ]
    made = {"share": share, "examples": [example] if example else [], "winner": winner, "scores": rows}
    return {**made, "lead": 0.33, "lead_standard_error": 0.03, "gain": 0.2, "gain_standard_error": 0.04, **fields}


def routes(**fields: Any) -> Routes:
    made = {"experiment": "tasks", "title": "Mean", "lower_is_better": False, "scale": "linear"}
    made |= {"best": "large <i>", "best_score": 0.7, "score": 0.815, "gain": 0.1148, "standard_error": 0.0204}
    made |= {"lower": 0.0712, "upper": 0.158, "basis": "doubly robust", "price": 0.0, "prompts": 400}
    made["types"] = [
        kind(0.6, "Convert this\njava class to c++", "small", 0.49, 0.82),
        kind(0.4, "", "large <i>", 0.92, None, lead=None, gain=None),
    ]
    made["shares"] = [
        {"generator": "large <i>", "samples": 180, "traffic": 0.45, "routed": 0.4},
        {"generator": "small", "samples": 220, "traffic": 0.55, "routed": 0.6},
    ]
    made |= {"positions": [180, 220], "samples": 400}
    return Routes.model_validate({**made, **fields})


def report(**fields: Any) -> Report:
    decision = DecisionInfo(best="large <i>", confidence=None, decided=False, reason="", warnings=("odd batches",))
    made = {"goal": "route", "metric": "mean", "title": "Mean", "lower_is_better": False, "uniform_samples": None}
    made |= {"state": "running", "ended": False, "decision": decision, "standings": [], "samples": 400}
    return reports.report(**{**made, **fields})


def test_text_has_a_row_for_each_type_and_says_what_a_router_gains():
    title, head, first, second, whole, *said = str(routes()).splitlines()
    assert title == "tasks: Mean with intervals (share of the traffic) by type of prompt, 400 samples"
    assert head.split() == ["prompts", "share", "best", "gain", "large", "<i>", "small"]
    gains = "small by 0.330 (0.271 to 0.389)  0.200 (0.122 to 0.278)"
    assert first.startswith(f"Convert this java class to c++    60%  {gains}   0.490 ± 0.039 (12%)")
    assert first.endswith("0.820 ± 0.039 (88%)*")
    assert second.split() == ["type", "2", "40%", "large", "<i>", "…", "0.920", "±", "0.039", "(12%)*", "…"]
    assert whole.split() == ["all", "100%", "large", "<i>", "0.115", "(0.071", "to", "0.158)", "(45%)", "(55%)"]
    assert unwrapped("\n".join(said)) == unwrapped("\n".join(routes().summary))
    assert routes().summary == [
        "Routing is better than always large <i> by 0.115 (0.071 to 0.158).",
        "Mean: 0.815 routed, 0.700 with always large <i> (400 prompts).",
    ]
    assert routes().sentences == [
        *routes().summary,
        "60% of the prompts, such as “Convert this java class to c++”: small is best by "
        "0.330 (0.271 to 0.389), gets 88% of them; gain 0.200 (0.122 to 0.278).",
        "40% of the prompts: large <i> is best, gets 12% of them.",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"gain": 0.06, "lower": -0.01},
            "Whether routing is better than always large <i> is open: by 0.060 (-0.010 to 0.158).",
        ),
        (
            {"gain": 0.06, "lower": None},
            "Whether routing is better than always large <i> is open: it gains 0.06 against always large <i>, without "
            "an interval.",
        ),
        (
            {"gain": -0.08, "lower": -0.12, "upper": -0.02},
            "Routing is worse than always large <i> by 0.080 (0.020 to 0.120).",
        ),
        (
            {"gain": 0.0, "standard_error": 0.0, "lower": -0.1, "upper": 0.0},
            "Nothing is gained by routing: large <i> would get every prompt.",
        ),
        ({"gain": None, "standard_error": None}, "What routing gains over always large <i> is not known yet."),
        (
            {"basis": "model", "standard_error": None},
            "By the model, routing gains 0.115 against always large <i>; there is no interval.",
        ),
    ],
)
def test_what_is_known_of_the_gain_is_said(fields: dict[str, Any], said: str):
    assert routes(**fields).gain_text == said


def test_prices_savings_and_warnings_are_said():
    made = routes(savings=SAVINGS, price=0.05, stale=True, warnings=("few prompts",))
    assert made.sentences[1].endswith("(400 prompts). The gain counts a unit of cost as 0.05 of the score.")
    assert made.sentences[2] == "A prompt costs 1.4, 53% less than always large <i> (3). Saved so far: 640."
    assert made.sentences[-2:] == ["More samples have come since the table was made.", "Warning: few prompts."]
    single = routes(savings={**SAVINGS, "single_cost": 1.0, "saved": -160.0})
    assert single.savings_text == (
        "A prompt costs 1.4, 40% more than always large <i> (1), 53% less than always the dearest (3). "
        "Spent more so far: 160, 640 against the dearest."
    )
    assert routes().savings_text == ""


@pytest.mark.parametrize(
    ("pace", "said"),
    [
        (
            {"ceiling": 2.0, "spent": 1.99, "price": 0.0512},
            "A prompt has cost 1.99 so far, 0.5% below the ceiling of 2. To keep it, a unit of cost counts as "
            "0.0512 of the score.",
        ),
        (
            {"ceiling": 2.0, "spent": 2.1, "price": 7},
            "A prompt has cost 2.1 so far, 5.0% above the ceiling of 2. To keep it, a unit of cost counts as 7 of the "
            "score.",
        ),
        (
            {"at_least": 0.95, "kept": 0.961, "spent": 2.1, "price": 7},
            "Routed prompts are expected to keep 96.1% of the best single generator's score, where at least 95% is "
            "asked for. A prompt has cost 2.1 so far. To keep it, a unit of cost counts as 7 of the score.",
        ),
    ],
)
def test_what_is_spent_of_a_budget_is_said(pace: dict[str, Any], said: str):
    made = routes(savings=SAVINGS, pace=pace, price=pace["price"])
    assert made.pace_text == said
    assert made.sentences[3] == said
    assert said in unwrapped(made)
    shown = made._repr_html_()
    assert said.replace("'", "&#x27;") in shown
    assert "large &lt;i&gt;" in shown
    assert "<i>" not in shown
    assert routes().pace_text == ""
    assert "pace" not in routes().model_dump()


def test_a_data_frame_has_a_row_per_type_and_generator():
    frame = routes().to_pandas()
    assert list(frame.index) == [(1, "large <i>"), (1, "small"), (2, "large <i>"), (2, "small")]
    assert frame.loc[(1, "small"), ["score", "traffic", "winner"]].to_list() == [0.82, 0.875, "small"]
    assert list(routes(types=[]).to_pandas().columns)[:3] == ["score", "standard_error", "traffic"]


def test_a_plot_has_points_for_each_generator():
    import_module("matplotlib").use("Agg")
    axes = routes().plot()
    drawn = [container.lines[0].get_xdata().tolist() for container in axes.containers]
    assert drawn == [[0.49, 0.92], [0.82]]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["Convert this java class to c++ (60%)", "2 (40%)"]
    assert routes().plot(axes) is axes
    import_module("matplotlib.pyplot").close(axes.figure)


def test_the_report_says_what_a_router_gains():
    made = report(routes=routes())
    assert made.sentences == [*routes().sentences, "Warning: odd batches."]
    assert Report.model_validate_json(made.model_dump_json()) == made
    assert report().sentences == ["No table of routes yet after 400 samples.", "Warning: odd batches."]
    assert "routes" not in report().model_dump()
