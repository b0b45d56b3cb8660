"""What the tests of pages share."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

WAIT = 30_000
"""Milliseconds after which a state that is waited for is given up."""
expect.set_options(timeout=WAIT)

OpenPage = Callable[..., Page]
"""A path of the service, which errors of the console are expected, options of the browser's context."""


def serious_violations(page: Page, axe: str, *rules: str) -> list[tuple[str, list[str]]]:
    """What axe-core finds that is serious or critical, by these rules or all: their names and the elements."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe)
    options = {"runOnly": list(rules)} if rules else {}
    violations = page.evaluate("async options => (await axe.run(options)).violations", options)
    serious = [one for one in violations if one["impact"] in ("serious", "critical")]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious]


def serious_violations_of_both_schemes(page: Page, axe: str) -> list[tuple[str, list[str]]]:
    """In light colours by all rules; dark ones change nothing but the contrast."""
    page.emulate_media(color_scheme="light")
    light = serious_violations(page, axe)
    page.emulate_media(color_scheme="dark")
    return light + serious_violations(page, axe, "color-contrast")
