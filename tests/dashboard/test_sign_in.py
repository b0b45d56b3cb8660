"""The dashboard of a service that asks for keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from keys import guarded
from pages import WAIT
from playwright.sync_api import Browser, expect

from optimist_client import Optimist

expect.set_options(timeout=WAIT)


@pytest.mark.long
def test_a_key_signs_in_and_stays_out_of_reach(browser: Browser, tmp_path: Path):
    with guarded(tmp_path / "data", "--no-scoring") as (service, key):
        with Optimist(service.url, api_key=key) as client:
            client.create_experiment("secret", ["a", "b"], metric="is", dimension=4)
        page = browser.new_page()
        page.goto(f"{service.url}/")
        field = page.get_by_label("Access key")
        field.fill("wrong")
        field.press("Enter")
        expect(page.get_by_role("alert").filter(has_text="key")).to_be_visible()
        expect(page.get_by_text("secret")).to_have_count(0)
        field.fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("link", name="secret")).to_be_visible()
        assert key not in page.url
        assert key not in page.evaluate(
            "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
        )
        assert key not in page.content()
        page.reload()
        expect(page.get_by_role("link", name="secret")).to_be_visible()
        page.context.clear_cookies()
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.close()
