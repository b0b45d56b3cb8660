"""Runs policies on given samples in many trials and compares their costs and the time until the right answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimist.experiments.goals import registry
from optimist.simulation.inputs import SimulationWarning
from optimist.simulation.judges.judge import GoalJudge, Setup
from optimist.simulation.plan import Plan
from optimist.simulation.result import SimulationResult
from optimist.simulation.runner import Runner
from optimist.simulation.trial import contenders
from optimist_client.errors import FixError
from optimist_client.goals import declared_goals, find_goal
from optimist_client.metrics import Metric
from optimist_client.validation import valid

__all__ = ["SimulationWarning", "simulate"]


def simulate(
    sources: Any,
    *,
    goal: str = "best",
    metric: str | Metric | None = None,
    watch: Sequence[Metric] = (),
    policies: str | Sequence[str] | Mapping[str, str] | None = None,
    truth: Any = None,
    jobs: int | None = None,
    progress: bool = False,
    **settings: Any,
) -> SimulationResult:
    """Play each policy in many trials on these samples, and compare their costs. `settings` are a `Plan`'s (`rounds`,
    `batch_size`, `trials`, `seed`, `shuffle`, `paired`, `prompts_are`, `stop`, `delta`, `tolerance`, and for
    the goal "route" `price`, `tries`, `ceiling`, `at_least`), and the metric's.

    `sources` are the generators by name, each an array (n, d) that the metric scores, a mapping of such arrays by
    tensor, or a `Source`. They may also be a `SourceSet` or a path: a folder or file of features (see `sources.files`),
    or an exported experiment (.zip), which includes its metric with its settings. For the goal "route" they are a file
    as `optimist route` reads it, or `ScoredPrompts`. `metric` is a text, such as "rke:kernel.sigma=10", or an object;
    its settings, such as `reference` (which may be a file) and `kernel`, may also be given by name. Metric, settings, δ
    and tolerance are by default the sources', or else "fid", 0.05 and 0. Open kernels (σ "median", landmarks) are
    fitted once before all trials. `watch` are further metrics, as objects, that decide nothing: sources
    have the arrays of all metrics by name, and the result has regret and accuracy by each. `policies` are names or
    presets of the `goal`, optionally with options: "ucb:bound=theorem,delta=0.1"; the keys of a mapping are their
    labels.

    In a trial samples are drawn without replacement. Their random order depends only on (`seed`, trial, generator), so
    that all policies see the same streams, whatever `jobs` is. Without `shuffle` samples keep their given order.
    `paired` draws the same rows of every generator and compares their scores by row: True says that row i has the same
    seed or prompt in all, None takes the sources' word (`SourceSet.aligned`), False draws each generator by itself. A
    trial ends early if the chosen generator has no full batch left or, with `stop`, when the stopping rule decides.
    `truth` are the true scores on the natural scale, or with the goal "mixture" `TrueMixtures`; by default they are
    computed in closed form or from all samples. joblib runs the trials in `jobs` processes (None: as set by
    `joblib.parallel_config`, which may use other machines, otherwise one).

    Raises FixError before anything is run if an argument is invalid.
    Warns (`SimulationWarning`) if a generator may run out of samples.
    """
    kind = judge_of(goal)
    plan = valid(Plan, {name: value for name, value in settings.items() if name in Plan.model_fields})
    of_metric = {name: value for name, value in settings.items() if name not in Plan.model_fields and value is not None}
    arguments = {"metric": metric, "watch": watch or None, "truth": truth}
    check_taken(kind, plan.model_fields_set | {name for name, value in arguments.items() if value is not None})
    competing = contenders(kind.default[0] if policies is None else policies, kind.policies)
    runner = Runner(jobs, progress)
    judge = kind.from_asked(Setup(sources, metric, watch, truth, of_metric), plan, competing, runner)
    plays = runner.run("trials", judge.trials(competing))
    count = len(competing)
    return SimulationResult.from_plays(
        judge, {contender.label: plays[index::count] for index, contender in enumerate(competing)}
    )


def judge_of(goal: str) -> type[GoalJudge]:
    """Who judges a goal. Raises FixError for an unknown one."""
    try:
        judge = registry.judge_of(find_goal(goal).name)
    except FixError as error:
        raise FixError(f"goal: {error}") from None
    return registry.named(judge)


def check_taken(kind: type[GoalJudge], names: set[str]) -> None:
    """Raise FixError if a goal does not take one of these settings of other goals."""
    of_others = frozenset[str]().union(*(judge_of(goal).takes for goal in declared_goals())) - kind.takes
    if foreign := sorted(names & of_others):
        raise FixError(f"{', '.join(foreign)}: the goal {kind.goal!r} takes {', '.join(sorted(kind.takes))}")
