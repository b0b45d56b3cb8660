"""Whatever is wrong in a config, `create_experiment` raises `Fix`, which names the field and what was expected.

Configs of routers, too, and the contexts that asks send.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimist_client import ExperimentConfig, FixError, Optimist, models, tensors
from optimist_client.contexts import asked
from optimist_client.goals import BestRoutes
from optimist_client.metrics import Cosine, Mean, Vendi, WinRate
from tests.support.configs import config_of

VENDI = {"metric": "vendi", "dimension": 4, "kernel": {"name": "gaussian", "sigma": 1.0}}
NUMBERS = ("dimension", "order", "truncation", "delta", "batch_size", "warmup", "rescore_growth", "budget")
NUMBERS += ("max_cost", "seed", "max_wait", "lease", "max_magnitude", "max_batches_per_worker")
TRUTHS = ("stop", "grow", "allow_extra", "keep_log", "refuse_copies", "paired", "weigh_costs")
CHEAPEST = {"goal": "cheapest", "metric": "mean", "costs": {"x": 1, "y": 2}, "dimension": None, "kernel": None}
ROUTED = {"context": 4, "context_features": 64, "context_bandwidth": 1.0, "price": 0.5, "ceiling": 0.5, "tries": 2}
ROUTED |= {"at_least": 0.5}
FID = {"metric": "fid", "dimension": None, "kernel": None}
MIXTURE = {"goal": "mixture"}
DECEIVING = (
    "\x00\x1b\x7f\x80\x85\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u200c\u200d\u2060\u3164\ufe00\ufe0f\ufeff\uffa0\U000e0020\U000e0100\U000e01ef"
)
"""Letters by which a name is shown as another one, or moves a terminal's cursor."""
WRONG: list[tuple[dict[str, Any], str]] = [
    *[({field: "many"}, f"{field}: expected a (whole )?number, got 'many'") for field in NUMBERS],
    *[({field: -1}, rf"{field}: expected (at least|a number above) [\d.e-]+, got -1") for field in NUMBERS],
    *[({field: "maybe"}, f"{field}: expected true or false, got 'maybe'") for field in TRUTHS],
    ({"tolerance": "many"}, "^tolerance: expected a number of at least 0, or a share"),
    ({"name": "a b"}, "name: expected at most 64 letters, digits, .* got 'a b'"),
    ({"name": 5}, "name: expected text, got 5"),
    ({"generators": "ab"}, "generators: expected a list, got 'ab'"),
    ({"generators": None}, "generators: expected a list, got None"),
    ({"generators": []}, "generators: expected at least 1"),
    ({"generators": ["x", "x"]}, "generators: expected distinct names"),
    ({"generators": [1]}, r"generators\.0: expected text, got 1"),
    ({"metric": "kit"}, "unknown metric 'kit': expected one of fid, is,"),
    ({"metric": {"name": "kit"}}, "unknown metric 'kit'"),
    ({"metric": {"name": "fid", "order": 2}}, "metric 'fid' takes reference; it does not take order"),
    ({"metric": 7}, "metric: expected a name, or an object with its name and settings; got 7"),
    ({"metric": Vendi(kernel=Cosine())}, "dimension, kernel: given beside the metric 'vendi', which is an object"),
    ({"metric": Vendi(kernel=Cosine()), "kernel": None, "dimension": None}, "metric 'vendi' needs dimension"),
    ({"truncation": 4, "metric": "rke"}, "metric 'rke' takes dimension, kernel; it does not take truncation"),
    ({"neighbours": 4}, "metric 'vendi' takes dimension, kernel, order, truncation; it does not take neighbours"),
    ({"prompt_dimension": "many", "metric": "conditional-vendi"}, "prompt_dimension: expected a whole number, got 'm"),
    ({"good_enough": 0.1}, "good_enough: only with the goal 'cheapest'; the goal is 'best'"),
    ({"limits": {"vendi": "> 2"}}, "limits: only with the goal 'cheapest'"),
    ({**CHEAPEST, "good_enough": "much"}, "good_enough: expected a number of at least 0, or a share"),
    ({**CHEAPEST, "good_enough": "2%"}, "good_enough: scores of 'mean' may be 0 or negative"),
    ({**CHEAPEST, "limits": {"mean": "near 2"}}, r'limits\.mean: expected a limit such as "within 2% of best".*near 2'),
    ({**CHEAPEST, "limits": {"mean": "within 0.1 of z"}}, r"limits\.mean: no generator is called z"),
    ({**CHEAPEST, "limits": {"fid": "< 2"}}, r"limits\.fid: expected the label of a metric, one of mean"),
    (CHEAPEST, "good_enough, limits: expected one of them; without any the cheapest is known already"),
    (
        {**CHEAPEST, "good_enough": 0.1, "generators": [f"g{n}" for n in range(101)], "costs": {"g0": 1}},
        "generators: limits relative to the best compare all of them with each other; expected at most 100, got 101",
    ),
    ({**CHEAPEST, "good_enough": 0.1, "costs": {}}, "costs: the goal 'cheapest' needs the cost of a sample"),
    ({**CHEAPEST, "good_enough": 0.1, "tolerance": 0.1}, "tolerance: with the goal 'cheapest' good_enough says"),
    ({**CHEAPEST, "good_enough": 0.1, "cost_metric": "kid"}, "cost_metric: expected one of mean; got 'kid'"),
    ({**CHEAPEST, "good_enough": 0.1, "policy": "ucb"}, "the goal 'cheapest' has the policies top-two, uniform"),
    (FID, "metric 'fid' needs reference"),
    ({"kernel": "gaussian"}, r"kernel: expected a kernel with its settings, such as Gaussian\(sigma=10\).* 'gaussian'"),
    ({"kernel": {"name": "rbf"}}, r"kernel\.name: expected 'gaussian', 'nystrom' or 'cosine', got 'rbf'"),
    ({"kernel": {"name": "gaussian"}}, "kernel: the gaussian kernel needs sigma"),
    ({"kernel": {"name": "gaussian", "sigma": -1}}, r"kernel\.sigma: expected at least 1e-29 or 'median', got -1"),
    ({"kernel": {"name": "gaussian", "sigma": 1, "width": 2}}, r"kernel\.width: unknown field"),
    ({"prompt_kernel": "gaussian", "metric": "conditional-vendi"}, "prompt_kernel: expected a kernel"),
    ({"prompts": "a cat"}, "prompts: expected a list, got 'a cat'"),
    ({"seeds": "maybe"}, r"seeds\.bool: expected true or false, got 'maybe'"),
    ({"seeds": {"nobody": False}}, "seeds: no generator is called nobody"),
    ({"note": 5}, "note: expected text, got 5"),
    ({"previews": -1}, "previews: expected at least 0, got -1"),
    ({"previews": 1025}, "previews: expected at most 1,024, got 1025"),
    ({"audit_overlap": 1.5}, "audit_overlap: expected at most 1, got 1.5"),
    ({"label_cost": -1.0}, "label_cost: expected at least 0, got -1.0"),
    ({"max_audits": 22}, "max_audits: expected a multiple of 5, got 22"),
    ({"max_audits": 20}, "max_audits, label_cost: expected a metric with a proxy, a judge that people audit"),
    ({"on_anomaly": "never"}, "on_anomaly: expected 'hold' or 'ignore', got 'never'"),
    ({"prompts_are": "set"}, "prompts_are: expected 'sample' or 'list', got 'set'"),
    ({"prompts_are": "list"}, "prompts"),
    ({"clusters": "worker"}, "clusters: expected .batch., got .worker."),
    ({"embedding": ""}, "embedding: expected text of at least 1"),
    ({"embeddings": "dinov2"}, "embeddings: expected a mapping, got 'dinov2'"),
    ({"embeddings": {"pictures": "dinov2"}}, "embeddings: no metric reads pictures; the metrics read features"),
    ({"embeddings": {"ids": "dinov2"}}, "'ids' names the samples"),
    ({"embeddings": {"features": "a"}, "embedding": "a"}, "embedding, embeddings: expected one of the two"),
    ({"watch": "rke"}, "watch: expected a list, got 'rke'"),
    ({"watch": ["kid"]}, r'watch\.0: expected an object such as {"name": "kid", "reference": "…"}; got \'kid\''),
    ({"watch": [7]}, r'watch\.0: expected an object such as {"name": "fid", "reference": "…"}; got 7'),
    ({"watch": [{"name": "kd"}]}, r"watch\.0: unknown metric 'kd': expected one of fid, is,"),
    ({"watch": [{"name": "rke"}]}, "watch: metric 'rke' needs kernel"),
    ({"watch": [{"name": "fid"}]}, "watch: metric 'fid' needs reference"),
    ({"watch": [{"name": "fid", "reference": "a/b"}]}, "expected the name of an uploaded reference for 'fid'"),
    ({"watch": [{"name": "rke", "kernel": {"name": "gaussian", "sigma": -1}}]}, r"watch\.0: kernel\.sigma: expected"),
    ({"watch": [{"name": "rke", "kernel": {"name": "cosine"}, "reads": "ids"}]}, "'ids' names the samples"),
    ({"watch": [{"name": "rke", "kernel": {"name": "cosine"}, "label": "a b"}]}, "expected at most 64 letters"),
    ({"watch": [Vendi(kernel=Cosine())]}, "watch: expected a label of its own for each metric; vendi is given twice"),
    ({"policy": "best"}, "policy: expected 'top-two', 'ucb'"),
    ({"policy": "ogd"}, "policy: the goal 'best' has the policies top-two, .*, uniform; got 'ogd'"),
    ({"goal": "blend"}, "goal: expected 'best', 'cheapest', 'mixture'.* 'route'.*, got 'blend'"),
    ({"goal": 5}, "goal: expected 'best', 'cheapest', 'mixture'.* 'route'.*, got 5"),
    *[({field: value}, f"^{field}: only with the goal 'route'; the goal is 'best'") for field, value in ROUTED.items()],
    ({"goal": "mixture", "policy": "top-two"}, "policy: the goal 'mixture' has the policies ogd, .*, uniform; got 'to"),
    ({"goal": "mixture", "policy": 5}, "policy: expected 'top-two', 'ucb', .* got 5"),
    ({"goal": "mixture", "policy": "mixture-ucb-cab"}, "published for rke, mmd and cmmd; the metric is 'vendi'"),
    ({"goal": "mixture", "bound": "theorem"}, "bound: the goal 'mixture' has the bound 'influence'; got 'theorem'"),
    ({**MIXTURE, "order": "Infinity"}, "goal: the metric 'vendi', with these settings, has no score of mixtures"),
    ({**MIXTURE, "truncation": 2}, "goal: the metric 'vendi', with these settings, has no score of mixtures"),
    ({**MIXTURE, "metric": "is", "kernel": None}, "'is' has no score of mixtures; those of fid, .*rke.* have one"),
    (
        {**MIXTURE, "prompts": ["a cat"], "prompts_are": "list"},
        "prompts_are: a mixture is scored on .*; expected 'sample'",
    ),
    ({"policy": "fid-ucb"}, "preset 'fid-ucb' is of metric 'fid', not 'vendi'"),
    ({"bound": "chernoff"}, "metric 'vendi' has the bounds influence, theorem; got 'chernoff'"),
    ({"bound": 5}, "bound: expected text, got 5"),
    ({"bound_options": 5}, "bound_options: expected a mapping, got 5"),
    ({"bound_options": {"x": 1}}, r"bound_options\.x: unknown field"),
    ({"costs": 5}, "costs: expected a mapping, got 5"),
    ({"costs": {"z": 1}}, "costs: no generator is called z"),
    ({"max_cost": 5.0}, "max_cost: every generator needs a cost"),
    ({**FID, "reference": "a b"}, "reference: expected the name of an uploaded reference for 'fid', got 'a b'"),
    ({**FID, "reference": np.zeros((1, 4))}, r"reference: .* \(n, d\)"),
    ({**FID, "reference": "nowhere.npz"}, "reference: nowhere.npz: no such"),
    ({"tags": "abc"}, "tags: expected a list, got 'abc'"),
    ({"tags": ["a,b"]}, r"tags\.0: expected text without .*, and without commas, got 'a,b'"),
    ({"tags": [" a"]}, r"tags\.0: expected a tag without white space around it, got ' a'"),
    ({"tags": [""]}, r"tags\.0: expected text of at least 1"),
    ({"tags": [str(number) for number in range(33)]}, "tags: expected at most 32"),
    ({"note": "a" * 10_001}, "note: expected text of at most 10000 characters"),
    ({"note": "a\x00"}, r"note: expected text without control characters, got 'a\\x00'"),
    ({"note": "a\x9b2J"}, r"note: expected text without control characters, got 'a\\x9b2J'"),
    *[
        (given, rf"{field}: expected text without control characters, line separators, invisible .*, got")
        for letter in DECEIVING
        for given, field in (
            ({"generators": ["x", f"x{letter}y"]}, r"generators\.1"),
            ({"embedding": f"x{letter}y"}, "embedding"),
            ({"embeddings": {"features": f"x{letter}y"}}, r"embeddings\.features"),
            ({"tags": [f"x{letter}y"]}, r"tags\.0"),
        )
    ],
    ({"batchsize": 5}, "batchsize: unknown field, did you mean batch_size?"),
]


