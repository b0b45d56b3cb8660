"""Several metrics on the page of an experiment: the table, the chart of two, curves, modes, and costs."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect
from redis import Redis

from optimist.store.keys import experiment_key
from optimist_client import Optimist
from tests.support.pages import WAIT, OpenPage, serious_violations_of_both_schemes
from tests.support.written import generators, write_watched_experiment

NAME = "several-drawn"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def several(redis_url: str) -> str:
    with ThreadPoolExecutor(1) as pool:  # the browser's event loop may run in this thread
        pool.submit(asyncio.run, write_watched_experiment(redis_url, NAME, 5)).result()
    return NAME


def test_a_table_has_the_scores_by_each_metric(open_page: OpenPage, client: Optimist, several: str, axe: str):
    report = client.experiment(several).report()
    best = {label: watched.best for label, watched in report.watched.items()}
    assert report.decision.best == best["rke"] != best["spread"]
    page = open_page(f"/#/e/{several}", bypass_csp=True)
    card = page.get_by_role("region", name="Metrics", exact=True)
    expect(card.locator(".disagreement")).to_have_text(report.disagreement)
    titles = ["Generator", "Inception Score ↑, higher is better decides", "RKE ↑", "RKE (spread) ↑"]
    expect(card.locator("thead th")).to_have_text([re.compile(f"^{re.escape(title)}") for title in titles])
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(5)
    names = rows.locator(".name").all_text_contents()
    assert names == [row.generator for row in report.in_order]
    marks = "cells => cells.map(cell => cell.querySelector('.best, .leads') !== null)"
    marked = {name: rows.nth(place).locator("td").evaluate_all(marks) for place, name in enumerate(names)}
    leaders = [report.decision.best, *best.values()]
    assert marked == {name: [name == leader for leader in leaders] for name in names}
    standing = next(row for row in report.watched["spread"].standings if row.generator == generators(5)[0])
    label = rows.first.locator("td").nth(2).locator(".interval").get_attribute("aria-label")
    assert standing.lower is not None
    assert (label or "").startswith(f"From {standing.lower:.3f}")
    assert serious_violations_of_both_schemes(page, axe) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_two_metrics_are_drawn_with_their_pareto_front_and_the_estimates_of_each(open_page: OpenPage, several: str):
    page = open_page(f"/#/e/{several}")
    page.wait_for_selector("#plot-scatter svg")
    plot = page.locator("#plot-scatter")
    drawn = "() => document.getElementById('plot-scatter').data.filter(({ mode }) => mode.includes('markers'))"
    front = f"({drawn})().filter(({{ mode }}) => mode.includes('text')).map(({{ name }}) => name)"
    assert len(page.evaluate(drawn)) == 5
    assert page.evaluate(front) == generators(5)[:1]  # the same order by both
    errors = page.evaluate(
        f"({drawn})().map(({{ error_x, error_y }}) => [error_x, error_y].every(e => e.array[0] > 0))"
    )
    assert errors == [True] * 5
    plot.locator("circle").first.hover()
    expect(plot.locator(".tip")).to_have_text(re.compile(r"^ ?model-\d\d: RKE .* to .*; Inception Score .* to "))
    page.get_by_label("Horizontal").select_option("spread")
    expect(plot).to_have_attribute("aria-label", re.compile(r"front of RKE \(spread\) and Inception Score: .*model-04"))
    assert sorted(page.evaluate(front)) == generators(5)
    axes = page.evaluate(
        "() => ['xaxis', 'yaxis'].map(axis => document.getElementById('plot-scatter').layout[axis].title)"
    )
    assert axes == ["RKE (spread) ↑ higher is better", "Inception Score ↑ higher is better"]
    page.wait_for_selector("#plot-estimates svg")
    page.locator("#estimates-of").select_option("rke")
    drawn = "() => document.getElementById('plot-estimates').layout.yaxis.title === 'RKE'"
    page.wait_for_function(drawn, timeout=WAIT)
    longest = "() => Math.max(...document.getElementById('plot-estimates').data.map(({ y }) => y.length))"
    assert page.evaluate(longest) == 3
    expect(page.locator("#modes-by option")).to_have_text(["RKE", "RKE (spread)"])


def test_damage_of_a_watched_metric_is_shown_where_it_is(open_page: OpenPage, redis_url: str):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, write_watched_experiment(redis_url, "harmed", 3)).result()
    with Redis.from_url(redis_url) as redis:
        redis.hset(experiment_key("harmed", "units"), "1:rke:error", "CorruptData: <b>torn</b>")
    page = open_page("/#/e/harmed")
    card = page.get_by_role("region", name="Metrics", exact=True)
    expect(card.locator("td .badge.incomplete")).to_have_count(1)
    card.locator("summary").click()
    expect(card.locator(".warnings")).to_contain_text("model-01, RKE: not scored: CorruptData: <b>torn</b>")
    expect(page.locator(".title .badge.incomplete")).to_have_count(0)
    expect(page.locator(".standings .badge.incomplete")).to_have_count(0)


def test_costs_are_shown_as_spent_and_at_the_decision(open_page: OpenPage, client: Optimist, several: str):
    report = client.experiment(several).report()
    assert (report.cost, report.decision_cost) == (600 * 15, 500 * 15)
    page = open_page("/")
    line = page.locator(".line", has=page.get_by_role("link", name=several, exact=True))
    line.get_by_role("button", name=f"More about {several}").click()
    expect(page.locator(".details")).to_contain_text("9,000 (7,500 at the decision)")
    line.get_by_role("link").click()
    facts = page.locator(".facts")
    expect(facts).to_contain_text("Cost9,000")
    expect(facts).to_contain_text("Cost at the decision7,500")
