"""What routing gains on the page of an experiment, by type of prompt and over time."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from optimist_client import Experiment, Optimist
from optimist_client.metrics import WinRate
from optimist_client.models import Routes
from optimist_client.models.progress import RouteCurve
from tests.support.pages import WAIT, OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service

SUCCESS = {"large": (0.95, 0.3), "small": (0.2, 0.9)}
"""How often each generator is right on prompts of either kind."""
KINDS = ("Write <b>Python</b> number", "Translate the following text, which is a very long one, into Danish: number")
pytestmark = pytest.mark.long


def create(client: Optimist, name: str, **config: Any) -> Experiment:
    defaults = {"metric": WinRate(), "goal": "route", "context": 4, "context_features": 32, "seed": 1}
    return client.create_experiment(name, list(SUCCESS), **{**defaults, **config})


def work(experiment: Experiment, prompts: int, with_texts: bool = True) -> None:
    rng = random.Random(prompts)
    for _ in range(prompts // 20):
        kinds = [rng.randrange(2) for _ in range(20)]
        contexts = [[3.0 * kind, *(rng.gauss(0.0, 0.2) for _ in range(3))] for kind in kinds]
        texts = [f"{KINDS[kind]} {rng.randrange(100)}" for kind in kinds] if with_texts else None
        for kind, pick in zip(kinds, experiment.ask_all(contexts, texts), strict=True):
            pick.tell(float(rng.random() < SUCCESS[pick.generator][kind]))


def table(experiment: Experiment, samples: int) -> Routes:
    """The table in the report once it is made of so many samples, and no other one is on its way."""
    ends = time.monotonic() + WAIT / 1000
    before = None
    while (routes := experiment.report().routes) is None or routes.samples < samples or routes != before:
        assert time.monotonic() < ends, routes
        before = routes
        if routes is None or routes.samples < samples:
            experiment.route_table()
        time.sleep(1.5)
    return routes


@pytest.fixture(scope="module")
def router(service: Service) -> Experiment:
    with Optimist(service.url) as client:
        experiment = create(client, "router-drawn", costs={"large": 3.0, "small": 1.0}, price=0.01, ceiling=3.0)
        for told in (100, 200):
            work(experiment, 100)
            table(experiment, told)
    return experiment


def card(page: Page) -> Any:
    return page.get_by_role("region", name="Routing", exact=True)


def test_the_table_says_who_wins_which_prompts(open_page: OpenPage, client: Optimist, router: Experiment, axe: str):
    routes = table(client.experiment(router.name), 200)
    page = open_page(f"/#/e/{router.name}", bypass_csp=True)
    expect(page.locator(".answer")).to_have_text(routes.gain_text)
    headings = page.locator("main h2:visible").all_text_contents()
    assert headings[:2] == ["Routing", "Standings"]
    assert "Estimated regret" not in headings
    expect(card(page)).to_contain_text(routes.savings_text)
    assert routes.pace_text
    expect(card(page)).to_contain_text(routes.pace_text)
    expect(card(page).locator(".gain").get_by_role("img")).to_have_attribute("aria-label", re.compile("Gain "))
    rows = card(page).get_by_role("region", name="Types of prompts table").locator("tbody tr")
    expect(rows).to_have_count(len(routes.types))
    for row, kind in zip(rows.all(), routes.types, strict=True):
        cells = row.locator("td")
        expect(cells.nth(0)).to_have_text(f"Share{100 * kind.share:.1f}\u00a0%")
        expect(cells.nth(1)).to_contain_text(kind.winner)
        for place, score in enumerate(kind.scores, 2):
            expect(cells.nth(place)).to_contain_text(f"gets {100 * score.traffic:.1f}\u00a0%")
    shares = card(page).get_by_role("region", name="Shares of the prompts table").locator("tbody tr")
    for row, share in zip(shares.all(), routes.shares, strict=True):
        cells = row.locator("td")
        said = [
            f"{100 * share.routed:.1f}\u00a0%",
            f"{100 * share.traffic:.1f}\u00a0%",
            {"large": "3", "small": "1"}[share.generator],
        ]
        assert cells.all_text_contents() == said
    standings = page.get_by_role("region", name="Standings", exact=True)
    expect(standings).to_contain_text("mean is over the prompts that it was given")
    expect(standings.get_by_text("leads")).to_have_count(0)
    expect(standings.get_by_text("Worse than the best by")).to_be_hidden()
    assert serious_violations_of_both_schemes(page, axe) == []
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        for name in ("Types of prompts table", "Shares of the prompts table"):
            region = card(page).get_by_role("region", name=name)
            assert region.evaluate("one => one.scrollWidth <= one.clientWidth"), (width, name)


def test_example_prompts_open_in_full_and_stay_open(open_page: OpenPage, client: Optimist, router: Experiment):
    routes = table(client.experiment(router.name), 200)
    page = open_page(f"/#/e/{router.name}")
    first = card(page).locator("details").first
    expect(first.locator("summary")).to_have_attribute("title", "\n\n".join(routes.types[0].examples))
    first.locator("summary").click()
    texts = first.locator("li")
    expect(texts).to_have_text(routes.types[0].examples)
    with page.expect_response(re.compile("/report")):
        page.evaluate("() => window.dispatchEvent(new Event('online'))")
    expect(texts.first).to_be_visible()
    card(page).get_by_role("button", name="Update the table").click()
    expect(card(page).get_by_role("button", name="Update the table")).to_be_enabled()
    expect(texts.first).to_be_visible()


def test_the_gain_is_drawn_over_time(open_page: OpenPage, service: Service, router: Experiment):
    report = httpx.get(f"{service.url}/v1/experiments/{router.name}/report?after=0").raise_for_status().json()
    curve = RouteCurve.model_validate(report["progress"]["routes"])
    assert len(curve.told) > 1
    page = open_page(f"/#/e/{router.name}?how=open")
    page.wait_for_selector("#plot-gain svg")
    x, y, above, below = page.evaluate(
        """() => document.getElementById('plot-gain').data.map(
          ({ x, y, error_y }) => [x, y, error_y.array, error_y.arrayminus])[0]"""
    )
    assert [x, y] == [curve.samples, curve.gains]
    ends = zip(curve.gains, curve.lower, curve.upper, strict=True)
    widths = [(0.0, 0.0) if None in (gain, low, high) else (high - gain, gain - low) for gain, low, high in ends]
    assert list(zip(above, below, strict=True)) == [pytest.approx(each) for each in widths]
    page.wait_for_selector("#plot-routed svg")
    drawn = page.evaluate("() => document.getElementById('plot-routed').data.map(({ y }) => y)")
    assert drawn == [curve.best_scores, curve.scores]


def test_tables_come_as_prompts_do(open_page: OpenPage, client: Optimist):
    experiment = create(client, "router-live", policy="greedy")
    page = open_page("/#/e/router-live")
    expect(page.locator(".answer")).to_contain_text("Waiting for the first prompts. 2 generators will be compared")
    expect(card(page)).to_contain_text("The first table is made once generators have a few samples.")
    work(experiment, 120, with_texts=False)
    routes = table(experiment, 120)
    card(page).get_by_role("button", name="Update the table").click()
    expect(page.locator(".answer")).to_have_text(routes.gain_text)
    expect(card(page).locator(".gain")).to_be_visible(visible=routes.standard_error is not None)
    expect(card(page).locator("details")).to_have_count(0)
    expect(card(page).locator("tbody th").first).to_have_text("Type 1")
