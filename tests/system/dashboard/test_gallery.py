"""Previews of samples on the page of an experiment."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from optimist_client import Experiment, Optimist
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service

IMAGES, TEXTS = "with-images", "with-texts"
KERNEL = {"sigma": 1.0, "features": 16}
CONFIG: dict[str, Any] = {"dimension": 2, "kernel": KERNEL, "policy": "uniform", "batch_size": 4, "stop": False}
PROMPTS = ["Say <b>hello</b>", "A long prompt, " + "which goes on and on, " * 20]
pytestmark = pytest.mark.long


def image(seed: int, channel: int) -> np.ndarray:
    """Pixels that are the same wherever the seed is, but for the colour."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[..., channel] = np.kron(np.random.default_rng(seed).integers(0, 256, (8, 8)), np.ones((8, 8)))
    return pixels


def told(experiment: Experiment, batches: int) -> None:
    for pick in experiment.picks(max_samples=4 * batches):
        rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 2))
        if pick.prompts:
            texts = [
                f"<script>document.title = 'run'</script> {pick.generator}\n" + f"{text} " * 30 for text in pick.prompts
            ]
            pick.tell(rows, prompts=rows, previews=texts)
        else:
            channel = ["red", "green", "blue"].index(pick.generator)
            # Every fourth sample of blue is the same: it has collapsed.
            seeds = [0 if channel == 2 and place == 0 else seed for place, seed in enumerate(pick.seeds)]
            pick.tell(rows, previews=[image(seed, channel) for seed in seeds])


@pytest.fixture(scope="module")
def pictured(service: Service) -> str:
    with Optimist(service.url) as client:
        told(client.create_experiment(IMAGES, ["red", "green", "blue"], metric="rke", previews=20, **CONFIG), 36)
    return IMAGES


@pytest.fixture(scope="module")
def written(service: Service) -> str:
    with Optimist(service.url) as client:
        of_prompts = {"prompts": PROMPTS, "prompt_dimension": 2, "prompt_kernel": KERNEL}
        config = {"metric": "conditional-vendi", "previews": 8, **CONFIG, **of_prompts}
        told(client.create_experiment(TEXTS, ["short", "long"], **config), 4)
    return TEXTS


def until_loaded(page: Page, where: str) -> None:
    """Until all images there have come, those that are on the screen."""
    for found in page.locator(f"{where} img").all():
        found.scroll_into_view_if_needed()
        expect(found).to_have_js_property("complete", True)
        assert found.evaluate("image => image.naturalWidth") == 64


def test_the_latest_random_ones_and_side_by_side(open_page: OpenPage, client: Optimist, pictured: str):
    page = open_page(f"/#/e/{pictured}?samples=latest")
    lines = page.locator(".gallery-line")
    expect(lines).to_have_count(3)
    expect(lines.first).to_contain_text("20 kept")
    expect(page.locator(".gallery-line .same").get_by_text("×").first).to_be_visible()  # equal ones are folded
    until_loaded(page, ".gallery")
    page.get_by_role("button", name="Show more").click()
    shown = page.locator(".gallery-line").filter(has_text="red").locator(".tile")
    expect(shown).to_have_count(20)
    # Those that come are shown without a reload.
    first = shown.first.get_attribute("aria-label")
    told(client.experiment(pictured), 6)
    expect(shown.first).not_to_have_attribute("aria-label", first or "")

    page.get_by_text("Random", exact=True).click()
    before = shown.first.get_attribute("aria-label")
    page.get_by_role("button", name="Shuffle").click()
    expect(shown.first).not_to_have_attribute("aria-label", before or "")

    page.get_by_text("Side by side", exact=True).click()
    rows = page.locator(".side-by-side tbody tr")
    expect(rows).to_have_count(6)
    assert [row.locator(".tile").count() for row in rows.all()] == [3] * 6, "the same indices of all"
    labels = [tile.get_attribute("aria-label") or "" for tile in rows.first.locator(".tile").all()]
    assert len({text.partition("index ")[2] for text in labels}) == 1
    until_loaded(page, ".gallery")


