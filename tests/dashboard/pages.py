"""What the tests of pages share."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

WAIT = 30_000
"""Milliseconds after which a state that is waited for is given up."""

OpenPage = Callable[..., Page]
"""A path of the service, which errors of the console are expected, options of the browser's context."""
