"""What routing would gain, from files: the numbers, the types of prompt, the command, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist.routing.gain.gain import route_gain, types_of
from optimist.routing.gain.outcomes import ScoredPrompts
from optimist.routing.gain.reports import route_file
from optimist.simulation.laboratory import simulate
from optimist_client import FixError
from optimist_client.rows import Fields
from tests.support.commands import invoked

KINDS = ("python", "java to c++", "sql")
SUCCESS = np.array([[0.95, 0.3], [0.4, 0.9], [0.7, 0.7]])
"""Of two generators on three kinds of task."""
PLAYED = ["simulate", "--goal", "route", "--features"]


def tasks(seed: int, count: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings (m, 16), kinds (m,), and whether each generator succeeds (m, 2)."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(99).standard_normal((3, 16))
    kinds = rng.integers(0, 3, count)
    contexts = centres[kinds] + rng.standard_normal((count, 16))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    return contexts, kinds, (rng.random((count, 2)) < SUCCESS[kinds]).astype(float)


def logged(seed: int, count: int = 800) -> tuple[ScoredPrompts, np.ndarray]:
    """Tasks given to one generator each, by a probability that depends on the prompt; and their kinds."""
    contexts, kinds, scores = tasks(seed, count)
    rng = np.random.default_rng(seed + 1)
    first = np.array([0.3, 0.6, 0.8])[kinds]
    generator = (rng.random(count) >= first).astype(np.int64)
    probability = np.where(generator == 0, first, 1.0 - first)
    rows = np.arange(count)
    return ScoredPrompts(("a", "b"), contexts, rows, generator, scores[rows, generator], probability), kinds


def test_the_gain_of_a_table_is_that_of_the_right_generator():
    contexts, kinds, scores = tasks(0)
    found = route_gain(ScoredPrompts.from_table(contexts, scores, ("a", "b")), features=64)
    true = SUCCESS[kinds, found.routed].mean() - SUCCESS[kinds].mean(0).max()
    assert abs(found.gain - true) < 3.0 * (found.error or 0.0)
    assert 0.1 < (found.lower or 0.0) < true < (found.upper or 0.0)
    assert (found.routed == SUCCESS[kinds].argmax(1))[kinds != 2].mean() > 0.97


@pytest.mark.long
def test_the_gain_of_a_log_allows_for_who_got_which_prompt():
    off, hits = [], 0
    for seed in range(12):
        known, kinds = logged(seed)
        found = route_gain(known, features=64, seed=seed)
        single = SUCCESS[kinds][:, "ab".index(found.best)]
        off.append((found.gain - (SUCCESS[kinds, found.routed] - single).mean()) / found.error)
        hits += abs(off[-1]) < 2.5
    assert hits >= 11
    assert 0.4 < np.sqrt(np.square(off).mean()) < 1.6


@pytest.mark.long
def test_missing_scores_make_the_gain_neither_larger_nor_smaller():
    full, gaps = [], []
    for seed in range(8):
        contexts, _, scores = tasks(seed)
        holes = np.random.default_rng(seed).random(scores.shape) < 0.4
        holes[holes.all(1)] = False
        for found, kept in ((full, scores), (gaps, np.where(holes, np.nan, scores))):
            found.append(route_gain(ScoredPrompts.from_table(contexts, kept), features=64))
    assert {one.basis for one in gaps} == {"scores"}
    assert min(one.lower for one in gaps) > 0.05
    apart = [some.gain - every.gain for some, every in zip(gaps, full, strict=True)]
    error = np.sqrt(np.mean([one.error**2 for one in gaps]) / len(gaps))
    assert abs(np.mean(apart)) < 2.0 * error
    assert all(some.error > every.error for some, every in zip(gaps, full, strict=True))


def apart(seed: int = 0, count: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, generators and scores: one prompt for each, and none of the kind on which "a" is better for "b"."""
    contexts, kinds, _ = tasks(seed, count)
    place = np.array([0, 1, 2])[kinds]
    place[kinds == 2] = np.arange(count)[kinds == 2] % 2
    return contexts, place, np.where(place == 1, 0.7, np.where(kinds == 0, 1.0, 0.0))


