"""Anomalous batches on the page of an experiment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from optimist_client import Optimist
from tests.support.pages import OpenPage
from tests.support.processes import Service, append_batch

NAME = "anomalous"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def anomalous(service: Service) -> str:
    """The name of an experiment with a batch of `good` on another scale, and one of `bad` that was told twice."""
    with Optimist(service.url) as client:
        experiment = client.create_experiment(
            NAME, ["good", "bad"], reference=(np.zeros(8), np.eye(8)), policy="uniform", stop=False, batch_size=20
        )
        for pick in experiment.picks(400):
            scale = {3: 255.0, 4: 255.0}.get(pick.number, 1.0)
            pick.tell(scale * np.random.default_rng(pick.seed).standard_normal((pick.size, 8)))
    for _ in range(2):
        rows = np.random.default_rng(0).standard_normal((5, 8))
        append_batch(service.url, NAME, "bad", {"features": rows}).raise_for_status()
    return NAME


def test_anomalous_batches_are_listed_with_what_is_odd(open_page: OpenPage, client: Optimist, anomalous: str):
    page = open_page(f"/#/e/{anomalous}?how=open", viewport={"width": 390, "height": 844})
    table = page.get_by_role("region", name="Anomalous batches table")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("repeats the batch at position")
    expect(rows.last).to_contain_text("times larger than its others: pixels 0–255 instead of 0–1?")
    accept, retract = (page.get_by_role("button", name=name) for name in ("Accept", "Retract"))
    boxes = {name: page.get_by_role("checkbox", name=f"Select batch {name}") for name in ("2 of good", "2 of bad")}
    rows.first.get_by_role("checkbox").check()
    expect(accept).to_be_disabled()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    warning = page.locator(".standings .warnings:visible").first
    text = warning.locator("li").first
    expect(text).to_be_hidden()
    line = warning.locator("summary")
    assert line.evaluate("line => line.clientHeight < 1.8 * parseFloat(getComputedStyle(line).fontSize)")
    line.click()
    expect(text).to_be_visible()
    retract.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()  # a reason is required
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    experiment = client.experiment(anomalous)
    assert not any(anomaly.retracted for anomaly in experiment.anomalies())
    rows.first.get_by_role("checkbox").uncheck()
    boxes["2 of good"].check()
    retract.click()
    # What the report would then say is there before anything is done.
    then = dialog.get_by_role("status")
    expect(then).to_contain_text("exact, unless more samples come meanwhile")
    told = {one.generator: one.samples for one in experiment.report().standings}
    row = then.locator("tbody tr", has_text="good")
    expect(row.locator("td").nth(1)).to_have_text(re.compile(f" of {told['good']} samples$"))
    expect(row.locator("td").nth(2)).to_have_text(re.compile(f" of {told['good'] - 20} samples$"))
    assert not any(anomaly.retracted for anomaly in experiment.anomalies())
    dialog.get_by_label("Reason").fill("<b>overflow</b>")
    page.keyboard.press("Enter")
    gone = page.get_by_role("region", name="Retracted batches table").locator("tbody tr")
    expect(gone).to_contain_text("good")
    expect(gone).to_contain_text("<b>overflow</b>")
    expect(rows).to_have_count(2)
    expect(page.get_by_role("status").get_by_text("Retracted: batch 2 of good.")).to_be_visible()
    boxes["2 of bad"].check()
    accept.click()
    dialog.get_by_label("Reason").fill("so it is")
    page.keyboard.press("Enter")
    accepted = page.get_by_role("region", name="Accepted batches table").locator("tbody tr")
    expect(accepted).to_contain_text("so it is")
    expect(rows).to_have_count(1)
    assert [one.reason for one in experiment.report().retractions] == ["<b>overflow</b>"]


def test_a_provisional_decision_is_called_so_until_its_batches_are_accepted(open_page: OpenPage, client: Optimist):
    # So much alike that two batches of each do not decide, whenever they are scored.
    shifts = {"good": 0.0, "bad": 0.3, "worse": 1.0}
    experiment = client.create_experiment(
        "provisional", list(shifts), reference=(np.zeros(8), np.eye(8)), policy="uniform", batch_size=20, grow=False
    )
    seen = dict.fromkeys(shifts, 0)
    for pick in experiment.picks(worker="gpu-07"):
        seen[pick.generator] += 1
        scale = 255.0 if (pick.generator, seen[pick.generator]) == ("worse", 2) else 1.0
        pick.tell(scale * (np.random.default_rng(pick.seed).standard_normal((pick.size, 8)) + shifts[pick.generator]))
    report = experiment.report()
    assert report.decision.unless == "unless batch 2 of worse is wrong: retract or accept it"
    page = open_page("/#/e/provisional")
    expect(page.locator(".title .badge.provisional")).to_be_visible()
    expect(page.locator(".hero.provisional .answer")).to_have_text(report.answer)
    expect(page.locator(".standings .badge.provisional")).to_have_count(1)
    page.get_by_label("Select", exact=True).select_option("All of worker gpu-07")
    page.get_by_role("button", name="Accept 1 …").click()
    dialog = page.get_by_role("dialog")
    then = report.answer.replace(f", {report.decision.unless}", "")
    expect(dialog.locator(".then")).to_have_text(then)
    dialog.get_by_label("Reason").fill("so it is")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_have_text(then)
    expect(page.locator(".title .badge.decided")).to_be_visible()
    expect(page.locator(".standings .badge.best")).to_have_count(1)
