"""Models by tasks: means and differences are numpy's, errors statsmodels', and what is said of missing scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist.datasets.logs.reading import Answers, answers_in, logs_in, named
from optimist.datasets.logs.rows import Log, LogRow
from optimist.leaderboards.board import Board, Cell, Spec, board_of
from optimist.leaderboards.texts import as_csv, as_dict, latex, markdown, sentence, tables
from optimist_client.errors import FixError
from tests.support.places import DATA

LOGS = DATA / "logs"


def answers(*paths: Path) -> dict[str, list[Answers]]:
    return named(answers_in(logs_in(paths)))


def of_rows(rows: Sequence[LogRow], **log: Any) -> dict[str, list[Answers]]:
    return named(answers_in([Log(Path("made"), lambda texts: rows, **log)]))


def made(scores: Mapping[str, Mapping[str, np.ndarray]]) -> list[LogRow]:
    """Rows of scores (questions, epochs) by model and task; NaN: the answer failed."""
    return [
        LogRow(model, task, f"{question}", {} if math.isnan(value) else {"right": float(value)}, epoch=epoch)
        for model, tasks in scores.items()
        for task, values in tasks.items()
        for question, own in enumerate(values)
        for epoch, value in enumerate(own, 1)
    ]


def cell(board: Board, model: str, task: str | None = None) -> Cell:
    (one,) = (one for one in board.standings if one.model == model)
    return one.overall if task is None else one.tasks[task]


def test_differences_and_errors_are_those_of_numpy_for_each_task_and_their_macro_mean():
    files = {name: [*(LOGS / f"lm-eval/acme__{name}").glob("samples*")] for name in ("large-7b", "small-1b")}
    values: dict[str, list[list[float]]] = {"cities": [], "sums": []}
    for task, metric, of in (("cities", "acc", "none"), ("sums", "exact_match", "strict-match")):
        for own in files.values():
            (file,) = (one for one in own if task in one.name)
            samples = [json.loads(line) for line in file.read_text().splitlines()]
            values[task].append([one[metric] for one in samples if one["filter"] == of])
    board = board_of(answers(LOGS / "lm-eval"), Spec(filter="strict-match"))
    apart = {task: np.array(small) - np.array(large) for task, (large, small) in values.items()}
    for task, differences in apart.items():
        difference = cell(board, "small-1b", task).difference
        assert difference is not None
        assert difference.value == pytest.approx(differences.mean(), abs=1e-9)
        assert difference.standard_error == pytest.approx(differences.std(ddof=1) / math.sqrt(24), abs=1e-9)
        mean = cell(board, "large-7b", task).mean
        assert mean.value == pytest.approx(np.mean(values[task][0]), abs=1e-9)
        assert mean.standard_error == pytest.approx(np.std(values[task][0], ddof=1) / math.sqrt(24), abs=1e-9)
    overall = cell(board, "small-1b").difference
    assert overall is not None
    assert overall.value == pytest.approx(np.mean([one.mean() for one in apart.values()]), abs=1e-9)
    variance = sum(one.var(ddof=1) / 24 for one in apart.values()) / 4
    assert overall.standard_error == pytest.approx(math.sqrt(variance), abs=1e-9)
    micro = cell(board_of(answers(LOGS / "lm-eval"), Spec(filter="strict-match", micro=True)), "small-1b").difference
    together = np.concatenate([*apart.values()])
    assert micro is not None
    assert micro.value == pytest.approx(together.mean(), abs=1e-9)
    assert micro.standard_error == pytest.approx(together.std(ddof=1) / math.sqrt(48), abs=1e-9)


@pytest.mark.parametrize("metric", ["pass", "score", "brevity"])
def test_errors_with_epochs_are_the_cluster_robust_ones_of_statsmodels(metric: str):
    """Also where some answers are missing; the numbers are made by `make_errors.py` beside the logs."""
    expected = json.loads((LOGS / "errors.json").read_text())[metric]
    board = board_of(answers(LOGS / "promptfoo"), Spec((metric,), baseline="large"))
    for name, (mean, error) in expected["means"].items():
        found = cell(board, name).mean
        assert (found.value, found.standard_error) == (pytest.approx(mean, abs=1e-9), pytest.approx(error, abs=1e-9))
    apart = cell(board, "small").difference
    assert apart is not None
    assert [apart.value, apart.standard_error] == pytest.approx(expected["small less large"], abs=1e-9)


def test_several_answers_are_right_as_often_as_subsets_of_them():
    draw = np.random.default_rng(3)
    scores = {name: {"t": (draw.random((30, 5)) < skill).astype(float)} for name, skill in {"a": 0.7, "b": 0.4}.items()}
    for of, count in (("pass", any), ("all", all)):
        board = board_of(of_rows(made(scores)), Spec(several=(of, 3)))
        for name, tasks in scores.items():
            every = [np.mean([count(own[[*chosen]]) for chosen in combinations(range(5), 3)]) for own in tasks["t"]]
            found = cell(board, name).mean
            assert found.value == pytest.approx(np.mean(every), abs=1e-9)
            assert found.standard_error == pytest.approx(np.std(every, ddof=1) / math.sqrt(30), abs=1e-9)
    with pytest.raises(FixError, match="--pass 6 needs 6 answers to a question, found at most 5"):
        board_of(of_rows(made(scores)), Spec(several=("pass", 6)))
    with pytest.raises(FixError, match=r"right \(1\) or not \(0\), found 0.5"):
        board_of(
            of_rows(made({"a": {"t": np.full((4, 2), 0.5)}, "b": {"t": np.ones((4, 2))}})),
            Spec(several=("all", 2)),
        )


def test_the_answer_at_both_extremes_says_where_missing_scores_decide():
    draw = np.random.default_rng(1)
    luck = draw.random((100, 1))
    scores = {"a": {"t": (luck < 0.7).astype(float)}, "b": {"t": (luck < 0.5).astype(float)}}
    scores["b"]["t"][luck[:, 0] > 0.75] = np.nan
    board = board_of(of_rows(made(scores)), Spec())
    missing = int((luck > 0.75).sum())
    assert (cell(board, "a").missing, cell(board, "b").missing) == (0, missing)
    low, high = board.extremes
    filled = {end: np.nan_to_num(scores["b"]["t"], nan=end).mean() for end in (0.0, 1.0)}
    assert (low.means["b"], high.means["b"]) == (pytest.approx(filled[0.0]), pytest.approx(filled[1.0]))
    assert (low.best, high.best) == ("a", "b" if filled[1.0] > scores["a"]["t"].mean() else "a")
    assert "With all missing scores at" in sentence(board)
    # A question that only one model has is missing, too.
    rows = [row for row in made(scores) if not (row.model == "a" and int(row.id) < 5)]
    assert cell(board_of(of_rows(rows), Spec()), "a").missing == 5
    # What was left out on purpose is not.
    skipped = frozenset((f"{number}", 1) for number in range(5))
    assert cell(board_of(of_rows(rows, skipped=skipped), Spec()), "a").missing == 0


def test_filters_are_different_scores_of_which_one_is_chosen():
    known = answers(LOGS / "lm-eval")
    with pytest.raises(FixError, match="exact_match by strict-match or flexible-extract: choose one, as --filter"):
        board_of(known, Spec())
    with pytest.raises(FixError, match="not loose"):
        board_of(known, Spec(filter="loose"))
    with pytest.raises(FixError, match="no such metric in these logs; there are acc, acc_norm, exact_match"):
        board_of(known, Spec(("f1",)))
    with pytest.raises(FixError, match="no such model; there are large-7b, small-1b"):
        board_of(known, Spec(filter="strict-match", baseline="gpt"))
    board = board_of(known, Spec(filter="strict-match"))
    assert [*board.others] == ["acc_norm", "exact_match, flexible-extract"]


def test_equal_scores_are_no_proof_and_a_close_rival_takes_more_questions():
    same = np.ones((20, 1))
    board = board_of(of_rows(made({"a": {"t": same}, "b": {"t": same}})), Spec())
    assert {one.model: one.verdict for one in board.standings} == {"a": "base", "b": "close"}
    draw = np.random.default_rng(0)
    luck = draw.random((200, 1))
    noise = draw.random((200, 1)) < 0.15
    scores = {"a": {"t": (luck < 0.6) * 1.0}, "b": {"t": ((luck < 0.57) ^ noise) * 1.0}}
    board = board_of(of_rows(made(scores)), Spec())
    assert board.more is not None
    model, needed, _ = board.more
    assert needed is not None
    apart = cell(board, model).difference
    assert apart is not None
    assert (apart.value / apart.stopping_error) ** 2 * (200 + needed) / 200 == pytest.approx(1.96**2, rel=0.02)
    assert "more questions would tell" in sentence(board)


def test_lower_may_be_better_and_directions_are_not_mixed():
    draw = np.random.default_rng(0).random((50, 1))
    rows = made({"a": {"t": draw}, "b": {"t": draw + 1.0}})
    board = board_of(of_rows(rows, lower_is_better=frozenset({"right"})), Spec())
    assert (board.best, cell(board, "b").is_tied) == ("a", False)
    assert "mean ↓" in markdown(board)
    assert board_of(of_rows(rows), Spec()).best == "b"


def test_tables_for_papers_have_differences_directions_and_bold_ties():
    board = board_of(answers(LOGS / "lm-eval"), Spec(filter="strict-match"))
    head, _, first, second, *_ = markdown(board).splitlines()
    assert head == "| model | cities ↑ | sums ↑ | mean ↑ | less large-7b |"
    assert first.startswith("| large-7b | **0.958 ± 0.090** | **0.708 ± 0.204** | **0.833 ± 0.112** | – |")
    assert second == "| small-1b | 0.417 ± 0.221 | **0.542 ± 0.224** | 0.479 ± 0.157 | -0.35 (-0.53 to -0.17) |"
    assert r"small-1b & 0.417 $\pm$ 0.221 & \textbf{0.542 $\pm$ 0.224}" in latex(board)
    assert r"model & cities $\uparrow$ & sums $\uparrow$ & mean $\uparrow$ & less large-7b \\" in latex(board)


def test_json_and_csv_have_the_same_numbers():
    board = board_of(answers(LOGS / "promptfoo"), Spec())
    plain = json.loads(json.dumps(as_dict(board), allow_nan=False))
    lines = as_csv(board).splitlines()
    assert len(lines) == 1 + len(plain["scores"]) == 5
    assert plain["answer"].startswith("large is best with 1.000 ± 0.196: better than small by 0.44 (0.21 to 0.68).")
    assert [one["missing_at"] for one in plain["extremes"]] == [0.0, 1.0]
    assert lines[3].split(",")[7] == f"{plain['scores'][2]['mean']!r}"
    assert tables(board)[1].title == "Missing scores"


def test_a_list_of_questions_has_only_the_chance_within_them():
    draw = np.random.default_rng(0)
    skills = draw.random((60, 1))
    scores = {
        name: {"t": (draw.random((60, 4)) < np.clip(skills + shift, 0, 1)).astype(float)}
        for name, shift in {"a": 0.1, "b": 0.0}.items()
    }
    errors = [
        cell(board_of(of_rows(made(scores)), Spec(kind=kind)), "a").mean.standard_error for kind in ("sample", "list")
    ]
    within = scores["a"]["t"].var(axis=1, ddof=1).mean() / 240
    assert errors[1] == pytest.approx(math.sqrt(within), rel=1e-9)
    assert errors[1] < 0.8 * errors[0]
