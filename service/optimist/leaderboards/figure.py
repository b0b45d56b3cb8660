"""The figure of a board: the mean of each model, and its difference from the base, with intervals. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optimist.leaderboards.board import Board, Measured
from optimist.leaderboards.texts import arrow

_COLOUR = "#0072B2"


def draw(board: Board, file: Path) -> None:
    """Write the figure, best model on top; filled marks are too close to the best to call."""
    with rc_context({"text.parse_math": False}):
        figure_of(board).savefig(file, dpi=200)


def figure_of(board: Board) -> Figure:
    """The two panels."""
    names = [standing.model for standing in board.standings]
    figure = Figure(figsize=(9.0, 1.2 + 0.4 * len(names)), layout="constrained")
    means, apart = figure.subplots(1, 2, sharey=True)
    for row, overall in enumerate(standing.overall for standing in board.standings):
        of_panels: list[tuple[Axes, Measured | None]] = [(means, overall.mean), (apart, overall.difference)]
        for axes, measured in of_panels:
            if measured is not None:
                half = measured.half(board.asked.delta)
                inside = _COLOUR if overall.is_tied else "white"
                axes.errorbar(measured.value, row, xerr=half, fmt="o", color=_COLOUR, mfc=inside, capsize=3)
    means.set_yticks(range(len(names)), names)
    means.set_ylim(len(names) - 0.5, -0.5)
    means.set_xlabel(f"{board.title} {arrow(board)}")
    apart.axvline(0.0, color="grey", lw=1)
    apart.set_xlabel(f"less {board.base}, paired")
    return figure
