"""The page of the HTTP API: it shows every route, and loads nothing from another host."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.support.pages import OpenPage
from tests.support.processes import Service


@pytest.mark.long
def test_the_api_page_works_without_the_internet(open_page: OpenPage, service: Service):
    page = open_page("/docs")
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.reload()
    create = page.locator("#operations-experiments-create_experiment_v1_experiments_post")
    create.locator(".opblock-summary-control").click()
    create.get_by_role("button", name="Try it out").wait_for()
    assert page.locator(".opblock").count() > 20
    assert hosts == {urlsplit(service.url).netloc}
