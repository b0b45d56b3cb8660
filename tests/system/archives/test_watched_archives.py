"""Experiments with watched metrics as files: exported, imported elsewhere, gone on with, replayed."""

from __future__ import annotations

import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist.archive.file import Archive
from optimist.numerics.estimate import Estimate
from optimist.records import codec
from optimist_client import Experiment, Optimist
from optimist_client.metrics import FID, Mean, Nystrom, Vendi
from tests.support.keys import new_key
from tests.support.processes import Service, scored
from tests.support.replay import replay

WATCH = [
    Vendi(kernel=Nystrom(sigma="median", features=16)),
    FID(reads="dino", reference="dino-real"),
    Mean(reads="clip-score"),
]
LABELS = [metric.shown_label for metric in WATCH]


@pytest.fixture
def other(service: Service):
    """A client of another namespace, which knows nothing of the experiments and references of the first."""
    with Optimist(service.url, api_key=new_key(service.directory, "admin", "elsewhere")) as connected:
        yield connected


def batch(generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shift = {"a": 1.0, "b": 0.0}[generator]
    arrays = {"features": (size, 4), "dino": (size, 5), "clip-score": (size, 1)}
    return {name: rng.standard_normal(shape) + shift for name, shape in arrays.items()}


def play(experiment: Experiment, rounds: int, size: int) -> None:
    for _ in range(rounds):
        pick = experiment.ask()
        assert pick is not None
        pick.tell(batch(pick.generator, size, pick.seed))


def opened(path: Path) -> Archive:
    return Archive(BytesIO(path.read_bytes()))


def at_rest(experiment: Experiment, path: Path) -> None:
    """Export it once no snapshot is on its way any more: watched metrics take theirs after the last estimate."""
    deadline, held = time.monotonic() + 60, None
    while True:
        experiment.export(path)
        before, held = held, holding(opened(path))
        if held == before:
            return
        assert time.monotonic() < deadline, "it holds something else at every export"
        time.sleep(0.5)


def holding(archive: Archive) -> list[Any]:
    """All that scores come from: the logs, and by metric kernels, estimates and snapshots."""
    found: list[Any] = [[entry for page in archive.log(g) for entry in page] for g in range(2)]
    for label in archive.labels:
        found.append(archive.fitted(label))
        for g, known in enumerate(archive.contents.generators):
            by = known.units[label]
            found += [by.estimate_position, by.estimate, archive.snapshot(g, label)]
    return found


def test_an_import_goes_on_bit_for_bit_by_every_metric(
    client: Optimist, other: Optimist, name: str, reference: Any, tmp_path: Path
):
    client.create_reference("dino-real", mean=np.zeros(5), covariance=np.eye(5))
    original = client.create_experiment(
        *(name, ["a", "b"]),
        reference=reference,
        watch=WATCH,
        policy="ucb",
        stop=False,
        grow=False,
        seed=3,
        allow_extra=True,
    )
    play(original, 40, 400)  # logs long enough for snapshots by every metric
    before = scored(original)
    assert list(before.watched) == LABELS
    at_rest(original, tmp_path / "first.zip")
    imported = other.import_experiment(tmp_path / "first.zip")
    # Nothing has happened to it yet.
    assert imported.report().model_copy(update={"active": before.active}) == before
    imported.export(tmp_path / "again.zip")
    archive = opened(tmp_path / "first.zip")
    assert holding(opened(tmp_path / "again.zip")) == holding(archive)
    assert archive.fitted("vendi") is not None
    sampled = max(archive.contents.generators, key=lambda known: known.units["fid"].snapshot_position)
    assert all(sampled.units[label].snapshot_position for label in LABELS)
    for experiment in (original, imported):
        play(experiment, 5, 100)
        scored(experiment)
        experiment.export(tmp_path / f"{experiment.info.instance}.zip")
    one, two = (opened(tmp_path / f"{experiment.info.instance}.zip") for experiment in (original, imported))
    estimates = [
        [(by.estimate_position, by.estimate) for known in made.contents.generators for by in known.units.values()]
        for made in (one, two)
    ]
    assert estimates[0] == estimates[1]
    assert one.history == two.history


def test_a_log_that_was_kept_is_replayed_by_every_metric(client: Optimist, name: str, reference: Any, tmp_path: Path):
    client.create_reference("dino-real", mean=np.zeros(5), covariance=np.eye(5))
    experiment = client.create_experiment(
        *(name, ["a", "b"]),
        reference=reference,
        watch=WATCH,
        policy="uniform",
        stop=False,
        keep_log=True,
        allow_extra=True,
    )
    play(experiment, 20, 40)
    scored(experiment)
    experiment.export(tmp_path / "file.zip")
    again = replay(tmp_path / "file.zip")
    assert all(pick.is_reproduced for pick in again.picks)
    for known in opened(tmp_path / "file.zip").contents.generators:
        for label in LABELS:
            by = known.units[label]
            assert by.estimate is not None
            expected = codec.decode(Estimate, by.estimate)
            made = again.watched[label][known.name][by.estimate_position]
            assert made.samples == expected.samples
            assert (made.score, made.stopping_error) == pytest.approx(
                (expected.score, expected.stopping_error), rel=1e-12
            )


def test_an_archive_without_watched_metrics_is_as_before(client: Optimist, name: str, reference: Any, tmp_path: Path):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference)
    experiment.export(tmp_path / "file.zip")
    text = opened(tmp_path / "file.zip").contents.model_dump_json()
    assert "watch" not in text
