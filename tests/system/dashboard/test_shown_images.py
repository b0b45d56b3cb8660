"""Images that ids name: a browser fetches none before somebody says so, unless the operator trusts their host."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from optimist_client import Optimist
from tests.support.pages import OpenPage, serious_violations_of_both_schemes
from tests.support.processes import Service, answered_by, serving

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXTS = ["javascript:window.pwned=1", "<img src=x onerror=window.pwned=1>"]
pytestmark = pytest.mark.long


@dataclass
class Images:
    """A server of images that notes what it is asked for."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    referrers: list[str] = field(default_factory=list)

    @property
    def elsewhere(self) -> str:
        """The same server under another name."""
        return self.url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def server() -> Iterator[Images]:
    images = Images()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            images.asked.append(self.path)
            images.referrers += self.headers.get_all("referer", [])
            self.send_response(404 if "nothing" in self.path else 200)
            self.send_header("content-type", "image/png")
            self.send_header("cache-control", "max-age=600")
            self.end_headers()
            self.wfile.write(b"" if "nothing" in self.path else base64.b64decode(PIXEL))

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Handler) as images.url:
        yield images


@pytest.fixture
def images(server: Images) -> Images:
    server.asked.clear()
    return server


@pytest.fixture(scope="module")
def pictured(server: Images, service: Service) -> str:
    """The name of an experiment whose samples are images, and other texts."""
    kernel = {"sigma": 1.0, "features": 16}
    ids = [
        f"data:image/png;base64,{PIXEL}",
        f"{server.url}/first.png",
        f"{server.url}/second.png?size=large",
        f"{server.elsewhere}/third.png",
        f"{server.elsewhere}/nothing.png",
        server.url.replace("//", "//images.example.org@"),
        *TEXTS,
    ]
    with Optimist(service.url) as client:
        experiment = client.create_experiment("pictured", ["a"], metric="rke", dimension=2, kernel=kernel, batch_size=8)
        experiment.ask().tell(np.random.default_rng(0).standard_normal((8, 2)), ids=ids)
    return "pictured"


def first_mode(page: Page) -> Locator:
    page.get_by_role("button", name="Show modes").click()
    mode = page.locator(".modes > li").first
    expect(mode.locator(".samples > li")).to_have_count(8)
    return mode


def until_loaded(mode: Locator, count: int) -> None:
    """Until it shows so many images, and all of them have come."""
    expect(mode.locator("img")).to_have_count(count)
    for image in mode.locator("img").all():
        expect(image).to_have_js_property("naturalWidth", 1)


def test_images_are_fetched_when_somebody_says_so(open_page: OpenPage, images: Images, pictured: str):
    page = open_page(f"/#/e/{pictured}", expected="Failed to load resource")
    mode = first_mode(page)
    expect(mode.locator(".unloaded")).to_have_count(4)
    texts = mode.locator(".text")
    expect(texts.filter(has_text="images.example.org@")).to_have_count(1)  # a name and password are never sent
    until_loaded(mode, 1)  # the one that the id holds
    assert images.asked == []
    mode.get_by_role("button", name="first.png").click()
    until_loaded(mode, 2)
    assert images.asked == ["/first.png"]
    mode.get_by_role("button", name="Load images of Mode 1").click()
    until_loaded(mode, 4)
    assert sorted(images.asked) == ["/first.png", "/nothing.png", "/second.png?size=large", "/third.png"]
    assert images.referrers == []
    expect(mode.get_by_role("button")).to_have_count(0)
    expect(texts.filter(has_text="nothing.png")).to_be_visible()  # what is no image is shown as text
    expect(texts).to_have_count(4)
    assert {*TEXTS} <= {*texts.all_text_contents()}
    assert page.evaluate("() => window.pwned") is None


def test_those_of_trusted_hosts_come_by_themselves(
    open_page: OpenPage, images: Images, pictured: str, redis_url: str, tmp_path: Path
):
    trusted = {"OPTIMIST_IMAGE_HOSTS": f"images.example.org, {images.url.removeprefix('http://')}"}
    with serving(tmp_path, f"--redis-url={redis_url}", "--no-scoring", environment=trusted) as service:
        mode = first_mode(open_page(f"{service.url}/#/e/{pictured}"))
        until_loaded(mode, 3)
        assert sorted(images.asked) == ["/first.png", "/second.png?size=large"]
        expect(mode.locator(".unloaded")).to_have_count(2)
        for name in ("nothing.png", "third.png"):
            loads = f"Load image{images.elsewhere.removeprefix('http://')}/{name}"
            expect(mode.locator(".unloaded").get_by_text(loads)).to_have_count(1)


def test_axe_finds_no_serious_violation_in_modes(open_page: OpenPage, pictured: str, axe: str):
    page = open_page(f"/#/e/{pictured}", bypass_csp=True)
    first_mode(page)
    assert serious_violations_of_both_schemes(page, axe) == []
