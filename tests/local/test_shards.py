"""Scores of one set of samples in many files, by any executor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import optimist
from optimist_client.errors import FixError
from optimist_client.metrics import FID, KID, RKE, Cosine, Coverage, Gaussian, Precision, Vendi
from tests.support.commands import invoked

DIMENSION = 6
REAL = np.random.default_rng(5).standard_normal((60, DIMENSION))


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A folder of files of 1 to 1,500 rows, of several kinds."""
    folder, rng = tmp_path / "features", np.random.default_rng(0)
    folder.mkdir()
    for number, count in enumerate((1, 1500, 4, 300, 7, 900)):
        rows = rng.standard_normal((count, DIMENSION)) + 0.1
        if number == 3:
            pq.write_table(pa.table({"features": rows.tolist()}), folder / f"{number}.parquet")
        else:
            np.save(folder / f"{number}.npy", rows.astype(np.float32 if number % 2 else np.float64))
    return folder


class Backwards:
    """Runs what it was given from the last one on, when the first result is asked for."""

    def __init__(self) -> None:
        self._given: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        self._given.append((future := Future[Any](), fn, args))
        run, result = self._run, future.result

        class Later:
            def result(self) -> Any:
                run()
                return result()

        return Later()

    def _run(self) -> None:
        while self._given:
            future, fn, args = self._given.pop()
            future.set_result(fn(*args))


def spawned() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@contextmanager
def backwards() -> Iterator[Backwards]:
    yield Backwards()


METRICS = [
    FID(reference=REAL),
    Vendi(kernel=Cosine()),
    RKE(kernel=Gaussian("median", features=20)),
    KID(reference=REAL),
    Precision(reference=REAL),
    Coverage(reference=REAL),
]


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(1), lambda: ThreadPoolExecutor(3), backwards])
def test_the_bits_are_those_of_one_process(shards: Path, make: Callable[[], AbstractContextManager[Any]]):
    alone = optimist.score(shards, METRICS)
    with make() as executor:
        assert optimist.score(shards, METRICS, executor=executor) == alone
    assert {one.samples for one in alone.values()} == {2712}


def test_a_score_is_that_of_all_rows_in_memory(shards: Path):
    files = sorted(shards.iterdir())
    rows = [
        np.load(one) if one.suffix == ".npy" else np.stack(pq.read_table(one)["features"].to_pylist()) for one in files
    ]
    for metric in METRICS[:2]:
        found, expected = optimist.score(shards, metric), optimist.score(np.concatenate(rows), metric)
        for name in ("value", "plug_in", "lower", "upper"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-7)


@pytest.mark.long
def test_processes_have_the_same_bits(shards: Path):
    alone = optimist.score([*map(str, sorted(shards.iterdir()))], METRICS)
    with spawned() as executor:
        assert optimist.score(shards, METRICS, executor=executor) == alone


def test_the_command_takes_a_folder_as_one_generator(shards: Path, tmp_path: Path):
    np.save(shards / "real.npy", REAL)
    metric = ("--metric", "fid", "--reference", f"{shards / 'real.npy'}")
    answers = [
        json.loads(invoked("score", f"{shards}", "--jobs", jobs, *metric, "--json").output) for jobs in ("1", "3")
    ]
    (shards / "real.npy").unlink()
    expected = optimist.score(shards, METRICS[0])
    assert answers[0] == answers[1]
    ((row,),) = [answers[0]]
    assert (row["name"], row["score"], row["lower"]) == ("features", expected.score, expected.lower)
    shown = invoked("score", f"{shards}", "--jobs", "2", "--metric", "vendi:kernel.name=cosine")
    assert shown.exit_code == 0, shown.output
    assert "features" in shown.output
    assert "2,712" in shown.output
    wrong = invoked("score", f"{shards}", "--jobs", "2", "--metric", "vendi:kernel.name=cosine", "--field", "a")
    assert (wrong.exit_code, "--jobs: expected" in wrong.output) == (1, True)


def test_what_is_wrong_names_its_file(shards: Path):
    broken = shards / "4b.npy"
    np.save(broken, np.full((3, DIMENSION), np.nan))
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(FixError, match=r"4b\.npy: features: expected finite numbers"):
            optimist.score(shards, METRICS[0], executor=executor)
        np.save(broken, np.ones((3, DIMENSION + 1)))
        with pytest.raises(FixError, match=r"4b\.npy: features: expected shape \(n, 6\)"):
            optimist.score(shards, METRICS[0], executor=executor)
        broken.write_bytes(b"nothing")
        with pytest.raises(FixError, match=r"4b\.npy"):
            optimist.score(shards, METRICS[0], executor=executor)
        broken.unlink()
        with pytest.raises(FixError, match=r"5\.npy: expected every file once"):
            optimist.score([shards, shards / "5.npy"], METRICS[0])
        with pytest.raises(FixError, match="metric 'mean': its samples must be in one file"):
            optimist.score(shards, "mean", executor=executor)
        with pytest.raises(FixError, match="executor: expected samples in files"):
            optimist.score(REAL, METRICS[0], executor=executor)


def test_a_task_that_is_lost_names_its_file(shards: Path):
    class Losing(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
            return super().submit(_lost if args[1].name == "2.npy" else fn, *args)

    with Losing(2) as executor, pytest.raises(RuntimeError, match=r"2\.npy: the node is gone"):
        optimist.score(shards, METRICS[0], executor=executor)


def _lost(*_: Any) -> None:
    raise ConnectionError("the node is gone")
