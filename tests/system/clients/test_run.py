"""`experiment.run` against the real service: workers, limits, functions that fail, Ctrl-C.

What people who know other packages look for, too: best, direction, plots of regret and picks, the same run in memory.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest

import optimist
from optimist_client import AsyncOptimist, Experiment, FixError, GeneratorError, Optimist
from optimist_client.embedders import Function
from optimist_client.metrics import Mean
from tests.support.processes import until
from tests.support.reports import unwrapped

SHIFTS = {"a": 1.0, "b": 0.0, "c": 2.0}


def drawing(generator: str) -> Callable[[int, int], np.ndarray]:
    """Real draws: `b` is the reference's own distribution, the others are shifted away from it."""
    return lambda size, seed: np.random.default_rng(seed).standard_normal((size, 4)) + SHIFTS[generator]


GENERATORS = {generator: drawing(generator) for generator in SHIFTS}


@pytest.fixture
def experiment(client: Optimist, name: str, reference) -> Experiment:
    return client.create_experiment(name, list(SHIFTS), reference=reference, budget=5_000)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C as at a prompt: processes that run in the background, as those of pytest-xdist do, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_three_lines_name_the_best(experiment: Experiment, capsys: pytest.CaptureFixture[str]):
    report = experiment.run(GENERATORS, embed=lambda rows: rows.astype(np.float32), progress=True)
    assert (report.state, report.decision.best, report.open_picks) == ("decided", "b", 0)
    assert report.scored
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"{experiment.name}: {report.samples:,} of 5,000 samples  b ")
    assert experiment.run(GENERATORS).samples == report.samples


def test_only_the_generators_given_are_picked(experiment: Experiment):
    report = experiment.run({"a": GENERATORS["a"], "c": GENERATORS["c"]}, max_samples=40)
    assert {row.generator: row.samples > 0 for row in report.standings} == {"a": True, "b": False, "c": True}
    for generators, found in (({"a": GENERATORS["a"], "d": GENERATORS["a"]}, "got d"), ({}, "got none")):
        with pytest.raises(ValueError, match=f"expected some of a, b, c; {found}"):
            experiment.run(generators)
    with pytest.raises(ValueError, match="workers"):
        experiment.run(GENERATORS, workers=0)