@pytest.mark.parametrize("probability", [1.0, np.nan])
def test_without_scores_to_compare_a_gain_is_only_predicted(probability: float):
    contexts, place, scores = apart()
    rows = np.arange(len(place))
    known = ScoredPrompts(("a", "b"), contexts, rows, place, scores, np.full(len(place), probability))
    found = route_gain(known, features=64)
    assert found.basis == "model"
    assert found.gain > 0.0
    assert (found.lower, found.upper) == (None, None)


def test_a_file_without_scores_to_compare_is_refused(tmp_path: Path):
    contexts, place, scores = apart()
    gaps = np.where(place[:, None] == [0, 1], scores[:, None], np.nan)
    with pytest.raises(ValueError, match="what routing gains is not known"):
        route_file(saved(tmp_path / "log.npz", contexts=contexts, scores=gaps), features=64)


def test_a_type_without_known_scores_has_no_winner():
    contexts, kinds, scores = tasks(9, 90)
    scores[kinds == 0] = np.nan
    known = ScoredPrompts.from_table(contexts, scores)
    found = types_of(known, route_gain(known, features=64), count=20)
    assert 3 <= len(found) <= 20
    for kind in found:
        assert (kind.winner is None) == all(score.score is None for score in kind.scores.values())
    assert any(kind.winner is None for kind in found)


def test_prices_send_prompts_to_the_cheap_one():
    contexts, _, scores = tasks(4)
    known = ScoredPrompts.from_table(contexts, scores, ("a", "b"), costs=np.array([10.0, 1.0]))
    free, priced = route_gain(known, features=64), route_gain(known, features=64, price=0.05)
    assert priced.shares["a"] < free.shares["a"]
    assert priced.cost is not None
    assert free.cost is not None
    assert priced.cost < free.cost
    assert route_gain(known, features=64, price=1.0).shares == {"a": 0.0, "b": 1.0}


def test_types_are_the_kinds_and_each_has_its_winner():
    contexts, kinds, scores = tasks(5)
    known = ScoredPrompts.from_table(contexts, scores, ("a", "b"))
    found = types_of(known, route_gain(known, features=64), count=3)
    assert sum(kind.share for kind in found) == pytest.approx(1.0)
    named = {KINDS[kinds[kind.examples[0]]]: kind for kind in found}
    assert len(named) == 3, "each type has another kind as its example"
    assert (named["python"].winner, named["java to c++"].winner) == ("a", "b")
    for kind in found:
        assert len({kinds[place] for place in kind.examples}) == 1
    for kind, one in named.items():
        for name, success in zip("ab", SUCCESS[KINDS.index(kind)], strict=True):
            score = one.scores[name]
            assert score.score is not None
            assert score.error is not None
            assert abs(score.score - success) < 4.0 * score.error + 0.02


def saved(file: Path, **arrays: Any) -> Path:
    np.savez(file, **arrays)
    return file


def test_the_command_prints_the_answer_and_one_document(tmp_path: Path):
    contexts, kinds, scores = tasks(6, 300)
    texts = [f"{KINDS[kind]}: task {place}" for place, kind in enumerate(kinds)]
    file = saved(tmp_path / "log.npz", contexts=contexts, scores=scores, names=["ada", "bob"], prompts=texts)
    shown = invoked("route", file, "--frequencies", "64", "--types", "3", code=0)
    assert "Routing is better than always ada by" in shown.output
    assert "ada" in shown.output
    assert "java to c++" in " ".join(shown.output.split())
    table = shown.output[shown.output.index("prompts such as") : shown.output.index("Prompts would go")].splitlines()
    assert any("winner" in line and "gain of routing" in line for line in table), "headings in one line"
    as_json = invoked("route", file, "--frequencies", "64", "--types", "3", "--json")
    answer = json.loads(as_json.stdout)
    assert answer["generators"] == ["ada", "bob"]
    assert answer["lower"] < answer["gain"] < answer["upper"]
    assert answer["gain"] == pytest.approx(route_file(file, features=64).gain.gain)
    assert len(answer["types"]) == 3


