"""The page of a board: its answer, and the questions on which models differ most, with their answers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from optimist.datasets.logs.reading import Answers
from optimist.leaderboards.board import Board
from optimist.leaderboards.questions import texts_of
from optimist.leaderboards.strata import Stratum
from optimist.leaderboards.texts import notes, sentence, tables
from optimist_client.display import as_notes, as_page, as_table

SHOWN = 20
"""Questions on a page."""


class Question(NamedTuple):
    """A question with the answers of models."""

    task: str
    id: str
    prompt: str
    answers: Mapping[str, tuple[float, str]]
    """By model: its mean score on the question, and the first answer."""


def page_of(board: Board, answers: Mapping[str, Sequence[Answers]]) -> str:
    """The page, which needs no other file. The logs are read again for the texts of the questions that are shown."""
    body = "".join(map(as_table, tables(board, every=True))) + as_notes(notes(board, every=True))
    shown = differing_questions(board, answers, SHOWN)
    if shown:
        body += "<h2>Questions on which models differ most</h2>" + "".join(map(section, shown))
    return as_page(sentence(board), body)


def differing_questions(board: Board, answers: Mapping[str, Sequence[Answers]], count: int) -> list[Question]:
    """The questions whose scores differ most between models, with the texts of prompts and answers."""
    # Of questions that differ as much, some of each task.
    ranked = sorted(
        (apart, rank, at, place)
        for at, one in enumerate(board.strata)
        for rank, (place, apart) in enumerate(_spread(one, count))
    )
    chosen = {
        (board.strata[at].task, board.strata[at].questions[place]): (at, place) for _, _, at, place in ranked[:count]
    }
    texts = texts_of(answers, board.strata, chosen)
    found: list[Question] = []
    for (task, id), (at, place) in chosen.items():
        known = texts[task, id]
        means = {name: board.strata[at].by_question(name)[place] for name in board.strata[at].scores}
        prompt = next((prompt for prompt, _ in known.values() if prompt), "")
        found.append(Question(task, id, prompt, {name: (means[name], known.get(name, ("", ""))[1]) for name in means}))
    return found


def _spread(stratum: Stratum, count: int) -> list[tuple[int, float]]:
    """The questions of a task that have the largest range of scores, with its negative; none without one."""
    means = np.array([stratum.by_question(name) for name in stratum.scores])
    low, high = np.where(np.isnan(means), np.inf, means).min(0), np.where(np.isnan(means), -np.inf, means).max(0)
    apart = np.where(np.isfinite(low), high - low, 0.0)
    order = np.argsort(-apart, kind="stable")[:count]
    return [(int(place), -float(apart[place])) for place in order if apart[place] > 0.0]


def section(one: Question) -> str:
    """A question with the answers side by side, as HTML."""
    title = escape(f"{one.task}: {one.id}" if one.task else one.id)
    prompt = f"<pre>{escape(one.prompt)}</pre>" if one.prompt else ""
    answers = "".join(map(_figure, one.answers.items()))
    return f'<section><h3>{title}</h3>{prompt}<div class="shown">{answers}</div></section>'


def _figure(answer: tuple[str, tuple[float, str]]) -> str:
    model, (score, text) = answer
    scored = "no score" if np.isnan(score) else f"{score:.3g}"
    return f"<figure><figcaption>{escape(model)}: {scored}</figcaption><pre>{escape(text)}</pre></figure>"
