"""`optimist.run`: what `experiment.run` does, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import optimist
from optimist import Evaluation
from optimist.local.run import LocalService
from optimist.metrics.bound import InfluenceBound
from optimist_client import FixError, GeneratorError
from optimist_client.metrics import KID, Mean
from optimist_client.models import AskReply
from tests.support.reports import unwrapped

REAL = np.random.default_rng(0).standard_normal((400, 4))


def model(mean: float):
    def sample(size: int, seeds: list[int]) -> np.ndarray:
        assert len(seeds) == size
        return np.stack([np.random.default_rng(seed).normal(mean, 1.0, 4) for seed in seeds])

    return sample


MODELS = {"good": model(0.0), "bad": model(0.7)}


@pytest.mark.parametrize("workers", [1, 3])
def test_it_decides_and_returns_the_report_of_a_service(workers: int):
    report = optimist.run(MODELS, lambda rows: rows + 0.0, reference=REAL, watch=[KID(reference=REAL)], workers=workers)
    assert report.decision.decided
    assert (report.decision.best, report.state, report.open_picks) == ("good", "decided", 0)
    assert report.watched["kid"].best == "good"


def test_a_decision_that_a_later_batch_overturns_ends_no_other_worker(monkeypatch: pytest.MonkeyPatch):
    ask, answers = LocalService.ask, list[AskReply]()

    def ended_at_first(self: LocalService, worker: str | None, generators: Any) -> AskReply:
        reply = ask(self, worker, generators)
        answers.append(reply if answers else reply.model_copy(update={"picks": [], "ended": True, "retry_after": None}))
        return answers[-1]

    monkeypatch.setattr(LocalService, "ask", ended_at_first)
    report = optimist.run(MODELS, reference=REAL, workers=2, max_samples=40, stop=False)
    assert (answers[0].ended, report.samples, report.open_picks) == (True, 40, 1)
    assert len(answers) < 40


def test_it_continues_an_evaluation_and_keeps_its_indices(tmp_path: Any):
    evaluation = optimist.Evaluation([*MODELS], reference=REAL, tolerance=0.01)
    first = optimist.run(MODELS, evaluation=evaluation, max_samples=15)
    assert (first.samples, first.decision.decided) == (15, False)
    evaluation.save(tmp_path / "e.npz")
    again = optimist.run(MODELS, evaluation=optimist.Evaluation.load(tmp_path / "e.npz"), name="again")
    assert again == optimist.run(MODELS, evaluation=evaluation, name="again")
    assert again == optimist.run(MODELS, reference=REAL, tolerance=0.01, name="again")  # in one go
    with pytest.raises(ValueError, match="reference: the evaluation brings its own settings"):
        optimist.run(MODELS, evaluation=evaluation, reference=REAL)


def test_budgets_prompts_and_the_seed_of_each_sample():
    seen: dict[str, list[tuple[str, int]]] = {"a": [], "b": []}

    def answers(name: str):
        def answer(size: int, seed: int, prompts: list[str], *, seeds: list[int]) -> np.ndarray:
            assert (seeds[0], len(seeds)) == (seed, size)
            seen[name] += zip(prompts, seeds, strict=True)
            return np.random.default_rng(seed).standard_normal((size, 3))

        return answer

    kernel = {"sigma": 1.0, "features": 8}
    asked = {"metric": "rke", "kernel": kernel, "prompts": ["p", "q", "r"], "budget": 23, "dimension": 3}
    report = optimist.run({name: answers(name) for name in seen}, **asked)
    assert (report.samples, report.state, report.budget) == (23, "out of budget", 23)
    assert len(seen["a"]) + len(seen["b"]) == 23
    common = min(map(len, seen.values()))
    assert seen["a"][:common] == seen["b"][:common]


def test_wrong_functions_batches_and_names():
    def fails(size: int, seed: int) -> np.ndarray:
        raise RuntimeError("no memory")

    with pytest.raises(GeneratorError, match="generator 'bad': generating raised RuntimeError: no memory"):
        optimist.run({**MODELS, "bad": fails}, reference=REAL)
    with pytest.raises(FixError, match="expected 5 rows, got 6"):
        optimist.run(dict.fromkeys("ab", lambda size, seed: np.zeros((6, 4))), reference=REAL)
    with pytest.raises(FixError, match=r"expected shape \(n, 4\)"):
        optimist.run(dict.fromkeys("ab", lambda size, seed: np.zeros((5, 3))), reference=REAL)
    with pytest.raises(FixError, match="expected two or more to compare, got 1"):
        optimist.run({"a": model(0.0)}, reference=REAL)
    with pytest.raises(ValueError, match="generators: expected functions by the names"):
        optimist.run([model(0.0)], reference=REAL)  # pyright: ignore[reportArgumentType]


def scores(*wrong: object):
    """A generator of scores whose calls first return these, or raise them; None: as it should."""
    left = list(wrong)

    def generate(size: int, seed: int) -> Any:
        made = [float(score) for score in np.random.default_rng(seed).random(size)]
        this = left.pop(0) if left else None
        if isinstance(this, Exception):
            raise this
        return made if this is None else this(made)

    return generate


def lost(made: list[float]) -> list[Any]:
    return [*made[:-1], None]


def test_one_failure_or_missing_score_of_each_generator_costs_a_batch():
    broken = {"a": scores(None, TimeoutError("503")), "b": scores(lost)}
    report = optimist.run(broken, metric="mean", max_samples=60)
    assert report.samples == 60
    assert report.open_picks == 0
    assert {one.generator: one.text for one in report.failures} == {
        "a": "1 batch of a (5 samples) failed and was given up, TimeoutError: 503",
        "b": "1 batch of b (5 samples) failed and was given up, ValueError: 1 of 5 rows has None or NaN",
    }
    assert "Warning: 1 batch of a (5 samples) failed" in unwrapped(report)


def test_what_failed_is_asked_for_again_as_it_was():
    asked, answers = list[tuple[int, int]](), scores(None, TimeoutError("503"))

    def sample(size: int, seed: int) -> Any:
        asked.append((size, seed))
        return answers(size, seed)

    optimist.run({"a": sample, "b": scores()}, metric="mean", max_samples=60, stop=False)
    assert {size for size, _ in asked} == {5}
    assert [asked.count(batch) for batch in asked[:3]] == [1, 2, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda made: None, r"generator 'a': generating raised ValueError: it returned None, not samples \(pick \d+"),
        (lambda made: [np.nan, *made[1:-1], np.nan], "'a': generating raised ValueError: 2 of 5 rows have None or NaN"),
        (lambda made: {"scores": lost(made)}, "1 of 5 rows of scores has None or NaN"),
    ],
)
def test_none_and_nan_name_the_generator_and_the_pick(wrong: Any, said: str):
    with pytest.raises(GeneratorError, match=said):
        optimist.run({"a": scores(wrong), "b": scores()}, metric="mean", max_samples=60, catch=())


def test_more_failures_than_may_be_end_a_run():
    error = TimeoutError("503")
    with pytest.raises(GeneratorError, match=r"503 \(pick .*2 of its 2 batches failed, by default 1 or 1% may: catch="):
        optimist.run({"a": scores(error, error), "b": scores()}, metric="mean", max_samples=60)
    some = {"a": scores(error, error, None, error), "b": scores()}
    report = optimist.run(some, metric="mean", max_samples=60, catch=(TimeoutError,))
    assert [(one.batches, one.samples) for one in report.failures] == [(3, 15)]
    assert "3 batches of a (15 samples) failed and were given up, the last with TimeoutError: 503" in unwrapped(report)
    with pytest.raises(GeneratorError, match="generating raised TimeoutError"):
        optimist.run({"a": scores(error), "b": scores()}, metric="mean", max_samples=60, catch=ZeroDivisionError)
    with pytest.raises(GeneratorError, match="10 batches failed one after the other"):
        optimist.run({"a": scores(*[error] * 20), "b": scores()}, metric="mean", catch=TimeoutError)
    with pytest.raises(FixError, match="catch: expected classes of exceptions"):
        optimist.run(MODELS, reference=REAL, catch="TimeoutError")  # pyright: ignore[reportArgumentType]


def test_callbacks_see_the_reports_and_a_timeout_ends_the_run():
    seen: list[int] = []

    def slow(size: int, seed: int) -> np.ndarray:
        time.sleep(0.05)
        return np.random.default_rng(seed).standard_normal((size, 4))

    same = {"a": slow, "b": slow}
    report = optimist.run(same, reference=REAL, timeout=0.3, callbacks=[lambda report: seen.append(report.samples)])
    assert not report.ended
    assert 0 < report.samples < 100
    assert seen[-1] == report.samples


def test_workers_have_picks_of_their_own():
    service = LocalService(Evaluation(["a", "b"], metric=Mean(), paired=False), "x")
    picks = {worker: service.ask(worker, None).picks[0] for worker in "uvw"}
    assert [pick.number for pick in picks.values()] == [1, 2, 3]
    assert service.ask("v", None).picks == [picks["v"]], "a worker that asks again gets its own"


def test_threads_share_one_evaluation():
    busy, most = threading.Semaphore(0), 4
    together = threading.Barrier(most, timeout=30)

    def verdicts(chance: float):
        def judge(size: int, seed: int) -> np.ndarray:
            if not busy.acquire(blocking=False):
                together.wait()  # all workers have a pick at the same time, once
                busy.release(10**6)
            return np.random.default_rng(seed).random((size, 1)) < chance + np.zeros((size, 1))

        return lambda size, seed: judge(size, seed).astype(float)

    report = optimist.run({"a": verdicts(0.8), "b": verdicts(0.3)}, metric=Mean(), workers=most, paired=False)
    assert (report.decision.best, report.decision.decided) == ("a", True)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_estimates_take_one_thread_and_functions_keep_theirs(two_threads: None, monkeypatch: pytest.MonkeyPatch):
    estimates, functions = set[int](), set[int]()
    estimate = InfluenceBound.estimate

    def seen(bound: InfluenceBound, *args: Any) -> Any:
        estimates.add(torch.get_num_threads())
        return estimate(bound, *args)

    def embed(rows: np.ndarray) -> np.ndarray:
        functions.add(torch.get_num_threads())
        return rows

    monkeypatch.setattr(InfluenceBound, "estimate", seen)
    optimist.run(MODELS, embed, reference=REAL, max_samples=60, workers=2, stop=False)
    optimist.score(REAL, "fid", reference=REAL)
    assert (estimates, functions) == ({1}, {2})


def test_several_workers_make_every_sample_once():
    made: list[tuple[str, int]] = []

    def model(name: str, mean: float):
        def make(size: int, seed: int) -> np.ndarray:
            made.append((name, seed))
            return np.random.default_rng(seed).normal(mean, 1.0, (size, 1))

        return make

    generators = {"a": model("a", 0.0), "b": model("b", 0.0)}
    report = optimist.run(generators, metric="mean", batch_size=4, workers=3, budget=120, stop=False, progress=False)
    assert len(made) == len(set(made)) == report.samples // 4 == 30


@pytest.mark.parametrize("saved", [False, True])
def test_indices_that_were_left_out_are_handed_out_first(tmp_path: Any, saved: bool):
    evaluation = Evaluation([*MODELS], reference=REAL, batch_size=1)
    for name, starts in {"good": [0, 1, 5, 3], "bad": [2]}.items():
        for start in starts:
            evaluation.tell(name, model(0.0)(1, [start]), start=start)
    if saved:
        evaluation.save(tmp_path / "e.npz")
        evaluation = Evaluation.load(tmp_path / "e.npz")
    assert (evaluation.gaps("good"), evaluation.gaps("bad")) == ([(2, 1), (4, 1)], [(0, 2)])
    first = LocalService(evaluation, "run")
    for name, starts in {"good": [2, 4, 6], "bad": [0, 1, 3]}.items():
        assert [first.ask(None, [name]).picks[0].start for _ in starts] == starts