@pytest.mark.parametrize(("settings", "expected"), WRONG, ids=lambda value: str(value)[:50])
def test_a_wrong_config_is_said_in_words(settings: dict[str, Any], expected: str):
    config = {"name": "a", "generators": ["x", "y"], **VENDI, **settings}
    # Nothing is sent: nobody listens on this port.
    with Optimist("http://127.0.0.1:9", patience=0.0) as optimist, pytest.raises(FixError, match=expected) as refused:
        optimist.create_experiment(**config)
    for raw in ("Value error", "validation error", "pydantic", "Input should", "\n"):
        assert raw not in str(refused.value)


def test_names_of_every_script_are_accepted():
    for name in ("génération", "שלום", "مرحبا", "模型 2", "क्‍ष", "👩‍🎨", "می\u200cخواهم", "a\xa0b"):
        config = config_of(
            name="a", generators=[name], tags=[name], embedding=name, note=f"{name}\r\n\t\u202b{name}\u202c", **VENDI
        )
        assert config.generators == [name]


def test_every_field_of_a_config_has_been_tried():
    tried = {field for settings, _ in WRONG for field in settings}
    assert set(models.ExperimentConfig.model_fields) <= tried


ROUTE: dict[str, Any] = {"name": "a", "generators": ["x", "y"], "metric": "win-rate", "goal": "route", "context": 3}
COSTS = {"x": 1.0, "y": 2.0}
LOWER = Mean(range=(0, 9), higher_is_better=False)
PROMPTWISE: dict[str, Any] = {"policy": "promptwise", "price": 0.1, "costs": COSTS}
BEST: dict[str, Any] = {"goal": "best", "context": None}
WRONG_ROUTERS: list[tuple[dict[str, Any], str]] = [
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
    (
        {"prompts_are": "list"},
        "prompts_are: 'list' needs prompts, in files and arrays those that cluster names",
    ),
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


@pytest.mark.parametrize(("settings", "expected"), WRONG_ROUTERS, ids=lambda value: str(value)[:50])
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
