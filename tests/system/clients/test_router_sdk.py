"""Routers from end to end: prompts of two kinds go to the generator that is better on them, and the table says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist_client import ConflictError, Experiment, FixError, NotFoundError, Optimist
from optimist_client.models import Report
from tests.support.commands import invoked
from tests.support.processes import Service, scored, until
from tests.support.reports import unwrapped
from tests.system.http.test_corrections import correct

WIDTH = 8
SUCCESS = {"a": (0.9, 0.2), "b": (0.3, 0.8)}
"""How often each generator succeeds on prompts of the two kinds."""
ROUTE: dict[str, Any] = {"metric": "win-rate", "goal": "route", "context": WIDTH, "context_features": 32}
CENTRES = np.random.default_rng(7).standard_normal((2, WIDTH))


def prompted(rng: np.random.Generator) -> tuple[int, np.ndarray, str]:
    """A prompt: its kind, its context and its text."""
    kind = int(rng.integers(2))
    return kind, CENTRES[kind] + 0.2 * rng.standard_normal(WIDTH), ("sort a list", "join two tables")[kind]


def outcome(
    generator: str, kind: int, rng: np.random.Generator, success: dict[str, tuple[float, float]] = SUCCESS
) -> float:
    return float(rng.random() < success[generator][kind])


def served(
    experiment: Experiment,
    prompts: int,
    seed: int,
    success: dict[str, tuple[float, float]] = SUCCESS,
    only: list[str] | None = None,
    kind: int | None = None,
) -> Counter[tuple[int, str]]:
    """Serve prompts, of this kind or of both, one after the other, by these generators alone or by all; how many of
    each kind went to each generator."""
    rng, went = np.random.default_rng(seed), Counter[tuple[int, str]]()
    of, asked = kind, 0
    while asked < prompts:
        kind, context, text = prompted(rng)
        if of not in (None, kind):
            continue
        asked += 1
        pick = experiment.ask(context=context, prompt=text, generators=only)
        pick.tell(outcome(pick.generator, kind, rng, success))
        went[kind, pick.generator] += 1
    return went


@pytest.mark.long
def test_prompts_go_to_the_generator_that_is_better_on_them(client: Optimist, name: str, service: Service):
    experiment = client.create_experiment(name, list(SUCCESS), costs={"a": 2.0, "b": 1.0}, **ROUTE)
    served(experiment, 300, seed=1)
    scored(experiment)
    went = served(experiment, 100, seed=2)
    assert went[0, "a"] + went[1, "b"] > 85
    made = experiment.route_table()
    assert (made.experiment, made.samples, made.basis, made.stale) == (name, 400, "doubly robust", False)
    # A type is a cluster of contexts; each is of one kind of prompts.
    best = {"sort a list": "a", "join two tables": "b"}
    assert {text for kind in made.types for text in kind.examples} == best.keys()
    assert all(best[kind.example] == kind.winner for kind in made.types if kind.share > 0.1)
    # By the known chances a router gains 0.3 over always "a": 0.85 against 0.55.
    assert abs(made.gain - 0.3) < 4.0 * made.standard_error
    assert made.gain > made.standard_error
    assert made.savings.single_cost == 2.0
    report = experiment.report()
    assert report.routes is not None
    # The later the scorer's models come, the less is gained by these few prompts: the interval may reach to 0.
    assert made.lower is not None
    says = "Routing is better than always a" if made.lower > 0.0 else "Whether routing is better than always a is open"
    assert report.sentences[0].startswith(says)
    assert not report.decision.decided
    # A trial waits for the table of what would be left.
    tried = correct(service, name, trial=True, retract=[{"generator": "a", "position": 1}], reason="r")
    routes = Report.model_validate_json(tried.content).routes
    assert routes is not None
    assert (routes.samples, experiment.route_table().samples) == (399, 400)


def next_pick(experiment: Experiment) -> tuple[int, float | None, float | None]:
    """How many told batches the model of the next pick knows, its price and its probability; the pick is given up."""
    pick = experiment.ask(context=CENTRES[0])
    pick.give_up("only asked")
    return sum(pick.info.positions), pick.info.price, pick.info.probability


@pytest.mark.long
def test_the_price_of_a_ceiling_is_the_same_after_an_import(client: Optimist, name: str, tmp_path: Path):
    costs = {"a": 10.0, "b": 1.0}
    config = ROUTE | {"rescore_growth": 0.0, "keep_log": True}
    experiment = client.create_experiment(name, list(SUCCESS), costs=costs, ceiling=3.0, **config)
    rng, spent, prices = np.random.default_rng(1), 0.0, []
    for number in range(24):
        kinds, contexts, _ = zip(*(prompted(rng) for _ in range(5)), strict=True)
        for pick, kind in zip(experiment.ask_all(contexts), kinds, strict=True):
            pick.tell(outcome(pick.generator, kind, rng))
            spent += costs[pick.generator]
            prices.append(pick.info.price)
        if number == 15:  # the bandwidth is fixed, and there is a model
            until(lambda: next_pick(experiment)[1] is not None)
    assert prices[0] is None
    assert prices[-1] > 0.0
    made = experiment.route_table()
    assert made.pace.spent == pytest.approx(spent / 120)
    assert made.price == made.pace.price
    assert made.pace_text.startswith(f"A prompt has cost {spent / 120:.3g} so far, ")
    assert made.pace_text in str(made)
    # The price is found from the logs alone, bit for bit.
    until(lambda: next_pick(experiment)[0] == 120)
    experiment.export(tmp_path / "file.zip")
    again = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    until(lambda: next_pick(again)[0] == 120)
    assert next_pick(again)[1] == next_pick(experiment)[1]


def test_a_pick_has_its_prompt_as_often_as_it_may_be_tried(client: Optimist, name: str):
    experiment = client.create_experiment(name, list(SUCCESS), tries=3, **ROUTE)
    text = "why? " * 2000
    pick = experiment.ask(context=[0.5] * WIDTH, prompt=text, generators=["b"])
    assert (pick.generator, pick.size, pick.prompts) == ("b", 3, [text] * 3)
    with pytest.raises(ValueError, match="routes prompts"):
        _ = pick.seeds
    assert pick.tell([0.0, 1.0]).samples == 2
    again = experiment.ask(context=[0.5] * WIDTH)
    assert (again.size, again.prompts) == (3, [])
    again.give_up("the model is down")
    assert experiment.report().samples == 2


def test_what_needs_a_context_or_has_none_is_refused(client: Optimist, name: str):
    router = client.create_experiment(name, list(SUCCESS), **ROUTE)
    for refused in (
        router.ask,
        lambda: next(iter(router.picks())),
        lambda: router.run({"a": lambda size, seed: np.ones(size)}),
    ):
        with pytest.raises(FixError, match=r"chooses a generator for each prompt: use ask\(context=…\)"):
            refused()
    with pytest.raises(ConflictError, match="too few samples to say how prompts are routed"):
        router.route_table()
    other = client.create_experiment(f"{name}-best", list(SUCCESS), metric="mean")
    with pytest.raises(FixError, match="route"):
        other.route_table()


@pytest.mark.long
def test_answers_that_change_are_reported_and_what_was_learned_before_is_dropped(
    client: Optimist, service: Service, name: str, tmp_path: Path
):
    config = ROUTE | {"context_bandwidth": 2.0, "rescore_growth": 0.0, "keep_log": True}
    experiment = client.create_experiment(name, list(SUCCESS), **config)
    # Half to each: a router that knew a little earlier might send the prompts that change to the other one alone.
    for seed, generator in enumerate(SUCCESS, 3):
        served(experiment, 80, seed=seed, only=[generator])
    scored(experiment)
    before = experiment.report()
    assert [row.change for row in before.standings] == [None, None]
    told = {row.generator: row.samples for row in before.standings}
    changed = {"a": (0.0, 0.2), "b": SUCCESS["b"]}
    served(experiment, 50, seed=2, success=changed, only=["a"], kind=0)

    until(lambda: experiment.report().scored and experiment.report().standings[0].change is not None)
    report = experiment.report()
    change = report.standings[0].change
    assert report.standings[1].change is None
    # Which prompts came to it before, and so how sure the beginning is, depends on when models were made.
    assert 0 < change.position <= told["a"] + 2
    assert change.pick is not None
    assert change.shift < -0.3
    assert change.text in report.standings[0].warnings
    listed = invoked("anomalies", name, "--url", service.url, env={"COLUMNS": "200"})
    assert " ".join(listed.output.split()).endswith(f"a: {change.text}")
    assert f"Warning: a: its answers have changed since about pick {change.pick}: scores are " in unwrapped(report)
    assert f"retract(generator=…, until={change.position}) drops its samples from before." in report.sentences[-1]

    reply = experiment.retract(generator="a", until=told["a"], reason="a new version")
    assert [(one.which, one.samples) for one in reply.retracted] == [(f"all batches up to {told['a']}", told["a"])]
    assert experiment.retract(generator="a", until=told["a"]).already
    until(lambda: experiment.report().scored and experiment.report().standings[0].scored_samples > 0)
    report = experiment.report()
    assert [row.samples for row in report.standings] == [50, told["b"]]
    assert [row.change for row in report.standings] == [None, None]
    assert (report.samples, report.retractions[0].reason) == (210, "a new version")
    assert f"Retracted: all batches up to {told['a']} of a ({told['a']} samples): a new version." in unwrapped(report)
    went = served(experiment, 80, seed=3, success=changed)
    assert went[0, "b"] > went[0, "a"]

    scored(experiment)
    experiment.export(tmp_path / "file.zip")
    again = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    scored(again)
    assert again.report().retractions == experiment.report().retractions
    assert [row.score for row in again.report().standings] == [row.score for row in experiment.report().standings]
    assert again.retract(generator="a", until=told["a"]).already

    until_now = ("retract", again.name, "--generator", "b", "--until", "3", "--yes", "--url", service.url)
    done = invoked(*until_now, env={"COLUMNS": "200"})
    assert done.output == "retracted: all batches up to 3 of b, 3 samples\n"


def test_first_batches_that_cannot_be_retracted(client: Optimist, name: str):
    experiment = client.create_experiment(name, list(SUCCESS), **ROUTE)
    served(experiment, 6, seed=1)
    before = experiment.report()
    for wrong in ({"pick": 1}, {"generator": "a", "position": 1}, {}):
        with pytest.raises(FixError, match="expected a"):
            experiment.retract(**wrong, until=1)
    for unknown in ({"generator": "nobody", "until": 1}, {"generator": "a", "until": 99}):
        with pytest.raises(NotFoundError):
            experiment.retract(**unknown)
    with pytest.raises(FixError, match="until"):
        experiment.retract(generator="a", until=0)
    other = client.create_experiment(f"{name}-best", list(SUCCESS), metric="mean")
    with pytest.raises(FixError, match="only an experiment that routes prompts"):
        other.retract(generator="a", until=1)
    after = experiment.report()
    assert (after.retractions, after.samples) == ([], before.samples)
    assert [row.samples for row in after.standings] == [row.samples for row in before.standings]