def test_a_log_names_its_generators_by_place_or_by_name(tmp_path: Path):
    known, _ = logged(7, 200)
    rest = {"contexts": known.contexts, "score": known.scores, "probability": known.probability}
    by_place = saved(tmp_path / "places.npz", generator=known.generator, names=["a", "b"], **rest)
    by_name = saved(tmp_path / "names.npz", generator=np.array(["a", "b"])[known.generator], **rest)
    assert route_file(by_place, features=32).to_dict() == route_file(by_name, features=32).to_dict()


CONTEXTS = np.random.default_rng(0).standard_normal((20, 3))
SCORES = np.random.default_rng(1).standard_normal((20, 2))
ONE_EACH = {"generator": np.arange(20) % 2, "score": np.ones(20), "probability": np.full(20, 0.5)}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"scores": SCORES}, "found no contexts"),
        ({"contexts": CONTEXTS}, "found no generator, score, probability"),
        ({"contexts": CONTEXTS, "scores": SCORES[:19]}, r"scores: expected \(prompts, generators\) of 20 prompts"),
        ({"contexts": CONTEXTS, "scores": SCORES[:, 0]}, r"scores: expected numbers \(m, d\)"),
        ({"contexts": CONTEXTS * np.nan, "scores": SCORES}, "contexts: expected finite numbers"),
        ({"contexts": CONTEXTS, "scores": SCORES[:, :1]}, "at least 2 generators"),
        ({"contexts": CONTEXTS, "scores": SCORES, "names": ["a"]}, "names: expected one for each of the 2 columns"),
        ({"contexts": CONTEXTS, "scores": SCORES, "costs": np.ones(3)}, "costs: expected one for each of the 2"),
        ({"contexts": CONTEXTS, "scores": SCORES, "prompts": ["a"]}, "prompts: expected 20 texts"),
        ({"contexts": CONTEXTS, "scores": SCORES, "names": ["a", "a"]}, "names: expected different ones"),
        ({"contexts": CONTEXTS, "scores": SCORES, "costs": [1.0, np.nan]}, "costs: expected finite numbers"),
        ({"contexts": CONTEXTS, "scores": np.array([1.0, np.nan]) * SCORES}, "no scores of generator-1"),
        ({"contexts": CONTEXTS[:5], "scores": SCORES[:5]}, "at least 10 prompts"),
        ({"contexts": CONTEXTS, **ONE_EACH, "probability": np.zeros(20)}, "probability: expected numbers above 0"),
        ({"contexts": CONTEXTS, **ONE_EACH, "score": np.ones(3)}, "score: expected 20 numbers"),
        ({"contexts": CONTEXTS, **ONE_EACH, "names": ["a"]}, "generator: expected indices from 0 to 0"),
        ({"contexts": np.ones((20, 3)), "scores": SCORES}, "at least half of all pairs are equal"),
    ],
)
def test_what_does_not_fit_is_said_in_words(tmp_path: Path, arrays: dict[str, Any], expected: str):
    with pytest.raises(ValueError, match=expected):
        route_file(saved(tmp_path / "log.npz", **arrays))


def test_a_file_that_is_none_and_a_price_without_costs(tmp_path: Path):
    (tmp_path / "text.npz").write_text("no arrays")
    np.save(tmp_path / "one.npy", SCORES)
    wrong = {"text.npz": "several arrays", "one.npy": "expected a file ending in .npz", "none.npz": "No such file"}
    for name, expected in wrong.items():
        with pytest.raises(ValueError, match=expected):
            route_file(tmp_path / name)
    file = saved(tmp_path / "log.npz", contexts=CONTEXTS, scores=SCORES)
    with pytest.raises(ValueError, match="has no array `costs`"):
        route_file(file, price=1.0)


