"""What `optimist simulate` will not do, said in one line: which file or option, what was expected, what was found."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from tests.support.commands import invoked

SMALL = ("--rounds=4", "--trials=1", "--batch-size=2")
PAIRS = ("--metric=conditional-vendi:kernel.sigma=1,kernel.features=4,prompt_kernel.sigma=1",)


def rows(seed: int, n: int = 20, d: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def probabilities(seed: int, classes: int = 4) -> np.ndarray:
    drawn = np.exp(rows(seed, d=classes))
    return drawn / drawn.sum(axis=1, keepdims=True)


def spoilt(value: float) -> np.ndarray:
    made = rows(1)
    made[3, 2] = value
    return made


@pytest.fixture
def samples(tmp_path: Path) -> Callable[..., Path]:
    """A folder with a file for each generator: an array as .npy, several as .npz."""

    def made(**generators: Any) -> Path:
        folder = tmp_path / "samples"
        folder.mkdir()
        for name, held in generators.items():
            if isinstance(held, dict):
                np.savez(folder / f"{name}.npz", **held)
            else:
                np.save(folder / f"{name}.npy", held)
        return folder

    return made


@pytest.fixture
def real(tmp_path: Path) -> Path:
    np.save(tmp_path / "real.npy", rows(9, 50))
    return tmp_path / "real.npy"


def simulated(*arguments: object) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return invoked("simulate", *arguments, *SMALL)


def refused(*arguments: object) -> str:
    """The one line that was said."""
    done = simulated(*arguments)
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit), "a traceback"
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith(("true scores", "trials "))]
    return line


FINE = {"a": rows(1), "b": rows(2)}


@pytest.mark.parametrize(
    ("generators", "said"),
    [
        ({}, "samples: expected a file ending in .npy, .npz, .safetensors, .parquet, .jsonl, .json, .csv, .tsv, or"),
        ({"a": rows(1), "b": rows(2, d=3)}, "b.npy: features: expected 4 columns, as the reference has; found 3"),
        ({"a": spoilt(np.nan)}, "a.npy: features: expected finite numbers of at most 1e+30 in size, got nan in row 3"),
        ({"a": spoilt(1e31)}, "got 1e+31 in row 3, column 2"),
        ({"a": np.array(1.0)}, "a.npy: features: expected shape (n, d), found ()"),
        ({"a": rows(1, 0)}, "a.npy: features: expected at least one row, got an empty batch"),
        ({"a": rows(1, 1)}, "a.npy: expected at least one batch of 2 samples, found 1"),
        ({"a": rows(1) * 1j}, "a.npy: array 'a': expected real numbers, found dtype complex128"),
        ({"a": {}}, "a.npz: expected at least one array, found none"),
        ({"a": {"mean": np.zeros(4), "covariance": np.eye(3)}}, "a.npz: covariance: expected shape (4, 4)"),
    ],
)  # fmt: skip
def test_samples_of_no_use_are_refused(samples, real: Path, generators: dict[str, Any], said: str):
    assert said in refused(f"--features={samples(**generators)}", f"--reference={real}")


@pytest.mark.parametrize(
    ("generators", "options", "said"),
    [
        ({"a": 0.9 * probabilities(1)}, ["--metric=is"], "a.npy: probabilities: expected rows of numbers ≥ 0 that sum"),
        ({"a": probabilities(1), "b": probabilities(2, 5)}, ["--metric=is"], "b.npy: probabilities: expected 4 col"),
        ({"a": np.zeros((20, 4))}, ["--metric=rke:kernel.name=cosine"], "a.npy: features: the metric needs rows"),
        ({"a": {"features": rows(1)}}, PAIRS, "a.npz: expected the arrays features, prompts; found features"),
        ({"a": {"features": rows(1), "prompts": rows(2, 9)}}, PAIRS, "got 20 of features, 9 of prompts"),
        (FINE, ["--metric=rke"], "as text rke:kernel.sigma=10"),
        (FINE, ["--metric=rke:kernel.sigma=NaN"], "sigma"),
        (FINE, [], "reference: expected real features or their moments, which the metric 'fid' compares with; found"),
    ],
)  # fmt: skip
def test_samples_and_options_that_do_not_go_together(
    samples, generators: dict[str, Any], options: list[str], said: str
):
    assert said in refused(f"--features={samples(**generators)}", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy=ucb:gamma=1"], "policy 'ucb:gamma=1': expected options among bound, delta"),
        (["--policy=ucb:delta=x"], "policy 'ucb:delta=x': delta: expected"),
        (["--policy=ucb:delta=0.1,delta=0.2"], "expected each setting once, got delta twice"),
        (["--policy=ucb", "--policy=ucb:rescore_growth=-1"], "growth=-1': rescore_growth: expected at least 0"),
        (["--policy=ucb:warmup=0"], "policy 'ucb:warmup=0': warmup: expected at least 1, got 0"),
        (["--policy=ucb:tolerance=x"], "tolerance: expected a number of at least 0, or a share below 100%"),
        (["--delta=1"], "delta must lie between 1e-12 and 1, not 1.0"),
        (["--jobs=0"], "jobs: expected a number of processes, or -1 for as many as there are cores; got 0"),
        (["--truth=a=1"], "truth: expected scores of a, b; got a"),
        (["--truth=x"], "--truth: expected numbers as a=1.5,b=2.5; got 'x'"),
        (["--truth=a=1,b=2,b=3"], "--truth: expected each generator once, got 'a=1,b=2,b=3'"),
        (["--plot=" + __file__], "expected a folder, found a file"),
        (["--reference=no.npz"], "no.npz: no such file"),
        (["--reference=."], ".: expected a file ending in .npy, .npz, .safetensors, .parquet, .jsonl, .json, .csv"),
    ],
)  # fmt: skip
def test_options_of_no_use_are_refused(samples, real: Path, options: list[str], said: str):
    assert said in refused(f"--features={samples(**FINE)}", f"--reference={real}", *options)


def test_more_than_memory_can_hold(samples, real: Path):
    told = [f"--features={samples(a={'mean': np.zeros(4), 'covariance': np.eye(4)})}", f"--reference={real}"]
    for size, said in (
        (
            ["--rounds=1000000000000"],
            "rounds, trials: expected at most 10,000,000 rounds in total, got 1,000,000,000,000",
        ),
        (["--rounds=2", "--trials=1", "--batch-size=1000000000000000"], "batch_size: expected at most 10,000"),
    ):
        done = invoked("simulate", *told, *size)
        assert (done.exit_code, type(done.exception)) == (1, SystemExit)
        assert said in done.stderr


def test_places_that_hold_no_samples(samples, real: Path, tmp_path: Path):
    folder = samples(**FINE)
    for place, said in (
        (folder / "c", "c: no such file or folder"),
        (folder / "c.npz", "c.npz: no such file or folder"),
    ):
        assert said in refused(f"--features={place}", f"--reference={real}")
    (folder / "c.npy").symlink_to(tmp_path / "nowhere")
    assert "c.npy: no such file" in refused(f"--features={folder}", f"--reference={real}")
    (folder / "c.npy").unlink()
    os.mkfifo(folder / "c.npy")
    assert "c.npy: expected a regular file, found a special file" in refused(
        f"--features={folder}", f"--reference={real}"
    )
    (folder / "c.npy").unlink()
    try:
        (folder / "a.npy").rename(folder / os.fsdecode(b"\xff.npy"))
    except OSError:
        return  # a file system that has UTF-8 names only
    said = refused(f"--features={folder}", f"--reference={real}")
    assert said.endswith(r"samples: expected generator names in UTF-8, found '\udcff'")


def test_odd_names_and_types_are_played_and_drawn(samples, real: Path, tmp_path: Path, draw_only: Callable[..., None]):
    draw_only("pick_share", "estimates")
    odd = {
        "$x^$": (9 * rows(1)).astype(int),
        "[red]ü, =1": rows(2).astype(np.float16),
        "x" * 200: rows(3).astype(">f4"),
    }
    told = [f"--features={samples(**odd)}", f"--reference={real}", f"--picks={tmp_path / 'picks.csv'}"]
    done = simulated(*told, f"--plot={tmp_path / 'figures'}", "--policy=ucb")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "picks.csv").read_text().count("$x^$") > 0
    drawn = (tmp_path / "figures" / "pick_share.svg").read_text()
    assert f"<!-- {'x' * 39}… -->" in drawn
