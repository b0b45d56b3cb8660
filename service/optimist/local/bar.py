"""Shows how far a comparison is, as `run` shows a run."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from optimist_client.models import Report
from optimist_client.progress import Progress, shown
from optimist_client.run import Reporting


class Display(Protocol):
    """Shows how far a comparison is."""

    def real(self, done: int, total: int) -> None:
        """So many real samples have been embedded."""
        ...

    def report(self, report: Report, effort: str) -> None:
        """The standings now, and what they took."""
        ...


class Bar:
    """The display of scripts and notebooks: the progress bar of `run`."""

    def __init__(self, wanted: bool | None, total: int) -> None:
        self._stack, self._how = ExitStack(), (wanted, "compare", total)
        self._progress: Progress | None = None
        self._shown = 0.0

    def real(self, done: int, total: int) -> None:
        """Nothing is shown of it."""

    def report(self, report: Report, effort: str) -> None:
        """Update the bar, or the view of a notebook."""
        if self._progress is None:
            return
        self._progress.update(report.samples, report.decision)
        if self._progress.shows_reports and (report.ended or time.monotonic() - self._shown > Reporting.EVERY):
            self._progress.show(report)
            self._shown = time.monotonic()

    def __enter__(self) -> Self:
        self._progress = self._stack.enter_context(shown(*self._how))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
