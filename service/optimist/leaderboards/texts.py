"""Texts of a board: one sentence, and tables as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from optimist.estimates.estimate import finite
from optimist.leaderboards.board import Board, Cell, Extreme, Measured, More
from optimist_client import tables as tables_of
from optimist_client.layout import Table
from optimist_client.models.decisions import about, format_range, format_score, listed, lowered

WORDS = {"base": "", "better": "better", "worse": "worse", "close": "too close to call"}


def sentence(board: Board) -> str:
    """The answer in one sentence or a few."""
    best, delta = board.standings[0], board.asked.delta
    mean = f"{_plus_minus(best.overall.mean, delta)}"
    words = {
        verdict: [standing.model for standing in board.standings if standing.verdict == verdict]
        for verdict in ("better", "worse", "close")
    }
    rivals = len(board.standings) - 1
    if board.base != board.best:
        sentences = [f"{best.model} has the best score, {mean}."]
        sentences += [
            f"{text.capitalize()} than {board.base}: {listed(words[text], rivals)}."
            for text in ("better", "worse")
            if words[text]
        ]
        if words["close"]:
            sentences.append(f"Too close to {board.base} to call: {listed(words['close'], rivals)}.")
    elif words["close"]:
        sentences = [f"{best.model} leads with {mean}. Too close to call: {listed(words['close'], rivals)}."]
        sentences += [f"Worse: {listed(words['worse'], rivals)}."] if words["worse"] else []
    else:
        nearest = board.standings[1]
        behind = _apart(nearest.overall, delta)
        sentences = [f"{best.model} is best with {mean}: better than {nearest.model} by {behind}."]
        sentences += [f"All {rivals:,} others are worse."] if rivals > 1 else []
    if board.more is not None:
        sentences.append(_more(board.more, board.base))
    if board.extremes:
        sentences.append(_at_extremes(board))
    return " ".join(sentences)


def _more(more: More, base: str) -> str:
    """Number of questions that would tell the closest rival from the base."""
    if more.questions is None:
        text = f"{more.model} and {base} are too close for any number of questions that could be named"
    else:
        count = lowered(about((more.questions, more.questions)))
        text = f"If the difference stays, {count} more questions would tell {more.model} from {base}"
    return f"{text}; more epochs of these questions would not." if more.not_epochs else f"{text}."


def _apart(cell: Cell, delta: float) -> str:
    """Distance of a model behind another."""
    if cell.difference is None:
        return ""
    low, high = cell.difference.interval(delta)
    value = cell.difference.value
    low, high = (low, high) if value >= 0.0 else (-high, -low)
    return format_range(abs(value), finite(low), finite(high), "linear")


def _at_extremes(board: Board) -> str:
    """Sentence on whether the answer is the same at both extremes of missing scores."""
    now = {standing.model: standing.verdict for standing in board.standings}
    changed = [extreme for extreme in board.extremes if extreme.best != board.best or extreme.verdicts != now]
    ends = " or ".join(f"{extreme.value:g}" for extreme in board.extremes)
    if not changed:
        return f"The answer is the same with all missing scores at {ends}."
    return " ".join(f"With all missing scores at {end.value:g}, {_changes_at(board, end)}." for end in changed)


def _changes_at(board: Board, extreme: Extreme) -> str:
    now = {standing.model: standing.verdict for standing in board.standings}
    if extreme.best != board.best:
        leads = f"{extreme.best} has the best score"
    else:
        leads = f"{board.best} still has the best score"
    moved = [
        f"{name} is {WORDS[verdict]} {'' if verdict == 'close' else f'than {board.base} '}".rstrip()
        for name, verdict in extreme.verdicts.items()
        if verdict != now[name] and verdict != "base"
    ]
    return ", and ".join([leads, *moved])


def tables(board: Board, *, every: bool = False) -> list[Table]:
    """The tables of the board: models by tasks, missing scores, further metrics."""
    delta = board.asked.delta
    tasks = _tasks(board, every)
    has = {
        "cost": any(not math.isnan(standing.cost) for standing in board.standings),
        "seconds": any(not math.isnan(standing.seconds) for standing in board.standings),
    }
    of = "all questions" if board.asked.micro else "mean of tasks" if len(board.strata) > 1 else "mean"
    less = f"less {board.base}"
    head = ["model", of, less, "verdict", "answers", *(name for name in has if has[name]), *tasks]
    rows = [
        [
            standing.model,
            _plus_minus(standing.overall.mean, delta),
            difference_text(standing.overall.difference, delta),
            WORDS[standing.verdict],
            f"{standing.overall.answers:,}",
            *(_number(getattr(standing, name)) for name in has if has[name]),
            *(_plus_minus(standing.tasks[task].mean, delta) if task in standing.tasks else "" for task in tasks),
        ]
        for standing in board.standings
    ]
    title = f"{board.title} {arrow(board)}, {100.0 * (1.0 - delta):.4g}% intervals"
    listed = [Table(head, rows, title=title, first_to_go=("seconds", "answers"), left=("verdict",))]
    if board.extremes:
        ends = [f"all at {extreme.value:g}" for extreme in board.extremes]
        rows = [
            [
                standing.model,
                f"{standing.overall.missing:,}",
                format_score(standing.overall.mean.value, None),
                *(format_score(extreme.means[standing.model], None) for extreme in board.extremes),
            ]
            for standing in board.standings
        ]
        listed.append(Table(["model", "missing", "left out", *ends], rows, title="Missing scores"))
    if board.others:
        rows = [
            [
                standing.model,
                _marked(standing.overall.mean, standing.overall.is_tied, delta),
                *(_marked(*means[standing.model], delta) for means in board.others.values()),
            ]
            for standing in board.standings
        ]
        title = "By metric (* best, or too close to call)"
        listed.append(Table(["model", board.title, *board.others], rows, title=title))
    return listed


def notes(board: Board, *, every: bool = False) -> list[str]:
    """Sentences beside the tables."""
    shown = len(_tasks(board, every))
    tasks = len({stratum.task for stratum in board.strata})
    sentences = [f"Each of {tasks} tasks: --every, --csv or --page."] if tasks > 1 and shown == 0 else []
    if board.left_out:
        sentences.append(f"Not every model has {', '.join(board.left_out)}, which the mean leaves out.")
    return sentences


def _tasks(board: Board, every: bool, max_tasks: int = 6) -> list[str]:
    """The tasks that have columns: none of a single task, and none of more than `max_tasks` unless `every`."""
    tasks = [stratum.task for stratum in board.strata]
    return [] if len(tasks) == 1 or (len(tasks) > max_tasks and not every) else tasks


def arrow(board: Board) -> str:
    """The direction in which scores are better."""
    return "↓" if board.lower_is_better else "↑"


def difference_text(difference: Measured | None, delta: float) -> str:
    """A difference with its interval; "" where there is none."""
    if difference is None:
        return ""
    low, high = difference.interval(delta)
    return format_range(difference.value, finite(low), finite(high), "linear")


def _plus_minus(mean: Measured, delta: float) -> str:
    half = mean.half(delta)
    if not math.isfinite(half):
        return f"{format_score(mean.value, None)} ± ∞"
    decimals = max(3, 1 - math.floor(math.log10(half))) if 0.0 < half < 0.1 else 3
    return f"{format_score(mean.value, half)} ± {half:.{min(decimals, 6)}f}"


def _marked(mean: Measured, is_tied: bool, delta: float) -> str:
    return f"{_plus_minus(mean, delta)}{' *' if is_tied else ''}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def _grid(board: Board, plus: str) -> tuple[list[str], list[list[tuple[str, bool]]]]:
    """Head and cells of a table for a paper; True marks bold cells: best, or tied with the best."""
    delta = board.asked.delta
    tasks = _tasks(board, True)
    head = ["model", *tasks, "mean" if not board.asked.micro else "all", f"less {board.base}"]
    rows: list[list[tuple[str, bool]]] = []
    for standing in board.standings:
        cells = [standing.tasks.get(task) for task in tasks] + [standing.overall]
        shown = [
            ("", False) if cell is None else (_plus_minus(cell.mean, delta).replace("±", plus), cell.is_tied)
            for cell in cells
        ]
        less = difference_text(standing.overall.difference, delta) or "–"
        rows.append([(standing.model, False), *shown, (less, False)])
    return head, rows


def markdown(board: Board) -> str:
    """A table in Markdown; the best scores, and scores tied with the best, are bold."""
    head, rows = _grid(board, "±")
    shown = [f"{cell} {arrow(board)}" if 0 < column < len(head) - 1 else cell for column, cell in enumerate(head)]
    cells = [tuple(shown), *(tuple(f"**{cell}**" if bold else cell for cell, bold in row) for row in rows)]
    return f"{tables_of.markdown(cells)}\n\n{_caption(board)}"


def latex(board: Board) -> str:
    """A table in LaTeX with booktabs; the best scores, and scores tied with the best, are bold."""
    head, rows = _grid(board, r"$\pm$")
    way = r"$\downarrow$" if board.lower_is_better else r"$\uparrow$"
    in_latex = tables_of.in_latex
    shown = [
        f"{in_latex(cell)} {way}" if 0 < column < len(head) - 1 else in_latex(cell) for column, cell in enumerate(head)
    ]
    body = [
        [
            rf"\textbf{{{cell}}}" if bold else cell if r"$\pm$" in cell else in_latex(cell).replace("–", "--")
            for cell, bold in row
        ]
        for row in rows
    ]
    return f"{tables_of.tabular([shown, *body])}\n% {_caption(board)}"


def _caption(board: Board) -> str:
    """Caption of the tables for papers."""
    asked = board.asked
    return (
        f"{board.title}: ± is half of an interval of {1.0 - asked.delta:.4g}, differences are paired by question. "
        f"Bold: best, or too close to call."
    )


_COLUMNS = (
    "model", "task", "metric", "filter", "answers", "questions", "missing", "mean", "standard_error", "lower", "upper",
    "difference", "difference_error", "difference_lower", "difference_upper", "against",
)  # fmt: skip


def as_csv(board: Board) -> str:
    """A row for each model and task; the mean of all has no task."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in _records(board):
        writer.writerow(["" if row[name] is None else row[name] for name in _COLUMNS])
    return out.getvalue()


