"""The best mixture on the page of an experiment: as its goal, asked for, and by a watched metric."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from optimist_client import Experiment, Optimist, Report
from optimist_client.metrics import RKE, Gaussian
from optimist_client.models import MixtureCurve
from tests.support.pages import WAIT, OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service

MODEL = RKE(kernel=Gaussian(1.5, features=16), dimension=4)
KINDS = {"left": (-2.0, 0.0), "middle": (0.0,), "right": (0.0, 3.0), "copy": (0.0,)}
"""Where each generator's samples are: no one has all places, and `copy` adds nothing to the others."""
pytestmark = pytest.mark.long


def create(client: Optimist, name: str, **config: Any) -> Experiment:
    return client.create_experiment(name, list(KINDS), **{"metric": MODEL, "seed": 1, **config})


def work(experiment: Experiment, samples: int, kinds: dict[str, tuple[float, ...]] = KINDS) -> None:
    for pick in experiment.picks(samples):
        rng = np.random.default_rng((pick.seed, list(kinds).index(pick.generator)))
        places = rng.choice(kinds[pick.generator], (pick.size, 1))
        pick.tell(places + 0.3 * rng.standard_normal((pick.size, 4)))


def blended(experiment: Experiment) -> Report:
    """The report once its blend is the newest one: no other is due before more samples come."""
    ends = time.monotonic() + WAIT / 1000
    while (report := experiment.report()).mixture is None or report.samples >= 1.25 * report.mixture.samples:
        assert time.monotonic() < ends, report
        time.sleep(0.05)
    return report


@pytest.fixture(scope="module")
def goal(service: Service) -> Experiment:
    with Optimist(service.url) as client:
        experiment = create(client, "blend-of-four", goal="mixture", stop=False)
        work(experiment, 240)
        blended(experiment)
    return experiment


def card(page: Page) -> Any:
    return page.get_by_role("region", name="Mixture", exact=True)


def test_the_mixture_is_the_answer_of_its_goal(open_page: OpenPage, client: Optimist, goal: Experiment, axe: str):
    report = client.experiment(goal.name).report()
    assert report.mixture is not None
    page = open_page(f"/#/e/{goal.name}", bypass_csp=True)
    assert report.answer.startswith(
        f"Not decided yet: {report.mixture.recipe} leads after {report.samples} samples: RKE"
    )
    expect(page.locator(".answer")).to_have_text(report.answer)
    headings = page.locator("main h2:visible").all_text_contents()
    assert headings[:2] == ["Mixture", "Standings"]
    assert "Estimated regret" not in headings
    expect(card(page)).to_contain_text(report.mixture.gain_text)
    expect(card(page)).to_contain_text(report.mixture.gap_text)
    rows = card(page).locator("tbody tr")
    shown = {row.locator(".name").inner_text(): row.locator("td").nth(0).inner_text() for row in rows.all()}
    assert shown == {one.generator: f"{100 * one.weight:.1f}\u00a0%" for one in report.mixture.weights}
    told = {row.generator: row.samples for row in report.standings}
    for row in rows.all():
        share = 100 * told[row.locator(".name").inner_text()] / report.samples
        expect(row.locator("td").nth(1)).to_have_text(f"{share:.1f}\u00a0%")
    assert serious_violations_of_both_schemes(page, axe) == []
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        table = card(page).get_by_role("region", name="Weights table")
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_weights_and_scores_are_drawn_over_time(open_page: OpenPage, service: Service, goal: Experiment):
    report = httpx.get(f"{service.url}/v1/experiments/{goal.name}/report?after=0").raise_for_status().json()
    curve = MixtureCurve.model_validate(report["progress"]["mixture"])
    assert len(curve.told) > 3
    page = open_page(f"/#/e/{goal.name}?how=open")
    page.wait_for_selector("#plot-mixture svg")
    areas = page.evaluate("() => document.getElementById('plot-weights').data.map(({ name, x, y }) => [name, x, y])")
    assert areas == [[name, curve.samples, y] for name, y in curve.weights.items()]
    assert [sum(at) for at in zip(*(y for _, _, y in areas), strict=True)] == pytest.approx([1.0] * len(curve.told))
    alone, blend = page.evaluate(
        "() => document.getElementById('plot-mixture').data.map(({ y, error_y }) => [y, error_y?.array])"
    )
    assert alone[0] == curve.best_scores
    assert blend[0] == curve.scores
    assert [score + up for score, up in zip(*blend, strict=True)] == pytest.approx(curve.upper)
    named = page.locator("#plot-weights")
    expect(named).to_have_attribute("aria-label", re.compile(rf"Now: left {100 * curve.weights['left'][-1]:.1f}.%, "))


def test_new_mixtures_come_as_samples_do(open_page: OpenPage, client: Optimist):
    experiment = create(client, "blend-live", goal="mixture", stop=False)
    page = open_page("/#/e/blend-live?how=open")
    expect(page.locator(".answer")).to_contain_text("4 generators will be mixed and scored by RKE")
    expect(card(page)).to_contain_text("The first mixture is made once every generator has a few samples.")
    work(experiment, 60)
    blended(experiment)
    expect(page.locator(".answer")).to_contain_text("Not decided yet: ")
    points = "() => document.querySelector('#plot-mixture')?.data?.[1].y.length ?? 0"
    page.wait_for_function(f"() => ({points})() > 0", timeout=WAIT)
    before = page.evaluate(points)
    work(experiment, 60)
    blended(experiment)
    page.wait_for_function(f"before => ({points})() > before", arg=before, timeout=WAIT)


def test_the_best_mixture_can_be_asked_for_by_any_metric_that_has_one(open_page: OpenPage, client: Optimist):
    wide = RKE(kernel=Gaussian(3.0, features=16), dimension=4, label="wide")
    experiment = create(client, "blend-asked", watch=[wide], stop=False)
    work(experiment, 120)
    page = open_page("/#/e/blend-asked")
    headings = page.locator("main h2:visible")
    expect(headings.first).to_have_text("Standings")
    expect(card(page).locator(".found")).to_be_hidden()
    card(page).get_by_role("button", name="Best mixture").click()
    expect(card(page).locator(".found")).to_be_visible()
    expect(card(page)).to_contain_text(experiment.mixture().gain_text)
    expect(card(page)).to_contain_text("RKE: mixture")
    card(page).get_by_label("Metric").select_option("wide")
    expect(card(page).locator(".found")).to_be_hidden()
    card(page).get_by_role("button", name="Best mixture").click()
    expect(card(page)).to_contain_text(f"{wide.shown_title}: mixture")
    expect(card(page)).to_contain_text(experiment.mixture(metric="wide").gain_text)
