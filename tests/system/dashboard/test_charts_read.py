"""What the charts of an experiment show and say: estimates, parts of them, values at the pointer, names of points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean
from tests.support.pages import WAIT, OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service, scored

NAMES = {"good": 0.0, "copy": 0.0, "near": 0.15, "far": 3.0}
PLOT = "#plot-estimates"
FIRST = 20
"""Samples from which on estimates are drawn."""
LINES = "() => document.getElementById('plot-estimates').data.filter(one => one.showlegend !== false)"
SIZES = [(1440, 900), (900, 900), (390, 844)]
WORKERS = [f"a-worker-on-a-machine-with-a-long-name-{n}.cluster.example.org:rank-{n}" for n in range(3)]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def charted(service: Service) -> Iterator[Experiment]:
    """Two generators are the same, one scores next to them, and one far away."""
    with Optimist(service.url) as client:
        reference = (np.zeros(4), np.eye(4))
        config: dict[str, Any] = {"policy": "uniform", "stop": False, "seed": 1}
        experiment = client.create_experiment("charted", list(NAMES), reference=reference, **config)
        for pick in experiment.picks(800):
            rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 4))
            pick.tell(rows + NAMES[pick.generator])
        scored(experiment)
        yield experiment


def opened(open_page: OpenPage, experiment: Experiment, view: str = "", **options: Any) -> Page:
    page = open_page(f"/#/e/{experiment.name}{view}", **options)
    page.wait_for_selector(f"{PLOT} svg")
    return page


def lines(page: Page) -> dict[str, Any]:
    return {one["name"]: one for one in page.evaluate(LINES)}


def bands(page: Page) -> set[str]:
    return set(
        page.evaluate(f"() => document.querySelector('{PLOT}').data.filter(one => one.fill).map(one => one.name)")
    )


def range_of_samples(page: Page) -> list[float] | None:
    return page.evaluate(f"() => document.querySelector('{PLOT}').layout.xaxis.range ?? null")


def box(of: Locator) -> dict[str, float]:
    found = of.bounding_box()
    assert found is not None
    return {**found}


def test_estimates_are_drawn_from_20_samples_on_as_they_were_made(
    open_page: OpenPage, client: Optimist, charted: Experiment
):
    report = client.experiment(charted.name).report()
    page = opened(open_page, charted)
    drawn = lines(page)
    assert min(min(one["x"]) for one in drawn.values()) == FIRST
    leader = next(row for row in report.standings if row.generator == report.decision.best)
    assert leader.score == 0.0
    assert leader.unclipped is not None
    assert leader.unclipped[0] is not None
    assert drawn[leader.generator]["y"][-1] == pytest.approx(leader.unclipped[0], rel=1e-5)
    assert min(drawn[leader.generator]["y"]) < 0.0
    low, high = page.evaluate(f"() => document.querySelector('{PLOT}').layout.yaxis.range")
    for name in ("good", "copy", "near"):
        assert low <= min(drawn[name]["y"]), "cut below"
        assert max(drawn[name]["y"]) <= high, "cut above"
    assert max(drawn["far"]["y"]) > high
    assert page.locator(f"{PLOT} .exit").count() == 1
    assert page.locator(f"{PLOT} .exit").get_attribute("fill") == drawn["far"]["line"]["color"]


def test_two_intervals_are_shown_and_others_when_they_are_wanted(
    open_page: OpenPage, client: Optimist, charted: Experiment, axe: str
):
    report = client.experiment(charted.name).report()
    assert report.decision.hardest is not None
    main = {report.decision.best, report.decision.hardest.generator}
    page = opened(open_page, charted, bypass_csp=True)
    assert bands(page) == main
    near = page.get_by_role("button", name="near", exact=True)
    near.hover()
    page.wait_for_function(f"() => document.querySelector('{PLOT}').data.some(one => one.fill && one.name === 'near')")
    assert bands(page) == {*main, "near"}
    near.click()
    expect(near).to_have_attribute("aria-pressed", "true")
    page.mouse.move(0, 0)
    page.wait_for_function(f"() => document.querySelector('{PLOT}').data.filter(one => one.fill).length === 1")
    assert bands(page) == {"near"}
    assert serious_violations_of_both_schemes(page, axe) == []
    near.press("Enter")
    page.mouse.move(0, 0)
    near.blur()
    page.wait_for_function(f"() => document.querySelector('{PLOT}').data.filter(one => one.fill).length === 2")
    assert bands(page) == main


def test_lines_that_are_the_same_are_seen_in_turn(open_page: OpenPage, charted: Experiment):
    page = opened(open_page, charted)
    drawn = lines(page)
    stripes = sorted(tuple(drawn[name]["line"]["stripe"]) for name in ("good", "copy"))
    assert stripes == [(2, 0), (2, 1)]
    assert drawn["near"]["line"]["stripe"] is None
    dashes = {
        name: page.locator(f"{PLOT} path[stroke='{drawn[name]['line']['color']}'][fill=none]").last.evaluate(
            "path => [path.getAttribute('stroke-dasharray'), path.getAttribute('stroke-dashoffset')].join()"
        )
        for name in ("good", "copy")
    }
    assert sorted(dashes.values()) == ["9 9,-9", "9 9,0"]


def test_a_part_is_chosen_by_dragging_and_all_comes_back(open_page: OpenPage, charted: Experiment):
    page = opened(open_page, charted)
    assert range_of_samples(page) is None
    plot = page.locator(PLOT)
    plot.scroll_into_view_if_needed()
    frame = box(plot)
    middle = frame["y"] + frame["height"] / 2
    page.mouse.move(frame["x"] + 0.4 * frame["width"], middle)
    page.mouse.down()
    page.mouse.move(frame["x"] + 0.8 * frame["width"], middle, steps=4)
    expect(plot.locator("rect[opacity]")).to_have_count(1)
    page.mouse.up()
    part = range_of_samples(page)
    assert part is not None
    assert FIRST < part[0] < part[1] < 200
    again = opened(open_page, charted, page.url.split("charted")[1])
    assert range_of_samples(again) == part
    ticks = again.locator(f"{PLOT} text[text-anchor=middle]").all_text_contents()
    assert sum(text.isdigit() for text in ticks) >= 2
    page.get_by_role("button", name="Show all", exact=True).click()
    assert range_of_samples(page) is None
    assert page.url.endswith("#/e/charted")


def test_keys_read_and_zoom(open_page: OpenPage, charted: Experiment):
    page = opened(open_page, charted)
    plot = page.locator(PLOT)
    plot.focus()
    said = plot.get_by_role("status")
    page.keyboard.press("ArrowLeft")
    expect(said).to_have_text(re.compile(r"^\d+ samples; .*good.*near"))
    last = said.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(said).not_to_have_text(last)
    page.keyboard.press("+")
    part = range_of_samples(page)
    assert part is not None
    expect(plot).to_be_focused()
    page.keyboard.press("+")
    smaller = range_of_samples(page)
    assert smaller is not None
    assert smaller[1] - smaller[0] < part[1] - part[0]
    page.keyboard.press("Escape")
    assert range_of_samples(page) is None


def test_values_of_all_lines_are_said_at_the_pointer(open_page: OpenPage, charted: Experiment):
    for size in ({"width": 1440, "height": 900}, {"width": 390, "height": 844}):
        page = opened(open_page, charted, viewport=size)
        plot = page.locator(PLOT)
        plot.hover()
        tip = plot.locator(".tip")
        expect(tip).to_be_visible()
        drawn = lines(page)
        assert {text.split()[0] for text in tip.locator("div:has(.swatch)").all_inner_texts()} == set(drawn)
        at = int(tip.locator(".quiet").inner_text().split()[0].replace(",", ""))
        for name, one in drawn.items():
            place = max(i for i, n in enumerate(one["x"]) if n <= at)
            expect(tip).to_contain_text(one["hovertext"][place])
            assert name in one["hovertext"][place]
        inside, around = box(tip), box(plot)
        assert inside["x"] >= around["x"]
        assert inside["x"] + inside["width"] <= around["x"] + around["width"]


@pytest.fixture(scope="module")
def wide(service: Service) -> Iterator[Experiment]:
    """Five metrics with numbers of six digits, costs, long names, and open picks of workers with long names."""
    columns = ["length", "latency", "toxicity", "price"]
    names = [f"a-generator-with-a-long-name-{size}" for size in ("small", "medium", "large")]
    watch = [Mean(reads=column, label=column) for column in columns]
    costs = {name: 1.0 + place for place, name in enumerate(names)}
    with Optimist(service.url) as client:
        made = client.create_experiment("wide", names, metric=Mean(), watch=watch, stop=False, seed=1, costs=costs)
        for pick in made.picks(300):
            place = names.index(pick.generator)
            rng = np.random.default_rng((pick.seed, place))
            drawn = {column: 3e5 + 1e5 * rng.standard_normal((pick.size, 1)) for column in columns}
            pick.tell({"values": 2.7e5 + 2e3 * place + 5e4 * rng.standard_normal((pick.size, 1)), **drawn})
        scored(made)
        for worker in WORKERS:
            made.ask(worker=worker)
        yield made


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_is_cut_off(open_page: OpenPage, wide: Experiment, axe: str, width: int, height: int):
    page = opened(open_page, wide, viewport={"width": width, "height": height}, bypass_csp=True)
    expect(page.locator(".picks tbody tr")).to_have_count(len(WORKERS))
    cut = """() => [document.documentElement, ...document.querySelectorAll('.scroll, .picks td, .matrix :is(td, th)')]
      .filter(one => one.offsetParent !== null || one === document.documentElement)
      .filter(one => one.scrollWidth > one.clientWidth).map(one => one.className || one.tagName)"""
    page.wait_for_function(f"() => ({cut})().length === 0", timeout=WAIT)
    for worker in WORKERS:
        expect(page.get_by_role("cell", name=worker)).to_be_visible()
    assert serious_violations_of_both_schemes(page, axe) == []


def test_a_score_and_its_interval_have_the_same_digits(open_page: OpenPage, wide: Experiment):
    page = opened(open_page, wide)
    for cell in page.locator(".matrix td").all():
        expect(cell.locator("strong")).to_have_text(re.compile(r"^\d{3},\d{3}$"))
        expect(cell.locator(".spread")).to_have_text(re.compile(r"^± [\d,]+$"))
        score, spread = cell.locator("strong").inner_text(), cell.locator(".spread").inner_text()
        step = 10 ** (len(re.sub(r"\D", "", spread)) - 2)
        assert int(score.replace(",", "")) % step == 0, (score, spread)
    found = page.evaluate(
        """async (cases) => {
          const { withSpread } = await import("/dashboard/0/format.js");
          return cases.map(([score, lower, upper]) => withSpread({ score, lower, upper }).join(" "));
        }""",
        [
            [370579, 159865, 581293],
            [3.7e6, 3.49e6, 3.91e6],
            [0.779, 0.649, 0.909],
            [0, 0, 0.144],
            [12.34, 12.25, 12.43],
        ],
    )
    assert found == ["370,000 ± 210,000", "3.70M ± 0.21M", "0.779 ± 0.130", "0.000 (0.000 to 0.144)", "12.340 ± 0.090"]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_no_name_stands_on_a_point(open_page: OpenPage, service: Service, width: int, height: int):
    name, near = f"crowded-{width}", [0.0, 0.01, 0.02, 0.03, 0.5, 0.51]
    names = [f"generator-{place}" for place in range(len(near))]
    with Optimist(service.url) as client:
        watch = [Mean(reads="speed", label="speed")]
        made = client.create_experiment(name, names, metric=Mean(), watch=watch, stop=False, policy="uniform")
        for pick in made.picks(240):
            at = near[names.index(pick.generator)]
            rows = 0.01 * np.random.default_rng(pick.seed).standard_normal((pick.size, 1))
            pick.tell({"values": at + rows, "speed": -at + rows})
        scored(made)
    page = open_page(f"/#/e/{name}", viewport={"width": width, "height": height})
    page.wait_for_selector("#plot-scatter circle")
    touching = """() => {
      const rect = (one) => one.getBoundingClientRect();
      const all = (kind) => [...document.querySelectorAll(`#plot-scatter ${kind}`)].map(rect);
      const [names, points, frame] = [all("text.named"), all("circle"), rect(document.getElementById("plot-scatter"))];
      const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
      const on = names.flatMap((a, i) => [...points, ...names.slice(i + 1)].filter((b) => touch(a, b)));
      const out = names.filter((a) => a.left < frame.left || a.right > frame.right);
      return [names.length, on.length, out.length];
    }"""
    shown, on, out = page.evaluate(touching)
    assert shown >= 1
    assert (on, out) == (0, 0)


def test_equal_scores_are_in_the_order_of_their_differences(open_page: OpenPage, service: Service):
    names = [f"step-{n:03d}" for n in range(100)]
    with Optimist(service.url) as client:
        made = client.create_experiment(
            "hundred", names, reference=(np.zeros(2), np.eye(2)), stop=False, policy="uniform", batch_size=30
        )
        for pick in made.picks(3000):
            rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 2))
            pick.tell(rows + 0.02 * abs(names.index(pick.generator) - 63))
        report = scored(made)
    apart = {one.generator: one.difference for one in report.contrasts}
    tied = [row for row in report.standings if row.score == 0.0 and row.generator in apart]
    assert len(tied) > 2
    page = open_page("/#/e/hundred")
    rows = page.locator(".standings tbody tr:visible .name")
    expect(rows).to_have_count(12)
    shown = rows.all_text_contents()
    assert shown[0] == report.decision.best
    differences = [apart[name] for name in shown[1:]]
    assert differences == sorted(differences)
    assert set(shown[1:]) == set(sorted(apart, key=lambda name: apart[name])[:11])
    # The axes are for those that are shown, so that their intervals are to be seen.
    widths = page.locator(".standings tbody tr:visible .worse .range").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().width / one.parentElement.clientWidth)"
    )
    assert max(widths) > 0.5
