"""Print, HTML, the command line and the page say the same sentence, whatever is asked and however far it is."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from optimist_client import Experiment, Optimist
from optimist_client.models import Report
from tests.support.commands import invoked
from tests.support.pages import OpenPage
from tests.support.processes import Service, scored
from tests.support.reports import unwrapped

FID: dict[str, Any] = {"metric": "fid", "reference": (np.zeros(3), np.eye(3))}
MIXTURE: dict[str, Any] = {
    "metric": "rke",
    "kernel": {"name": "gaussian", "sigma": 2.0, "features": 32},
    "dimension": 3,
    "goal": "mixture",
}
FAR, NEAR, SAME = {"good": 0.0, "bad": 3.0}, {"one": 0.0, "two": 0.1}, {"one": 0.0, "two": 0.0}
ROUTED = {"metric": "mean", "goal": "route", "context": 2, "seeds": False}
pytestmark = pytest.mark.long


def rows(shift: float, size: int, seed: int, width: int) -> np.ndarray:
    """Those of a far shift are worse by every metric: they have another mean, are smaller, and vary less."""
    drawn = np.random.default_rng(seed).standard_normal((size, width))
    return drawn / (1.0 + shift) + (shift if width > 1 else -shift)


def told(experiment: Experiment, shifts: dict[str, float], samples: int) -> None:
    width = 1 if experiment.info.config.metric.name == "mean" else 3
    for pick in experiment.picks(samples):
        pick.tell(rows(shifts[pick.generator], pick.size, pick.seed, width))


def routed(experiment: Experiment, shifts: dict[str, float], samples: int) -> None:
    """Each generator is right for one half of the prompts."""
    rng = np.random.default_rng(0)
    for start in range(0, samples, 50):
        kinds = rng.integers(0, 2, min(50, samples - start))
        for pick, kind in zip(experiment.ask_all(np.eye(2)[kinds]), kinds, strict=True):
            pick.tell(float(rng.random() < (0.9 if list(shifts)[kind] == pick.generator else 0.3)))
    if samples >= 100:
        experiment.route_table()


def stopped(experiment: Experiment, shifts: dict[str, float], samples: int) -> None:
    told(experiment, shifts, samples)
    experiment.stop()


def on_another_scale(experiment: Experiment, shifts: dict[str, float], samples: int) -> None:
    """The last batch but one is 255 times as large."""
    for number, pick in enumerate(experiment.picks(samples)):
        scale = 255.0 if number == samples // pick.size - 2 else 1.0
        pick.tell(scale * rows(shifts[pick.generator], pick.size, pick.seed, 3))


Case = tuple[dict[str, float], int, Callable[[Experiment, dict[str, float], int], None], dict[str, Any]]
CASES: dict[str, Case] = {
    "waiting": (FAR, 0, told, {"metric": "mean"}),
    "decided": (FAR, 2000, told, FID),
    "stopped": (NEAR, 100, stopped, FID),
    "equal": (SAME, 3000, told, {**FID, "tolerance": 1.0}),
    "cost": (NEAR, 500, told, {**FID, "costs": {"one": 1, "two": 2}, "max_cost": 90}),
    "scale": (FAR, 100, on_another_scale, {**FID, "stop": False}),
    "mixture-close": (NEAR, 200, told, MIXTURE),
    "mixture-spent": (FAR, 200, told, {**MIXTURE, "budget": 100}),
    "route-few": (SAME, 10, routed, ROUTED),
    "route-gains": (SAME, 300, routed, ROUTED),
}


def test_all_say_the_same(open_page: OpenPage, service: Service, client: Optimist):
    answers = {name: answered(client, name, case) for name, case in CASES.items()}
    assert len({report.answer for report in answers.values()}) == len(CASES), "of states that are unlike"
    assert {report.state for report in answers.values()} == {
        *("warming up", "running", "decided", "out of budget", "stopped")
    }
    page = open_page("/")
    for name, report in answers.items():
        assert report.answer in unwrapped(report), name
        assert f"<p>{escape(report.answer)}</p>" in report._repr_html_(), name
        shown = invoked("show", report.experiment, "--url", service.url)
        assert report.answer in unwrapped(shown.stdout), name
        page.goto(f"/#/e/{report.experiment}")
        expect(page.locator(".answer")).to_have_text(report.answer)


def answered(client: Optimist, name: str, case: Case) -> Report:
    shifts, samples, work, config = case
    experiment = client.create_experiment(f"same-{name}", [*shifts], batch_size=1 if "route" in name else 10, **config)
    work(experiment, shifts, samples)
    return scored(experiment)
