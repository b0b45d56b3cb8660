"""Beds for policies that route prompts: synthetic ones whose expected scores are known, and real models' answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optimist.simulation.routing import RouteBed

PROMPTS = 1500


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def smooth(kind: str, seed: int, prompts: int = PROMPTS) -> RouteBed:
    """Four generators whose expected scores are linear in the context, or rugged, and share a part."""
    rng = np.random.default_rng(seed)
    contexts = unit(rng.standard_normal((prompts, 8)))
    own = 0.5 * rng.standard_normal((4, 8))
    values = contexts @ own.T if kind == "linear" else np.sin(4.0 * contexts @ own.T)
    expected = 0.1 * rng.standard_normal(4) + values + (contexts @ rng.standard_normal(8))[:, None]
    return RouteBed(kind, contexts, expected + 0.5 * rng.standard_normal(expected.shape), expected)


def kinds(seed: int, prompts: int = PROMPTS, one_is_best: bool = False) -> RouteBed:
    """Three generators on six kinds of task, each with a probability of success."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((6, 32)))
    kind = rng.integers(0, 6, prompts)
    contexts = unit(centres[kind] + 0.5 * rng.standard_normal((prompts, 32)) / math.sqrt(32))
    success = rng.uniform(0.3, 0.9, (6, 3))
    success = np.sort(success, axis=1) if one_is_best else success
    expected = success[kind]
    scores = (rng.random(expected.shape) < expected).astype(np.float64)
    return RouteBed("one is best" if one_is_best else "kinds of task", contexts, scores, expected)


def priced(seed: int, tries: int = 1, prompts: int = PROMPTS) -> RouteBed:
    """Three generators on six kinds of task: the dear one is the best on most, and cheap ones suffice for some."""
    bed = kinds(seed, prompts)
    name = "kinds of task, with prices" + (f", up to {tries} calls" if tries > 1 else "")
    lifted = np.clip(bed.expected + np.array([0.2, 0.05, -0.05]), 0.05, 0.98)
    scores = (np.random.default_rng((seed, 1)).random(lifted.shape) < lifted).astype(np.float64)
    return RouteBed(name, bed.contexts, scores, lifted, np.array([10.0, 3.0, 1.0]), tries)


def coding(file: Path) -> RouteBed:
    """Two models on coding tasks, each task once for every trial."""
    found = np.load(file)
    tasks = unit(found["human_eval_x_java2cpp_prompt"].astype(np.float64))
    answers = unit(found["human_eval_x_java2cpp"].astype(np.float64))
    scores = np.einsum("mtkd,td->tkm", answers, tasks)
    trials = scores.shape[1]
    return RouteBed(
        "coding tasks", np.repeat(tasks, trials, 0), scores.reshape(-1, 2), np.repeat(scores.mean(1), trials, 0)
    )


def llms(file: Path, models: int = 5, rounds: int = 40) -> RouteBed:
    """The first models that answered every prompt; every prompt comes in each round."""
    found = np.load(file)
    answers, prompts = (unit(found[name].astype(np.float64)) for name in ("emb", "prompt_emb"))
    table = np.full((len(prompts), len(found["models"])), np.nan)
    table[found["prompt"], found["model"]] = (answers * prompts[found["prompt"]]).sum(1)
    whole = np.flatnonzero(~np.isnan(table).any(0))[:models]
    scores = np.tile(table[:, whole], (rounds, 1))
    return RouteBed("language models", np.tile(prompts, (rounds, 1)), scores, scores)


def beds(coding_file: Path | None, llm_file: Path | None) -> Iterator[RouteBed]:
    """All beds whose data is there."""
    yield from (smooth("linear", 3), smooth("rugged", 3), kinds(5), kinds(5, one_is_best=True))
    yield from (priced(5), priced(5, tries=4))
    if coding_file is not None:
        yield coding(coding_file)
    if llm_file is not None:
        yield llms(llm_file)
