"""Routing policies beside each other: what they get of the gain over the best single generator that is possible.

    python benchmarks/routing.py [--coding pakucb_code_minilm.npz] [--llms llmfao_minilm.npz] [--trials 10]
    python benchmarks/routing.py --calibration

Beds: synthetic ones whose expected scores are known (linear in the context; a rugged function of it; kinds of task
with success probabilities; kinds where one model is best at all), two models' translations of 164 coding tasks, scored
by the cosine of task and answer (10 trials each, arXiv 2410.13287's data), and five language models' answers to 19
prompts, scored in the same way. Each policy sees the same prompts in the same order.

--calibration: how often the interval of the gain is right, where the truth is known.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from optimist.evaluation.routing import route_gain
from optimist.evaluation.scored_prompts import ScoredPrompts
from optimist.policies.routing import RoutePolicy
from optimist.simulation.routing import RouteBed, Routed, play

PROMPTS = 1500
POLICIES = ("thompson", "ucb", "greedy", "rff-ucb", "pak-ucb", "uniform", "best-single")


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


def linucb(bed: RouteBed, trial: int) -> Routed:
    """LinUCB with one weight vector for (context, one-hot generator), as the papers' baseline has it."""
    order = np.random.default_rng((0, trial)).permutation(len(bed.contexts))
    contexts, scores, expected = bed.contexts[order], bed.scores[order], bed.expected[order]
    count = scores.shape[1]
    width = contexts.shape[1] + count
    inverse, cross = np.eye(width), np.zeros(width)
    eta = math.sqrt(2.0 * math.log(2.0 * count / 0.05))
    chosen = np.zeros(len(order), dtype=np.int64)
    for t, context in enumerate(contexts):
        rows = np.concatenate([np.tile(context, (count, 1)), np.eye(count)], axis=1)
        widths = np.sqrt(np.einsum("gr,rs,gs->g", rows, inverse, rows))
        place = int(np.argmax(rows @ inverse @ cross + eta * widths))
        row = inverse @ rows[place]
        inverse -= np.outer(row, row) / (1.0 + rows[place] @ row)
        cross += scores[t, place] * rows[place]
        chosen[t] = place
    values = expected[np.arange(len(order)), chosen]
    probability = np.full(len(order), np.nan)
    return Routed(chosen, probability, values, order, float(expected.mean(0).max()), float(expected.max(1).mean()))


def beds(coding_file: Path | None, llm_file: Path | None) -> Iterator[RouteBed]:
    """All beds whose data is there."""
    yield from (smooth("linear", 3), smooth("rugged", 3), kinds(5), kinds(5, one_is_best=True))
    if coding_file is not None:
        yield coding(coding_file)
    if llm_file is not None:
        yield llms(llm_file)


def compared(bed: RouteBed, trials: int, features: int) -> list[tuple[str, ...]]:
    """A row for each policy."""
    rows: list[tuple[str, ...]] = []
    for name in (*POLICIES, "linucb"):
        played = [
            linucb(bed, trial) if name == "linucb" else play(bed, RoutePolicy(name), trial=trial, features=features)
            for trial in range(trials)
        ]
        means = np.array([each.values.mean() for each in played])
        late = np.array([each.values[-len(each.values) // 3 :].mean() for each in played])
        over = (means.mean() - played[0].best) / abs(played[0].best)
        error = means.std(ddof=1) / math.sqrt(trials) if trials > 1 else math.nan
        share = np.mean([each.share_of_ideal for each in played])
        rows.append((name, f"{means.mean():.4f} ± {error:.4f}", f"{late.mean():.4f}", f"{over:+.1%}", f"{share:.2f}"))
    return rows


def calibration(repeats: int, console: Console) -> None:
    """Print how right the errors of gains are."""
    table = Table("bed", "scores of", "prompts", "gain", "true", "error", "rms z", "95% covers")
    for name, made in (
        ("linear", lambda seed, n: smooth("linear", seed, n)),
        ("rugged", lambda seed, n: smooth("rugged", seed, n)),
        ("kinds of task", lambda seed, n: kinds(seed, n)),
    ):
        for prompts in (200, 800):
            for logged in (False, True):
                found = [one_gain(made(seed, prompts), seed, logged) for seed in range(repeats)]
                gains, true, errors = np.array(found).T
                z = (gains - true) / errors
                numbers = (
                    gains.mean(),
                    true.mean(),
                    errors.mean(),
                    np.sqrt(np.square(z).mean()),
                    (np.abs(z) < 1.96).mean(),
                )
                table.add_row(
                    name, "one each" if logged else "all", str(prompts), *(f"{number:.3f}" for number in numbers)
                )
    console.print(table)


def one_gain(bed: RouteBed, seed: int, logged: bool) -> tuple[float, float, float]:
    """The estimated gain, the true one of the same routes, and the error."""
    rows = np.arange(len(bed.contexts))
    names = tuple(f"g{place}" for place in range(bed.scores.shape[1]))
    if logged:
        rng = np.random.default_rng((1, seed))
        chances = rng.dirichlet(np.full(len(names), 4.0), len(rows))
        generator = (chances.cumsum(1) > rng.random((len(rows), 1))).argmax(1)
        known = ScoredPrompts(
            names, bed.contexts, rows, generator, bed.scores[rows, generator], chances[rows, generator]
        )
    else:
        known = ScoredPrompts.of_table(bed.contexts, bed.scores, names)
    found = route_gain(known, features=128, seed=seed)
    true = (bed.expected[rows, found.routed] - bed.expected[rows, found.singles]).mean()
    return found.gain, float(true), max(found.error, 1e-12)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coding", type=Path)
    parser.add_argument("--llms", type=Path)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--calibration", action="store_true")
    asked = parser.parse_args()
    console = Console(width=140)
    if asked.calibration:
        calibration(10 * asked.trials, console)
        return
    for bed in beds(asked.coding, asked.llms):
        one = play(bed, RoutePolicy("best-single"))
        title = (
            f"{bed.name}: best single {one.best:.4f}, best for each prompt {one.ideal:.4f}, {len(bed.scores)} prompts"
        )
        table = Table("policy", "mean score", "last third", "over best single", "of the possible gain", title=title)
        for row in compared(bed, asked.trials, asked.features):
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()
