"""The Redis of the service, which the tests can write to as well, and one Chromium."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from optimist.store import running_url
from tests.support.pages import WAIT, OpenPage
from tests.support.places import ROOT
from tests.support.processes import Service, serving
from tests.support.written import write_long_experiment

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
UNUSED = "PreloadTopChromeWebUI,PreloadTopChromeWebUILessNavigations,SpareRendererForSitePerProcess"
"""What Chromium prepares for each window: processes that no test uses, and that take a third of the start of a page."""


@pytest.fixture(scope="session")
def redis_url(shared: Service) -> str:
    """The Redis of `service`."""
    url = running_url(shared.directory)
    assert url is not None
    return url


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of its own, which may be killed, and its Redis emptied. Each test leaves it without experiments."""
    with serving(tmp_path_factory.mktemp("mortal"), "--no-scoring") as running:
        yield running


@pytest.fixture(scope="session")
def million(redis_url: str) -> str:
    """The name of an experiment of a million rounds."""
    with ThreadPoolExecutor(1) as pool:  # the browser's event loop may run in this thread
        pool.submit(asyncio.run, write_long_experiment(redis_url, "million", 1_000_000, 8)).result()
    return "million"


# Not of the session: while Playwright runs, its event loop does, in which other packages' tests cannot run theirs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", f"--disable-features={UNUSED}"]
        )
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser, service: Service) -> Iterator[OpenPage]:
    """Opens a page at a path of the service; in the end no console may have errors but those that were expected."""
    with ExitStack() as stack:

        def open_at(path: str, expected: str = "nothing", **options: Any) -> Page:
            context = stack.enter_context(browser.new_context(base_url=service.url, **options))
            page = context.new_page()
            page.set_default_timeout(WAIT)
            page.on("console", lambda line: line.type in ("error", "warning") and errors.append(line.text))
            page.on("pageerror", lambda error: errors.append(str(error)))
            errors: list[str] = []
            stack.callback(lambda: check(errors, expected))
            page.goto(path)
            return page

        yield open_at


def check(errors: list[str], expected: str) -> None:
    assert [text for text in errors if expected not in text] == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which .ci/run fetches from npm."""
    script = ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("no axe-core here: npm install --prefix .axe axe-core@4.10.3")
    return script.read_text()
