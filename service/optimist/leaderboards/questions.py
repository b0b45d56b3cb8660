"""The texts of questions, for which logs are read again; and all questions as the arrays that routing takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.datasets.logs.reading import Answers
from optimist.datasets.logs.rows import Log
from optimist.leaderboards.strata import Stratum, direction_of, mean_of
from optimist_client.errors import FixError


def texts_of(
    answers: Mapping[str, Sequence[Answers]], strata: Sequence[Stratum], chosen: Collection[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """The prompt and the first answer of each model to the chosen questions, each by its task and id."""
    names = {
        (part.log, part.model, part.variant, part.task, part.filter): name
        for name, own in answers.items()
        for part in own
    }
    filters = {stratum.task: stratum.filter for stratum in strata}
    texts: dict[tuple[str, str], dict[str, tuple[str, str]]] = {key: {} for key in chosen}
    logs: dict[Log, None] = dict.fromkeys(key[0] for key in names)
    for log in logs:
        for row in log.rows(True):
            wanted = texts.get((row.task, row.id))
            if wanted is not None and row.filter == filters[row.task]:
                name = names[log, row.model, row.variant, row.task, row.filter]
                wanted.setdefault(name, (row.prompt, row.answer))
    return texts


def arrays_of(
    answers: Mapping[str, Sequence[Answers]],
    strata: Sequence[Stratum],
    embed: Callable[[list[str]], NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Arrays of all questions, as `route_arrays` takes them.

    Raises FixError where lower scores are better, and where a question has no prompt.
    """
    if direction_of(strata, answers):
        raise FixError(f"{strata[0].metric}: routing needs scores of which higher ones are better")
    keys = [(stratum.task, id) for stratum in strata for id in stratum.questions]
    texts = texts_of(answers, strata, keys)
    prompts = [next((prompt for prompt, _ in texts[key].values() if prompt), "") for key in keys]
    if "" in prompts:
        task, id = keys[prompts.index("")]
        raise FixError(f"{task or 'the log'}: expected the prompt of each question; {id} has none")
    scores = [
        np.concatenate(
            [part.by_question(name) if name in part.scores else np.full(len(part.questions), np.nan) for part in strata]
        )
        for name in answers
    ]
    costs = np.array([mean_of(own, "costs") for own in answers.values()])
    distinct = [*dict.fromkeys(prompts)]
    rows = dict(zip(distinct, embed(distinct), strict=True))
    arrays = {
        "names": np.array([*answers]),
        "scores": np.stack(scores, axis=1),
        "prompts": np.array(prompts),
        "contexts": np.stack([rows[prompt] for prompt in prompts]),
    }
    return arrays if np.isnan(costs).any() else arrays | {"costs": costs}
