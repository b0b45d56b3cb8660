"""Several experiments side by side, selected in the list, with the curves of their leaders."""

from __future__ import annotations

import random

from playwright.sync_api import expect

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage, serious_violations_of_both_schemes


def test_any_number_are_selected_and_compared(open_page: OpenPage, client: Optimist, axe: str):
    rng = random.Random(0)
    for name, generators in {"versus-one": ["a", "b"], "versus-other": ["a", "c"], "versus-third": ["a"]}.items():
        experiment = client.create_experiment(name, generators, metric=Mean(), stop=False, policy="uniform")
        for pick in experiment.picks(60 if len(generators) == 2 else 0):
            pick.tell([rng.gauss(float(pick.generator == "a"), 0.1) for _ in range(pick.size)])
    reports = [client.experiment(name).report() for name in ("versus-one", "versus-other")]
    page = open_page("/#/?q=versus", bypass_csp=True)
    for name in ("one", "other", "third"):
        page.get_by_role("checkbox", name=f"Select versus-{name}").check()
    page.get_by_text("3 selected").click()
    page.get_by_role("link", name="Compare").click()
    assert page.url.endswith("#/c/versus-one/versus-other/versus-third")
    for report in reports:
        card = page.get_by_role("region", name=report.experiment, exact=True)
        expect(card).to_contain_text(report.answer)
    rows = page.locator(".versus tbody tr")
    expect(rows.locator("th")).to_have_text(["a", "b", "c"])
    expect(rows.nth(0).locator(".interval")).to_have_count(2)
    expect(rows.nth(1).locator("td").nth(1)).to_have_text("–")
    page.wait_for_selector("#plot-leaders svg")
    lines = "document.getElementById('plot-leaders').data.filter((one) => one.showlegend !== false)"
    names = page.evaluate(f"() => {lines}.map((one) => one.name)")
    assert names == ["versus-one", "versus-other"]  # the third has no samples
    assert serious_violations_of_both_schemes(page, axe) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
