"""Routing policies beside each other: what they get of the gain over the best single generator that is possible.

    python benchmarks/routing.py [--coding pakucb_code_minilm.npz] [--llms llmfao_minilm.npz]
        [--prompts prompts.npz] [--trials 10] [--draw 1]

Problems: synthetic ones whose expected scores are known (linear in the context; a rugged function of it; kinds of task
with success probabilities; kinds where one model is best at all), two models' translations of 164 coding tasks, scored
by the cosine of task and answer (10 trials each, arXiv 2410.13287's data), and five language models' answers to 19
prompts, scored in the same way. On two more, kinds of task with prices, a model is worth its success less 0.02 times
its cost; on one of them it is called until it succeeds, at most 4 times. With --prompts, a file that
`routing_problems.py` makes: real prompts with made-up models, and with three language models' rewards. Each policy sees
the same prompts in the same order. Settings were chosen on draw 0 of the problems that are drawn; --draw 1 and others
show what they are worth.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from optimist.routing.answers.drift import Drift
from optimist.routing.answers.features import CONTEXTS_TO_FIT, Components, ContextSettings
from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.answers.ridge import Sums
from optimist.routing.simulation.trials import RoutingProblem, RoutingTrial, play
from routing_problems import JOINS, LAWS, changing, joined, kinds, problems, smooth

PRICE = 0.02
"""What a unit of cost is worth on the problems with prices."""
POLICIES = ("optimistic", "ucb", "greedy", "rff-ucb", "pak-ucb", "uniform", "best-single")


def on_components(problem: RoutingProblem, trial: int, *, drawn: bool, width: float = 0.3) -> RoutingTrial:
    """LinUCB with a weight vector for each generator on the principal components of the first contexts.

    drawn: choose by weights that are drawn (linear Thompson sampling) instead of the upper bound. width: standard
    errors; 0.3 is the best one of 0.1, 0.3 and 1 on the problems of texts.
    """
    rng = np.random.default_rng((1, trial))
    order = np.random.default_rng((0, trial)).permutation(len(problem.contexts))
    contexts, scores, count = problem.contexts[order], problem.scores[order], problem.scores.shape[1]
    known = Components.from_contexts(contexts[:CONTEXTS_TO_FIT])
    rows = (contexts - known.origin) @ known.directions.T * math.sqrt(len(known.directions))
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    inverses, crosses = np.stack([np.eye(rows.shape[1])] * count), np.zeros((count, rows.shape[1]))
    chosen = np.zeros(len(order), dtype=np.int64)
    for t, row in enumerate(rows):
        pulls = inverses @ row
        values, widths = np.einsum("gr,gr->g", pulls, crosses), width * np.sqrt(pulls @ row)
        place = int(np.argmax(values + widths * (rng.standard_normal(count) if drawn else 1.0)))
        inverses[place] -= np.outer(pulls[place], pulls[place]) / (1.0 + row @ pulls[place])
        crosses[place] += scores[t, place] * row
        chosen[t] = place
    return RoutingTrial.from_choices(problem, 0.0, order, chosen, np.full(len(order), np.nan))


def linucb(problem: RoutingProblem, trial: int) -> RoutingTrial:
    """LinUCB with one weight vector for (context, one-hot generator), as the papers' baseline has it."""
    order = np.random.default_rng((0, trial)).permutation(len(problem.contexts))
    contexts, scores = problem.contexts[order], problem.scores[order]
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
    return RoutingTrial.from_choices(problem, 0.0, order, chosen, np.full(len(order), np.nan))


PEERS: dict[str, Callable[[RoutingProblem, int], RoutingTrial]] = {
    "linucb, shared": linucb,
    "linucb": partial(on_components, drawn=False),
    "linear thompson": partial(on_components, drawn=True),
}
"""Policies of others that are not in the product. They know no prices."""


def mean_and_error(found: np.ndarray) -> tuple[float, float]:
    """The mean over trials and its standard error, which one trial does not have."""
    error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return float(found.mean()), float(error)