def test_workers_generate_at_once_and_share_the_limit(experiment: Experiment):
    meeting, first = threading.Barrier(3, timeout=60), threading.local()

    def generate(size: int, seed: int) -> np.ndarray:
        if not hasattr(first, "met"):
            first.met = meeting.wait()  # nobody gets on unless three are here
        return np.random.default_rng(seed).standard_normal((size, 4))

    report = experiment.run(dict.fromkeys(SHIFTS, generate), max_samples=73, workers=3)
    assert (report.samples, report.open_picks) == (70, 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_round_is_one_request(client: Optimist, name: str, reference, workers: int):
    experiment = client.create_experiment(name, list(SHIFTS), reference=reference, stop=False)
    sent: list[str] = []
    client._transport._http.event_hooks["request"] = [lambda request: sent.append(request.url.path)]
    report = experiment.run(GENERATORS, max_samples=100, workers=workers)
    assert report.rounds == sum(path.endswith("/batch") for path in sent) == 20
    assert sum(path.endswith("/picks") for path in sent) <= workers


def test_an_interrupt_while_a_tell_is_answered_gives_the_next_pick_back(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, list(SHIFTS), reference=reference, stop=False)
    turn = iter(range(100))

    def interrupt(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/batch") and next(turn) == 3:
            signal.raise_signal(signal.SIGINT)

    client._transport._http.event_hooks["response"] = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        experiment.run(GENERATORS)
    report = experiment.report()
    assert (report.rounds, report.open_picks) == (4, 0)


def test_a_generator_that_raises_is_named_and_its_pick_given_back(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, list(SHIFTS), reference=reference, budget=5_000)
    given_up: list[str] = []

    def broken(size: int, seed: int) -> np.ndarray:
        raise MemoryError("CUDA out of memory")

    def seen(request: httpx.Request) -> None:
        if request.method == "DELETE":
            given_up.append(request.url.params["reason"])

    client._transport._http.event_hooks["request"] = [seen]
    with pytest.raises(GeneratorError, match="'b': generating raised MemoryError: CUDA out of memory") as failure:
        experiment.run({**GENERATORS, "b": broken}, catch=())
    assert (failure.value.generator, failure.value.action) == ("b", "fix")
    assert isinstance(failure.value.__cause__, MemoryError)
    (reason,) = given_up
    assert "CUDA out of memory" in reason
    assert experiment.report().open_picks == 0
    with pytest.raises(GeneratorError, match="embedding raised ZeroDivisionError"):
        experiment.run(GENERATORS, embed=lambda rows: 1 / 0)


def test_one_failure_of_a_generator_costs_a_batch_and_is_in_the_report(experiment: Experiment):
    calls = iter(range(1_000))

    def flaky(size: int, seed: int) -> np.ndarray:
        if next(calls) == 2:
            raise TimeoutError("503 from the vendor")
        return GENERATORS["b"](size, seed)

    report = experiment.run({**GENERATORS, "b": flaky}, max_samples=60)
    assert (report.samples, report.open_picks) == (60, 0)
    (failed,) = report.failures
    assert (failed.generator, failed.batches, failed.samples) == ("b", 1, 5)
    said = "Warning: 1 batch of b (5 samples) failed and was given up, TimeoutError: 503 from the vendor."
    assert said in unwrapped(report)
    assert not experiment.report().failures


async def test_it_may_be_said_which_failures_cost_a_batch(client: Optimist, experiment: Experiment):
    failing = {"b": iter([TimeoutError(), None, TimeoutError(), None, TimeoutError(), KeyError("bug")])}

    async def flaky(size: int, seed: int) -> np.ndarray:
        if (error := next(failing["b"])) is not None:
            raise error
        return GENERATORS["b"](size, seed)

    async with AsyncOptimist(client._transport._urls) as asynchronous:
        opened = await asynchronous.experiment(experiment.name)
        with pytest.raises(GeneratorError, match="raised KeyError: 'bug'"):
            await opened.run({"b": flaky}, catch=TimeoutError)
        assert (await opened.report()).samples == 10


def test_what_the_service_refuses_ends_the_run_and_names_the_generator(experiment: Experiment):
    with pytest.raises(FixError, match=r"\(n, 4\)") as failure:
        experiment.run(GENERATORS, embed=lambda rows: rows[:, :3])
    assert failure.value.__notes__ == ["in pick 1, of generator 'a'"]
    with pytest.raises(ValueError, match="array of real numbers"):
        experiment.run(GENERATORS, embed=lambda rows: "nothing")
    assert experiment.report().open_picks == 0


def test_other_workers_first_tell_what_they_make(experiment: Experiment):
    both = threading.Barrier(2, timeout=60)
    turn = iter(range(100))

    def generate(size: int, seed: int) -> np.ndarray:
        mine = next(turn)
        if mine < 2:
            both.wait()
        if mine == 0:
            raise RuntimeError("broken")
        return np.random.default_rng(seed).standard_normal((size, 4))

    with pytest.raises(GeneratorError, match="broken"):
        experiment.run(dict.fromkeys(SHIFTS, generate), workers=2, catch=())
    report = experiment.report()
    assert report.open_picks == 0
    assert report.samples >= 5


def test_an_interrupt_in_a_generator_gives_the_pick_back(experiment: Experiment):
    def interrupted(size: int, seed: int) -> np.ndarray:
        signal.raise_signal(signal.SIGINT)
        return np.zeros((size, 4))

    with pytest.raises(KeyboardInterrupt):
        experiment.run({**GENERATORS, "b": interrupted})
    assert experiment.report().open_picks == 0
    assert experiment.run(GENERATORS).decision.best == "b"


def test_a_worker_generates_its_next_pick_while_its_batch_is_told(client: Optimist, experiment: Experiment):
    at_once, begun, told = threading.Lock(), threading.Semaphore(0), iter(range(1000))

    def generate(size: int, seed: int) -> np.ndarray:
        assert at_once.acquire(blocking=False), "one worker generates two batches at once"
        begun.release()
        at_once.release()
        return np.random.default_rng(seed).standard_normal((size, 4))

    def answered(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/batch") and next(told) == 0:
            for _ in range(2):  # this answer arrives once the second batch is being made
                assert begun.acquire(timeout=60)

    client._transport._http.event_hooks["response"] = [answered]
    report = experiment.run(dict.fromkeys(SHIFTS, generate), ahead=1, max_samples=100)
    assert (report.samples, report.open_picks) == (100, 0)
    with pytest.raises(FixError, match="ahead: expected at least 0"):
        experiment.run(GENERATORS, ahead=-1)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_picks_ahead_are_given_up_once_the_experiment_ends(
    client: Optimist, experiment: Experiment, asynchronous: bool
):
    if asynchronous:
        async with AsyncOptimist(client._transport._urls) as other:
            found = await (await other.experiment(experiment.name)).run(GENERATORS, workers=2, ahead=2)
    else:
        found = experiment.run(GENERATORS, workers=2, ahead=2)
    assert (found.state, found.decision.best, found.open_picks) == ("decided", "b", 0)


def test_a_pick_that_waited_too_long_for_its_worker_is_given_up(
    client: Optimist, experiment: Experiment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("optimist_client.run.OLDEST", 0.0)
    reasons: list[str] = []

    def seen(request: httpx.Request) -> None:
        if request.method == "DELETE":
            reasons.append(request.url.params["reason"])

    client._transport._http.event_hooks["request"] = [seen]
    report = experiment.run(GENERATORS, timeout=0.5)
    assert (report.samples, report.open_picks) == (0, 0)
    assert set(reasons) == {"it waited too long for its worker"}


@pytest.mark.parametrize("ahead", [0, 1])
def test_an_interrupt_gives_the_picks_of_threads_back_while_they_generate(experiment: Experiment, ahead: int):
    inside, released, seen = threading.Semaphore(0), threading.Event(), []

    def generate(size: int, seed: int) -> np.ndarray:
        inside.release()
        assert released.wait(60)
        return np.zeros((size, 4))

    def interrupt() -> None:
        try:
            assert inside.acquire(timeout=60)
            assert inside.acquire(timeout=60)
            until(lambda: experiment.report().open_picks == 2 * (1 + ahead))
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: experiment.report().open_picks == 0)
            seen.append(True)
        finally:
            released.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        experiment.run(dict.fromkeys(SHIFTS, generate), workers=2, ahead=ahead)
    thread.join()
    assert seen == [True]
    assert (experiment.report().samples, experiment.report().open_picks) == (0, 0)


def test_asynchronous_functions_are_for_the_asynchronous_client(experiment: Experiment):
    async def generate(size: int, seed: int) -> np.ndarray:
        return np.zeros((size, 4))

    with pytest.raises(GeneratorError, match="use AsyncOptimist"):
        experiment.run(dict.fromkeys(SHIFTS, generate))


def test_prompts_are_passed_on_and_embedded(client: Optimist, name: str):
    prompts = ["cat", "dog", "house"]
    config = {"dimension": 2, "prompt_dimension": 3, "kernel": {"sigma": 1.0}, "prompt_kernel": {"sigma": 0.5}}
    experiment = client.create_experiment(
        name, ["dull", "varied"], metric="conditional-vendi", prompts=prompts, budget=400, **config
    )

    def varied(size: int, seed: int, texts: list[str]) -> list[str]:
        assert len(texts) == size
        kinds = np.random.default_rng(seed).integers(9, size=size)
        return [f"{text} {kind}" for text, kind in zip(texts, kinds, strict=True)]

    def embed(answers: list[str]) -> dict[str, object]:
        rows = [[len(answer.split()[0]), int(answer.split()[1])] for answer in answers]
        return {"features": np.array(rows, float), "ids": answers}

    report = experiment.run(
        {"varied": varied, "dull": lambda size, seed, texts: [f"{text} 0" for text in texts]},
        embed,
        embed_prompts=lambda texts: np.eye(3)[[prompts.index(text) for text in texts]],
    )
    assert report.decision.best == "varied"
    assert {sample.id for mode in experiment.modes("dull").modes for sample in mode.samples} <= {
        "cat 0",
        "dog 0",
        "house 0",
    }


def test_the_embedding_that_the_experiment_names_is_told(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, list(SHIFTS), reference=reference, embedding="rows")
    for other in (None, lambda rows: rows, Function("others", 4, lambda rows: rows)):
        with pytest.raises(ValueError, match="takes embedding 'rows'"):
            experiment.run(GENERATORS, other)
    report = experiment.run(GENERATORS, Function("rows", 4, lambda rows: rows), max_samples=30)
    assert report.samples == 30


@pytest.mark.long
def test_a_run_in_memory_is_the_run_of_a_service(client: Optimist, name: str, reference):
    two = {generator: GENERATORS[generator] for generator in "ab"}
    # With a long wait for estimates, so that picks do not depend on how busy the machine is.
    experiment = client.create_experiment(name, [*two], reference=reference, direction="minimize", max_wait=60)
    assert experiment.best is None
    served = experiment.run(two)
    here = optimist.run(two, reference=reference, direction="minimize", name=name)
    assert experiment.best == here.decision.best == "b"
    assert [(row.generator, row.samples) for row in served.standings] == [
        (row.generator, row.samples) for row in here.standings
    ]
    for row, other in zip(served.standings, here.standings, strict=True):
        assert row.score == pytest.approx(other.score, rel=1e-9)
        assert row.standard_error == pytest.approx(other.standard_error, rel=1e-9)
    assert served.decision.decided
    assert here.decision.confidence == pytest.approx(served.decision.confidence)

    report = experiment.report(charts=True)
    (regret,) = report.plot_regret().get_lines()
    assert regret.get_ydata()[-1] == pytest.approx(report.regret.total)
    shares = {line.get_label(): line.get_ydata()[-1] for line in report.plot_picks().get_lines()}
    assert shares == pytest.approx({row.generator: row.pick_ratio for row in report.standings})
    with pytest.raises(ValueError, match=r"experiment\.report\(charts=True\)"):
        experiment.report().plot_picks()


def test_a_wrong_direction_is_refused(client: Optimist, name: str, reference):
    for wrong, said in (("maximize", "lower scores of 'fid' are better"), ("up", "expected 'minimize' or 'maximize'")):
        with pytest.raises(FixError, match=said):
            client.create_experiment(name, ["a"], reference=reference, direction=wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match=said):
            optimist.Evaluation(["a"], reference=reference, direction=wrong)
    assert optimist.Evaluation(["a"], metric=Mean(), direction="maximize").best is None
    with pytest.raises(FixError, match="higher scores of 'mean' are better"):
        client.create_experiment(name, ["a"], metric=Mean(higher_is_better=True), direction="minimize")


def test_a_mean_takes_the_direction(client: Optimist, name: str):
    for number, metric in enumerate(("mean", Mean(), Mean(range=(0.0, 9.0)))):
        made = client.create_experiment(f"{name}-{number}", ["a", "b"], metric=metric, direction="minimize")
        again = client.create_experiment(f"{name}-{number}", ["a", "b"], metric=metric, direction="minimize")
        assert made.report().lower_is_better
        assert again.info.config == made.info.config
        assert not client.create_experiment(f"{name}-{number}-up", ["a"], metric=metric).report().lower_is_better
        here = optimist.Evaluation(["a", "b"], metric=metric, direction="minimize")
        assert here.report().lower_is_better
