"""Experiments whose prompts are a fixed list: the service scores as `Evaluation` does, and keeps doing so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist import Evaluation
from optimist_client import Experiment, Optimist, Pick
from optimist_client.metrics import WinRate
from tests.support.alike import same
from tests.support.processes import Service, append_batch

PROMPTS = [f"p{place}" for place in range(6)]
KERNEL = {"sigma": 1.5, "features": 24}
RKE = {"metric": "rke", "dimension": 3, "kernel": KERNEL}
PAIRS = {
    "metric": "conditional-vendi",
    "order": 2.0,
    "dimension": 3,
    "prompt_dimension": 6,
    "kernel": KERNEL,
    "prompt_kernel": {"sigma": 0.5},
}
SPREAD = {"dull": 0.2, "varied": 1.0}


def made(prompts: list[str], generator: str, seed: int) -> dict[str, np.ndarray]:
    places = [PROMPTS.index(prompt) for prompt in prompts]
    centres = np.random.default_rng(0).standard_normal((6, 3))[places]
    noise = np.random.default_rng(seed).standard_normal((len(prompts), 3))
    return {"features": centres + SPREAD[generator] * noise, "prompts": np.eye(6)[places]}


def batch_of(config: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return arrays if config is PAIRS else {"features": arrays["features"]}


def in_memory(config: dict) -> Evaluation:
    settings = {name: value for name, value in config.items() if "dimension" not in name}
    return Evaluation(
        list(SPREAD), policy="uniform", rescore_growth=0.0, prompts=PROMPTS, prompts_are="list", **settings
    )


@pytest.mark.long
@pytest.mark.parametrize("config", [RKE, PAIRS], ids=["rke", "conditional-vendi"])
def test_the_service_scores_as_in_memory_and_after_an_import(
    service: Service, client: Optimist, name: str, tmp_path: Path, config: dict
):
    experiment = client.create_experiment(
        name,
        list(SPREAD),
        prompts=PROMPTS,
        prompts_are="list",
        policy="uniform",
        batch_size=4,
        rescore_growth=0.0,
        budget=144,
        stop=False,
        **config,
    )
    assert experiment.info.config.prompts_are == "list"
    evaluation = in_memory(config)

    def tell(picks: Iterator) -> None:
        for pick in picks:
            indices = pick.info.prompt_indices
            assert [PROMPTS[index] for index in indices] == pick.prompts
            if pick.number == 3:
                continue  # given up: its prompts come again, out of order
            arrays = batch_of(config, made(pick.prompts, pick.generator, pick.number))
            pick.tell(arrays)
            evaluation.tell(pick.generator, arrays, prompt_indices=indices)
            if pick.number % 11 == 0:  # a batch without a pick: its prompts are not known
                extra = batch_of(config, made(PROMPTS[:3], pick.generator, 100 + pick.number))
                append_batch(service.url, experiment.name, pick.generator, extra).raise_for_status()
                evaluation.tell(pick.generator, extra)
            if pick.number == 20:
                return

    tell(experiment.picks())
    same(experiment, evaluation)
    experiment.export(tmp_path / "half.zip")
    experiment = client.import_experiment(tmp_path / "half.zip", f"{name}-again")
    tell(experiment.picks())
    assert experiment.report().samples == 144
    same(experiment, evaluation)


def test_passes_have_every_prompt_once(client: Optimist, name: str):
    experiment = client.create_experiment(
        name, ["a"], prompts=PROMPTS, prompts_are="list", batch_size=5, budget=30, stop=False, **RKE
    )
    given: list[str] = []
    for pick in experiment.picks():
        given += pick.prompts
        pick.tell(np.random.default_rng(pick.number).standard_normal((5, 3)))
    assert [sorted(given[start : start + 6]) for start in range(0, 30, 6)] == 5 * [PROMPTS]


@pytest.mark.parametrize("kind", ["sample", "list", "repeatable"])
def test_means_are_those_in_memory_whatever_becomes_of_picks(client: Optimist, name: str, kind: str):
    """A pick that is given up, one that is told late, and a batch that is retracted."""
    metric = WinRate(repeatable=kind == "repeatable")
    prompts_are = "list" if kind != "sample" else "sample"
    settings: dict[str, Any] = {"metric": metric, "prompts": PROMPTS, "prompts_are": prompts_are, "stop": False}
    settings |= {"policy": "uniform", "batch_size": 4, "rescore_growth": 0.0, "seed": 4}
    experiment = client.create_experiment(name, ["a", "b"], budget=40, max_wait=30.0, **settings)
    scores = {"a": np.array([1, 0, 1, 0, 0, 1.0]), "b": np.array([0, 0, 1, 1, 1, 1.0])}
    evaluation = Evaluation(["a", "b"], **settings)

    def tell(pick: Pick, is_kept: bool = True) -> None:
        rows = scores[pick.generator][[PROMPTS.index(prompt) for prompt in pick.prompts]][:, None]
        pick.tell(rows)
        if is_kept:
            evaluation.tell(pick.generator, rows, prompt_indices=pick.info.prompt_indices, start=pick.info.start)

    wrong, given_up, late = (asked(experiment, worker) for worker in ("one", "two", "three"))
    tell(wrong, is_kept=False)
    given_up.give_up()
    experiment.retract(pick=wrong.number, reason="the wrong judge")
    for pick in experiment.picks():
        tell(pick)
        if pick.number == 5:
            tell(late)
    report = same(experiment, evaluation)
    if kind == "repeatable":
        assert report.decision.reason == "b is better on this list, exactly"
        assert report.samples == 16  # 12 and the retracted batch
        assert {row.generator: row.score for row in report.standings} == {"a": 0.5, "b": pytest.approx(4 / 6)}
    else:
        assert report.samples == 40


def asked(experiment: Experiment, worker: str) -> Pick:
    pick = experiment.ask(worker=worker)
    assert pick is not None
    return pick


def test_other_orders_keep_the_interval_and_the_order_of_a_sample(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a"], prompts=PROMPTS, prompts_are="list", **{**PAIRS, "order": 1.0})
    pick = experiment.ask()
    assert pick.info.prompt_indices is None


def test_an_evaluation_refuses_what_means_nothing():
    kernel = {"metric": "rke", "kernel": KERNEL}
    with pytest.raises(ValueError, match="found none"):
        Evaluation(["a"], prompts_are="list", **kernel)
    with pytest.raises(ValueError, match="'sample' or 'list'"):
        Evaluation(["a"], prompts_are="lists", prompts=PROMPTS, **kernel)
    with pytest.raises(ValueError, match="bound 'influence'"):
        Evaluation(["a"], prompts=PROMPTS, prompts_are="list", bound="theorem", policy="ucb", **kernel)
    with pytest.raises(ValueError, match="expected them only with prompts"):
        Evaluation(["a"], **kernel).tell("a", np.ones((2, 3)), prompt_indices=[0, 1])
    listed = Evaluation(["a"], prompts=PROMPTS, prompts_are="list", **kernel)
    wrongs: list[Any] = [[0], [0, 6], [0, -1], [0.0, 1.0]]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="whole numbers from 0 to 5"):
            listed.tell("a", np.ones((2, 3)), prompt_indices=wrong)
    assert listed.told == 0
