"""The page for raters: by keys alone, blind, with answers that a lost connection does not lose."""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean, Metric, WinRate
from tests.support.keys import bearer, new_key
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service, scored, until
from tests.support.receivers import receiving

pytestmark = pytest.mark.long
MARKS = Mean(reads="human", proxy="judge", range=(1, 5))
VOTES = WinRate(reads="human", proxy="judge")
PROMPT = "Explain <b>recursion</b> to a child."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

Preview = Callable[[str, int], Any]
"""What a worker shows of a generator's sample with this index."""
OpenRating = Callable[..., Page]
"""The name of an experiment and of a rater, further arguments of `OpenPage`."""


def text(generator: str, index: int) -> str:
    """Long enough to scroll, with what must not run."""
    return f"<script>document.title = 'run'</script>\nNumber {index} of {generator}. " + "It goes on and on. " * 300


def told(client: Optimist, name: str, generators: list[str], metric: Metric, preview: Preview, rows: int) -> Experiment:
    """An experiment with `rows` samples of each generator, of which a judge knows nothing."""
    settings: dict[str, Any] = {
        "previews": 2 * rows,
        "prompts": [PROMPT],
        "policy": "uniform",
        "batch_size": 12,
        "stop": False,
    }
    experiment = client.create_experiment(name, generators, metric=metric, **settings)
    for pick in experiment.picks(max_samples=rows * len(generators)):
        pick.tell(
            {"judge": np.full((pick.size, 1), 0.5)},
            previews=[preview(pick.generator, pick.number * 12 + place) for place in range(pick.size)],
        )
    return experiment


@pytest.fixture
def open_rating(open_page: OpenPage, service: Service) -> OpenRating:
    def opened(name: str, rater: str, **options: Any) -> Page:
        page = open_page("about:blank", **options)
        page.request.post("/v1/session", headers=bearer(new_key(service.directory, "rater", "default", name)))
        page.goto(f"/#/r/{name}")
        page.get_by_label("Your name").fill(rater)
        page.keyboard.press("Enter")
        expect(page.locator(".audit")).to_be_visible()
        return page

    return opened


def counts(http: httpx.Client, name: str) -> dict[str, Any]:
    return http.get(f"/v1/experiments/{name}/audits").raise_for_status().json()


def answered(http: httpx.Client, name: str, number: int) -> None:
    until(lambda: counts(http, name)["answered"] == number, says=lambda: f"{counts(http, name)}")


def test_ten_audits_by_keys_with_undo_and_a_comment(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str, axe: str
):
    experiment = told(client, name, ["ada"], MARKS, text, 12)
    page = open_rating(name, "anna", bypass_csp=True)
    expect(page.locator(".audit-prompt")).to_have_text(PROMPT)
    expect(page.locator(".rated")).to_contain_text("<script>")
    assert "run" not in page.title()
    assert page.locator(".read").evaluate("text => text.scrollHeight > text.clientHeight")
    assert serious_violations_of_both_schemes(page, axe) == []
    seen = list[str]()
    for number, mark in enumerate("1234543215"):
        seen.append(page.locator(".read").inner_text())
        if number == 3:
            page.keyboard.press("c")
            page.keyboard.type("5 is too much, 4 it is")  # digits of a comment are no scores
            page.keyboard.press("Escape")
        page.keyboard.press(mark)
        expect(page.locator(".read")).not_to_have_text(seen[-1], use_inner_text=True)
    assert len(set(seen)) == 10
    for key, place in (("z", 9), ("Backspace", 8)):
        page.keyboard.press(key)
        expect(page.locator(".read")).to_have_text(seen[place], use_inner_text=True)
    answered(http, name, 8)
    page.keyboard.press("2")
    page.keyboard.press("2")
    expect(page.locator(".rating-title")).to_contain_text("10 answered")
    expect(page.locator(".rating-title")).to_contain_text("10 by you just now")
    answered(http, name, 10)
    (comment,) = counts(http, name)["comments"]
    assert (comment["rater"], comment["comment"]) == ("anna", "5 is too much, 4 it is")
    assert scored(experiment).standings[0].score == pytest.approx(np.mean([1, 2, 3, 4, 5, 4, 3, 2, 2, 2]))
    page.keyboard.press("3")
    page.keyboard.press("3")
    expect(page.get_by_role("heading", name="Nothing to rate now")).to_be_visible()
    expect(page.get_by_text("New samples come up here by themselves")).to_be_visible()
    assert serious_violations_of_both_schemes(page, axe) == []


