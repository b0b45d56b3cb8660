"""The list of experiments: searched, filtered, sorted, compared, labelled and kept in the address; deletions."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from optimist_client import ConflictError, NotFoundError, Optimist
from optimist_client.metrics import Mean, WinRate
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service, scored


@pytest.fixture(scope="module")
def list_of_three(service: Service) -> Iterator[None]:
    with Optimist(service.url) as client:
        client.create_experiment("list-empty", ["a", "b"], metric=Mean())
        costly = client.create_experiment(
            "list-costly", ["<b>left</b>", "right"], metric=WinRate(), costs={"right": 2.5}, stop=False
        )
        rng = random.Random(0)
        for pick in costly.picks(120):
            chance = 0.9 if pick.generator == "right" else 0.3
            pick.tell([float(rng.random() < chance) for _ in range(pick.size)])
        client.create_experiment("list-stopped", ["a", "b"], metric=Mean()).stop()
        scored(costly)
        yield


def names(page: Page) -> list[str]:
    return [name for name in page.locator(".line th a").all_text_contents() if name.startswith("list-")]


def test_it_is_searched_sorted_and_linked_to(open_page: OpenPage, list_of_three: None, axe: str):
    page = open_page("/", bypass_csp=True)
    expect(page.get_by_role("link", name="list-costly")).to_be_visible()
    assert names(page) == ["list-stopped", "list-costly", "list-empty"]
    page.get_by_label("Search").fill("LIST- win rate")
    expect(page.locator(".line")).to_have_count(1)
    row = page.locator(".line")
    expect(row).to_contain_text("right")
    expect(row.locator(".scored")).to_have_text(re.compile(r"^0\.\d+ ± 0\.\d+$"))
    row.get_by_role("button", name="More about list-costly").click()
    opened = page.locator(".details")
    leader = re.compile(r"^right: 0\.\d+, from 0\.\d+ to ")
    expect(opened.get_by_role("img", name=leader)).to_be_visible()
    expect(opened.get_by_role("img", name="Next, <b>left</b>: ")).to_be_visible()
    expect(opened.locator(".two .clip")).to_have_text(["right", "<b>left</b>"])
    assert serious_violations_of_both_schemes(page, axe) == []
    page.get_by_label("Search").fill("list-")
    page.get_by_role("button", name="Samples").click()
    assert names(page)[0] == "list-costly"
    page.get_by_role("button", name="Experiment").click()
    assert names(page) == ["list-costly", "list-empty", "list-stopped"]
    page.get_by_role("button", name="Experiment").click()
    assert names(page) == ["list-stopped", "list-empty", "list-costly"]
    page.get_by_label("State").select_option("stopped")
    assert names(page) == ["list-stopped"]
    again = open_page(page.url)
    expect(again.get_by_label("Search")).to_have_value("list-")
    expect(again.locator(".line th")).to_have_text(["list-stopped"])
    again.get_by_label("State").select_option("")
    assert names(again) == ["list-stopped", "list-empty", "list-costly"]
    assert serious_violations_of_both_schemes(page, axe) == []


@pytest.mark.long
@pytest.mark.parametrize("width", [1440, 1000, 900])
def test_states_and_budgets_are_whole(open_page: OpenPage, service: Service, width: int):
    with Optimist(service.url) as client, contextlib.suppress(ConflictError):
        made = client.create_experiment("whole", ["a", "b"], metric=Mean(), budget=1_200, batch_size=200)
        for pick in made.picks():
            pick.tell([0.5] * pick.size)
    page = open_page("/#/?q=whole", viewport={"width": width, "height": 900})
    expect(page.locator(".line .badge")).to_have_text("out of budget")
    assert page.evaluate(
        "() => [...document.querySelectorAll('.line > :is(.state, .amount)')].map("
        "({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
    ) == [True, True]


@pytest.mark.long
def test_rows_are_two_lines_on_a_phone(open_page: OpenPage, list_of_three: None, axe: str):
    page = open_page("/#/?q=list-", bypass_csp=True, viewport={"width": 390, "height": 844})
    expect(page.locator(".line")).to_have_count(3)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.get_by_label("Sort by").select_option("samples")
    assert names(page)[0] == "list-costly"
    assert serious_violations_of_both_schemes(page, axe) == []


@pytest.mark.long
def test_an_experiment_is_deleted_once_that_is_confirmed(open_page: OpenPage, client: Optimist):
    client.create_experiment("gone-soon", ["a", "b"], metric=Mean())
    page = open_page("/#/?q=gone")
    page.get_by_role("checkbox", name="Select gone-soon").check()
    remove = page.get_by_role("button", name="Delete …")
    remove.click()
    expect(page.get_by_role("dialog")).to_contain_text("gone-soon and its 0 samples are deleted")
    page.get_by_role("button", name="Cancel").click()
    assert client.experiment("gone-soon").report().samples == 0
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".line")).to_have_count(0)
    with pytest.raises(NotFoundError):
        client.experiment("gone-soon").report()


@pytest.mark.long
def test_several_get_a_tag_at_once(open_page: OpenPage, client: Optimist):
    made = [client.create_experiment(name, ["a", "b"], metric=Mean(), tags=["old"]) for name in ("tag-one", "tag-two")]
    page = open_page("/")
    expect(page.get_by_role("link", name="tag-one")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("tag-")
    for experiment in made:
        page.get_by_role("checkbox", name=f"Select {experiment.name}").check()
    expect(page.get_by_role("group", name="Selected experiments")).to_contain_text("2 selected")
    page.get_by_role("button", name="Add a tag …").click()
    page.get_by_role("dialog").get_by_label("Tag").fill("morning")
    page.keyboard.press("Enter")
    expect(page.locator(".line").get_by_role("button", name="morning")).to_have_count(2)
    assert [experiment.report().tags for experiment in made] == [["old", "morning"]] * 2


@pytest.mark.long
def test_views_are_saved_under_a_name(open_page: OpenPage, client: Optimist):
    client.create_experiment("viewed", ["a", "b"], metric=Mean())
    page = open_page("/#/?q=viewed")
    expect(page.locator(".line")).to_have_count(1)
    page.get_by_role("button", name="Save view").click()
    page.get_by_role("dialog").get_by_label("Name").fill("mine")
    page.keyboard.press("Enter")
    expect(page.get_by_label("View", exact=True)).to_have_value("q=viewed")
    page.get_by_label("View", exact=True).select_option("All")
    expect(page.get_by_label("Search")).to_have_value("")
    page.get_by_label("View", exact=True).select_option("mine")
    expect(page.get_by_label("Search")).to_have_value("viewed")
    page.get_by_role("button", name="Forget view").click()
    expect(page.get_by_label("View", exact=True)).to_be_hidden()


@pytest.mark.long
def test_an_abandoned_experiment_is_idle(open_page: OpenPage, client: Optimist):
    client.create_experiment("abandoned", ["a", "b"], metric=Mean()).ask().give_up()
    page = open_page("/")
    said = """async (one) => (await import("/dashboard/0/overview-row.js")).stateOf(one)"""
    one = page.request.get("/v1/experiments?search=abandoned").json()["experiments"][0]
    assert (one["open_picks"], one["active"] > one["created"]) == (0, True)
    assert page.evaluate(said, one) == one["state"]
    assert page.evaluate(said, {**one, "active": one["active"] - 3 * 3600}) == "idle 3 h"
    assert page.evaluate(said, {**one, "active": one["active"] - 3 * 3600, "open_picks": 1}) == one["state"]


@pytest.mark.long
def test_all_pages_of_a_long_list_are_searched_and_follow_changes(open_page: OpenPage, client: Optimist):
    made = [f"many-{number:03}" for number in range(255)]  # the newest 50, then 200, then the rest
    for name in made:
        client.create_experiment(name, ["a", "b"], metric=Mean(), tags=["odd" if int(name[-1]) % 2 else "even"])
    try:
        page = open_page("/#/?q=many-&tag=odd")
        rows = page.locator(".line")
        page.get_by_role("button", name="Show all 127").click()
        expect(rows).to_have_count(127)
        page.get_by_label("Search").fill("many-001")
        expect(rows).to_have_count(1)
        page.get_by_label("Search").fill("many-")
        page.get_by_role("button", name="Experiment").click()
        expect(rows.first).to_contain_text("many-001")
        client.delete_experiment(made.pop(1))
        client.create_experiment("many-zzz", ["a", "b"], metric=Mean(), tags=["odd"])
        made.append("many-zzz")
        expect(rows.first).to_contain_text("many-003")
        expect(rows.last).to_contain_text("many-zzz")
        expect(rows).to_have_count(127)
    finally:
        for name in made:
            client.delete_experiment(name)


@pytest.mark.long
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


@pytest.fixture(scope="module")
def thirty_four(service: Service) -> Iterator[list[str]]:
    """The names of as many experiments, in groups by their names and by tags."""
    long = "a-name-that-is-longer-than-a-row-has-room-for-on-any-page"
    made = [f"{kind}-{n}" for kind in ("rows-lr", "rows-decay", "rows-night-2026-11") for n in range(11)] + [
        f"rows-{long}"
    ]
    with Optimist(service.url) as client:
        for name in made:
            tags = ["nightly", "a tag of a paper", "figure-three"] if "night" in name else []
            note = "A note of several words that the row has no room for. " * 3
            client.create_experiment(name, ["a", "b"], metric=Mean(), tags=tags, note=note)
        yield made
        for name in made:
            client.delete_experiment(name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "row", "screens"), [(1440, 900, 40, 1.8), (900, 900, 40, 1.9), (390, 844, 44, 2.3)]
)
def test_a_row_is_one_line_whatever_it_holds(
    open_page: OpenPage, thirty_four: list[str], width: int, height: int, row: int, screens: float
):
    page = open_page("/#/?q=rows-", viewport={"width": width, "height": height})
    expect(page.locator(".line")).to_have_count(len(thirty_four))
    heights = page.locator(".line").evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
    assert set(heights) == {row}
    assert page.evaluate("() => document.documentElement.scrollHeight / innerHeight") < screens
    # Nothing but the name is cut, and that opens.
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.className)"
    assert set(page.locator(".line > td").evaluate_all(cut)) == set()
    assert (
        page.evaluate(
            "() => { const all = document.querySelector('.scroll'); return all.scrollWidth - all.clientWidth; }"
        )
        <= 0
    )
    page.get_by_role("button", name=f"More about {thirty_four[-2]}").click()
    expect(page.locator(".details")).to_contain_text("A note of several words that the row has no room for.")
    expect(page.locator(".details .chip")).to_have_text(["nightly", "a tag of a paper", "figure-three"])


@pytest.mark.long
def test_groups_fold_and_stay_folded(open_page: OpenPage, thirty_four: list[str], axe: str):
    page = open_page("/#/?q=rows-", bypass_csp=True)
    page.get_by_label("Group by").select_option("Name")
    heads = page.locator(".group .name")
    expect(heads).to_have_text(["rows-night", "rows-decay", "rows-lr", "Other names"])
    expect(page.locator(".group").first).to_contain_text("11: 11 warming up")
    for name in ("rows-decay", "rows-lr"):
        page.locator(".group button", has_text=name).focus()
        page.keyboard.press("Enter")
    folded = page.locator(".group button", has_text="rows-lr")
    expect(folded).to_be_focused()
    expect(folded).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".line")).to_have_count(12)
    assert serious_violations_of_both_schemes(page, axe) == []
    page.goto("/#/?q=rows-&sort=name")  # another view of the same browser
    page.reload()
    expect(page.locator(".line")).to_have_count(12)
    expect(heads).to_have_text(["rows-decay", "rows-lr", "rows-night", "Other names"])
    page.get_by_label("Group by").select_option("Tag")
    expect(heads).to_have_text(["nightly", "Without a tag"])
    expect(page.locator(".line")).to_have_count(34)
    page.get_by_label("Group by").select_option("Name")
    folded.click()
    expect(page.locator(".line")).to_have_count(23)


@pytest.mark.long
@pytest.mark.parametrize("size", [{"width": 1440, "height": 900}, {"width": 390, "height": 844}], ids=["wide", "phone"])
def test_what_can_be_done_with_selected_rows_stays_in_sight(
    open_page: OpenPage, thirty_four: list[str], size: dict[str, int]
):
    page = open_page("/#/?q=rows-", viewport=size)
    page.get_by_role("checkbox", name=f"Select {thirty_four[-1]}").check()
    page.get_by_role("checkbox", name=f"Select {thirty_four[0]}").check()
    for where in (0, 10_000):
        page.evaluate("where => scrollTo(0, where)", where)
        for role, name in (("link", "Compare"), ("button", "Add a tag …"), ("button", "Delete …"), ("button", "Clear")):
            expect(page.get_by_role(role, name=name)).to_be_in_viewport(ratio=1)
    last = page.get_by_role("button", name=f"More about {thirty_four[0]}")
    over = """element => {
      const { x, y, width, height } = element.getBoundingClientRect();
      return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    }"""
    assert last.evaluate(over), "the bar stands on the last row"
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".chosen")).to_be_hidden()
    expect(page.locator(".line input:checked")).to_have_count(0)


PHONE = {"width": 390, "height": 844}


@pytest.mark.long
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
    page.get_by_role("button", name="More about labels-tagged").click()
    row = page.locator(".details")
    expect(row).to_contain_text("Learning rate 3e-4")
    row.get_by_role("button", name="<b>old</b>").click()
    expect(page.locator(".line")).to_have_count(2)
    assert page.url.endswith("tag=%3Cb%3Eold%3C%2Fb%3E")
    page.get_by_label("Search").fill("rate 3E-4")
    expect(page.locator(".line")).to_have_count(1)
    assert serious_violations_of_both_schemes(page, axe) == []


@pytest.mark.long
def test_what_the_service_refuses_is_said_and_nothing_typed_is_lost(open_page: OpenPage, client: Optimist):
    client.create_experiment("labels-refused", ["a", "b"], metric=Mean())
    page = open_page("/#/e/labels-refused", expected="Failed to load resource")
    page.get_by_role("button", name="Add tags or a note").click()
    page.get_by_label("Tags, separated by commas").fill("x" * 65)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".labelling .problem")).to_contain_text("64")
    expect(page.get_by_label("Tags, separated by commas")).to_have_value("x" * 65)
