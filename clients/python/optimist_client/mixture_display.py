"""Shows a mixture as text, as HTML, as a data frame or as a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimist_client.display import as_lines, as_notes, as_table
from optimist_client.installed import need
from optimist_client.layout import Page, Table
from optimist_client.models.decisions import shown

if TYPE_CHECKING:
    from optimist_client.models.mixtures import Mixture


def as_text(mixture: Mixture) -> Page:
    """Title, weights and result as text."""
    return Page([_table(mixture), *mixture.sentences, *as_lines(mixture.basis)])


def as_html(mixture: Mixture) -> str:
    """Title, weights and result as an HTML table for notebooks."""
    return as_table(_table(mixture)) + as_notes([*mixture.sentences, *as_lines(mixture.basis)])


def as_frame(mixture: Mixture) -> Any:
    """A pandas DataFrame with one row per generator, the largest weight first. Raises ModuleNotFoundError."""
    rows = [row.model_dump() for row in mixture.ranking]
    return need("pandas", "notebook").DataFrame(rows).set_index("generator")


def as_plot(mixture: Mixture, axes: Any = None) -> Any:
    """Plot the weights as bars, the largest on top, on matplotlib axes (None: new ones). Raises ModuleNotFoundError."""
    rows = mixture.ranking
    if axes is None:
        size = (7.0, 1.5 + 0.35 * max(len(rows), 3))
        axes = need("matplotlib.pyplot", "notebook").subplots(layout="constrained", figsize=size)[1]
    bars = axes.barh(range(len(rows)), [100.0 * row.weight for row in rows], color="C2")
    axes.bar_label(bars, [f" {row.weight:.0%}" for row in rows])
    axes.set_yticks(range(len(rows)), [f"{row.generator} ({row.samples:,})" for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("weight in the best mixture in %")
    axes.set_title(f"{_title(mixture)}\n{mixture.gain_text}", fontsize="medium")
    return axes


def _title(mixture: Mixture) -> str:
    best = f"best mixture by {mixture.title}, {mixture.samples:,} samples"
    return f"{best[0].upper()}{best[1:]}" if mixture.experiment is None else f"{mixture.experiment}: {best}"


def _table(mixture: Mixture) -> Table:
    """Weights, samples, and how much worse the best mixture without each generator is."""
    rows: list[tuple[str, ...]] = []
    for row in mixture.ranking:
        worse = shown(row.contribution, mixture.scale) if row.contribution > 0.0 else "not worse"
        rows.append((row.generator, f"{row.weight:.1%}", f"{row.samples:,}", worse))
    head = ("generator", "weight", "samples", "worse without it")
    return Table(head, rows, title=_title(mixture), first_to_go=("samples",))
