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


class DifferingQuestion(NamedTuple):
    """A question with the answers of models."""

    task: str
    id: str
    prompt: str
    answers: Mapping[str, tuple[float, str]]
    """Mean score on the question and first answer, by model."""


def page_of(board: Board, answers: Mapping[str, Sequence[Answers]]) -> str:
    """The page, which needs no other file. The logs are read again for the texts of the questions that are shown."""
    body = "".join(map(as_table, tables(board, every=True))) + as_notes(notes(board, every=True))
    shown = differing_questions(board, answers, SHOWN)
    if shown:
        body += "<h2>Questions on which models differ most</h2>" + "".join(map(section, shown))
    return as_page(sentence(board), body)


def differing_questions(board: Board, answers: Mapping[str, Sequence[Answers]], count: int) -> list[DifferingQuestion]:
    """The questions whose scores differ most between models, with the texts of prompts and answers."""
    # Among questions that differ equally, some of each task.
    ranked = sorted(
        (apart, rank, at, i)
        for at, stratum in enumerate(board.strata)
        for rank, (i, apart) in enumerate(_spread(stratum, count))
    )
    chosen = {(board.strata[at].task, board.strata[at].questions[j]): (at, j) for _, _, at, j in ranked[:count]}
    texts = texts_of(answers, board.strata, chosen)
    questions: list[DifferingQuestion] = []
    for (task, id), (at, j) in chosen.items():
        answered = texts[task, id]
        means = {name: board.strata[at].by_question(name)[j] for name in board.strata[at].scores}
        prompt = next((prompt for prompt, _ in answered.values() if prompt), "")
        of_models = {name: (means[name], answered.get(name, ("", ""))[1]) for name in means}
        questions.append(DifferingQuestion(task, id, prompt, of_models))
    return questions


def _spread(stratum: Stratum, count: int) -> list[tuple[int, float]]:
    """The questions of a task with the largest range of scores, with its negative; none without a range."""
    means = np.array([stratum.by_question(name) for name in stratum.scores])
    low, high = np.where(np.isnan(means), np.inf, means).min(0), np.where(np.isnan(means), -np.inf, means).max(0)
    apart = np.where(np.isfinite(low), high - low, 0.0)
    order = np.argsort(-apart, kind="stable")[:count]
    return [(int(index), -float(apart[index])) for index in order if apart[index] > 0.0]


def section(question: DifferingQuestion) -> str:
    """A question with the answers side by side, as HTML."""
    title = escape(f"{question.task}: {question.id}" if question.task else question.id)
    prompt = f"<pre>{escape(question.prompt)}</pre>" if question.prompt else ""
    answers = "".join(map(_figure, question.answers.items()))
    return f'<section><h3>{title}</h3>{prompt}<div class="shown">{answers}</div></section>'


def _figure(answer: tuple[str, tuple[float, str]]) -> str:
    model, (score, text) = answer
    scored = "no score" if np.isnan(score) else f"{score:.3g}"
    return f"<figure><figcaption>{escape(model)}: {scored}</figcaption><pre>{escape(text)}</pre></figure>"
