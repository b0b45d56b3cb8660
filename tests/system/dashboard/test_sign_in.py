"""The dashboard of a service that asks for keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from optimist_client import Optimist
from tests.support.keys import guarded, optimist_keys
from tests.support.pages import serious_violations_of_both_schemes

pytestmark = pytest.mark.long


def test_a_key_signs_in_and_stays_out_of_reach(browser: Browser, tmp_path: Path):
    with guarded(tmp_path / "data", "--no-scoring") as (service, key):
        with Optimist(service.url, api_key=key) as client:
            client.create_experiment("secret", ["a", "b"], metric="is", dimension=4)
        page = browser.new_page()
        page.goto(f"{service.url}/")
        field = page.get_by_label("Access key")
        expect(page.locator("#live")).to_have_text("")  # nothing is shown yet that could be live
        command = page.locator("pre").inner_text().split()
        options = {name: command[command.index(name) + 1] for name in ("--role", "--namespace", "--data-dir")}
        made = optimist_keys(*command[2:-1], str(tmp_path / "data"))
        assert (made.exit_code, options["--namespace"]) == (0, "default"), made.output
        field.fill("wrong")
        field.press("Enter")
        expect(page.get_by_role("alert").filter(has_text="key")).to_be_visible()
        expect(page.get_by_text("secret")).to_have_count(0)
        expect(page.locator("#live")).to_have_text("")
        field.fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("link", name="secret")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")
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


def test_a_shared_link_shows_one_experiment_without_controls(browser: Browser, tmp_path: Path, axe: str):
    with guarded(tmp_path / "data", "--no-scoring") as (service, key):
        with Optimist(service.url, api_key=key) as client:
            for name in ("shared", "other"):
                client.create_experiment(name, ["a", "b"], metric="is", dimension=4, previews=4)
        admin = browser.new_context(base_url=service.url, bypass_csp=True).new_page()
        admin.goto("/#/e/shared")
        admin.get_by_label("Access key").fill(key)
        admin.keyboard.press("Enter")
        expect(admin.locator("#who")).to_contain_text("Signed in as admin, default")
        expect(admin.get_by_role("button", name="Stop")).to_be_visible()
        admin.locator("summary", has_text="Share").click()
        admin.get_by_role("button", name="Make a link").click()
        link = admin.get_by_label("Link", exact=True)
        expect(link).to_be_focused()
        assert serious_violations_of_both_schemes(admin, axe) == []
        page = browser.new_context().new_page()
        page.goto(link.input_value())
        expect(page.locator(".answer")).to_contain_text("Waiting for the first samples.")
        assert "key=" not in page.url
        expect(page.locator("#who")).to_contain_text("Signed in as viewer, default")
        for name in ("Stop", "Retire a", "Pause a", "Set budget", "Add tags or a note"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(page.locator("summary", has_text="Share")).to_be_hidden()
        expect(page.get_by_role("heading", name="Samples")).to_have_count(0)
        page.get_by_role("link", name="← Experiments").click()
        expect(page.locator(".line")).to_have_count(1)
        # The link asks before it takes the place of a key that somebody has signed in with.
        shared = link.input_value()
        other = admin.context.new_page()
        for choice, role in (("Stay signed in", "admin"), ("Use the link's key", "viewer")):
            other.goto("about:blank")
            other.goto(shared)
            expect(other.get_by_text("You are signed in as admin, default.")).to_be_visible()
            assert serious_violations_of_both_schemes(other, axe) == []
            other.get_by_role("button", name=choice).click()
            expect(other.locator("#who")).to_contain_text(f"Signed in as {role}, default")
            expect(other.get_by_role("heading", name="shared")).to_be_visible()
        other.context.clear_cookies()
        other.goto("/")
        other.get_by_label("Access key").fill(key)
        other.keyboard.press("Enter")
        expect(other.locator("#who")).to_contain_text("Signed in as admin, default")
        other.close()
        # The first page may have asked for news while the key of the link was in its place.
        admin.reload()
        admin.locator("summary", has_text="Share").click()
        admin.get_by_role("button", name="Revoke").click()
        expect(admin.locator(".shares li")).to_have_count(0)
        page.get_by_role("button", name="sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        for one in (admin, page):
            one.context.close()
