"""How all figures look."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def labelled(axes: Axes, across: str, up: str) -> None:
    """Axis labels and a grid."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)


def save(figure: Figure, stem: Path) -> list[Path]:
    """As PNG and SVG; the same figure makes the same files."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with rc_context({"svg.hashsalt": "optimist"}):
        figure.savefig(files[0], dpi=90)
        figure.savefig(files[1], metadata={"Date": None})
    return files
