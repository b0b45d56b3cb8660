"""The goal "cheapest" on the page of an experiment: who is good enough, and costs against scores."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage

pytestmark = pytest.mark.long
COSTS = {"small": 1.0, "mid": 4.0, "big": 30.0}
MEANS = {"small": 0.0, "mid": 0.95, "big": 1.0}


def test_costs_are_drawn_against_scores_with_the_limit_as_a_line(open_page: OpenPage, client: Optimist, name: str):
    experiment = client.create_experiment(
        name, [*MEANS], metric=Mean(), goal="cheapest", good_enough=0.3, costs=COSTS, batch_size=20
    )
    while (pick := experiment.ask()) is not None:
        noise = [np.random.default_rng(seed).standard_normal(2) for seed in pick.seeds]
        pick.tell(np.array([[MEANS[pick.generator] + common + 0.1 * own] for common, own in noise]))
    report = experiment.report()
    assert report.decision.best == "mid"
    page = open_page(f"/#/e/{name}")
    expect(page.locator(".standings tr.best")).to_contain_text("mid")
    expect(page.locator(".standings .badge.cheapest")).to_have_text("cheapest")
    said = {row.inner_text().split()[0]: row for row in page.locator(".standings tbody tr").all()}
    assert "not good enough" in said["small"].inner_text()
    assert "good enough" in said["big"].inner_text()
    page.wait_for_selector("#plot-scatter svg")
    drawn = page.evaluate("() => document.getElementById('plot-scatter').data")
    named = {trace["name"]: trace for trace in drawn}
    assert [named[generator]["x"] for generator in COSTS] == [[cost] for cost in COSTS.values()]
    best = max(row.score for row in report.standings if row.score is not None)
    assert np.allclose(named["limit: within 0.3 of best"]["y"], best - 0.3)
    assert named["mid"]["text"] == ["mid ✓"]
