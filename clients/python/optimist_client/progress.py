"""Shows the progress of a run: standings in notebooks, a bar of rich in terminals, else a line of text."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from optimist_client.notebook import NotebookView

if TYPE_CHECKING:
    from optimist_client.models import DecisionInfo, Report


class Progress(Protocol):
    """The interface of a progress display."""

    shows_reports: bool
    """Whether it wants `show` to be called."""

    def show(self, report: Report) -> None:
        """Show a new report."""
        ...

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples told so far, and the newest decision (None: unchanged)."""
        ...

    def close(self) -> None:
        """End the display and keep its last state visible."""
        ...


@contextmanager
def shown(wanted: bool | None, title: str, total: int | None) -> Generator[Progress]:
    """A context with a suitable display, or one that shows nothing. `wanted` None: only in notebooks and terminals."""
    progress = _display(wanted, title, total)
    try:
        yield progress
    finally:
        progress.close()


def _display(wanted: bool | None, title: str, total: int | None) -> Progress:
    notebook, terminal = _in_notebook(), sys.stderr.isatty()
    if wanted is False or not (wanted or notebook or terminal):
        return NoDisplay()
    if notebook:
        return NotebookView(title, total)
    if terminal and find_spec("rich"):
        return RichBar(title, total)
    return Line(title, total)


def _in_notebook() -> bool:
    """Whether this runs in an IPython kernel, as in notebooks. IPython in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NoDisplay:
    """A display that shows nothing."""

    shows_reports = False

    def show(self, report: Report) -> None:
        """Do nothing."""

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def bars(console: Any, *more: Any) -> Any:
    """A `rich.progress.Progress` with the time that each task has taken and the time that is left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    what, left = TextColumn("{task.description}"), (TextColumn("left:"), TimeRemainingColumn())
    return Progress(what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *left, *more, console=console)


def expected_total(samples: int, decision: DecisionInfo, most: int | None) -> int | None:
    """The samples after which a run is expected to be decided, at most `most`; that if nothing is known."""
    if decision.decided:
        return samples
    more = None if decision.hardest is None else decision.hardest.more_samples
    if more is None:
        return most
    expected = samples + more[1]
    return expected if most is None else min(most, expected)


class RichBar(NoDisplay):
    """A rich progress bar, below the output of the generators."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import TextColumn

        self._total = total
        self._bars = bars(Console(file=file, stderr=True), TextColumn("{task.fields[leader]}", markup=False))
        self._bars.start()
        self._task = self._bars.add_task(title, total=total, leader="")

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples and, if given, the newest decision."""
        if decision is not None:
            total = expected_total(samples, decision, self._total)
            self._bars.update(self._task, leader=decision.leader, total=total)
        self._bars.update(self._task, completed=samples)

    def close(self) -> None:
        """End the display and keep the bar visible."""
        self._bars.stop()


class Line(NoDisplay):
    """A line of text. A terminal shows one updated line; elsewhere a line is written each time the samples double."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._title = title
        self._of = "" if total is None else f" of {total:,}"
        self._samples = 0
        self._leader = ""
        self._next = 1

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Write the line if it is due."""
        self._samples = samples
        self._leader = self._leader if decision is None else decision.leader
        if self._file.isatty():
            self._file.write(f"\r{self._text()}\033[K")
        elif samples >= self._next:
            self._next = 2 * samples
            self._file.write(f"{self._text()}\n")
        self._file.flush()

    def close(self) -> None:
        """Write the final line."""
        start = "\r" if self._file.isatty() else ""
        self._file.write(f"{start}{self._text()}\n")
        self._file.flush()

    def _text(self) -> str:
        return f"{self._title}: {self._samples:,}{self._of} samples  {self._leader}".rstrip()
