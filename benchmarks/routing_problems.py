"""Problems for policies that route prompts: synthetic ones whose expected scores are known, and real models' answers.

    python benchmarks/routing_problems.py FOLDER prompts.npz

embeds the prompts of all .jsonl files of a folder, such as `pareto_bandit/data/examples` of the wheel paretobandit
0.1.1 (Apache-2.0), whose lines have a prompt, its source, and the reward and the cost of three language models'
answers. It needs the extra embed-offline.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from optimist.references.distances import median_distance
from optimist.routing.answers.features import ContextMap
from optimist.routing.simulation.trials import RoutingProblem

PROMPTS = 1500


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def smooth(kind: str, seed: int, prompts: int = PROMPTS) -> RoutingProblem:
    """Four generators whose expected scores are linear in the context, or rugged, and share a part."""
    rng = np.random.default_rng(seed)
    contexts = unit(rng.standard_normal((prompts, 8)))
    own = 0.5 * rng.standard_normal((4, 8))
    values = contexts @ own.T if kind == "linear" else np.sin(4.0 * contexts @ own.T)
    expected = 0.1 * rng.standard_normal(4) + values + (contexts @ rng.standard_normal(8))[:, None]
    return RoutingProblem(kind, contexts, expected + 0.5 * rng.standard_normal(expected.shape), expected)


def kinds(seed: int, prompts: int = PROMPTS, one_is_best: bool = False) -> RoutingProblem:
    """Three generators on six kinds of task, each with a probability of success."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((6, 32)))
    kind = rng.integers(0, 6, prompts)
    contexts = unit(centres[kind] + 0.5 * rng.standard_normal((prompts, 32)) / math.sqrt(32))
    success = rng.uniform(0.3, 0.9, (6, 3))
    success = np.sort(success, axis=1) if one_is_best else success
    expected = success[kind]
    scores = (rng.random(expected.shape) < expected).astype(np.float64)
    return RoutingProblem("one is best" if one_is_best else "kinds of task", contexts, scores, expected)


def priced(seed: int, tries: int = 1, prompts: int = PROMPTS) -> RoutingProblem:
    """Three generators on six kinds of task: the dear one is the best on most, and cheap ones suffice for some."""
    problem = kinds(seed, prompts)
    name = "kinds of task, with prices" + (f", up to {tries} calls" if tries > 1 else "")
    lifted = np.clip(problem.expected + np.array([0.2, 0.05, -0.05]), 0.05, 0.98)
    scores = (np.random.default_rng((seed, 1)).random(lifted.shape) < lifted).astype(np.float64)
    return RoutingProblem(name, problem.contexts, scores, lifted, np.array([10.0, 3.0, 1.0]), tries=tries)


JOINS = 1000
"""How many prompts come before the newcomer of `joined`."""


def joined(problem: RoutingProblem, how: str, seed: int = 0) -> RoutingProblem:
    """A problem whose last generator joins after `JOINS` prompts.

    how: it is "better on some" prompts, those far on one side of a direction, and worse elsewhere; "better" or "worse"
    everywhere; or "equal" to the first one.
    """
    rng = np.random.default_rng((seed, 2))
    binary = bool(np.isin(problem.scores, (0.0, 1.0)).all())
    step = 0.15 if binary else 0.5
    best, worst = problem.expected.max(1), problem.expected.min(1)
    along = problem.contexts @ rng.standard_normal(problem.contexts.shape[1])
    some = np.where(along > np.quantile(along, 0.75), best + step, worst)
    known = {"better on some": some, "better": best + step, "worse": worst - step, "equal": problem.expected[:, 0]}
    expected = np.concatenate([problem.expected, known[how][:, None]], axis=1)
    if binary:
        expected = np.clip(expected, 0.02, 0.98)
        own = (rng.random(len(expected)) < expected[:, -1]).astype(np.float64)
    else:
        own = expected[:, -1] + 0.5 * rng.standard_normal(len(expected))
    scores = np.concatenate([problem.scores, own[:, None]], axis=1)
    joins = (*[0] * problem.scores.shape[1], JOINS)
    return RoutingProblem(f"{problem.name}, newcomer {how}", problem.contexts, scores, expected, joins=joins)


