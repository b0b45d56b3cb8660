"""Budgets of routers on real rewards and dollars: is a ceiling kept, and what is it worth?

    python benchmarks/routing_budgets.py prompts.npz [--trials 20] [--features 64] [--pareto FOLDER]

prompts.npz is what `routing_problems.py` makes of the wheel paretobandit 0.1.1: 3,609 prompts with the rewards and the
dollars of three language models. Ceilings lie between the cheapest and the dearest model. For each: by how much the
mean of what prompts have cost, the warm-up included, is above the ceiling, the same of the second half of the prompts,
and the mean reward, beside the best fixed mixture of models that the ceiling allows, which knows all rewards and costs
but no contexts. In the second table a part of the best single model's reward is to be kept at the least cost.

--pareto: the folder that the wheel is unpacked in. Its ParetoBandit is then played on the same prompts in the same
order, with its own pacer, its defaults and its principal components; "trained" with the priors that it ships, which
were learned from 8,374 further prompts, and "cold" without. It needs joblib and scikit-learn.

Ours begins as the service does, where every model gets 22 prompts in turn; costs begin as what the models cost on
average, and are then the means of what was paid, as an operator would set them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from optimist.routing.answers.features import contexts_to_fit
from optimist.routing.answers.policy import RoutePolicy
from optimist.routing.simulation.judge import best_mixture
from optimist.routing.simulation.trials import RoutingProblem, RoutingTrial, play

CEILINGS = (0.0003, 0.0006, 0.001, 0.002, 0.004, 0.008)
"""Dollars a prompt. The models cost 0.00003, 0.0005 and 0.015."""
SHARES = (0.9, 0.95, 0.98, 0.99)


def problem_of(file: Path) -> tuple[RoutingProblem, list[str]]:
    """The prompts, and the names of the models."""
    known = np.load(file)
    rewards, costs = known["rewards"], known["costs"]
    problem = RoutingProblem(
        "dollars", known["contexts"].astype(np.float64), rewards, rewards, costs.mean(0), paid=costs
    )
    return problem, known["names"].tolist()


def ours(problem: RoutingProblem, trial: int, features: int, **budget: Any) -> RoutingTrial:
    """A play of our default with a budget."""
    warmup = contexts_to_fit("median", problem.scores.shape[1])
    # Draws of its own: those of the last prompts decide how far from the ceiling a play ends.
    policy = RoutePolicy("optimistic", seed=trial, **budget)
    return play(problem, policy, trial=trial, features=features, warmup=warmup)


class ParetoBandit:
    """The wheel's router, with its own pacer."""

    def __init__(self, folder: Path, problem: RoutingProblem, names: list[str]) -> None:
        sys.path.insert(0, str(folder))
        import joblib

        self._problem, self._names = problem, names
        package = folder / "pareto_bandit"
        pca = joblib.load(package / "data" / "artifacts" / "pca_25.joblib")
        rows = problem.contexts / np.linalg.norm(problem.contexts, axis=1, keepdims=True)
        rows = pca.transform(rows)
        if not pca.whiten:
            rows = rows / np.sqrt(np.maximum(pca.explained_variance_, 1e-12))
        self._rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
        listed = json.loads((package / "config" / "models.json").read_text())["models"]
        kept = ("model_id", "input_cost_per_m", "output_cost_per_m")
        self._registry = {one["model_id"]: {key: one[key] for key in kept} for one in listed}

    def play(self, trial: int, ceiling: float, priors: str) -> RoutingTrial:
        """A play under this ceiling, with the prompts in the same order as ours."""
        from pareto_bandit.budget_pacer import BudgetPacer, PacingMode  # pyright: ignore[reportMissingImports]
        from pareto_bandit.config import BEST_K3_HPARAMS  # pyright: ignore[reportMissingImports]
        from pareto_bandit.feature_service import FeatureService  # pyright: ignore[reportMissingImports]
        from pareto_bandit.router import BanditRouter  # pyright: ignore[reportMissingImports]
        from pareto_bandit.storage import EphemeralContextStore  # pyright: ignore[reportMissingImports]

        problem = self._problem
        order = np.random.default_rng((0, trial)).permutation(len(problem.contexts))
        router = BanditRouter.create(
            model_registry=dict(self._registry),
            feature_service=FeatureService.for_precomputed(self._rows.shape[1]),
            context_store=EphemeralContextStore(),
            priors=priors,
            prior_n_effective=BEST_K3_HPARAMS["prior_n_effective"],
            alpha=BEST_K3_HPARAMS["alpha"],
            forgetting_factor=BEST_K3_HPARAMS["forgetting_factor"],
            cost_penalty=0.0,
            budget_pacer=BudgetPacer(target_avg_spend_usd=ceiling, mode=PacingMode.ADAPTIVE),
            bandit_seed=trial,
        )
        chosen = np.zeros(len(order), dtype=np.int64)
        for t, prompt in enumerate(order.tolist()):
            model, log = router.route(self._rows[prompt])
            chosen[t] = self._names.index(model)
            log.cost_usd = float(problem.spent[prompt, chosen[t]])
            router.process_feedback(log.request_id, reward=float(problem.scores[prompt, chosen[t]]))
        return RoutingTrial.from_choices(problem, 0.0, order, chosen, np.full(len(order), np.nan))