def compared(problem: RoutingProblem, trials: int, features: int, only: set[str]) -> list[tuple[str, ...]]:
    """A row for each policy."""
    rows: list[tuple[str, ...]] = []
    price = 0.0 if problem.costs is None else PRICE
    # The kernels of PAK-UCB know no prices, either.
    names = (*POLICIES, *PEERS) if problem.costs is None else (*POLICIES, "promptwise")
    for name in names:
        if only and name not in only:
            continue
        played = [
            PEERS[name](problem, trial)
            if name in PEERS
            else play(
                problem,
                RoutePolicy(name, price, rounds=len(problem.contexts), tries=problem.tries),
                trial=trial,
                features=features,
            )
            for trial in range(trials)
        ]
        means = np.array([each.values.mean() for each in played])
        late = np.array([each.values[-len(each.values) // 3 :].mean() for each in played])
        over, over_error = mean_and_error((means - played[0].best) / abs(played[0].best))
        mean, error = mean_and_error(means)
        share, share_error = mean_and_error(np.array([each.share_of_ideal for each in played]))
        row = (
            name,
            f"{mean:.4f} ± {error:.4f}",
            f"{late.mean():.4f}",
            f"{over:+.1%} ± {over_error:.1%}",
            "–" if math.isnan(share) else f"{share:.3f} ± {share_error:.3f}",
        )
        if problem.costs is not None:
            cost = float(np.mean([each.costs.mean() for each in played]))
            saved = (1.0 - cost / each for each in (played[0].single_cost, played[0].dearest_cost))
            row = (*row, f"{cost:.2f}", *(f"{part:.0%}" for part in saved))
        rows.append(row)
    return rows


def taken_up(problem: RoutingProblem, trials: int, features: int, first: int = 150) -> tuple[str, ...]:
    """What a generator that joins gets of the prompts on which it is the best one, and of the others, and what its
    coming costs: the value per prompt while it is new, against the same prompts without it."""
    count = problem.expected.shape[1]
    joins = problem.joins[-1]
    without = RoutingProblem(problem.name, problem.contexts, problem.scores[:, :-1], problem.expected[:, :-1])
    rows: list[list[float]] = []
    for trial in range(trials):
        played = play(problem, RoutePolicy("optimistic"), trial=trial, features=features)
        plain = play(without, RoutePolicy("optimistic"), trial=trial, features=features)
        has = played.chosen == count - 1
        ours = problem.expected[played.order].argmax(1) == count - 1
        row: list[float] = []
        for begin, end in ((joins, joins + first), (joins + first, joins + 2 * first)):
            part = slice(begin, end)
            row += [has[part][kind[part]].mean() if kind[part].any() else math.nan for kind in (ours, ~ours)]
        part = slice(joins, joins + 2 * first)
        rows.append([*row, float((played.values[part] - plain.values[part]).mean())])
    means = np.array(rows).mean(0)
    error = float(np.array(rows)[:, -1].std(ddof=1) / math.sqrt(trials)) if trials > 1 else math.nan
    shares = ("–" if math.isnan(each) else f"{each:.1%}" for each in means[:-1].tolist())
    return problem.name, *shares, f"{means[-1]:+.3f} ± {error:.3f}", f"{RoutePolicy().floor / count:.1%}"


def joins_table(trials: int, features: int) -> Table:
    """How soon a newcomer is taken up."""
    heads = ("problem", "its prompts, first 150", "others", "its prompts, next 150", "others", "value", "floor")
    table = Table(*heads, title=f"share of a generator that joins after {JOINS:,} prompts, {trials} trials")
    for problem in (kinds(5), smooth("linear", 3)):
        for how in ("better on some", "better", "equal", "worse"):
            table.add_row(*taken_up(joined(problem, how), trials, features))
    return table


def changes_found(problem: RoutingProblem, trial: int, features: int) -> list[tuple[int, int, int]]:
    """Of each generator whose answers are said to have changed in a log that `optimistic` wrote: which one, and its
    samples until then, before and after the change of the problem."""
    played = play(problem, RoutePolicy("optimistic"), trial=trial, features=features)
    contexts = problem.contexts[played.order]
    known = ContextSettings(contexts.shape[1], features).fitted([contexts[:CONTEXTS_TO_FIT]]).made()
    columns = known(contexts)
    scores = problem.scores[played.order]
    if problem.later is not None:
        scores = np.concatenate([scores[: problem.changes], problem.later.scores[played.order][problem.changes :]])
    found: list[tuple[int, int, int]] = []
    for place in range(scores.shape[1]):
        rows = np.flatnonzero(played.chosen == place)
        told = scores[rows, place]
        test = Drift(known.width, known.linear)
        for samples, row in enumerate(rows.tolist()):
            moments = partial(Sums.from_rows, columns[rows[:samples]], told[:samples])
            test.add(columns[row], float(told[samples]), moments, samples, (samples, row))
            if test.change is not None:
                before = int((rows < problem.changes).sum()) if problem.changes else samples + 1
                found.append((place, min(samples + 1, before), samples + 1 - before))
                break
    return found


STEP = 0.1
"""By how much the best single generator scores less after a change."""


def changes_table(trials: int, features: int, prompts: int, which: str) -> Table:
    """False alarms, and how soon a step of 0.1 of the best single generator is found."""
    heads = (
        *("problem", "noise", f"alarms in {prompts:,} prompts", "steps found", "alarms before"),
        *("samples since the step", "90 %", "samples before"),
    )
    table = Table(*heads, title=f"changes of answers, {trials} streams")
    problems_of = {law: kinds if law in LAWS[:3] else partial(smooth, "linear") for law in LAWS}
    problems_of["rugged"] = partial(smooth, "rugged")
    for name, make in problems_of.items():
        if not name.startswith(which):
            continue
        law, at, end = "normal 0.5" if name == "rugged" else name, prompts * 2 // 5, prompts * 7 // 10
        still = [changes_found(changing(make(20 + n, prompts), law, n), n, features) for n in range(trials)]
        delays, early, had = [], 0, []
        for n in range(trials):
            problem = changing(make(20 + n, end), law, n, at, -STEP)
            single = int(problem.expected.mean(0).argmax())
            found = changes_found(problem, n, features)
            early += any(place != single or after <= 0 for place, _, after in found)
            delays += [after for place, _, after in found if place == single and after > 0]
            had += [before for place, before, after in found if place == single and after > 0]
        ends = np.quantile(delays, (0.5, 0.9)) if delays else (math.nan, math.nan)
        first = changing(make(20, end), law, 0)
        spread = float(np.sqrt(np.square(first.scores - first.expected).mean())), float(np.median(had or [math.nan]))
        cells = (f"{spread[0]:.2f}", f"{sum(map(bool, still))}", f"{len(delays)}", f"{early}")
        table.add_row(name, *cells, f"{ends[0]:.0f}", f"{ends[1]:.0f}", f"{spread[1]:.0f}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coding", type=Path)
    parser.add_argument("--llms", type=Path)
    parser.add_argument("--prompts", type=Path, help="as `routing_problems.py` writes them")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--draw", type=int, default=0, help="of the problems that are drawn")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--policies", nargs="*", default=[], help="only these")
    parser.add_argument("--problem", default="", help="only problems whose names begin so")
    parser.add_argument("--joins", action="store_true", help="only how soon a newcomer is taken up")
    parser.add_argument("--changes", type=int, default=0, help="only how answers that change are found, of N prompts")
    asked = parser.parse_args()
    console = Console(width=140)
    if asked.changes:
        console.print(changes_table(asked.trials, asked.features, asked.changes, asked.problem))
        return
    if asked.joins:
        console.print(joins_table(asked.trials, asked.features))
        return
    for problem in problems(asked.coding, asked.llms, asked.prompts, asked.draw):
        if not problem.name.startswith(asked.problem):
            continue
        one = play(problem, RoutePolicy("best-single", price=0.0 if problem.costs is None else PRICE))
        title = (
            f"{problem.name}: best single {one.best:.4f}, best for each prompt {one.ideal:.4f}, "
            f"{len(problem.scores)} prompts"
        )
        costs = () if problem.costs is None else ("cost", "saved against best single", "against the dearest")
        heads = ("policy", "mean score", "last third", "over best single", "of the possible gain", *costs)
        table = Table(*heads, title=title)
        for row in compared(problem, asked.trials, asked.features, set(asked.policies)):
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()
