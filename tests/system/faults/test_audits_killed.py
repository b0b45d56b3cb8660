"""Four raters and eight generation workers at once, while API processes and the scorer are killed: each answer counts
once, and the estimates are a serial replay's."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean
from tests.support.audited import heard_of, kill_next
from tests.support.processes import Service, serving, until

ANSWERS = 500
GENERATORS = {"ada": 0.05, "bob": 0.0}
METRIC = Mean(reads="human", proxy="judge", range=(-9, 9))
RATERS = ["anna", "ben", "cleo", "dora"]
WORKERS = 8


def quality(generator: str, index: int) -> float:
    """What people say of a sample."""
    return float(np.random.default_rng((index, len(generator))).normal() / 2 + GENERATORS[generator])


def generate(service: Service, worker: str) -> None:
    with Optimist(service.url, patience=120) as client:
        for pick in client.experiment("rated").picks(worker=worker):
            assert pick.start is not None
            rows = [[quality(pick.generator, pick.start + row) + 0.1 * (pick.start % 5)] for row in range(pick.size)]
            pick.tell({"judge": np.array(rows)})


def rate(service: Service, rater: str, heard: list[tuple[str, int]]) -> None:
    """Answer audits until all raters have answered enough of them; every seventh is corrected, every fifth repeated."""
    with Optimist(service.url, patience=120) as client:
        experiment = client.experiment("rated")
        while len(heard) < ANSWERS:
            for audit in experiment.audits(5, rater=rater):
                assert audit.index is not None
                scores = {each: quality(each, audit.index) for each in GENERATORS}
                if audit.index % 7 == 0:
                    experiment.answer(audit, dict.fromkeys(GENERATORS, 1.0), rater=rater)
                for _ in range(2 if audit.index % 5 == 0 else 1):
                    experiment.answer(audit, scores, rater=rater)
                heard.append((audit.audit, audit.index))


def kill_some(service: Service, heard: list[tuple[str, int]]) -> int:
    """Kill a process at every hundredth answer; return how many were killed."""
    killed = 0
    for count in range(60, ANSWERS, 100):
        until(lambda count=count: len(heard) >= count, 300.0)
        killed += kill_next(service, killed)
    return killed


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_no_answer_is_lost_or_counts_twice_though_processes_are_killed(tmp_path: Path):
    heard: list[tuple[str, int]] = []
    with serving(tmp_path / "service", "--workers=3") as service, Optimist(service.url, patience=120) as client:
        budget = 2 * (ANSWERS + 100)
        experiment = client.create_experiment(
            "rated", list(GENERATORS), metric=METRIC, batch_size=5, budget=budget, keep_log=True, stop=False
        )
        with ThreadPoolExecutor(WORKERS + len(RATERS) + 1) as pool:
            killing = pool.submit(kill_some, service, heard)
            working = [pool.submit(generate, service, f"w{number}") for number in range(WORKERS)]
            rating = [pool.submit(rate, service, rater, heard) for rater in RATERS]
            for each in [*working, *rating, killing]:
                each.result()
        assert killing.result() >= 4
        until(lambda: experiment.report().scored)
        check(experiment, heard, tmp_path / "file.zip")


def check(experiment: Experiment, heard: list[tuple[str, int]], path: Path) -> None:
    """Each answer that was acknowledged is there once, and nothing else; estimates are those of the log."""
    audits = Counter(id_ for id_, _ in heard)
    assert len(heard) >= ANSWERS
    assert {*audits.values()} == {1}, "no audit was given to two raters"
    corrected = sum(index % 7 == 0 for _, index in heard)
    for generator, of_people in heard_of(experiment, path).items():
        said = of_people.said
        assert len(said) == len(heard) + corrected, "repeats are no entries"
        newest = {one.index: float(one.score) for one in said}
        assert newest == {index: quality(generator, index) for _, index in heard}
        assert of_people.people == {one.index: float(one.score) for one in said if one.seq <= of_people.until}
        assert len(of_people.people) >= len(newest) - 5
