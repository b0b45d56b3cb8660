"""Tags and notes: shown and edited on an experiment's page, and what the list is filtered by."""

from __future__ import annotations

from playwright.sync_api import expect

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage, serious_violations_of_both_schemes

PHONE = {"width": 390, "height": 844}


def test_tags_and_a_note_are_edited_and_filter_the_list(open_page: OpenPage, client: Optimist, axe: str):
    client.create_experiment("labels-bare", ["a", "b"], metric=Mean())
    client.create_experiment("labels-tagged", ["a", "b"], metric=Mean(), tags=["<b>old</b>"], note="Learning rate 3e-4")
    page = open_page("/#/e/labels-bare", bypass_csp=True, viewport=PHONE)
    page.get_by_role("button", name="Add tags or a note").click()
    expect(page.get_by_label("Tags, separated by commas")).to_be_focused()
    page.get_by_label("Tags, separated by commas").fill(" fresh, <b>old</b>,, fresh")
    page.get_by_label("Note", exact=True).last.fill("First line\nsecond line")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Edit tags and note")).to_be_focused()
    expect(page.locator(".chip")).to_have_text(["fresh", "<b>old</b>"])
    expect(page.locator(".note")).to_have_text("First line\nsecond line")
    report = client.experiment("labels-bare").report()
    assert (report.tags, report.note) == (["fresh", "<b>old</b>"], "First line\nsecond line")
    assert serious_violations_of_both_schemes(page, axe) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]

    page.get_by_role("link", name="fresh").click()
    expect(page.locator(".line th a").first).to_have_text("labels-bare")
    expect(page.locator(".line")).to_have_count(1)
    page.get_by_label("Tag", exact=True).select_option("")
    row = page.locator(".line", has_text="labels-tagged")
    expect(row.locator(".noted")).to_have_text("Learning rate 3e-4")
    row.get_by_role("button", name="<b>old</b>").click()
    expect(page.locator(".line")).to_have_count(2)
    assert page.url.endswith("tag=%3Cb%3Eold%3C%2Fb%3E")
    page.get_by_label("Search").fill("rate 3E-4")
    expect(page.locator(".line")).to_have_count(1)
    assert serious_violations_of_both_schemes(page, axe) == []


def test_what_the_service_refuses_is_said_and_nothing_typed_is_lost(open_page: OpenPage, client: Optimist):
    client.create_experiment("labels-refused", ["a", "b"], metric=Mean())
    page = open_page("/#/e/labels-refused", expected="Failed to load resource")
    page.get_by_role("button", name="Add tags or a note").click()
    page.get_by_label("Tags, separated by commas").fill("x" * 65)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".labelling .problem")).to_contain_text("64")
    expect(page.get_by_label("Tags, separated by commas")).to_have_value("x" * 65)
