"""Shows the progress of a run: standings in notebooks, a bar of rich in terminals, else a line of text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from optimist_client.notebook import NotebookView

if TYPE_CHECKING:
    from optimist_client.models.decisions import DecisionInfo
    from optimist_client.models.reports import Report


EVERY = 10.0
"""Seconds from one line to the next where the output is no terminal."""


class ProgressDisplay(Protocol):
    """The interface of a progress display."""

    shows_reports: bool
    """True if it wants `show` to be called."""

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
def shown(wanted: bool | None, title: str, total: int | None) -> Generator[ProgressDisplay]:
    """A context with a suitable display, or one that shows nothing. `wanted` None: only in notebooks and terminals."""
    progress = _display(wanted, title, total)
    try:
        yield progress
    finally:
        progress.close()


def _display(wanted: bool | None, title: str, total: int | None) -> ProgressDisplay:
    notebook, terminal = _in_notebook(), sys.stderr.isatty()
    if wanted is False or not (wanted or notebook or terminal):
        return NoDisplay()
    if notebook:
        return NotebookView(title, total)
    if terminal and find_spec("rich"):
        return RichBar(title, total)
    return Line(title, total)


def _in_notebook() -> bool:
    """True if this runs in an IPython kernel, as in notebooks. IPython in a terminal has no kernel."""
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


def bars(console: Any, *more: Any, transient: bool = False) -> Any:
    """A `rich.progress.Progress` with the time that each task has taken and the time that is left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        """The time that is left, where it is known."""

        def render(self, task: Task) -> Text:
            if task.finished or task.time_remaining is None:
                return Text()
            return super().render(task).append(" left")

    class Done(MofNCompleteColumn):
        """The steps that are done, of all where it is known how many there are."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f}") if task.total is None else super().render(task)

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        Done(),
        TimeElapsedColumn(),
        TimeLeft(),
        *more,
    )
    return Progress(*columns, console=console, transient=transient)


def expected_total(samples: int, decision: DecisionInfo, max_samples: int | None) -> int | None:
    """The samples after which a run is expected to be decided, at most `max_samples`; that if nothing is known."""
    if decision.decided:
        return samples
    more = None if decision.hardest is None else decision.hardest.more_samples
    if more is None:
        return max_samples
    expected = samples + more[1]
    return expected if max_samples is None else min(max_samples, expected)


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
    """A line of text with the time that is left. A terminal shows one updated line; elsewhere one is written every
    `EVERY` seconds, and a last one."""

    def __init__(self, title: str, max_samples: int | None, file: TextIO | None = None, unit: str = " samples") -> None:
        self._file = file or sys.stderr
        self._title, self._unit = title, unit
        self._max_samples = self._expected = max_samples
        self._samples = 0
        self._first: int | None = None
        """The samples of the first update: the rate is of those that came since."""
        self._more = ""
        self._began = self._written = time.monotonic()

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Write the line if it is due."""
        if decision is not None:
            self._more = decision.leader
            self._expected = expected_total(samples, decision, self._max_samples)
        self.count(samples)

    def count(self, done: int, more: str | None = None) -> None:
        """Write the line if it is due. more: what stands at its end from now on."""
        self._samples = done
        self._more = self._more if more is None else more
        if self._first is None:
            self._first = done
        if self._file.isatty():
            self._file.write(f"\r{self._text()}\033[K")
        elif time.monotonic() - self._written >= EVERY:
            self._written = time.monotonic()
            self._file.write(f"{self._text()}\n")
        self._file.flush()

    def close(self) -> None:
        """Write the final line."""
        start = "\r" if self._file.isatty() else ""
        self._file.write(f"{start}{self._text()}\n")
        self._file.flush()

    @property
    def is_long(self) -> bool:
        """True if a line has been due."""
        return self._written > self._began

    def _text(self) -> str:
        of = "" if self._max_samples is None else f" of {self._max_samples:,}"
        return f"{self._title}: {self._samples:,}{of}{self._unit}{self._left()}  {self._more}".rstrip()

    def _left(self) -> str:
        """About how long it takes from here; "" where that is not known."""
        done, taken = self._samples - (self._first or 0), time.monotonic() - self._began
        if done <= 0 or self._expected is None or self._expected <= self._samples or taken < 1.0:
            return ""
        return f", about {timedelta(seconds=round(taken / done * (self._expected - self._samples)))} left"


def _uncounted(steps: int = 1, name: str | None = None) -> None:
    """Show nothing."""


@contextmanager
def counted(what: str, total: int | None, unit: str = "", *, wanted: bool = True) -> Generator[Callable[..., None]]:
    """A context for work in steps; it gives a function to call with the steps that are done, and perhaps their name.

    A terminal shows a bar with the time that is left, anything else a line every `EVERY` seconds.
    """
    done = 0
    if not wanted:
        yield _uncounted
        return
    if sys.stderr.isatty() and find_spec("rich"):
        from rich.console import Console
        from rich.progress import TextColumn

        named = TextColumn("{task.fields[name]}", markup=False)
        with bars(Console(stderr=True), named, transient=True) as drawn:
            task = drawn.add_task(what, total=total, name="")

            def advance(steps: int = 1, name: str = "") -> None:
                drawn.update(task, advance=steps, name=name)

            yield advance
        return
    line = Line(what, total, unit=unit)

    def step(steps: int = 1, name: str | None = None) -> None:
        nonlocal done
        done += steps
        line.count(done, name)

    yield step
    if line.is_long:
        line.close()