def test_a_raters_key_shows_nothing_else(open_page: OpenPage, service: Service, client: Optimist, name: str):
    told(client, name, ["ada-the-first", "bob"], MARKS, lambda generator, index: f"{index}", 12)
    key = new_key(service.directory, "rater", "default", name)
    page = open_page("about:blank", expected="403")
    page.request.post("/v1/session", headers=bearer(key))
    for path in ("/", f"/#/e/{name}", f"/#/c/{name}/{name}", "/#/e/other"):
        page.goto("about:blank")
        page.goto(path)
        page.wait_for_url(f"**/#/r/{name}")
        expect(page.get_by_role("heading", name="Who rates?")).to_be_visible()
    page.get_by_label("Your name").fill("anna")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sample B")).to_be_visible()
    assert "ada-the-first" not in page.content()
    for path in ("", f"/{name}", f"/{name}/report", f"/{name}/previews", f"/{name}/audits"):
        assert page.request.get(f"/v1/experiments{path}").status == 403


def test_a_raters_key_of_two_experiments_offers_both(open_page: OpenPage, service: Service):
    page = open_page("about:blank", expected="403")
    page.request.post("/v1/session", headers=bearer(new_key(service.directory, "rater", "default", "one", "two")))
    page.goto("/")
    expect(page.get_by_role("link", name="two")).to_have_attribute("href", "#/r/two")


