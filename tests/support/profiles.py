"""Which of the profiles of tests/conftest.py was chosen."""

from __future__ import annotations

from hypothesis import settings


def is_full() -> bool:
    """Whether `make test-full` runs. Known from when the tests are collected on: tests/conftest.py is too early."""
    return settings.get_current_profile_name() == "full"
