"""How many questions a comparison needs, by a pilot, and that so many tell the difference as often as said."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from optimist.datasets.logs.reading import Answers, answers_in, named
from optimist.datasets.logs.rows import Log, LogRow
from optimist.leaderboards.board import Spec
from optimist.leaderboards.planning import plan_of
from optimist_client.errors import FixError
from tests.support.commands import invoked
from tests.support.places import DATA


def pilot(scores: np.ndarray) -> dict[str, list[Answers]]:
    """The answers (models, questions, epochs)."""
    rows = [
        LogRow(f"model-{at}", "t", f"{question}", {"score": float(value)}, epoch=epoch)
        for (at, question, epoch), value in np.ndenumerate(scores)
    ]
    return named(answers_in([Log(Path("pilot"), lambda texts: rows)]))


def drawn(rng: np.random.Generator, questions: int, epochs: int, shift: float = 0.0) -> np.ndarray:
    """Scores of two models that share what questions are like, (2, questions, epochs)."""
    shared, own = rng.standard_normal((1, questions, 1)), rng.standard_normal((2, questions, 1))
    noise = rng.standard_normal((2, questions, epochs))
    return 2.0 * shared + 0.5 * own + noise + np.array([shift, 0.0])[:, None, None]


def test_as_many_questions_tell_the_difference_as_often_as_said():
    rng = np.random.default_rng(0)
    plan = plan_of(pilot(drawn(rng, 3000, 2)), Spec(), difference=0.2, power=0.8)
    (need,) = plan.needs
    variance, reach = 2 * (0.25 + 0.5), 1.959964 + 0.841621
    assert need.questions == pytest.approx(variance * (reach / 0.2) ** 2 + 5, rel=0.05)
    assert need.unpaired == pytest.approx((variance + 8.0) * (reach / 0.2) ** 2 + 5, rel=0.05)
    assert need.least == pytest.approx(0.5 * (reach / 0.2) ** 2 + 5, rel=0.12)
    told = 0
    for _ in range(4000):
        apart = np.subtract(*drawn(rng, need.questions, 2, shift=0.2)).mean(axis=1)
        error = apart.std(ddof=1) / math.sqrt(need.questions) * math.sqrt(1 + 5 / need.questions)
        told += apart.mean() > 1.959964 * error
    assert told / 4000 == pytest.approx(0.8, abs=0.03)


def test_what_cannot_be_planned_is_refused():
    scores = drawn(np.random.default_rng(0), 20, 1)
    with pytest.raises(FixError, match="--difference 0: expected a number above 0"):
        plan_of(pilot(scores), Spec(), 0.0, 0.8)
    with pytest.raises(FixError, match=r"--power 1\.2: expected a chance"):
        plan_of(pilot(scores), Spec(), 0.1, 1.2)
    with pytest.raises(FixError, match="two or more models"):
        plan_of(pilot(scores[:1]), Spec(), 0.1, 0.8)
    with pytest.raises(FixError, match="at least 2 questions"):
        plan_of(pilot(scores[:, :1]), Spec(), 0.1, 0.8)


def test_the_command_says_it_in_a_sentence():
    log = DATA / "logs/lm-eval"
    lines = invoked("plan", log, "--difference", 0.05, "--filter", "strict-match", code=0).stdout.splitlines()
    assert re.split("  +", lines[1])[:2] == ["large-7b and small-1b", "48"]
    assert " ".join(lines[2:]).startswith(
        "To tell a difference of 0.05 at δ = 0.05 with a chance of 80% takes about 1,000 questions"
    )
    plain = json.loads(invoked("plan", log, "--difference", 0.05, "--filter=strict-match", "--json", code=0).stdout)
    assert plain["needs"][0]["questions"] == int(re.split("  +", lines[1])[2].replace(",", ""))