def test_by_mode_near_ones_are_folded_and_opened_together(open_page: OpenPage, client: Optimist, axe: str):
    config = {"policy": "uniform", "batch_size": 4, "previews": 16, "stop": False}
    experiment = client.create_experiment("by-mode", ["whole", "half"], reference=(np.zeros(2), np.eye(2)), **config)
    for pick in experiment.picks(max_samples=32):
        # Of "half" the first mode is one sample over and over, and the second is lacking.
        of, spread = ([0, 0, 1, 1], 2.0) if pick.generator == "whole" else ([0, 0, 0, 0], 0.01)
        noise = spread * np.random.default_rng(pick.seed).standard_normal((4, 2))
        pick.tell(np.array([[0.0, 0.0], [30.0, 0.0]])[of] + noise, previews=[image(seed, 0) for seed in pick.seeds])
    page = open_page("/#/e/by-mode", bypass_csp=True)
    rows = page.locator(".by-mode tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("none")
    folded = rows.first.locator("td[data-head=half] .tile")
    expect(folded).to_have_count(1)
    expect(folded.locator(".same")).to_have_text("× 16")
    assert page.url.endswith("/by-mode")
    assert serious_violations_of_both_schemes(page, axe) == []
    folded.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".alike li")).to_have_count(16)
    dialog.locator(".alike button").nth(6).click()
    expect(dialog).to_contain_text("7 of 16 alike")
    page.keyboard.press("ArrowRight")
    expect(dialog).to_contain_text("8 of 16 alike")
    assert serious_violations_of_both_schemes(page, axe) == []
    for width in (390, 1024):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_one_is_enlarged(open_page: OpenPage, pictured: str, axe: str):
    page = open_page(f"/#/e/{pictured}", bypass_csp=True, viewport={"width": 390, "height": 844})
    page.get_by_text("Side by side", exact=True).click()
    tiles = page.locator(".side-by-side .tile")
    tiles.first.wait_for()
    assert serious_violations_of_both_schemes(page, axe) == []
    tiles.first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("red")
    until_loaded(page, "dialog.enlarged")
    assert serious_violations_of_both_schemes(page, axe) == []
    assert (dialog.locator("img").bounding_box() or {"width": 0})["width"] > 200
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("heading")).to_have_text("green")
    dialog.get_by_role("button", name="Previous").click()
    expect(dialog.get_by_role("heading")).to_have_text("red")
    expect(dialog.get_by_role("button", name="Previous")).to_be_disabled()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(tiles.first).to_be_focused()


@pytest.mark.parametrize("is_enlarged", [False, True])
def test_the_focus_stays_on_a_sample_while_others_come(
    open_page: OpenPage, client: Optimist, pictured: str, is_enlarged: bool
):
    page = open_page(f"/#/e/{pictured}?samples=latest")
    tiles = page.locator(".gallery-line").filter(has_text="red").locator(".tile")
    first = tiles.first.get_attribute("aria-label") or ""
    tiles.first.focus()
    if is_enlarged:
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
    told(client.experiment(pictured), 6)
    expect(tiles.first).not_to_have_attribute("aria-label", first)
    if is_enlarged:
        page.keyboard.press("Escape")
    expect(page.get_by_label(first, exact=True)).to_be_focused()


def test_texts_open_in_full_and_nothing_of_them_runs(open_page: OpenPage, written: str, axe: str):
    page = open_page(f"/#/e/{written}", bypass_csp=True)
    page.get_by_text("Side by side", exact=True).click()
    row = page.locator(".side-by-side tbody tr").filter(has_text="Say <b>hello</b>").first
    expect(row.locator(".tile")).to_have_count(2)
    row.locator(".tile").first.click()
    dialog = page.get_by_role("dialog")
    text = dialog.locator(".enlarged-sample")
    expect(text).to_contain_text("<script>document.title = 'run'</script>")
    expect(text).to_have_js_property("childElementCount", 0)
    expect(text).to_have_text(re.compile(r"[\s\S]{301,}"))  # more than its beginning, once it has come
    expect(dialog.locator(".prompt")).to_have_text("Say <b>hello</b>")
    assert serious_violations_of_both_schemes(page, axe) == []
    assert page.title() != "run"
    # Opened by itself, it is text as well.
    id = (page.request.get(f"/v1/experiments/{written}/previews").json())["previews"][0]["id"]
    page = open_page(f"/v1/experiments/{written}/previews/{id}")
    assert page.title() != "run"
    assert "<script>" in page.locator("body").inner_text()


def test_the_record_of_a_sample_is_shown_and_nothing_of_it_runs(open_page: OpenPage, client: Optimist, axe: str):
    experiment = client.create_experiment(
        "judged-drawn", ["short"], metric="mean", batch_size=2, previews=8, keep_log=True
    )
    reason = "Too short.\n<img src=x onerror=\"document.title = 'run'\">"
    for answers in (["Yes", "No"], ["Never", "Perhaps"]):
        records = [{"prompt": "<b>Is it?</b>", "answer": answers[0], "reason": reason, "marks": [1, None]}, None]
        if answers[0] == "Never":
            records[1] = "text"
        pick = experiment.ask()
        assert pick is not None
        pick.tell([0.25, 0.5], previews=answers, records=records)
    page = open_page("/#/e/judged-drawn?samples=latest", bypass_csp=True)
    page.locator(".tile", has_text="Never").click()
    dialog = page.get_by_role("dialog")
    terms, texts = dialog.locator(".record dt"), dialog.locator(".record dd")
    expect(terms).to_have_text(["prompt", "reason", "marks"])  # the answer is the sample, which stands above
    expect(texts).to_have_text(["<b>Is it?</b>", reason, "[1,null]"])
    assert page.title() != "run"
    assert serious_violations_of_both_schemes(page, axe) == []
    page.keyboard.press("ArrowRight")
    expect(texts).to_have_text(["text"])
    page.keyboard.press("Escape")
    page.locator(".tile", has_text="No").first.click()
    expect(dialog.locator(".enlarged-sample")).to_have_text("No")
    expect(terms).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_a_gallery_without_previews_says_so(open_page: OpenPage, client: Optimist):
    client.create_experiment("empty-gallery", ["a", "b"], reference=(np.zeros(4), np.eye(4)), previews=4)
    page = open_page("/#/e/empty-gallery")
    expect(page.locator("section", has=page.get_by_role("heading", name="Samples"))).to_contain_text("No previews yet")
