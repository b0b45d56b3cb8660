"""Four raters' browsers and eight generation workers at once, while API processes and the scorer are killed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from optimist.records import Said
from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean
from optimist_client.models import AuditCounts
from tests.support.audited import heard_of, kill_next
from tests.support.keys import bearer, new_key
from tests.support.processes import Service, serving, until

ANSWERS = 300
GENERATORS = ["ada", "bob"]
METRIC = Mean(reads="human", proxy="judge", range=(1, 5))
RATERS = ["anna", "ben", "cleo", "dora"]
WORKERS = 8
RATES = """() => {
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  window.answers = window.undone = 0;
  window.rates = setInterval(() => {
    const audit = document.querySelector(".audit");
    if (!audit) return;
    while (audit.isConnected) press(audit.querySelector(".turn .read").textContent.match(/mark (\\d)/)[1]);
    if (++window.answers % 10) return;
    press("z");
    window.undone += 1;
  }, 100);
}"""
"""Gives the mark that a sample itself names, and takes back every tenth answer, which is given again."""
UNSENT = "Object.keys(localStorage).some(key => key.startsWith('optimist-rater ') && localStorage[key] !== '[]')"


def mark(generator: str, index: int) -> int:
    """What people say of a sample."""
    return int(np.random.default_rng((index, GENERATORS.index(generator))).integers(1, 6))


def generate(service: Service, worker: str) -> None:
    with Optimist(service.url, patience=120) as client:
        for pick in client.experiment("rated").picks(worker=worker):
            assert pick.start is not None
            marks = [mark(pick.generator, pick.start + row) for row in range(pick.size)]
            shown = [f"{pick.start + row}: mark {each}" for row, each in enumerate(marks)]
            pick.tell({"judge": np.array(marks)[:, None] + 0.5 * (pick.start % 3)}, previews=shown)


def rating(browser: Browser, service: Service, rater: str) -> Page:
    page = browser.new_context(base_url=service.url).new_page()
    page.request.post("/v1/session", headers=bearer(new_key(service.directory, "rater", "default", "rated")))
    page.goto("/#/r/rated")
    page.get_by_label("Your name").fill(rater)
    page.keyboard.press("Enter")
    page.evaluate(RATES)
    return page


def counts(service: Service) -> AuditCounts | None:
    """How far people are; None where a killed process does not answer."""
    try:
        reply = httpx.get(f"{service.url}/v1/experiments/rated/audits", timeout=30).raise_for_status()
    except httpx.HTTPError:
        return None
    return AuditCounts.model_validate_json(reply.content)


def until_answered(page: Page, service: Service, count: int) -> None:
    """Wait, and take what browsers tell meanwhile, without which they would stop."""

    def is_so() -> bool:
        page.wait_for_timeout(50)
        now = counts(service)
        return now is not None and now.answered >= count

    until(is_so, 300.0, says=lambda: f"{counts(service)} {service.log()}")


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_what_four_browsers_answer_counts_once_though_processes_are_killed(browser: Browser, tmp_path: Path):
    with (
        serving(tmp_path / "service", "--workers=3") as service,
        Optimist(service.url, patience=120) as client,
        ThreadPoolExecutor(WORKERS) as pool,
    ):
        settings: dict[str, Any] = {"batch_size": 5, "grow": False, "keep_log": True, "stop": False}
        budget = 2 * (ANSWERS + 100)
        experiment = client.create_experiment(
            "rated", GENERATORS, metric=METRIC, budget=budget, previews=1024, **settings
        )
        working = [pool.submit(generate, service, f"w{number}") for number in range(WORKERS)]
        pages = [rating(browser, service, rater) for rater in RATERS]
        for turn in range(4):
            until_answered(pages[0], service, 60 * (turn + 1))
            until(lambda: kill_next(service, turn))  # noqa: B023
        until_answered(pages[0], service, ANSWERS)
        for page in pages:
            page.evaluate("clearInterval(window.rates)")
        until(lambda: not any(page.evaluate(UNSENT) for page in pages))
        for each in working:
            each.result()
        answers, undone = (
            dict(zip(RATERS, (page.evaluate(f"window.{what}") for page in pages), strict=True))
            for what in ("answers", "undone")
        )
        for page in pages:
            page.context.close()
        left = {rater: answers[rater] - undone[rater] for rater in RATERS}
        now = counts(service)
        assert now is not None
        assert {one.rater: one.answered for one in now.raters} == left
        until(lambda: experiment.report().scored)
        check(experiment, now.answered, answers, undone, tmp_path / "file.zip")


def check(experiment: Experiment, audits: int, answers: dict[str, int], undone: dict[str, int], path: Path) -> None:
    """Each answer and each undo is there once, and what counts is what was given last."""
    for generator, heard in heard_of(experiment, path).items():
        assert Counter(one.rater for one in heard.said if one.score) == answers
        assert Counter(one.rater for one in heard.said if not one.score) == undone
        given = standing(heard.said)
        assert len(given) == audits >= ANSWERS
        assert given == {index: mark(generator, index) for index in given}
        # Two raters have the same audit where one of them had taken it back: it counts once.
        assert heard.people == standing([one for one in heard.said if one.seq <= heard.until])
        assert len(heard.people) >= audits - 5


def standing(said: list[Said]) -> dict[int, float]:
    """The score of each index that has one: the last of each rater, all of whom give the same."""
    newest = {(one.index, one.rater): one.score for one in said}
    return {index: float(score) for (index, _), score in newest.items() if score}
