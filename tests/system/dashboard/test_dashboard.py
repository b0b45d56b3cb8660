"""The dashboard as people see it: real service, real Redis, real Chromium. Every state, and what can be done."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from redis import Redis

from optimist.store.keys import experiment_key
from optimist_client import Experiment, Optimist
from tests.support.pages import WAIT, OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service, scored

REFERENCE = (np.zeros(4), np.eye(4))
SHIFTS = {"good": 0.0, "bad": 0.5, "worse": 1.0}
EVIL = ["<img src=x onerror=window.pwned=1>", "</td><script>window.pwned=1</script>", '"><a href="javascript:1">x</a>']
REFUSED = "Failed to load resource"
PLOTS = ("plot-regret", "plot-ratio", "plot-shares", "plot-estimates")


@pytest.fixture
def experiment(client: Optimist, request: pytest.FixtureRequest) -> Experiment:
    name = re.sub(r"\W", "-", request.node.name.removeprefix("test_"))
    return create(client, name[:50].strip("-"), list(SHIFTS), stop=False)


def create(client: Optimist, name: str, generators: list[str], **config: Any) -> Experiment:
    return client.create_experiment(name, generators, reference=REFERENCE, seed=1, **config)


def work(experiment: Experiment, samples: int | None, shifts: dict[str, float] = SHIFTS) -> None:
    for pick in experiment.picks(samples):
        rng = np.random.default_rng(pick.seed)
        pick.tell(rng.standard_normal((pick.size, 4)) + shifts[pick.generator])


def points(page: Page, plot: str) -> list[int]:
    """How many points each line of a chart has, once it is drawn."""
    page.wait_for_selector(f"#{plot} svg")
    return page.evaluate("id => document.getElementById(id).data.map(line => line.y.length)", plot)


def until(page: Page, condition: str, argument: object = None) -> None:
    page.wait_for_function(condition, arg=argument, timeout=WAIT)


@pytest.mark.long
def test_without_experiments_it_says_how_to_make_one(open_page: OpenPage, mortal: Service):
    page = open_page(f"{mortal.url}/")
    expect(page.get_by_role("heading", name="No experiments yet")).to_be_visible()
    expect(page.locator("pre")).to_contain_text(f'Optimist("{mortal.url}")')


@pytest.mark.long
def test_without_tells_it_waits(open_page: OpenPage, experiment: Experiment):
    page = open_page(f"/#/e/{experiment.name}")
    expect(page.locator(".answer")).to_have_text("Waiting for the first samples. 3 generators will be scored by FID.")
    expect(page.locator(".badge.warming-up")).to_be_visible()
    code = page.get_by_role("region", name="Start a worker").locator("code")
    expect(code).to_contain_text(f'.experiment("{experiment.name}")')
    expect(code).to_contain_text("pick.tell(features(samples))")
    expect(page.locator(".plot-empty:visible")).to_have_count(0)
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.get_by_text("No pick is open")).to_be_visible()


@pytest.mark.long
def test_what_an_experiment_does_not_have_has_no_section(open_page: OpenPage, client: Optimist):
    client.create_experiment("plain", ["a", "b"], metric="is", dimension=4)
    page = open_page("/#/e/plain")
    expect(page.locator(".answer")).to_contain_text("Waiting for the first samples.")
    expect(page.get_by_role("heading", name="Standings")).to_be_visible()
    expect(page.get_by_role("heading", name="Samples")).to_have_count(0)
    expect(page.get_by_role("heading", name="Anomalous batches")).to_be_hidden()
    for section in ("Mixture", "Routing"):
        expect(page.get_by_role("region", name=section, exact=True)).to_have_count(0)


@pytest.mark.long
def test_a_lone_generator_has_nothing_to_be_compared_with(open_page: OpenPage, client: Optimist):
    experiment = create(client, "lone", ["good"], budget=50)
    work(experiment, None)
    page = open_page("/#/e/lone")
    expect(page.locator(".answer")).to_contain_text("There is no generator to compare it with.")
    expect(page.locator(".badge.out-of-budget")).to_be_visible()
    expect(page.locator("progress")).to_have_attribute("value", "50")
    assert points(page, "plot-estimates")[-1] >= 5
    expect(page.get_by_role("heading", name="Metrics", exact=True)).to_be_hidden()
    expect(page.locator("#estimates-of")).to_have_count(0)


@pytest.mark.long
def test_fifty_generators_fit(open_page: OpenPage, client: Optimist):
    names = [f"checkpoint-{n:02d}" for n in range(50)]
    work(create(client, "fifty", names, stop=False), 500, {name: 0.05 * n for n, name in enumerate(names)})
    page = open_page("/#/e/fifty?how=open", viewport={"width": 390, "height": 844})
    expect(page.locator(".standings tbody tr:visible")).to_have_count(12)
    page.get_by_role("button", name="Show all 50 generators").click()
    expect(page.locator(".standings tbody tr:visible")).to_have_count(50)
    until(page, "() => document.querySelector('#plot-shares')?.data?.length === 11")
    assert page.evaluate("() => document.getElementById('plot-shares').data[10].name") == "40 others"
    colours = "() => new Set(document.getElementById('plot-shares').data.map(area => area.fillcolor)).size"
    assert page.evaluate(colours) == 11
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_an_experiment_is_seen_running_to_its_decision(open_page: OpenPage, client: Optimist):
    experiment = create(client, "live", list(SHIFTS))
    page = open_page("/#/e/live?how=open")
    expect(page.locator(".answer")).to_contain_text("Waiting for the first samples")
    work(experiment, 60)
    until(page, "() => document.querySelector('#plot-regret')?.data?.[0].y.length >= 8")
    worker = threading.Thread(target=work, args=(client.experiment("live"), None))
    worker.start()
    worker.join(60)
    report = experiment.report()
    assert report.state == "decided"
    answer = page.locator(".answer")
    assert report.answer.startswith(f"Best: {report.decision.best} with ")
    expect(answer).to_have_text(report.answer)
    expect(page.locator(".title .badge.decided")).to_be_visible()
    drawn = "samples => document.getElementById('plot-regret').data[0].x.at(-1) === samples"
    until(page, drawn, report.samples)
    assert report.regret is not None
    last = page.evaluate("() => document.getElementById('plot-regret').data[0].y.at(-1)")
    assert last == pytest.approx(report.regret.total)
    assert points(page, "plot-regret") == [report.rounds]
    ratio = page.evaluate("() => document.getElementById('plot-ratio').data[0].y.at(-1)")
    assert ratio == pytest.approx(report.optimal_pick_ratio)
    shares = page.evaluate("() => document.getElementById('plot-shares').data.map(area => area.y)")
    assert [sum(at) for at in zip(*shares, strict=True)] == pytest.approx([1.0] * report.rounds)
    for plot in PLOTS:
        assert page.locator(f"#{plot} svg").count() > 0
        assert page.get_attribute(f"#{plot}", "aria-label") != ""
    row = page.locator(".standings tbody tr").first
    expect(row).to_contain_text("best")
    expect(row).to_contain_text(report.decision.best or "")
    expect(page.locator(".verdict")).to_have_text(["", "worse", "worse"])
    expect(page.locator("#how")).to_contain_text("intervals at δ = 0.05 by the bound 'influence'; policy 'top-two'")
    expect(page.locator(".hero")).to_contain_text(report.why)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)  # there is nothing left to pause
    expect(answer).to_contain_text(f"with {report.decision.confidence_text} confidence")
    assert report.decision.confidence_text in str(report)
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator(".title .badge")).to_have_text("running")
    assert experiment.report().state == "running"


def test_names_are_text_and_nothing_else(open_page: OpenPage, client: Optimist):
    experiment = create(client, "evil", EVIL, stop=False)
    work(experiment, 60, {name: 0.2 * n for n, name in enumerate(EVIL)})
    experiment.ask(worker="<img src=x onerror=window.pwned=1>")
    page = open_page("/#/e/evil")
    expect(page.locator(".standings .name")).to_have_count(3)
    assert set(page.locator(".standings .name").all_text_contents()) == set(EVIL)
    expect(page.locator(".badge.leads")).to_have_text("leads")
    expect(page.get_by_role("cell", name="<img src=x onerror=window.pwned=1>").first).to_be_visible()
    points(page, "plot-estimates")
    legend = page.locator("#plot-estimates + .legend .name").all_text_contents()
    assert set(legend) == set(EVIL)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("main img, main script, main td a, #plot-estimates a").count() == 0
    page.goto("/")
    expect(page.locator(".line", has_text="evil")).to_contain_text("<")
    assert page.evaluate("() => window.pwned") is None


def test_everything_can_be_done_from_the_page(open_page: OpenPage, experiment: Experiment):
    work(experiment, 60)
    page = open_page(f"/#/e/{experiment.name}", expected=REFUSED)
    row = {name: page.locator(".standings tbody tr", has_text=name) for name in (*SHIFTS, "newcomer")}
    page.get_by_role("button", name="Pause bad").click()
    expect(row["bad"]).to_contain_text("paused")
    page.get_by_role("button", name="Resume bad").click()
    expect(row["bad"]).not_to_contain_text("paused")
    page.get_by_label("Another generator").fill("newcomer")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(row["newcomer"]).to_be_visible()
    page.get_by_role("button", name="Retire worse").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Retire worse").click()
    page.get_by_role("dialog").get_by_role("button", name="Retire").click()
    expect(row["worse"]).to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator(".badge.stopped")).to_be_visible()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator(".badge.stopped")).to_have_count(0)
    states = {standing.generator: standing.state for standing in experiment.report().standings}
    assert states == {"good": "active", "bad": "active", "newcomer": "active"}
    # What is refused is said, and what would be refused because nothing would remain is not offered.
    page.get_by_label("Another generator").fill("worse")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="the generator of this name was retired")).to_be_visible()
    for name in ("bad", "newcomer"):
        page.get_by_role("button", name=f"Pause {name}").click()
        expect(row[name]).to_contain_text("paused")
    expect(page.get_by_role("button", name="Pause good")).to_have_count(0)
    expect(page.get_by_role("button", name="Retire good")).to_have_count(0)


@pytest.mark.long
def test_costs_are_shown_and_their_budget_extended(open_page: OpenPage, client: Optimist):
    costs = {"good": 0.5, "bad": 3.0}
    experiment = create(client, "priced-drawn", list(costs), policy="uniform", stop=False, costs=costs, max_cost=35.0)
    work(experiment, None)
    page = open_page("/#/e/priced-drawn")
    expect(page.locator(".answer")).to_contain_text("Not decided within the budget of 35 in cost: good leads after")
    expect(page.locator(".standings tbody tr", has_text="bad").locator(".cost")).to_have_text("30 at 3")
    expect(page.locator(".facts")).to_contain_text("35 of 35")
    page.get_by_label("Budget, in cost").fill("99.5")
    page.get_by_role("button", name="Set cost").click()
    expect(page.get_by_text("35 of 99.5 in cost are spent.")).to_be_visible()
    page.get_by_label("Another generator").fill("newcomer")
    page.get_by_role("spinbutton", name="Cost of a sample").fill("0.25")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".standings tbody tr", has_text="newcomer").locator(".cost")).to_have_text("0 at 0.25")


@pytest.mark.long
def test_damage_is_seen_in_the_list_and_on_the_page(open_page: OpenPage, experiment: Experiment, redis_url: str):
    work(experiment, 30)
    scored(experiment)  # a new estimate would remove the error
    with Redis.from_url(redis_url) as redis:
        redis.hset(
            experiment_key(experiment.name, "units"),
            f"1:{experiment.info.config.metric.shown_label}:error",
            "CorruptData: the snapshot is torn",
        )
        redis.hset(experiment_key(experiment.name, "counts"), "noted", "now")  # as put_scoring_error.lua does
        redis.delete(experiment_key(experiment.name, "tokens"))  # so that what no script has noted is read, too
    page = open_page("/")
    line = page.locator(".line", has_text=experiment.name)
    expect(line.locator(".badge.incomplete")).to_be_visible()
    line.get_by_role("link").click()
    expect(page.locator(".warnings", has_text="torn")).to_contain_text("not scored: CorruptData: the snapshot is torn")
    expect(page.locator(".title .badge.incomplete")).to_be_visible()


@pytest.mark.long
def test_it_recovers_when_the_service_comes_back(open_page: OpenPage, mortal: Service):
    with Optimist(mortal.url) as client:
        experiment = create(client, "mortal", ["good", "bad"], stop=False, max_wait=0.0)
        work(experiment, 25)
        page = open_page(f"{mortal.url}/#/e/mortal", expected=REFUSED)
        expect(page.locator("#live")).to_have_text("Live")
        mortal.kill()
        expect(page.locator("#banner")).to_contain_text("The service does not respond")
        expect(page.locator(".standings tbody tr")).to_have_count(2)  # what is known stays
        mortal.start()
        work(experiment, 25)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator(".facts")).to_contain_text("50")
        client.delete_experiment("mortal")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()


@pytest.mark.long
def test_an_unknown_experiment_is_said_to_be_unknown(open_page: OpenPage):
    page = open_page("/#/e/nobody", expected=REFUSED)
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_text("no experiment is called 'nobody'")).to_be_visible()
    page.get_by_role("link", name="All experiments").click()
    expect(page.get_by_role("heading", name="Experiments", exact=True)).to_be_visible()


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until an element has the focus, which has to be seen there."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            outline = target.evaluate("element => getComputedStyle(element).outlineStyle")
            assert outline != "none", "the focus is not to be seen"
            return
    raise AssertionError(f"Tab does not lead to {target}")


@pytest.mark.long
def test_it_works_by_keyboard_alone(open_page: OpenPage, experiment: Experiment):
    work(experiment, 60)
    page = open_page("/")
    page.wait_for_selector(".line")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type(experiment.name)
    expect(page.locator(".line")).to_have_count(1)
    tab_to(page, page.get_by_role("checkbox", name=f"Select {experiment.name}"))
    page.keyboard.press("Space")
    clear = page.get_by_role("button", name="Clear")
    page.keyboard.press("Shift+Tab")  # past the region that scrolls, and the headings
    for _ in range(20):
        if clear.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(clear).to_be_hidden()
    tab_to(page, page.get_by_role("link", name=experiment.name, exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text(experiment.name)
    tab_to(page, page.get_by_role("button", name="Stop"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    tab_to(page, page.get_by_role("button", name="Pause bad"))
    page.keyboard.press("Space")
    resume = page.get_by_role("button", name="Resume bad")
    expect(resume).to_be_focused()  # drawing anew takes the focus from nobody
    tab_to(page, page.get_by_label("Budget, in samples"))
    page.keyboard.type("500")
    page.keyboard.press("Enter")
    expect(page.get_by_text("60 of 500 samples are spent.")).to_be_visible()
    tab_to(page, page.locator("#how > summary"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Estimated regret")).to_be_visible()
    report = experiment.report()
    assert ([one.state for one in report.standings], report.budget) == (["active", "paused", "active"], 500)


@pytest.mark.long
def test_axe_finds_no_serious_violation(open_page: OpenPage, experiment: Experiment, axe: str):
    work(experiment, 60)
    experiment.set_cost("good", 0.5)
    pick = experiment.ask()
    assert pick is not None
    pick.tell(np.full((pick.size, 4), 2e3))  # anomalous
    experiment.ask(worker="somebody")
    for path in ("/", f"/#/e/{experiment.name}"):
        page = open_page(path, bypass_csp=True)
        page.wait_for_selector(".line" if path == "/" else "#plot-estimates svg")
        assert serious_violations_of_both_schemes(page, axe) == []


@pytest.mark.long
def test_the_difference_from_the_best_is_the_first_column(open_page: OpenPage, experiment: Experiment, axe: str):
    work(experiment, 300)
    report = scored(experiment)
    apart = {one.generator: one for one in report.contrasts}
    assert set(apart) == {"bad", "worse"}
    page = open_page(f"/#/e/{experiment.name}", bypass_csp=True)
    rows = page.locator(".standings tbody tr")
    for name, one in apart.items():
        cell = rows.filter(has=page.locator(".name", has_text=re.compile(f"^{name}$"))).locator("td").first
        expect(cell.locator(".apart > span").first).to_have_text(one.text)
        expect(cell.locator(".interval")).to_have_attribute("aria-label", re.compile(r"^Worse by .+ to .+; .+ common"))
        assert cell.locator(".tick.zero").count() == 1
    expect(rows.filter(has_text="good").locator("td").first.locator(".apart")).to_have_text(report.decision.rank)
    assert serious_violations_of_both_schemes(page, axe) == []
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "() => { const all = document.querySelector('.scroll'); return all.scrollWidth <= all.clientWidth; }")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


@pytest.mark.long
def test_an_interval_beyond_the_axis_has_an_arrow_and_the_axis_has_values(open_page: OpenPage, client: Optimist):
    shifts = {"good": 0.0, "near": 0.3, "nearer": 0.2, "nearest": 0.1, "far": 30.0}
    work(create(client, "far", list(shifts), stop=False, policy="uniform"), 100, shifts)
    page = open_page("/#/e/far")
    expect(page.locator(".range").first).to_be_attached()
    rows = page.locator(".standings tbody tr")
    far = rows.filter(has_text="far")
    expect(far.locator(".own .arrow.right")).to_have_count(1)
    expect(far.locator(".own :is(.range, .point)")).to_have_count(0)
    expect(far.locator(".own .interval")).to_have_attribute(
        "title", re.compile(r"^From [\d,]+ to [\d,]+; the axis ends before$")
    )
    expect(rows.filter(has_text="good").locator(".arrow")).to_have_count(0)
    assert page.locator(".own .axis .value").count() >= 2
    assert page.locator(".own .axis .value").count() == far.locator(".own .tick").count()


@pytest.mark.long
def test_no_curve_of_estimates_is_cut_and_shares_are_steps(open_page: OpenPage, client: Optimist):
    work(create(client, "curves", list(SHIFTS), stop=False), 200)
    page = open_page("/#/e/curves?how=open")
    points(page, "plot-estimates")
    ends = page.evaluate(
        """() => {
          const plot = document.getElementById("plot-estimates");
          const lines = plot.data.filter(({ showlegend }) => showlegend !== false);
          const settled = (trace) => trace.y.slice(Math.floor(trace.y.length / 2)).filter((y) => y !== null);
          const drawn = lines.flatMap(settled);  // the first estimates may be so far away that the axis leaves them out
          return [...plot.layout.yaxis.range, Math.min(...drawn), Math.max(...drawn)];
        }"""
    )
    assert ends[0] <= ends[2] < ends[3] <= ends[1]
    shapes = page.evaluate("() => document.getElementById('plot-shares').data.map(area => area.line.shape)")
    assert shapes == ["vh"] * len(SHIFTS)
