"""Shows a table of routes as text, as HTML, as a data frame or as a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimist_client.display import as_notes, as_table
from optimist_client.installed import need
from optimist_client.layout import Page, Table
from optimist_client.models.decisions import format_range

if TYPE_CHECKING:
    from optimist_client.models.routes import Routes, RouteScore


def as_text(routes: Routes) -> Page:
    """Title, scores by type of prompt and result as text."""
    return Page([_table(routes), *routes.summary])


def as_html(routes: Routes) -> str:
    """Title, scores by type of prompt and result as an HTML table for notebooks."""
    return as_table(_table(routes)) + as_notes(routes.summary)


def as_frame(routes: Routes) -> Any:
    """A pandas DataFrame with one row per type of prompt and generator. Raises ModuleNotFoundError."""
    rows = [
        {"type": number, "share": kind.share, "example": kind.example, "winner": kind.winner, **score.model_dump()}
        for number, kind in enumerate(routes.types, 1)
        for score in kind.scores
    ]
    columns = ["type", "generator", "score", "standard_error", "traffic", "winner", "share", "example"]
    return need("pandas", "notebook").DataFrame(rows, columns=columns).set_index(["type", "generator"])


def as_plot(routes: Routes, axes: Any = None) -> Any:
    """Plot each generator's score on each type of prompt, the most frequent on top, on matplotlib axes.

    axes: None for new ones. Raises ModuleNotFoundError.
    """
    types = routes.types
    if axes is None:
        size = (7.5, 1.8 + 0.5 * max(len(types), 2))
        axes = need("matplotlib.pyplot", "notebook").subplots(layout="constrained", figsize=size)[1]
    for index, share in enumerate(routes.shares):
        scores = enumerate(kind.by_generator.get(share.generator) for kind in types)
        drawn = [(row, score) for row, score in scores if score is not None and score.score is not None]
        offset = 0.12 * (index - 0.5 * (len(routes.shares) - 1))
        axes.errorbar(
            [score.score for _, score in drawn],
            [row + offset for row, _ in drawn],
            xerr=[routes.interval_errors * (score.standard_error or 0.0) for _, score in drawn],
            fmt="o",
            label=f"{share.generator} ({share.traffic:.0%})",
        )
    labels = [f"{short(kind.example) or number} ({kind.share:.0%})" for number, kind in enumerate(types, 1)]
    axes.set_yticks(range(len(types)), labels)
    axes.invert_yaxis()
    axes.margins(y=0.12)
    axes.set_xlabel(f"{routes.title} with intervals ({'lower' if routes.lower_is_better else 'higher'} is better)")
    name = "" if routes.experiment is None else f"{routes.experiment}: "
    axes.set_title(
        f"{name}{routes.title} by type of prompt, {routes.samples:,} samples\n{routes.gain_text}", fontsize="medium"
    )
    axes.legend(frameon=False, fontsize="small")
    return axes


def _title(routes: Routes) -> str:
    by = f"{routes.title} with intervals (share of the traffic) by type of prompt, {routes.samples:,} samples"
    return f"{by[0].upper()}{by[1:]}" if routes.experiment is None else f"{routes.experiment}: {by}"


def _table(routes: Routes) -> Table:
    """A type of prompt in each row, with what each generator scores on it and its share of it."""
    rows: list[tuple[str, ...]] = []
    for number, kind in enumerate(routes.types, 1):
        gain = "…" if kind.gain is None else routes.shown(kind.gain, kind.gain_standard_error)
        best = (
            kind.winner
            if kind.lead is None
            else f"{kind.winner} by {routes.shown(kind.lead, kind.lead_standard_error)}"
        )
        scores = (_score(routes, kind.by_generator.get(share.generator), kind.winner) for share in routes.shares)
        rows.append((short(kind.example) or f"type {number}", f"{kind.share:.0%}", best, gain, *scores))
    traffic = (f"({share.traffic:.0%}) " for share in routes.shares)
    gain = "…" if routes.gain is None else format_range(routes.gain, routes.lower, routes.upper, routes.scale)
    rows.append(("all", "100%", routes.best, gain, *traffic))
    head = ("prompts", "share", "best", "gain", *(share.generator for share in routes.shares))
    return Table(head, rows, title=_title(routes), sentences="prompts")


def _score(routes: Routes, score: RouteScore | None, winner: str) -> str:
    if score is None or score.score is None:
        return "…"
    half = routes.interval_errors * (score.standard_error or 0.0)
    error = f" ± {half:.3f}" if half else ""
    return f"{score.score:.3f}{error} ({score.traffic:.0%}){'*' if score.generator == winner else ' '}"


def short(text: str, max_length: int = 40) -> str:
    """A text of at most this many characters."""
    return text if len(text) <= max_length else f"{text[: max_length - 1].rstrip()}…"