def over(runs: list[RoutingTrial], ceiling: float, begin: int = 0) -> str:
    """By how much costs from a prompt on are above the ceiling: mean, worst and least."""
    found = np.array([each.costs[begin:].mean() / ceiling - 1.0 for each in runs])
    return f"{found.mean():+.2%} ({found.min():+.2%} to {found.max():+.2%})"


def shown(numbers: np.ndarray) -> str:
    """Mean ± standard error."""
    return f"{numbers.mean():.4f} ± {numbers.std(ddof=1) / np.sqrt(len(numbers)):.4f}"


def ceilings(
    problem: RoutingProblem, trials: int, peers: dict[str, Callable[..., RoutingTrial]], wanted: list[float]
) -> Table:
    """What is spent against each ceiling, and scored."""
    heads = ("ceiling", "router", "all prompts above it", "the second half", "reward", "best fixed mixture")
    table = Table(*heads, title=f"{len(problem.scores):,} prompts, {trials} trials: mean (least to worst)")
    half = len(problem.scores) // 2
    for ceiling in wanted:
        mixture = best_mixture(problem.scores.mean(0), problem.spent.mean(0), ceiling)
        for name, peer in peers.items():
            runs = [peer(trial, ceiling=ceiling) for trial in range(trials)]
            reward = shown(np.array([each.values.mean() for each in runs]))
            table.add_row(
                f"{ceiling:g}", name, over(runs, ceiling), over(runs, ceiling, half), reward, f"{mixture:.4f}"
            )
    return table


def shares(problem: RoutingProblem, trials: int, peer: Callable[..., RoutingTrial], wanted: list[float]) -> Table:
    """What is kept of the best single model's reward, and at which cost."""
    table = Table("at least", "kept: mean (least to most)", "second half", "dollars a prompt", "of the best single's")
    scores, costs = problem.scores.mean(0), problem.spent.mean(0)
    single, half = int(scores.argmax()), len(problem.scores) // 2
    for share in wanted:
        runs = [peer(trial, at_least=share) for trial in range(trials)]
        kept = np.array([each.values.mean() for each in runs]) / scores[single]
        late = np.array([each.values[half:].mean() for each in runs]) / scores[single]
        paid = np.array([each.costs.mean() for each in runs])
        spread = f"{kept.mean():.2%} ({kept.min():.2%} to {kept.max():.2%})"
        part = paid.mean() / costs[single]
        table.add_row(f"{share:g}", spread, f"{late.mean():.2%}", f"{paid.mean():.6f}", f"{part:.1%}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--pareto", type=Path)
    parser.add_argument("--ceilings", nargs="*", type=float, default=list(CEILINGS))
    parser.add_argument("--shares", nargs="*", type=float, default=list(SHARES))
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--only", nargs="*", choices=("ceilings", "shares"), default=["ceilings", "shares"])
    asked = parser.parse_args()
    problem, names = problem_of(asked.prompts)
    mine = partial(ours, problem, features=asked.features)
    peers: dict[str, Callable[..., RoutingTrial]] = {"optimist": mine}
    if asked.pareto is not None:
        peer = ParetoBandit(asked.pareto, problem, names)
        peers |= {
            "ParetoBandit, trained": partial(peer.play, priors="warmup"),
            "ParetoBandit, cold": partial(peer.play, priors="none"),
        }
    console = Console(width=140)
    if "ceilings" in asked.only:
        console.print(ceilings(problem, asked.trials, peers, asked.ceilings))
    if "shares" in asked.only:
        console.print(shares(problem, asked.trials, mine, asked.shares))


if __name__ == "__main__":
    main()
