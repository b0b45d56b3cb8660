"""The score of an answer: by comparing texts, by the user's own function, or by a judge."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from optimist.evaluating.files import FilePrompt
from optimist.evaluating.spec import ScoreSpec
from optimist_client.chat import Judge, Judgement, RefusedCall
from optimist_client.chat.judge import RUBRIC
from optimist_client.errors import FixError

_TEXTS = {".md", ".txt"}


class AnswerScore(NamedTuple):
    """The score of an answer, and the reason."""

    value: float
    reasons: tuple[str, ...] = ()
    refusals: int = 0
    """The number of times a judge gave no score."""


TextScorer = Callable[[FilePrompt, str], float]


def comparing(score: ScoreSpec, home: Path) -> TextScorer:
    """The function that scores an answer without a judge. home: the folder of the file. Raises FixError."""
    fold: Callable[[str], str] = str.casefold if score.ignore_case else str
    if score.python is not None:
        return _own(score.python, home)
    if score.regex is not None:
        try:
            pattern = re.compile(score.regex, re.IGNORECASE if score.ignore_case else 0)
        except re.error as error:
            raise FixError(f"score.regex: {error}") from None

        def matched(question: FilePrompt, answer: str) -> float:
            match = pattern.search(answer)
            if match is None or question.answer is None:
                return float(match is not None)
            said = match[1] if pattern.groups else match[0]
            return float(fold((said or "").strip()) == fold(question.answer.strip()))

        return matched
    if score.field is not None:
        return lambda question, answer: float(fold(_field(answer, score.field or "")) == fold(_expected(question)))
    if score.contains:
        return lambda question, answer: float(fold(_expected(question).strip()) in fold(answer))
    return lambda question, answer: float(fold(answer.strip()) == fold(_expected(question).strip()))


def check_answers(score: ScoreSpec, questions: list[FilePrompt], file: Path) -> None:
    """Raise FixError where a score needs what is right, and a prompt does not say it."""
    if score.exact or score.contains or score.field is not None:
        for question in questions:
            if question.answer is None:
                raise FixError(f"{file}: the prompt {question.id!r} has no answer, which the score compares with")


def _expected(question: FilePrompt) -> str:
    return question.answer or ""


def _field(answer: str, name: str) -> str:
    """The field of the JSON object in an answer, as text; "" without one."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        value = json.loads(answer[start : end + 1])[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _own(location: str, home: Path) -> TextScorer:
    """The user's function."""
    module, _, name = location.partition(":")
    if f"{home}" not in sys.path:
        sys.path.insert(0, f"{home}")
    try:
        function: Any = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise FixError(f"score.python: no module {module} in {home}") from None
    if not callable(function):
        raise FixError(f"score.python: {module} has no function {name}")

    def scored(question: FilePrompt, answer: str) -> float:
        value: Any = function(answer, dict(question.fields))
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise FixError(f"score.python: expected a number from {location}, got {value!r} for {question.id!r}")
        return number

    return scored


def rubric_of(score: ScoreSpec, home: Path) -> str:
    """The text of a judge's rubric. Raises FixError where its file cannot be read."""
    given = score.judge.rubric if score.judge else None
    if given is None:
        return RUBRIC
    if "\n" in given or Path(given).suffix not in _TEXTS:
        return given
    try:
        return (home / given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FixError(f"score.judge.rubric: {home / given}: {getattr(error, 'strerror', None) or error}") from None


def judged(
    judge: Judge, question: FilePrompt, answer: str, baseline: str | None, worst: float, seed: int
) -> AnswerScore:
    """The score that a judge gives an answer; the worst one where it gives none, though it is asked twice.

    baseline: an answer that it is compared with. Raises `FailedCall` and `UnusableEndpoint` as `Chat.ask` does.
    """

    def asked(seed: int) -> Judgement:
        try:
            if baseline is None:
                return judge.score(question.prompt, answer, expected=question.answer, seed=seed)
            return judge.compare(question.prompt, answer, baseline, expected=question.answer, seed=seed)
        except RefusedCall as error:
            return Judgement(None, (f"{error}",), 1)

    judgement = asked(seed)
    if judgement.value is None:
        again = asked(seed + 1_000_000)  # a seed that no other repeat has
        judgement = Judgement(again.value, (*judgement.reasons, *again.reasons), judgement.refusals + again.refusals)
    return AnswerScore(worst if judgement.value is None else judgement.value, judgement.reasons, judgement.refusals)
