"""What a viewer chooses to see: the theme, which the browser remembers, and the rest, which the address keeps."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.pages import WAIT, OpenPage, serious_violations

BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(245, 246, 244)", "rgb(18, 22, 21)"


def axis(page: Page) -> str:
    return page.evaluate("() => document.getElementById('plot-estimates').layout.xaxis.type")


def bands(page: Page) -> int:
    return page.evaluate("() => document.getElementById('plot-estimates').data.filter(({ fill }) => fill).length")


@pytest.mark.long
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


@pytest.mark.long
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
