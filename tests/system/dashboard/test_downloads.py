"""Standings and charts as CSV, SVG and PNG files."""

from __future__ import annotations

import csv
import io
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage

NAMES = ["=2+3", 'b "quoted", <i>odd</i>']
pytestmark = pytest.mark.long


@pytest.fixture
def page(open_page: OpenPage, client: Optimist) -> Page:
    name = "downloads"
    if name not in client.experiments():
        experiment = client.create_experiment(name, NAMES, metric=Mean(), stop=False)
        for pick in experiment.picks(60):
            pick.tell([NAMES.index(pick.generator) + 0.1 * i for i in range(pick.size)])
    page = open_page(f"/#/e/{name}?how=open")
    page.wait_for_selector("#plot-estimates svg")
    expect(page.get_by_role("button", name="Download standings as CSV")).to_be_visible()
    return page


def saved(page: Page, button: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download {button}", exact=True).click()
    name = download.value.suggested_filename
    assert name.startswith("downloads-"), name
    assert name.endswith(f".{button.split()[-1].lower()}"), name
    return Path(download.value.path()).read_bytes()


def test_tables_are_saved_as_they_are(page: Page, client: Optimist):
    report = client.experiment("downloads").report()
    rows = list(csv.DictReader(io.StringIO(saved(page, "standings as CSV").decode())))
    assert [row["generator"] for row in rows] == [NAMES[1], f"'{NAMES[0]}"]  # which no spreadsheet takes for a formula
    assert [float(row["score"]) for row in rows] == [one.score for one in report.in_order]
    rows = list(csv.DictReader(io.StringIO(saved(page, "Estimates and intervals as CSV").decode())))
    assert {row["generator"] for row in rows} == {NAMES[1], f"'{NAMES[0]}"}
    assert all(float(row["lower"]) <= float(row["score"]) <= float(row["upper"]) for row in rows if row["lower"])
    rows = list(csv.DictReader(io.StringIO(saved(page, "Shares of the latest batches as CSV").decode())))
    assert {row["series"] for row in rows} == {NAMES[1], f"'{NAMES[0]}"}


def test_pictures_show_the_names(page: Page):
    for what in ("standings", "Estimates and intervals"):
        picture = ElementTree.fromstring(saved(page, f"{what} as SVG"))
        assert set(NAMES) <= {text.strip() for text in picture.itertext()}
    pixels = saved(page, "standings as PNG")
    assert struct.unpack(">II", pixels[16:24]) == (1920, 1080)
    assert len(pixels) > 10_000  # not blank
