"""Whose scores the page of an experiment shows whose judge people audit."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from optimist_client import Optimist
from optimist_client.metrics import Mean
from tests.support.pages import OpenPage
from tests.support.processes import until

pytestmark = pytest.mark.long
N = 60
MISSING = "Mean (judge; no answers yet)"


def test_the_page_says_that_scores_are_a_judges_until_people_answer(
    open_page: OpenPage, client: Optimist, http: httpx.Client, name: str
):
    settings: dict[str, Any] = {"batch_size": N, "stop": False}
    experiment = client.create_experiment(
        name, ["ada", "bob"], metric=Mean(reads="human", proxy="judge", range=(-9, 9)), **settings
    )
    quality = np.random.default_rng(2).standard_normal((2, N)).clip(-4, 4)
    for each, values in zip(("ada", "bob"), quality, strict=True):
        experiment.append(each, {"judge": values[:, None]}, start=0)
    until(lambda: experiment.report().scored)
    page = open_page(f"/#/e/{name}")
    expect(page.get_by_role("columnheader", name=MISSING)).to_be_visible()
    expect(page.locator(".hero .answer")).to_contain_text(MISSING)
    for audit in experiment.audits(25, rater="anna"):
        assert audit.index is not None
        experiment.answer(audit, {"ada": quality[0, audit.index], "bob": quality[1, audit.index]}, rater="anna")
    expect(page.get_by_role("columnheader", name="Mean (human)")).to_be_visible()
    expect(page.locator(".hero")).to_contain_text("The judge saves")
