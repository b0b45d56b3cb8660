"""Words that the page explains where they are first met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from optimist.commands.words import WORDS
from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import scored

pytestmark = pytest.mark.long


@pytest.fixture
def page(open_page: OpenPage, client: Optimist, request: pytest.FixtureRequest) -> Page:
    name = f"explained-{abs(hash(request.node.name)) % 10**6}"
    made = client.create_experiment(name, ["a", "b"], metric=Mean(), stop=False)
    for pick in made.picks(60):
        pick.tell(list(np.random.default_rng(pick.seed).standard_normal(pick.size) + (pick.generator == "a")))
    scored(made)
    made.ask(worker="w")
    options: dict[str, Any] = getattr(request, "param", {})
    shown = open_page(f"/#/e/{name}", bypass_csp=True, **options)
    expect(shown.locator(".picks td").first).to_be_visible()
    return shown


def test_they_are_explained_as_in_the_command(page: Page):
    meanings = page.evaluate("""async () => (await import("/dashboard/0/term.js")).MEANINGS""")
    assert meanings == {word: WORDS[word] for word in meanings}
    shown = page.locator(".term:visible").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert len(shown) == len(set(shown)), "one word is explained twice"
    words = {label.split("“")[1].split("”")[0] for label in shown}
    assert {"evidence", "lease", "ask, pick", "leader", "interval", "worse, as good"} <= words <= set(meanings)


def test_they_are_reached_by_keys(page: Page, axe: str):
    lease = page.get_by_role("button", name="What does “lease” mean?")
    lease.focus()
    page.keyboard.press("Enter")
    meaning = page.locator("#meaning")
    expect(meaning).to_be_visible()
    expect(meaning).to_have_text(f"lease: {WORDS['lease']}")
    expect(lease).to_be_focused()
    assert serious_violations_of_both_schemes(page, axe) == []
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    expect(lease).to_be_focused()


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_they_are_reached_by_touch_and_stay_on_the_screen(page: Page):
    meaning = page.locator("#meaning")
    for button in page.locator(".term:visible").all():
        button.tap()
        expect(meaning).to_be_visible()
        expect(meaning).to_be_in_viewport(ratio=1)
        page.get_by_role("heading", level=1).tap()
        expect(meaning).to_be_hidden()


def test_the_page_says_what_is_meant_in_plain_words(page: Page):
    page.locator("#how > summary").click()
    text = page.locator("main").inner_text().lower()
    for jargon in (
        "given to the current leader",
        "lease ends",
        "told",
        "optimal pick ratio",
        "stale",
        "contrast",
        "position",
    ):
        assert jargon not in text, jargon