LAWS = ("successes", "beta", "rare failures", "normal 0.5", "normal 0.3", "lognormal 0.5")
"""How scores vary about what is expected; the number is their standard deviation."""


def drawn_by(law: str, expected: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores of these expectations; for the first three they are probabilities."""
    if law == "beta":
        return rng.beta(0.8 * expected, 0.8 * (1.0 - expected))
    if law in ("successes", "rare failures"):
        return (rng.random(expected.shape) < expected).astype(np.float64)
    kind, size = law.split()
    normals = rng.standard_normal(expected.shape)
    # The standard deviation of exp(N(0, 1)) is 2.161. Its long tail is of low scores.
    noise = normals if kind == "normal" else (math.exp(0.5) - np.exp(normals)) / 2.161
    return expected + float(size) * noise


def changing(problem: RoutingProblem, law: str, seed: int, at: int = 0, step: float = 0.0) -> RoutingProblem:
    """A problem with scores of this law. After `at` prompts the best single generator scores `step` more on all."""
    rng = np.random.default_rng((seed, 3))
    expected = problem.expected
    if law in LAWS[:3]:
        expected = np.clip(expected, 0.15, 0.85)
        expected = 1.0 - 0.2 * (1.0 - expected) if law == "rare failures" else expected
    first = RoutingProblem(f"{problem.name}, {law}", problem.contexts, drawn_by(law, expected, rng), expected)
    if not at:
        return first
    later = expected.copy()
    later[:, int(expected.mean(0).argmax())] += step
    later = np.clip(later, 0.01, 0.99) if law in LAWS[:3] else later
    then = RoutingProblem("later", problem.contexts, drawn_by(law, later, rng), later)
    return replace(first, changes=at, later=then)


def coding(file: Path) -> RoutingProblem:
    """Two models on coding tasks, each task once for every trial."""
    found = np.load(file)
    tasks = unit(found["human_eval_x_java2cpp_prompt"].astype(np.float64))
    answers = unit(found["human_eval_x_java2cpp"].astype(np.float64))
    scores = np.einsum("mtkd,td->tkm", answers, tasks)
    trials = scores.shape[1]
    return RoutingProblem(
        "coding tasks", np.repeat(tasks, trials, 0), scores.reshape(-1, 2), np.repeat(scores.mean(1), trials, 0)
    )


def llms(file: Path, models: int = 5, rounds: int = 40) -> RoutingProblem:
    """The first models that answered every prompt; every prompt comes in each round."""
    found = np.load(file)
    answers, prompts = (unit(found[name].astype(np.float64)) for name in ("emb", "prompt_emb"))
    table = np.full((len(prompts), len(found["models"])), np.nan)
    table[found["prompt"], found["model"]] = (answers * prompts[found["prompt"]]).sum(1)
    whole = np.flatnonzero(~np.isnan(table).any(0))[:models]
    scores = np.tile(table[:, whole], (rounds, 1))
    return RoutingProblem("language models", np.tile(prompts, (rounds, 1)), scores, scores)


def embed(folder: Path, file: Path) -> None:
    """Write embeddings `contexts`, `source`, `names`, `rewards` (m, G) and `costs` (m, G) of a folder's prompts."""
    from optimist_client.embedders.texts import Sentences

    rows = [json.loads(line) for each in sorted(folder.glob("*.jsonl")) for line in each.open()]
    names = sorted(rows[0]["arms"])
    contexts = Sentences.shipped().embed([row["prompt"] for row in rows])
    rewards, costs = (
        np.array([[row["arms"][name][what] for name in names] for row in rows]) for what in ("reward", "cost")
    )
    sources = [row["source"] for row in rows]
    np.savez(file, contexts=np.asarray(contexts), source=sources, names=names, rewards=rewards, costs=costs)


def texts(file: Path, models: int, seed: int, prompts: int = 2600, one_is_best: float = 0.0) -> RoutingProblem:
    """Real prompts; models of the same mean success, whose parts are smooth functions of the embedding.

    one_is_best: by how much the first one is better everywhere.
    """
    rng = np.random.default_rng(seed)
    every = np.load(file)["contexts"].astype(np.float64)
    contexts = every[rng.permutation(len(every))[:prompts]]
    phi = ContextMap.drawn(contexts.shape[1], 1000, median_distance(contexts), seed)(contexts)
    parts = phi @ rng.standard_normal((phi.shape[1], models + 1))
    parts = (parts - parts.mean(0)) / parts.std(0)
    expected = np.clip(0.55 + 0.12 * parts[:, :-1] + 0.12 * parts[:, -1:], 0.02, 0.98)
    expected[:, 0] = np.minimum(expected[:, 0] + one_is_best, 0.98)
    expected -= 0.0 if one_is_best else expected.mean(0) - 0.55
    expected = np.clip(expected, 0.0, 1.0)
    scores = (rng.random(expected.shape) < expected).astype(np.float64)
    name = f"text, {models} models" + (", one better by " + str(one_is_best) if one_is_best else "")
    return RoutingProblem(name, contexts, scores, expected)


def collections(file: Path, seed: int, prompts: int = 2600, models: int = 5) -> RoutingProblem:
    """Real prompts of several collections, at each of which models are good in their own way, of the same mean."""
    rng = np.random.default_rng(seed)
    known = np.load(file)
    chosen = rng.permutation(len(known["contexts"]))[:prompts]
    _, kind = np.unique(known["source"][chosen], return_inverse=True)
    success = rng.uniform(0.3, 0.9, (int(kind.max()) + 1, models))
    expected = success[kind]
    expected = np.clip(expected - expected.mean(0) + 0.6, 0.02, 0.98)
    scores = (rng.random(expected.shape) < expected).astype(np.float64)
    return RoutingProblem("collections", known["contexts"][chosen].astype(np.float64), scores, expected)


def rewards(file: Path, less: float = 0.0, seed: int = 0, prompts: int | None = None) -> RoutingProblem:
    """Three language models' answers to real prompts, all or so many of them; less: times the cost, whose largest mean
    is 1."""
    known = np.load(file)
    worth = known["rewards"] - less * known["costs"] / known["costs"].mean(0).max()
    name, contexts = "rewards" + (" less cost" if less else ""), known["contexts"].astype(np.float64)
    some = slice(None) if prompts is None else np.random.default_rng(seed).permutation(len(contexts))[:prompts]
    return RoutingProblem(name, contexts[some], worth[some], worth[some])


def problems(
    coding_file: Path | None, llm_file: Path | None, prompts_file: Path | None = None, draw: int = 0
) -> Iterator[RoutingProblem]:
    """All problems whose data is there. draw: another one than 0 has other models, contexts and kinds of task, where
    these are drawn."""
    smooth_seed, kinds_seed, texts_seed = (first + 100 * draw for first in (3, 5, 7))
    if prompts_file is not None:
        yield from (texts(prompts_file, models, texts_seed) for models in (5, 10))
        yield collections(prompts_file, texts_seed)
        yield texts(prompts_file, 5, texts_seed, one_is_best=0.25)
        yield from (rewards(prompts_file), rewards(prompts_file, 0.05))
    yield from (smooth(kind, smooth_seed) for kind in ("linear", "rugged"))
    yield from (kinds(kinds_seed), kinds(kinds_seed, one_is_best=True))
    yield from (priced(kinds_seed), priced(kinds_seed, tries=4))
    if coding_file is not None:
        yield coding(coding_file)
    if llm_file is not None:
        yield llms(llm_file)


if __name__ == "__main__":
    embed(Path(sys.argv[1]), Path(sys.argv[2]))
