"""What is said of a board: one sentence, and tables as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from optimist.leaderboards.board import Board, Cell, Extreme, Measured, More
from optimist.numerics.estimate import finite
from optimist_client import tables as tables_of
from optimist_client.layout import Table
from optimist_client.models.decisions import about, format_range, format_score, listed, lowered

WORDS = {"base": "", "better": "better", "worse": "worse", "close": "too close to call"}
MOST = 6
"""Tasks that a table has columns for, unless all are asked for."""


def sentence(board: Board) -> str:
    """The answer in one sentence or a few."""
    best, delta = board.standings[0], board.asked.delta
    mean = f"{_plus_minus(best.overall.mean, delta)}"
    words = {
        verdict: [one.model for one in board.standings if one.verdict == verdict]
        for verdict in ("better", "worse", "close")
    }
    rivals = len(board.standings) - 1
    if board.base != board.best:
        said = [f"{best.model} has the best score, {mean}."]
        said += [
            f"{text.capitalize()} than {board.base}: {listed(words[text], rivals)}."
            for text in ("better", "worse")
            if words[text]
        ]
        if words["close"]:
            said.append(f"Too close to {board.base} to call: {listed(words['close'], rivals)}.")
    elif words["close"]:
        said = [f"{best.model} leads with {mean}, but cannot be told from {listed(words['close'], rivals)}."]
        said += [f"Worse: {listed(words['worse'], rivals)}."] if words["worse"] else []
    else:
        nearest = board.standings[1]
        said = [f"{best.model} is best with {mean}: better than {nearest.model} by {_apart(nearest.overall, delta)}."]
        said += [f"All {rivals:,} others are worse."] if rivals > 1 else []
    if board.more is not None:
        said.append(_more(board.more, board.base))
    if board.extremes:
        said.append(_at_extremes(board))
    return " ".join(said)


def _more(more: More, base: str) -> str:
    """What would tell the closest rival from the base."""
    if more.questions is None:
        said = f"{more.model} and {base} are too close for any number of questions that could be named"
    else:
        count = lowered(about((more.questions, more.questions)))
        said = f"If the difference stays, {count} more questions would tell {more.model} from {base}"
    return f"{said}; more epochs of these questions would not." if more.not_epochs else f"{said}."


def _apart(cell: Cell, delta: float) -> str:
    """By how much a model is behind."""
    if cell.difference is None:
        return ""
    low, high = cell.difference.interval(delta)
    value = cell.difference.value
    low, high = (low, high) if value >= 0.0 else (-high, -low)
    return format_range(abs(value), finite(low), finite(high), "linear")


def _at_extremes(board: Board) -> str:
    """Whether the answer is the same at both extremes of missing scores."""
    now = {one.model: one.verdict for one in board.standings}
    changed = [one for one in board.extremes if one.best != board.best or one.verdicts != now]
    ends = " or ".join(f"{one.value:g}" for one in board.extremes)
    if not changed:
        return f"The answer is the same with all missing scores at {ends}."
    return " ".join(f"With all missing scores at {one.value:g}, {_said_at(board, one)}." for one in changed)


def _said_at(board: Board, extreme: Extreme) -> str:
    now = {one.model: one.verdict for one in board.standings}
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
        "cost": any(not math.isnan(one.cost) for one in board.standings),
        "seconds": any(not math.isnan(one.seconds) for one in board.standings),
    }
    of = "all questions" if board.asked.micro else "mean of tasks" if len(board.strata) > 1 else "mean"
    less = f"less {board.base}"
    head = ["model", of, less, "verdict", "answers", *(name for name in has if has[name]), *tasks]
    rows = [
        [
            one.model,
            _plus_minus(one.overall.mean, delta),
            difference_text(one.overall.difference, delta),
            WORDS[one.verdict],
            f"{one.overall.answers:,}",
            *(_number(getattr(one, name)) for name in has if has[name]),
            *(_plus_minus(one.tasks[task].mean, delta) if task in one.tasks else "" for task in tasks),
        ]
        for one in board.standings
    ]
    title = f"{board.title} {arrow(board)}, {100.0 * (1.0 - delta):.4g}% intervals"
    found = [Table(head, rows, title=title, first_to_go=("seconds", "answers"), left=("verdict",))]
    if board.extremes:
        ends = [f"all at {one.value:g}" for one in board.extremes]
        rows = [
            [
                one.model,
                f"{one.overall.missing:,}",
                format_score(one.overall.mean.value, None),
                *(format_score(each.means[one.model], None) for each in board.extremes),
            ]
            for one in board.standings
        ]
        found.append(Table(["model", "missing", "left out", *ends], rows, title="Missing scores"))
    if board.others:
        rows = [
            [
                one.model,
                _marked(one.overall.mean, one.overall.is_tied, delta),
                *(_marked(*means[one.model], delta) for means in board.others.values()),
            ]
            for one in board.standings
        ]
        title = "By metric (* best, or not told from it)"
        found.append(Table(["model", board.title, *board.others], rows, title=title))
    return found


def notes(board: Board, *, every: bool = False) -> list[str]:
    """What is to be known of the tables."""
    shown = len(_tasks(board, every))
    tasks = len({one.task for one in board.strata})
    said = [f"Each of {tasks} tasks: --every, --csv or --page."] if tasks > 1 and shown == 0 else []
    if board.left_out:
        said.append(f"Not every model has {', '.join(board.left_out)}, which the mean leaves out.")
    return said


def _tasks(board: Board, every: bool) -> list[str]:
    """The tasks that have columns: none where there is one, and none of many."""
    tasks = [one.task for one in board.strata]
    return [] if len(tasks) == 1 or (len(tasks) > MOST and not every) else tasks


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
    """The head and the cells of a table for a paper, each with whether it is bold: best, or not told from it."""
    delta = board.asked.delta
    tasks = _tasks(board, True)
    head = ["model", *tasks, "mean" if not board.asked.micro else "all", f"less {board.base}"]
    rows: list[list[tuple[str, bool]]] = []
    for one in board.standings:
        cells = [one.tasks.get(task) for task in tasks] + [one.overall]
        shown = [
            ("", False) if cell is None else (_plus_minus(cell.mean, delta).replace("±", plus), cell.is_tied)
            for cell in cells
        ]
        rows.append([(one.model, False), *shown, (difference_text(one.overall.difference, delta) or "–", False)])
    return head, rows


def markdown(board: Board) -> str:
    """A table in Markdown; bold is what is best, or cannot be told from the best."""
    head, rows = _grid(board, "±")
    shown = [f"{cell} {arrow(board)}" if 0 < place < len(head) - 1 else cell for place, cell in enumerate(head)]
    cells = [tuple(shown), *(tuple(f"**{cell}**" if bold else cell for cell, bold in row) for row in rows)]
    return f"{tables_of.markdown(cells)}\n\n{_caption(board)}"


def latex(board: Board) -> str:
    """A table in LaTeX with booktabs; bold is what is best, or cannot be told from the best."""
    head, rows = _grid(board, r"$\pm$")
    way = r"$\downarrow$" if board.lower_is_better else r"$\uparrow$"
    in_latex = tables_of.in_latex
    shown = [
        f"{in_latex(cell)} {way}" if 0 < place < len(head) - 1 else in_latex(cell) for place, cell in enumerate(head)
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
    """What the tables for papers show."""
    asked = board.asked
    return (
        f"{board.title}: ± is half of an interval of {1.0 - asked.delta:.4g}, differences are paired by question. "
        f"Bold: best, or not told from the best."
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
    of = {one.task: (one.metric, one.filter) for one in board.strata}
    return [
        {"model": one.model, "task": task, "metric": metric, "filter": filter} | _plain(cell, board)
        for one in board.standings
        for task, cell in [("", one.overall), *one.tasks.items()]
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
            "model": one.model,
            "verdict": one.verdict,
            "is_tied": one.overall.is_tied,
            "cost": None if math.isnan(one.cost) else one.cost,
            "seconds": None if math.isnan(one.seconds) else one.seconds,
        }
        for one in board.standings
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
            {"missing_at": one.value, "best": one.best, "means": dict(one.means), "verdicts": dict(one.verdicts)}
            for one in board.extremes
        ],
        "others": {
            metric: {
                name: {"mean": one.value, "standard_error": one.standard_error, "is_tied": tied}
                for name, (one, tied) in means.items()
            }
            for metric, means in board.others.items()
        },
        "more_questions": None if board.more is None else board.more._asdict(),
    }
