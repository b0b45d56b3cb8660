"""Ranks, and costs against scores, on the page of an experiment."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from optimist_client import Optimist
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import scored

MEANS = {"small": 0.0, "base": 1.0, "mid": 1.0, "big": 2.0}
COSTS = {"small": 0.0003, "base": 0.001, "mid": 0.002, "big": 0.015}
pytestmark = pytest.mark.long


@pytest.mark.parametrize("goal", ["best", "cheapest"])
def test_ranks_and_costs_are_drawn(open_page: OpenPage, client: Optimist, name: str, axe: str, goal: str):
    how = {"goal": goal, "good_enough": 1.2} if goal == "cheapest" else {"goal": goal}
    experiment = client.create_experiment(
        name, [*MEANS], metric="mean", costs=COSTS, policy="uniform", stop=False, batch_size=10, **how
    )
    for pick in experiment.picks(400):
        rows = np.random.default_rng(pick.seed).normal(MEANS[pick.generator], 0.5, (pick.size, 1))
        pick.tell(rows + (pick.number % 2 - 0.5) * 0.1)
    report = scored(experiment)
    page = open_page(f"/#/e/{name}", bypass_csp=True)
    page.wait_for_selector("#plot-ranks svg")
    rows = page.get_by_role("region", name="Ranks table").locator("tbody tr")
    shown = [(one.generator, one.text) for one in report.ranking().ranks]
    assert shown[0] == ("big", "1st")
    assert shown[-1] == ("small", "4th")
    for place, (generator, rank) in enumerate(shown):
        expect(rows.nth(place)).to_have_text(f"{generator}{rank}")
    plot = page.locator("#plot-ranks")
    expect(plot).to_have_attribute("aria-label", f"Ranks. {report.ranking().text}")
    drawn = "id => document.getElementById(id).data.map(({ name, x, y, marker }) => [name, x, y, marker?.size ?? 0])"
    ends = {generator: x for generator, x, _, _ in page.evaluate(drawn, "plot-ranks")}
    assert ends["big"] == [1]
    assert ends["mid"] in ([2, 3], [2], [3])
    page.wait_for_selector("#plot-scatter svg")
    drawn = "() => document.getElementById('plot-scatter').data.map(({ name, x, y, text }) => [name, x, y, text?.[0]])"
    points = {what: (x, y, text) for what, x, y, text in page.evaluate(drawn)}
    answer = report.decision.best
    assert answer == ("big" if goal == "best" else "base")
    assert {each: points[each][0] for each in COSTS} == {each: [cost] for each, cost in COSTS.items()}
    assert [each for each in COSTS if points[each][2].endswith("✓")] == [answer]
    best = max(row.score or 0.0 for row in report.standings)
    limit = {"limit: within 1.2 of best": pytest.approx([best - 1.2] * 2)} if goal == "cheapest" else {}
    assert {what: y for what, (_, y, _) in points.items() if what.startswith("limit")} == limit
    assert serious_violations_of_both_schemes(page, axe) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
