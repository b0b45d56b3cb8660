"""Configs of the goal "route", and the contexts that asks send: what is taken, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimist_client import ExperimentConfig, FixError, Optimist, tensors
from optimist_client.contexts import asked
from optimist_client.goals import BestRoutes
from optimist_client.metrics import Mean, WinRate
from tests.support.configs import config_of

ROUTE: dict[str, Any] = {"name": "a", "generators": ["x", "y"], "metric": "win-rate", "goal": "route", "context": 3}
COSTS = {"x": 1.0, "y": 2.0}
LOWER = Mean(range=(0, 9), higher_is_better=False)
PROMPTWISE: dict[str, Any] = {"policy": "promptwise", "price": 0.1, "costs": COSTS}
BEST: dict[str, Any] = {"goal": "best", "context": None}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"context": None}, "goal: 'route' needs context, the number of columns of the prompts' embeddings"),
    ({"context": 0}, "context: expected at least 1, got 0"),
    ({"context_features": 7}, "context_features: .*multiple of 2.*got 7"),
    ({"context_features": 1600}, r".1600 . 32.² times 2 generators is 5,326,848; .* can have 1548 features"),
    ({"context_bandwidth": 0}, "context_bandwidth: expected at least 1e-30 or 'median', got 0"),
    ({"context_bandwidth": "mean"}, "context_bandwidth: expected a number or 'median', got 'mean'"),
    ({"price": -1}, "price: expected at least 0, got -1"),
    ({"price": 0.1, "costs": {"x": 1.0}}, "price: every generator needs a cost; y have none"),
    ({"ceiling": 0}, "ceiling: expected a number above 0, got 0"),
    ({"ceiling": 2.0}, "ceiling: every generator needs a cost; x, y have none"),
    ({"ceiling": 2.0, "costs": {"x": 1.0}}, "ceiling: every generator needs a cost; y have none"),
    ({"ceiling": 0.5, "costs": COSTS}, "ceiling: expected at least 1, what the cheapest generator costs; got 0.5"),
    ({"ceiling": 1.5, "at_least": 0.9, "costs": COSTS}, "ceiling, at_least: expected one of them: what prompts may"),
    ({"at_least": 1.5, "costs": COSTS}, "at_least: expected at most 1, got 1.5"),
    ({"at_least": 0.9}, "at_least: every generator needs a cost; x, y have none"),
    ({"at_least": 0.9, "price": 1.0, "costs": COSTS}, "at_least: .* whatever their price; got price 1"),
    ({"at_least": 0.9, "costs": COSTS, "metric": Mean()}, "at_least: is a part of scores that are never negative"),
    ({"at_least": 0.9, "costs": COSTS, "metric": LOWER}, "at_least: is a part of scores .* higher values better"),
    ({"ceiling": 1.5, "costs": COSTS, "policy": "uniform"}, "ceiling: the policies optimistic, ucb, greedy keep a"),
    ({**BEST, "ceiling": 1.5}, "ceiling: only with the goal 'route'"),
    ({"tries": 0}, "tries: expected at least 1, got 0"),
    ({"prompts": ["a cat"]}, "prompts: with the goal 'route' every ask brings its own prompt"),
    ({"prompts_are": "list"}, "prompts_are: 'list' is for experiments with prompts"),
    ({"tolerance": "1%"}, "tolerance: the goal 'route' decides nothing; expected none, got '1%'"),
    ({"batch_size": 5}, "batch_size: .* a pick is for one prompt, and has `tries` samples; expected 1, got 5"),
    ({"paired": True}, "paired: .* do not get the same prompts; expected false"),
    ({"policy": "top-two"}, "policy: the goal 'route' has the policies optimistic, .*ucb.*; got 'top-two'"),
    ({"policy": "pak-ucb"}, "policy: expected 'top-two', .*'promptwise' or 'best-single', got 'pak-ucb'"),
    ({"policy": "promptwise"}, "policy: 'promptwise' weighs what a call costs; expected costs, and a price above 0"),
    ({**PROMPTWISE, "metric": Mean()}, r"is for successes: expected 'win-rate', or 'mean' with range \(0, 1\)"),
    ({"metric": "fid", "reference": "r"}, "goal: prompts are routed by a score of each sample, as of mean, win-rate;"),
    ({"bound": "betting"}, "bound: the goal 'route' has the bound 'influence'; got 'betting'"),
    ({**BEST, "policy": "rff-ucb"}, "policy: the goal 'best' has the policies top-two, .*; got 'rff-ucb'"),
]


@pytest.mark.parametrize(("settings", "expected"), WRONG, ids=lambda value: str(value)[:50])
def test_a_wrong_router_is_said_in_words(settings: dict[str, Any], expected: str):
    # Nothing is sent: nobody listens on this port.
    with Optimist("http://127.0.0.1:9", patience=0.0) as optimist, pytest.raises(FixError, match=expected):
        optimist.create_experiment(**{**ROUTE, **settings})


def test_defaults_of_a_router():
    config = config_of(**ROUTE)
    assert (config.policy, config.batch_size, config.warmup, config.paired) == ("optimistic", 1, 3, False)
    assert (config.context_features, config.context_bandwidth, config.price, config.tries) == (256, "median", 0.0, 1)
    assert ExperimentConfig.model_validate_json(config.model_dump_json()) == config
    watched = config_of(**ROUTE, watch=[Mean(reads="seconds")], costs=COSTS, price=0.1, tries=3, max_cost=9.0)
    assert list(watched.metrics) == ["win-rate", "mean-seconds"]


@pytest.mark.parametrize("policy", BestRoutes.policies)
def test_every_policy_of_the_goal_is_taken(policy: str):
    config = config_of(**ROUTE, policy=policy, costs=COSTS, price=0.1)  # pyright: ignore[reportArgumentType]
    assert config.policy == policy


def test_fields_of_routing_are_sent_only_by_routers():
    sent = config_of(name="a", generators=["x"], metric=WinRate()).model_dump()
    assert not {"goal", "context", "context_features", "context_bandwidth", "price", "tries"} & sent.keys()


def test_contexts_are_arrays_lists_or_tensors():
    torch = pytest.importorskip("torch")
    config = config_of(**ROUTE)
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]]
    tensor = torch.tensor(rows, dtype=torch.bfloat16, requires_grad=True)
    arrays = np.array(rows), np.array(rows, np.float16), [np.array(row) for row in rows]
    for given in (rows, *arrays, tensor, list(tensor)):
        assert asked(config, given, None) == tensors.encode({"contexts": np.array(rows, np.float32)})
    sent = tensors.decode(asked(config, np.full((2, 3), 0.1), ["é\0" * 3000, ""]) or b"")
    assert sent["contexts"].tolist() == [[float(np.float32(0.1))] * 3] * 2
    assert tensors.unpack_ids(sent[tensors.TEXTS]) == ["é " * 1000, ""]


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ([[1.0, 2.0]], r"context: expected 3 numbers for each prompt, got an array of shape \(2,\)"),
        (np.zeros(3), r"context: expected 3 numbers for each prompt, got an array of shape \(3,\)"),
        ([[1.0] * 3, [1.0] * 4], r"shape \(3,\) and \(4,\)"),
        ([], "expected at least one, got none"),
        ([[1.0, np.nan, 2.0]], "context: expected finite numbers"),
        ([[1.0, 1e39, 2.0]], "context: expected finite numbers in the range of float32"),
        ([["a", "b", "c"]], "context: expected an array of real numbers"),
    ],
)
def test_a_wrong_context_is_said_before_it_is_sent(contexts: Any, expected: str):
    with pytest.raises(ValueError, match=expected):
        asked(config_of(**ROUTE), contexts, None)


def test_contexts_belong_to_routers_and_texts_to_contexts():
    router, other = config_of(**ROUTE), config_of(name="b", generators=["x"], metric="mean")
    assert asked(other, None, None) is None
    for contexts, prompts in (([[1.0]], None), (None, ["a cat"])):
        with pytest.raises(FixError, match="'b' has the goal 'best': an ask has a context only with the goal 'route'"):
            asked(other, contexts, prompts)
    with pytest.raises(
        FixError, match=r"'a' chooses a generator for each prompt: use ask\(context=…\) .* of 3 numbers"
    ):
        asked(router, None, None)
    for prompts in (["a", "b"], "a"):
        with pytest.raises(ValueError, match="prompts: expected a list with a text for each of the 1 contexts"):
            asked(router, [[1.0] * 3], prompts)