@pytest.mark.long
def test_policies_are_played_on_a_file(tmp_path: Path):
    contexts, _, scores = tasks(8, 300)
    file = saved(tmp_path / "log.npz", contexts=contexts, scores=scores, names=["ada", "bob"])
    command = [*PLAYED, file, "--trials", "1", "--json"]
    shown = invoked(*command, code=0)
    answer = json.loads(shown.stdout)
    rows, answer = {row["policy"]: row for row in answer}, answer[0]
    assert set(rows) == {"optimistic", "rff-ucb", "uniform", "best-single"}
    assert rows["best-single"]["mean"] == pytest.approx(answer["best"]) == pytest.approx(scores.mean(0).max())
    assert answer["ideal"] == pytest.approx(scores.max(1).mean())
    assert rows["optimistic"]["mean"] > answer["best"] + 0.04 > rows["uniform"]["mean"]
    assert sum(rows["optimistic"]["shares"].values()) == pytest.approx(1.0)
    again = invoked(*command)
    assert again.stdout == shown.stdout


@pytest.mark.long
def test_prices_and_tries_are_played(tmp_path: Path):
    contexts, kinds, _ = tasks(8, 300)
    file = saved(tmp_path / "log.npz", contexts=contexts, scores=SUCCESS[kinds], names=["ada", "bob"], costs=[4.0, 1.0])
    command = [*PLAYED, file, "--trials", "1", "--price", "0.05", "--tries", "3"]
    command += ["--policy", "best-single"]
    shown = invoked(*command)
    played = invoked(*command, "--policy", "optimistic", "--policy", "promptwise", "--json")
    assert shown.exit_code == 0, shown.output
    listed = json.loads(played.stdout)
    rows, answer = {row["policy"]: row for row in listed}, listed[0]
    q, costs = SUCCESS[kinds], np.array([4.0, 1.0])
    calls = (1.0 - (1.0 - q) ** 3) / q
    worth = 1.0 - (1.0 - q) ** 3 - 0.05 * calls * costs
    assert answer["best"] == pytest.approx(worth.mean(0).max())
    assert answer["ideal"] == pytest.approx(worth.max(1).mean())
    assert answer["dearest_cost"] == pytest.approx(4.0 * calls[:, 0].mean())
    assert rows["best-single"]["saved"] == pytest.approx(0.0)
    for row in rows.values():
        assert row["saved_dearest"] == pytest.approx(answer["dearest_cost"] - row["cost"])
        assert row["mean"] <= answer["ideal"] + 1e-9
    assert "with the dearest" in " ".join(shown.output.split())
    numbers = saved(tmp_path / "numbers.npz", contexts=CONTEXTS, scores=SCORES)
    for options, expected in ((["--tries", "2"], "scores from 0 to 1"), (["--price", "1"], "there are none")):
        wrong = invoked(*PLAYED, numbers, *options)
        assert expected in " ".join(wrong.output.replace("│", " ").split())


@pytest.mark.long
def test_a_budget_is_kept_on_a_file(tmp_path: Path):
    contexts, _, scores = tasks(8, 400)
    arrays = {"contexts": contexts, "scores": scores, "names": ["ada", "bob"], "costs": [4.0, 1.0]}
    file = saved(tmp_path / "log.npz", **arrays)
    # Half of the prompts cost 4: at that ceiling routing is worth what it is worth without one.
    free, kept = route_file(file, features=64), route_file(file, ceiling=2.0, features=64)
    assert kept.gain.cost is not None
    assert free.gain.cost is not None
    assert kept.gain.cost <= 2.0 < free.gain.cost
    assert kept.gain.price > 0.0 == route_file(file, ceiling=3.9, features=64).gain.price
    share = route_file(file, at_least=1.0, features=64)
    assert share.gain.price > 0.0
    single = share.gain.predicted.mean(0).max()
    routed = share.gain.predicted[np.arange(400), share.gain.routed].mean()
    assert single - 1e-9 <= routed < single + 0.005
    assert share.gain.cost is not None
    assert share.gain.cost < kept.gain.cost
    for command in (["route", file], [*PLAYED, file, "--trials", "1"]):
        shown = invoked(*command, "--ceiling", "2", code=0)
        said = " ".join(shown.output.split())
        assert ("To keep the budget" if command[0] == "route" else "Best fixed mixture at a mean cost of 2: ") in said


