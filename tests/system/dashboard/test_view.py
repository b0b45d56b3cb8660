"""What a viewer chooses to see, which browser or address keep; what is expected, in words; the page of the API."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.support.pages import WAIT, OpenPage, serious_violations
from tests.support.processes import Service

BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(245, 246, 244)", "rgb(18, 22, 21)"
pytestmark = pytest.mark.long


def axis(page: Page) -> str:
    return page.evaluate("() => document.getElementById('plot-estimates').layout.xaxis.type")


def bands(page: Page) -> int:
    return page.evaluate("() => document.getElementById('plot-estimates').data.filter(({ fill }) => fill).length")


def test_the_theme_is_chosen_and_remembered(open_page: OpenPage, million: str, axe: str):
    page = open_page(f"/#/e/{million}", bypass_csp=True, color_scheme="light")
    page.wait_for_selector("#plot-estimates svg")
    assert page.evaluate(BACKGROUND) == LIGHT
    ink = "() => document.querySelector('#plot-estimates text').getAttribute('fill')"
    before = page.evaluate(ink)
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(BACKGROUND) == DARK
    page.wait_for_function(f"before => ({ink})() !== before", arg=before, timeout=WAIT)
    assert serious_violations(page, axe) == []
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert page.evaluate(BACKGROUND) == DARK
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(BACKGROUND) == LIGHT
    page.get_by_label("Theme").select_option("")
    assert page.evaluate(BACKGROUND) == DARK


def test_a_link_keeps_what_a_chart_shows(open_page: OpenPage, million: str):
    page = open_page(f"/#/e/{million}")
    page.wait_for_selector("#plot-estimates svg")
    assert (axis(page), bands(page)) == ("log", 2)
    page.get_by_label("Logarithmic axis").uncheck()
    page.get_by_label("Intervals", exact=True).uncheck()
    again = open_page(page.url)
    again.wait_for_selector("#plot-estimates svg")
    assert (axis(again), bands(again)) == ("linear", 0)
    again.get_by_label("Intervals", exact=True).check()
    again.wait_for_function(
        "() => document.getElementById('plot-estimates').data.some(({ fill }) => fill)", timeout=WAIT
    )
    again.get_by_label("Logarithmic axis").check()
    assert again.url.endswith(f"#/e/{million}")


WORDS = """async ([report, told]) => {
  const { expected, Rate } = await import("/dashboard/0/expected.js");
  const rate = new Rate();
  told.forEach(([at, samples]) => rate.take(samples, at));
  return expected(report, rate.perSecond);
}"""


def test_samples_and_time_that_are_expected_are_said(open_page: OpenPage):
    page = open_page("/")
    report = {"ended": False, "decision": {"hardest": {"more_samples": [1520, 6000]}}, "budget": None, "samples": 500}

    def words(told: list[tuple[float, int]], **changes: Any) -> dict[str, str] | None:
        return page.evaluate(WORDS, [report | changes, told])

    steady = [(float(at), 10 * at) for at in range(0, 51, 2)]
    more = "About 1,500 to 6,000 more samples"
    assert words(steady) == {"samples": more, "notes": "3 to 10 min at the present rate"}
    assert words(steady[:3]) == {"samples": more, "notes": ""}  # too short to know a rate
    assert words([*steady, (100.0, 500), (300.0, 500), (302.0, 500)]) == {
        "samples": more,
        "notes": "",
    }  # none came since
    assert words([(0.0, 900), (30.0, 500), (40.0, 500)]) == {"samples": more, "notes": ""}  # the store was restored
    assert words([], budget=1500) == {"samples": more, "notes": "the budget has only 1,000 left"}
    likely = {"samples": more, "notes": "the budget has 4,500 left, which may not be enough"}
    assert words([], budget=5000) == likely
    assert words(steady, ended=True) is None
    assert words(steady, decision={"hardest": {"more_samples": None}}) is None


def test_the_api_page_works_without_the_internet(open_page: OpenPage, service: Service):
    page = open_page("/docs")
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.reload()
    create = page.locator("#operations-experiments-create_experiment_v1_experiments_post")
    create.locator(".opblock-summary-control").click()
    create.get_by_role("button", name="Try it out").wait_for()
    assert page.locator(".opblock").count() > 20
    assert hosts == {urlsplit(service.url).netloc}