def test_marks_of_two_side_by_side_on_a_phone(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str, axe: str
):
    """By touch, in an order of its own for each audit: the marks are those of the samples that were marked."""
    experiment = told(client, name, ["good", "bad"], MARKS, text, 36)
    page = open_rating(name, "anna", bypass_csp=True, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert serious_violations_of_both_schemes(page, axe) == []
    orders = set[bool]()
    for number in range(24):
        first, second = page.get_by_role("article").all()
        is_first = "of good" in first.inner_text()
        orders.add(is_first)
        before = page.locator(".rated").inner_text()
        (second if is_first else first).get_by_role("button", name="2").tap()
        (first if is_first else second).get_by_role("button", name="4").tap()
        expect(page.locator(".rated")).not_to_have_text(before, use_inner_text=True)
        expect(page.locator(".rating-title")).to_contain_text(f"{number + 1} by you")
    assert orders == {True, False}
    answered(http, name, 24)
    assert {one.generator: one.score for one in scored(experiment).standings} == pytest.approx({"good": 4, "bad": 2})


def test_a_mark_of_two_is_taken_back_alone(open_rating: OpenRating, client: Optimist, name: str):
    told(client, name, ["a", "b"], MARKS, text, 12)
    page = open_rating(name, "anna")
    one, other = page.get_by_role("article").all()
    page.keyboard.press("4")
    expect(one.get_by_role("button", name="4")).to_have_attribute("aria-pressed", "true")
    expect(other).to_have_class(re.compile("turn"))
    page.keyboard.press("z")
    expect(one.get_by_role("button", name="4")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("5")
    expect(other.get_by_role("button", name="5")).to_have_attribute("aria-pressed", "true")
    expect(one).to_have_class(re.compile("turn"))
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()


def image(generator: str, index: int) -> np.ndarray:
    """Red of the generator that is called so, else blue, of another brightness each."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[..., 0 if generator == "red" else 2] = 100 + index % 100
    return pixels


REDNESS = """image => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  context.drawImage(image, 0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data[0];
}"""


def test_votes_on_images_by_arrows(open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str, axe: str):
    """The next ones are loaded before they are needed."""
    experiment = told(client, name, ["red", "blue"], VOTES, image, 36)
    page = open_rating(name, "anna", bypass_csp=True)
    assert serious_violations_of_both_schemes(page, axe) == []
    for number in range(24):
        first = page.get_by_alt_text("Sample A")
        until(lambda shown=first: shown.evaluate("image => image.complete && image.naturalWidth > 0"))
        key = "=" if number % 4 == 0 else "ArrowLeft" if first.evaluate(REDNESS) else "ArrowRight"
        page.keyboard.press(key)
        expect(page.locator(".rating-title")).to_contain_text(f"{number + 1} by you")
    answered(http, name, 24)
    standings = {one.generator: one.score for one in scored(experiment).standings}
    assert standings == pytest.approx({"red": 0.875, "blue": 0.125})


def sound(generator: str, index: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(1)
        written.setframerate(8000)
        wave_form = 128 + 60 * np.sin(np.arange(16_000) * (index + 3) / 10)
        written.writeframes(wave_form.astype(np.uint8).tobytes())
    return file.getvalue()


def test_sounds_are_played_by_a_key(open_rating: OpenRating, client: Optimist, name: str, axe: str):
    told(client, name, ["ada"], MARKS, sound, 12)
    page = open_rating(name, "anna", bypass_csp=True)
    assert serious_violations_of_both_schemes(page, axe) == []
    own = page.get_by_label("Sample A", exact=True).and_(page.locator("audio"))
    for is_paused in (False, True):
        page.keyboard.press("p")
        expect(own).to_have_js_property("paused", is_paused)
    page.keyboard.press("p")
    page.keyboard.press("4")
    expect(own).to_have_js_property("paused", True)  # that of the next audit
    expect(own).to_have_js_property("currentTime", 0)


def test_a_lost_connection_and_a_closed_page_lose_no_answer(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str
):
    told(client, name, ["ada"], MARKS, text, 36)
    page = open_rating(name, "anna", expected="ERR_INTERNET_DISCONNECTED")
    page.keyboard.press("3")
    answered(http, name, 1)
    page.context.set_offline(True)
    for number in (2, 3, 4):
        page.keyboard.press("4")
        expect(page.locator(".rating-title")).to_contain_text(f"{number} by you")
    expect(page.get_by_text("3 answers are kept in this browser")).to_be_visible()
    expect(page.locator("#banner")).to_be_visible()
    page.context.set_offline(False)
    answered(http, name, 4)
    expect(page.get_by_text("kept in this browser")).to_have_count(0)
    page.context.set_offline(True)
    page.keyboard.press("5")
    expect(page.get_by_text("One answer is kept in this browser")).to_be_visible()
    context = page.context
    page.close()  # one that is only left goes on sending for a moment
    assert counts(http, name)["answered"] == 4
    context.set_offline(False)
    context.new_page().goto(f"/#/r/{name}")  # which still knows the name
    answered(http, name, 5)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_connection_that_breaks_in_the_middle_of_a_body_ends_nothing(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str, method: str
):
    told(client, name, ["ada"], MARKS, text, 12)
    page = open_rating(name, "anna", expected="ERR_CONTENT_LENGTH_MISMATCH")
    with receiving(answer=lambda sent: 200, headers={"content-length": "1000"}) as breaking:

        def once(route: Route) -> None:
            breaks = route.request.method == method and not breaking.arrived
            route.continue_(url=breaking.url if breaks else None)

        page.route(f"**/experiments/{name}/audits**", once)
        for number in range(12):
            expect(page.locator(".read")).to_be_visible()
            page.keyboard.press("3")
            expect(page.locator(".rating-title")).to_contain_text(f"{number + 1} by you")
        expect(page.locator(".rating-title")).to_contain_text("12 answered")
        assert len(breaking.arrived) == 1
    answered(http, name, 12)


def test_what_was_retracted_is_said_and_the_next_one_goes_on(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str
):
    experiment = told(client, name, ["ada"], MARKS, text, 12)
    page = open_rating(name, "anna", expected="status of 4")
    experiment.retract(generator="ada")
    page.keyboard.press("3")
    expect(page.get_by_text("An answer was not taken")).to_be_visible()


def test_two_browsers_have_different_audits(open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str):
    told(client, name, ["ada"], MARKS, text, 24)
    seen = list[str]()
    pages = [open_rating(name, rater) for rater in ("anna", "ben")]
    for number in range(8):
        for page in pages:
            seen.append(page.locator(".read").inner_text())
            page.keyboard.press("3")
            expect(page.locator(".rating-title")).to_contain_text(f"{number + 1} by you")
    assert len(set(seen)) == 16
    answered(http, name, 16)
    assert {one["rater"]: one["answered"] for one in counts(http, name)["raters"]} == {"anna": 8, "ben": 8}


def test_samples_that_the_service_does_not_keep_are_left_out(
    open_rating: OpenRating, client: Optimist, http: httpx.Client, name: str
):
    """And those that it keeps are all rated, however they lie between the others."""
    experiment = told(client, name, ["ada"], MARKS, text, 12)
    for start in (12, 24):
        experiment.append("ada", {"judge": np.full((12, 1), 0.5)}, start=start)
    page = open_rating(name, "anna")
    for number in range(12):
        expect(page.locator(".read")).to_contain_text("of ada")
        page.keyboard.press("3")
        expect(page.locator(".rating-title")).to_contain_text(f"{number + 1} by you")
    answered(http, name, 12)
    expect(page.get_by_text("once the service has a preview of each")).to_be_visible()
    assert counts(http, name)["open"] == 0
