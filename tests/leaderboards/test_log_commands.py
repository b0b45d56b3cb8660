"""`optimist contrast` and `optimist route` on logs, as a user runs them, and the pages and pictures that they write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from optimist.datasets.logs.reading import answers_in, logs_in, named
from optimist.leaderboards.questions import arrays_of
from optimist.leaderboards.strata import strata_of
from optimist.routing.gain.outcomes import prompts_of
from tests.support.commands import invoked
from tests.support.places import DATA

LM_EVAL, PROMPTFOO = DATA / "logs/lm-eval", DATA / "logs/promptfoo/results.json"


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = invoked("contrast", *arguments, code=code)
    return done.stdout, " ".join(done.stderr.split())


def test_a_folder_of_logs_is_compared():
    lines = run(LM_EVAL, "--filter", "strict-match")[0].splitlines()
    assert lines[0] == "acc; exact_match, strict-match ↑, 95% intervals"
    cells = [cell.strip() for cell in re.split("  +", lines[2])]
    assert (cells[:2], cells[-2:]) == (["large-7b", "0.833 ± 0.112"], ["0.958 ± 0.090", "0.708 ± 0.204"])
    assert lines[-1] == "large-7b is best with 0.833 ± 0.112: better than small-1b by 0.35 (0.17 to 0.53)."
    assert "choose one, as --filter strict-match" in run(LM_EVAL, code=1)[1]


def test_options_of_logs_reach_the_comparison():
    plain = json.loads(run(PROMPTFOO, "--baseline", "small", "--metric", "score", "--json")[0])
    assert (plain["metric"], plain["against"]) == ("score", "small")
    assert {one["model"]: one["verdict"] for one in plain["models"]} == {"large": "better", "small": "base"}
    assert json.loads(run(PROMPTFOO, "--pass", 2, "--json")[0])["metric"] == "pass@2 of pass"
    assert json.loads(run(PROMPTFOO, "--all", 2, "--json", "--prompts-are", "list")[0])["metric"] == "pass^2 of pass"
    assert json.loads(run(LM_EVAL, "--filter", "strict-match", "--micro", "--json")[0])["micro"] is True
    assert "expected one of --pass and --all" in run(PROMPTFOO, "--pass", 2, "--all", 2, code=1)[1]
    assert "expected one of --json, --csv" in run(PROMPTFOO, "--json", "--csv", code=1)[1]
    assert run(PROMPTFOO, "--markdown")[0].startswith("| model | mean ↑ | less large |")
    assert run(PROMPTFOO, "--latex")[0].startswith(r"\begin{tabular}{lrr}")
    assert run(PROMPTFOO, "--csv")[0].splitlines()[0].startswith("model,task,metric,filter,answers")


def test_a_table_without_tasks_is_a_log_where_an_option_of_logs_is_given(tmp_path: Path):
    draw = np.random.default_rng(0).random(60)
    rows = ["model,id,epoch,score"]
    rows += [
        f"{name},{i // 2},{i % 2 + 1},{int(u < skill)}"
        for name, skill in (("a", 0.8), ("b", 0.4))
        for i, u in enumerate(draw)
    ]
    file = tmp_path / "judged.csv"
    file.write_text("\n".join(rows))
    assert "the id '0' is that of line 2, too" in run(file, "--paired", code=1)[1]
    found = json.loads(run(file, "--pass", 2, "--json")[0])
    assert found["metric"] == "pass@2 of score"
    assert run(file, "--markdown")[0].startswith("| model | mean ↑ | less a |")


def test_a_page_has_the_answers_side_by_side_and_a_picture_is_written(tmp_path: Path):
    page, picture = tmp_path / "page.html", tmp_path / "board.svg"
    run(LM_EVAL, "--filter", "strict-match", "--page", page, "--plot", picture)
    text = page.read_text()
    assert "<h1>large-7b is best with" in text
    for shown in ("Questions on which models differ most", "cities: 1<", "City 1 of three?", "Oslo", "small-1b: 0<"):
        assert shown in text
    assert "sums: " in text
    assert "<svg" in picture.read_text()
    assert "expected a file in an existing folder" in run(LM_EVAL, "--page", tmp_path / "no/page.html", code=2)[1]


def test_prompts_of_logs_are_routed():
    answers = named(answers_in(logs_in([PROMPTFOO])))
    seen: list[str] = []

    def embed(prompts: list[str]) -> np.ndarray:
        seen.extend(prompts)
        return np.eye(len(prompts))

    arrays = arrays_of(answers, strata_of(answers, ["score"]), embed)
    assert seen == [f"Twice {number}?" for number in range(10)]
    known = prompts_of(arrays, PROMPTFOO)
    assert known.names == ("large", "small")
    table = dict(zip(seen, arrays["scores"].tolist(), strict=True))
    assert table["Twice 3?"] == [1.0, pytest.approx(0.75)]
    assert np.isnan(table["Twice 7?"][1])
    assert arrays["costs"].tolist() == pytest.approx([0.001, 0.00054])


def test_limits_are_of_samples_and_not_of_logs():
    assert "expected samples or scores, found logs" in run(PROMPTFOO, "--good-enough", "2%", code=1)[1]