def _records(board: Board) -> list[dict[str, Any]]:
    of = {stratum.task: (stratum.metric, stratum.filter) for stratum in board.strata}
    return [
        {"model": standing.model, "task": task, "metric": metric, "filter": filter} | _plain(cell, board)
        for standing in board.standings
        for task, cell in [("", standing.overall), *standing.tasks.items()]
        for metric, filter in [of.get(task, (board.title, "")) if task else (board.title, "")]
    ]


def _plain(cell: Cell, board: Board) -> dict[str, Any]:
    delta, apart = board.asked.delta, cell.difference
    low, high = cell.mean.interval(delta)
    ends = (None, None) if apart is None else apart.interval(delta)
    numbers = {
        "answers": cell.answers, "questions": cell.questions, "missing": cell.missing, "mean": cell.mean.value,
        "standard_error": cell.mean.standard_error, "lower": low, "upper": high,
        "difference": None if apart is None else apart.value,
        "difference_error": None if apart is None else apart.standard_error,
        "difference_lower": ends[0], "difference_upper": ends[1],
    }  # fmt: skip
    plain = {name: value if value is None or math.isfinite(value) else None for name, value in numbers.items()}
    return plain | {"against": None if apart is None else board.base}


def as_dict(board: Board) -> dict[str, Any]:
    """Plain values for JSON."""
    asked = board.asked
    models = [
        {
            "model": standing.model,
            "verdict": standing.verdict,
            "is_tied": standing.overall.is_tied,
            "cost": None if math.isnan(standing.cost) else standing.cost,
            "seconds": None if math.isnan(standing.seconds) else standing.seconds,
        }
        for standing in board.standings
    ]
    return {
        "answer": sentence(board),
        "metric": board.title,
        "lower_is_better": board.lower_is_better,
        "delta": asked.delta,
        "micro": asked.micro,
        "prompts_are": asked.kind,
        "against": board.base,
        "models": models,
        "scores": [{**row, "task": row["task"] or None} for row in _records(board)],
        "extremes": [
            {"missing_at": end.value, "best": end.best, "means": dict(end.means), "verdicts": dict(end.verdicts)}
            for end in board.extremes
        ],
        "others": {
            metric: {
                name: {"mean": mean.value, "standard_error": mean.standard_error, "is_tied": tied}
                for name, (mean, tied) in means.items()
            }
            for metric, means in board.others.items()
        },
        "more_questions": None if board.more is None else board.more._asdict(),
    }
