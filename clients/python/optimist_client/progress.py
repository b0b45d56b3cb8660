"""How far a run is: a bar of tqdm in notebooks, of rich in terminals, a line of text where they are not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol, TextIO

from optimist_client.models import DecisionInfo


class Progress(Protocol):
    """Is told how many samples were told, and of a newer decision if there is one."""

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show it."""
        ...

    def close(self) -> None:
        """Leave the last line as it is."""
        ...


@contextmanager
def shown(wanted: bool | None, title: str, total: int | None) -> Iterator[Progress]:
    """The display for where this runs, closed in the end; None wants one in notebooks and terminals only."""
    progress = _display(wanted, title, total)
    try:
        yield progress
    finally:
        progress.close()


def _display(wanted: bool | None, title: str, total: int | None) -> Progress:
    notebook, terminal = _in_notebook(), sys.stderr.isatty()
    if wanted is False or not (wanted or notebook or terminal):
        return Nothing()
    if notebook and find_spec("tqdm"):
        return TqdmBar(title, total)
    if terminal and find_spec("rich"):
        return RichBar(title, total)
    return Line(title, total)


def _in_notebook() -> bool:
    """Whether an IPython kernel runs this; a terminal's IPython has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class Nothing:
    """Shows nothing."""

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing is open."""


class TqdmBar:
    """A bar of tqdm, which draws itself as a widget in notebooks."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(desc=title, total=total, unit=" samples", file=file)

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Move on to so many samples."""
        if decision is not None:
            self._bar.set_postfix_str(leader(decision), refresh=False)
        self._bar.update(samples - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


class RichBar:
    """A bar of rich, below what the generators print."""

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
        """Move on to so many samples."""
        if decision is not None:
            self._bars.update(self._task, leader=leader(decision))
        self._bars.update(self._task, completed=samples)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bars.stop()


class Line:
    """One line of text, written over in a terminal; elsewhere a new one whenever the samples have doubled."""

    def __init__(self, title: str, total: int | None, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._title = title
        self._of = "" if total is None else f" of {total:,}"
        self._samples = 0
        self._leader = ""
        self._next = 1

    def update(self, samples: int, decision: DecisionInfo | None) -> None:
        """Write the line if it is time to."""
        self._samples = samples
        self._leader = self._leader if decision is None else leader(decision)
        if self._file.isatty():
            self._file.write(f"\r{self._text()}\033[K")
        elif samples >= self._next:
            self._next = 2 * samples
            self._file.write(f"{self._text()}\n")
        self._file.flush()

    def close(self) -> None:
        """Write how it ended."""
        start = "\r" if self._file.isatty() else ""
        self._file.write(f"{start}{self._text()}\n")
        self._file.flush()

    def _text(self) -> str:
        return f"{self._title}: {self._samples:,}{self._of} samples  {self._leader}".rstrip()


def leader(decision: DecisionInfo) -> str:
    """The best so far, and how sure that is."""
    if decision.best is None:
        return ""
    sure = "" if decision.confidence is None else f" {decision.confidence:.1%}"
    return f"{decision.best}{sure}"
