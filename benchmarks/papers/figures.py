"""The style of all figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from optimist.simulation.plots import COLOURS, DASHES

MARKERS = ("o", "s", "^", "D", "v", "x")


def labelled(axes: Axes, across: str, up: str) -> None:
    """Set axis labels and a grid."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)


def draw_lines(axes: Axes, across: Sequence[float], lines: Mapping[str, Sequence[float]], suffix: str = "") -> None:
    """Draw named lines with different colours, dashes and markers."""
    for (name, line), colour, dash, marker in zip(lines.items(), COLOURS, cycle(DASHES), MARKERS, strict=False):
        axes.plot(across, line, color=colour, linestyle=dash, marker=marker, ms=4, lw=1.6, label=f"{name}{suffix}")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a small PNG with few colours, and an SVG; the same figure gives the same files."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    drawn = BytesIO()
    with rc_context({"svg.hashsalt": "optimist"}):
        figure.savefig(drawn, dpi=90)
        Image.open(drawn).convert("RGB").quantize(128).save(files[0], optimize=True)
        figure.savefig(files[1], metadata={"Date": None})
    return files
