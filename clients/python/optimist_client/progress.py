"""Shows the progress of a run: with tqdm in notebooks, with rich in terminals, else as a line of text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, TextIO

from optimist_client.models import DecisionInfo
from optimist_client.models.decisions import recipe


class Progress(Protocol):
    """The interface of a progress display."""

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples told so far, and the newest decision (None: unchanged)."""
        ...

    def close(self) -> None:
        """End the display and keep its last state visible."""
        ...


@contextmanager
def shown(wanted: bool | None, title: str, total: int | None) -> Iterator[Progress]:
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
    if notebook and find_spec("tqdm"):
        return TqdmBar(title, total)
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

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class TqdmBar:
    """A tqdm progress bar: a widget in notebooks that have ipywidgets, else text."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        # In notebooks `tqdm.auto` warns and fails without ipywidgets.
        home = "tqdm.auto" if find_spec("ipywidgets") else "tqdm"
        tqdm = import_module(home).tqdm
        self._bar = tqdm(desc=title, total=total, unit=" samples", file=file)

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples and, if given, the newest decision."""
        if decision is not None:
            self._bar.set_postfix_str(leader(decision), refresh=False)
        self._bar.update(samples - self._bar.n)

    def close(self) -> None:
        """End the display and keep the bar visible."""
        self._bar.close()


class RichBar:
    """A rich progress bar, below the output of the generators."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.fields[leader]}", markup=False)
        console = Console(file=file, stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text)
        self._bars = Progress(*columns, console=console)
        self._bars.start()
        self._task = self._bars.add_task(title, total=total, leader="")

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show the number of samples and, if given, the newest decision."""
        if decision is not None:
            self._bars.update(self._task, leader=leader(decision))
        self._bars.update(self._task, completed=samples)

    def close(self) -> None:
        """End the display and keep the bar visible."""
        self._bars.stop()


class Line:
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
        self._leader = self._leader if decision is None else leader(decision)
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


def leader(decision: DecisionInfo) -> str:
    """The best generator so far, or the best blend, with the confidence."""
    if decision.weights:
        sure = f" (better than {decision.best}: {decision.confidence_text})" if decision.confidence_text else ""
        return f"{recipe(decision.weights, 3)}{sure}"
    if decision.best is None:
        return ""
    return f"{decision.best} {decision.confidence_text}".rstrip()
