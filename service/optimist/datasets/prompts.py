"""Prompts with scores from rows of .jsonl and .csv files, as the arrays that `route_file` reads from an .npz file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError
from optimist_client.rows import GENERATORS, Fields, Rows

Embed = Callable[[list[str]], NDArray[Any]]
"""Makes rows (n, d) of n prompts."""
CONTEXT, PROBABILITY = "context", "probability"
"""The fields of an embedding of the prompt, and of the probability with which it was given to its generator."""


def arrays_of_rows(files: Sequence[Path], fields: Fields, embed: Embed) -> dict[str, NDArray[Any]]:
    """The arrays of one file, or of a file for each generator.

    A row has the score of one generator (field "generator", or the file's name) on one prompt (by its id or text), or a
    field of scores for each generator. Prompts without a field "context" are embedded. Raises FixError.
    """
    parts: dict[str, Rows] = {}
    for file in files:
        for name, part in Rows.from_file(file, fields).by_generator().items():
            if name in parts:
                raise FixError(f"{file}: another file has the generator {name!r}, too")
            parts[name] = part
    wide = (fields.field or "").split(",")
    if len(parts) == 1 and len(wide) > 1:
        (rows,) = parts.values()
        scores = {name: rows.numbers(name, "score")[:, 0] for name in wide}
        return _with_contexts([rows], embed) | {
            "scores": np.stack([*scores.values()], axis=1),
            "names": np.array([*scores]),
        }
    if len(parts) == 1:
        expected = f"a field {GENERATORS[0]!r}, a file for each generator, or several of scores (--field gpt,small)"
        raise FixError(f"{files[0]}: expected {expected}; found {', '.join(next(iter(parts.values())).names)}")
    return _of_parts(parts, embed)


def _of_parts(parts: dict[str, Rows], embed: Embed) -> dict[str, NDArray[Any]]:
    """The arrays of the rows of each generator."""
    is_logged = [PROBABILITY in rows.names for rows in parts.values()]
    scores = {name: rows.numbers(rows.score_field(), "score")[:, 0] for name, rows in parts.items()}
    arrays: dict[str, NDArray[Any]] = {"names": np.array([*parts])}
    if all(rows.cost is not None for rows in parts.values()):
        arrays["costs"] = np.array([rows.numbers(rows.cost or "", "cost").mean() for rows in parts.values()])
    if all(is_logged):
        chances = [rows.numbers(PROBABILITY)[:, 0] for rows in parts.values()]
        arrays |= {"score": np.concatenate([*scores.values()]), "probability": np.concatenate(chances)}
        arrays["generator"] = np.repeat(arrays["names"], [len(rows) for rows in parts.values()])
        return arrays | _with_contexts([*parts.values()], embed)
    keys = {name: _keys(rows) for name, rows in parts.items()}
    prompts = {key: index for index, key in enumerate(dict.fromkeys(chain(*keys.values())))}
    table = np.full((len(prompts), len(parts)), np.nan)
    for column, (name, own) in enumerate(keys.items()):
        table[[prompts[key] for key in own], column] = scores[name]
    embedded = _with_contexts([*parts.values()], embed)
    first = {key: row for row, key in reversed([*enumerate(chain(*keys.values()))])}
    chosen = [first[key] for key in prompts]
    return arrays | {"scores": table} | {name: array[chosen] for name, array in embedded.items()}


def _keys(rows: Rows) -> list[str]:
    """Key of the prompt of each row. Raises FixError where a row has none, or two rows have the same."""
    keys = rows.ids() or rows.prompts()
    if keys is None:
        raise FixError(f"{rows.file}: expected a field id or prompt by which rows belong together (--id, --prompt)")
    if len(set(keys)) < len(keys):
        raise FixError(f"{rows.file}: a prompt is there twice: name a field of ids (--id)")
    return keys


def _with_contexts(parts: Sequence[Rows], embed: Embed) -> dict[str, NDArray[Any]]:
    """The contexts of all rows, in order, and their prompts where they have some."""
    told = [rows.prompts() for rows in parts]
    prompts = None if any(own is None for own in told) else [text for own in told for text in own or ()]
    arrays = {} if prompts is None else {"prompts": np.array(prompts)}
    if all(CONTEXT in rows.names for rows in parts):
        return arrays | {"contexts": np.concatenate([rows.numbers(CONTEXT) for rows in parts])}
    if prompts is None:
        raise FixError(f"{parts[0].file}: expected a field of prompts (--prompt), or {CONTEXT!r}, their embeddings")
    distinct = [*dict.fromkeys(prompts)]
    embedded = dict(zip(distinct, embed(distinct), strict=True))
    return arrays | {"contexts": np.stack([embedded[text] for text in prompts])}