@pytest.mark.long
def test_a_ceiling_is_kept_where_policies_are_played(tmp_path: Path):
    contexts, _, scores = tasks(8, 300)
    known = ScoredPrompts.from_table(contexts, scores, ["ada", "bob"], np.array([4.0, 1.0]))
    found = simulate(known, goal="route", policies=["optimistic", "uniform"], trials=1, ceiling=2.0)
    ours, uniform = found.summaries
    assert ours["cost"] == pytest.approx(2.0, rel=0.05)
    assert uniform["cost"] == pytest.approx(2.5, rel=0.05)
    means = scores.mean(0)
    # A third of the prompts to "ada".
    mixture = found.judge.mixture
    assert mixture == pytest.approx(max(means[1], (2.0 * means[1] + means[0]) / 3.0))
    assert ours["mean"] > mixture
    with pytest.raises(FixError, match="expected one of the policies optimistic, ucb, greedy, which keep a budget"):
        simulate(known, goal="route", policies="uniform", ceiling=2.0)


NO_COSTS = "ceiling, at_least: expected a cost of each generator, and there are none"
WRONG_BUDGETS = [
    (["--ceiling", "2"], NO_COSTS),
    (["--at-least", "0.9"], NO_COSTS),
    (["--ceiling", "2", "--at-least", "0.9"], "ceiling, at_least: expected one of them"),
    (["--at-least", "1.5"], "at_least: expected a part of the best single generator's mean"),
]


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        *((command, *wrong) for command in (["route"], PLAYED) for wrong in WRONG_BUDGETS),
        (PLAYED, ["--policy", "best"], "policy 'best': expected one of optimistic, "),
        (PLAYED, ["--metric", "fid"], "metric: the goal 'route' takes at_least, ceiling, price, tries"),
        (PLAYED, ["--csv", "/none/there.csv"], "expected a file in an existing folder"),
        (PLAYED, [], "some are missing"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(tmp_path: Path, command: list[str], options: list[str], expected: str):
    scores = SCORES.copy()
    if not options:
        scores[3, 1] = np.nan
    shown = invoked(*command, saved(tmp_path / "log.npz", contexts=CONTEXTS, scores=scores), *options)
    assert shown.exit_code != 0
    assert expected in " ".join(shown.output.replace("│", " ").split())


def test_a_budget_that_costs_or_scores_do_not_fit_is_said_in_words():
    known = ScoredPrompts.from_table(CONTEXTS, SCORES - 5.0, ["ada", "bob"], np.array([4.0, 1.0]))
    with pytest.raises(FixError, match="ceiling: expected at least 1, what the cheapest generator costs; got 0"):
        known.costs_of_budget(0.5, None)
    with pytest.raises(FixError, match="at_least: is a part of scores that are never negative; found -"):
        known.costs_of_budget(None, 0.9)


def rows_of(contexts: np.ndarray, kinds: np.ndarray, scores: np.ndarray, name: str) -> list[dict[str, Any]]:
    column = ["ada", "bob"].index(name)
    return [
        {
            "id": place,
            "prompt": KINDS[kinds[place]] + f" {place}",
            "context": contexts[place].tolist(),
            "score": scores[place, column],
            "cost": 1.0 + column,
        }
        for place in range(len(kinds))
    ]


def test_rows_of_one_or_several_files_are_read_as_arrays_are(tmp_path: Path):
    contexts, kinds, scores = tasks(6, 120)
    texts = [f"{KINDS[kind]} {place}" for place, kind in enumerate(kinds)]
    arrays = {"contexts": contexts, "scores": scores, "names": ["ada", "bob"], "prompts": texts, "costs": [1.0, 2.0]}
    wanted = route_file(saved(tmp_path / "log.npz", **arrays), features=64, price=0.01).to_dict()
    every: list[dict[str, Any]] = []
    for name in ("ada", "bob"):
        rows = rows_of(contexts, kinds, scores, name)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        every += [{"generator": name, **row} for row in rows]
    separate = route_file(tmp_path / "ada.jsonl", tmp_path / "bob.jsonl", features=64, price=0.01)
    assert separate.to_dict() == wanted
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, every)))
    assert route_file(tmp_path / "log.jsonl", features=64, price=0.01).to_dict() == wanted
    with (tmp_path / "wide.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt", "context", "ada", "bob"])
        writer.writerows(zip(texts, map(json.dumps, contexts.tolist()), *scores.T.tolist(), strict=True))
    wide = route_file(tmp_path / "wide.csv", fields=Fields(field="ada,bob"), features=64).to_dict()
    assert wide["gain"] == route_file(tmp_path / "log.npz", features=64).gain.gain


def test_prompts_are_embedded_where_rows_have_no_contexts(tmp_path: Path):
    contexts, kinds, scores = tasks(6, 60)
    known = {f"{KINDS[kind]} {place}": contexts[place] for place, kind in enumerate(kinds)}
    for column, name in enumerate(("ada", "bob")):
        rows = [{"task": text, "score": scores[place, column]} for place, text in enumerate(known)]
        # Rows of the same prompt belong together, in whatever order.
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows[:: 1 - 2 * column])))
    files = [tmp_path / "ada.jsonl", tmp_path / "bob.jsonl"]
    found = route_file(*files, fields=Fields(prompt="task"), embed=lambda texts: np.stack([known[t] for t in texts]))
    arrays = {"contexts": contexts, "scores": scores, "names": ["ada", "bob"], "prompts": [*known]}
    assert found.to_dict() == route_file(saved(tmp_path / "log.npz", **arrays)).to_dict()
    with pytest.raises(FixError, match=r"ada\.jsonl: expected a field id or prompt by which rows belong together"):
        route_file(*files)
    with pytest.raises(FixError, match=r"ada\.jsonl: expected a field 'generator', a file for each generator, or sev"):
        route_file(files[0])


@pytest.mark.parametrize("share", ["0.95", pytest.param("0.8", marks=pytest.mark.long), "1.0"])
def test_where_the_cheap_generator_keeps_the_share_alone_there_is_nothing_to_route(tmp_path: Path, share: str):
    contexts, _, scores = tasks(0)
    scores[:, 1] = np.maximum(scores[:, 0], scores[:, 1])  # cheaper, and never worse
    file = tmp_path / "tasks.npz"
    np.savez(file, contexts=contexts, scores=scores, names=["large", "small"], costs=[3.0, 1.0])
    said = invoked("route", str(file), "--at-least", share).stdout
    assert f"small alone keeps {float(share):.0%} of the best single score: there is nothing to route." in said
    assert "Prompts would go to: 0% large, 100% small." in said
    assert "Mean cost of a prompt: 1 routed, 1 by the best alone." in said


def test_why_a_gain_is_not_known(tmp_path: Path):
    contexts, kinds, scores = tasks(0)
    scores[np.arange(500), 1 - SUCCESS[kinds].argmax(1)] = np.nan  # each prompt has the score of its winner alone
    file = tmp_path / "tasks.npz"
    np.savez(file, contexts=contexts, scores=scores, names=["a", "b"])
    with pytest.raises(FixError, match=r"too few of the \d+ prompts that would go to another generator than \w have"):
        route_file(file)
