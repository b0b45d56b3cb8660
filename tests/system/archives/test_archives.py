"""Experiments as files: exported while they run, imported elsewhere, gone on with, replayed; and files refused."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import Result
from redis import Redis

from optimist.archive.file import Archive
from optimist.estimates.estimate import Estimate
from optimist.records import codec
from optimist.store import running_url
from optimist_client import (
    ConflictError,
    Experiment,
    FixError,
    NotFoundError,
    Optimist,
    Pick,
    StopError,
    UnreachableError,
)
from optimist_client.metrics import FID, Mean, Nystrom, Vendi
from optimist_client.models import Report
from optimist_client.operations import run
from optimist_client.transport import read_pieces
from tests.support.commands import invoked
from tests.support.processes import Service, losing_replies, scored, until
from tests.support.replay import replay

KERNEL = {"name": "nystrom", "sigma": "median", "features": 16}
WATCH = [
    Vendi(kernel=Nystrom(sigma="median", features=16)),
    FID(reads="dino", reference="dino-real"),
    Mean(reads="clip-score"),
]


def batch(generator: str, size: int, seed: int) -> dict[str, np.ndarray]:
    """For the metrics of WATCH, too."""
    rng, shift = np.random.default_rng(seed), {"a": 1.0, "b": 0.0, "c": 0.4, "d": 0.0}[generator]
    widths = {"features": 4, "dino": 5, "clip-score": 1}
    return {name: rng.standard_normal((size, width)) + shift for name, width in widths.items()}


def samples(generator: str, size: int, seed: int) -> np.ndarray:
    return batch(generator, size, seed)["features"]


def tell(experiment: Experiment, pick: Pick, size: int | None = None, seed: int = 0) -> None:
    made = batch(pick.generator, size or pick.size, pick.seed + seed)
    pick.tell(made if experiment.info.config.watch else made["features"])


def play(experiment: Experiment, rounds: int, size: int | None = None) -> None:
    for _ in range(rounds):
        pick = experiment.ask()
        assert pick is not None
        tell(experiment, pick, size)


def work(experiment: Experiment, most: int) -> None:
    for pick in experiment.picks(max_samples=most):
        tell(experiment, pick)


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
    """All that scores come from: kernels by metric, and by generator its estimates, snapshots and log."""
    found: list[Any] = [archive.fitted(label) for label in archive.labels]
    for g, known in enumerate(archive.contents.generators):
        found += [known.units, [archive.snapshot(g, label) for label in archive.labels]]
        found += [entry for page in archive.log(g) for entry in page]
    return found


def lasting(report: Report) -> Report:
    """The report without the time at which something last happened here."""
    return report.model_copy(update={"active": None})


def opened(path: Path) -> Archive:
    return Archive(BytesIO(path.read_bytes()))


def without_timing(estimate: str | None) -> str:
    """The record of an estimate without how long its batches took, which differs from one play to the next."""
    assert estimate is not None
    return codec.encode(replace(codec.decode(Estimate, estimate), timing=None))


CONFIGS: dict[str, dict[str, Any]] = {
    "watched, log kept": {"watch": WATCH, "keep_log": True},
    "kernel from samples": {"metric": "vendi", "dimension": 4, "kernel": KERNEL},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_an_import_goes_on_bit_for_bit_as_the_original(
    client: Optimist, other: Optimist, name: str, reference, tmp_path: Path, config: dict[str, Any]
):
    """Logs long enough for snapshots by every metric; then both get the same batches, and have the same estimates to
    the last bit."""
    client.create_reference("dino-real", mean=np.zeros(5), covariance=np.eye(5))
    settings: dict[str, Any] = {} if "metric" in config else {"reference": reference}
    # How fast generators are, which decides how picks grow, is not known of the import.
    settings |= {"policy": "ucb", "stop": False, "max_wait": 30, "grow": False, "seed": 3, "allow_extra": True}
    original = client.create_experiment(name, ["a", "b"], **settings, **config)
    play(original, 30, 600)
    before = scored(original)
    at_rest(original, tmp_path / "first.zip")
    imported = other.import_experiment(tmp_path / "first.zip")
    assert imported.name == name
    assert lasting(imported.report()) == lasting(before)
    assert imported.info.instance != original.info.instance
    assert imported.info.config == original.info.config
    imported.export(tmp_path / "again.zip")
    archive, again = opened(tmp_path / "first.zip"), opened(tmp_path / "again.zip")
    assert holding(again) == holding(archive)
    assert again.history == archive.history
    assert [label for label in archive.labels if archive.fitted(label) is not None] == ["vendi"]
    assert ("watch" in archive.contents.model_dump_json()) == ("watch" in config)
    first = archive.labels[0]
    sampled = max(archive.contents.generators, key=lambda known: known.units[first].snapshot_position)
    assert all(sampled.units[label].snapshot_position for label in archive.labels)
    if original.info.config.keep_log:
        replayed = replay(tmp_path / "first.zip")
        assert all(pick.is_reproduced for pick in replayed.picks)
        by_label = {first: replayed.estimates, **replayed.watched}
        for known in archive.contents.generators:
            for label, unit in known.units.items():
                assert unit.estimate is not None
                made = by_label[label][known.name][unit.estimate_position]
                kept = codec.decode(Estimate, unit.estimate)
                shown, expected = ((one.samples, one.score, one.stopping_error) for one in (made, kept))
                assert shown == pytest.approx(expected, rel=1e-12)
    for experiment in (original, imported):
        for _ in range(9):
            play(experiment, 1, 200)
            scored(experiment)
        experiment.export(tmp_path / f"{experiment.info.instance}.zip")
    one, two = (opened(tmp_path / f"{experiment.info.instance}.zip") for experiment in (original, imported))
    units = ([unit for g in archive.contents.generators for unit in g.units.values()] for archive in (one, two))
    for first_unit, other_unit in zip(*units, strict=True):
        assert first_unit.estimate_position == other_unit.estimate_position
        assert without_timing(first_unit.estimate) == without_timing(other_unit.estimate)
    assert one.history == two.history
    assert one.contents.rounds == two.contents.rounds == 39


def test_picks_of_the_original_are_over_and_new_ones_are_numbered_on(
    client: Optimist, name: str, reference, tmp_path: Path
):
    original = client.create_experiment(name, ["a", "b"], reference=reference)
    work(original, 30)
    left = original.ask()
    original.export(tmp_path / "file")
    imported = client.import_experiment(tmp_path / "file", f"{name}-again")
    assert (imported.name, imported.report().open_picks) == (f"{name}-again", 0)
    told = samples("a", 5, 1)
    with httpx.Client(base_url=client._transport._http.base_url) as http:
        path = f"/v1/experiments/{imported.name}/picks"
        for number in (1, left.number):
            assert http.post(f"{path}/{number}/batch?nonce=aa", json={"features": told.tolist()}).status_code == 410
    left.info = left.info.model_copy(update={"experiment": imported.name})
    with pytest.raises(NotFoundError):
        left.tell(told)  # it names the original's instance
    assert imported.ask().number == left.number + 1
    assert imported.report().samples == 30


def test_states_controls_decision_and_added_generators_come_along(
    client: Optimist, other: Optimist, name: str, reference, tmp_path: Path
):
    original = client.create_experiment(name, ["a", "b"], reference=reference, budget=4_000, tolerance="1%")
    original.add_generator("c")
    work(original, 10_000)
    original.resume(budget=9_000, stop=True)
    original.set_state("a", "paused")
    original.set_state("c", "retired")
    before = scored(original)
    assert (before.state, before.budget) == ("decided", 9_000)
    original.export(tmp_path / "file")
    imported = other.import_experiment(tmp_path / "file")
    assert lasting(imported.report()) == lasting(before)
    assert imported.info.config.tolerance == "1%"
    assert imported.ask() is None
    with pytest.raises(ConflictError, match="retired"):
        imported.set_state("c", "active")


def test_prompts_of_open_picks_are_handed_out_again(client: Optimist, name: str, tmp_path: Path):
    config = {"dimension": 4, "prompt_dimension": 2, "prompts": [f"prompt {n}" for n in range(7)], "policy": "uniform"}
    kernels = {"kernel": {"sigma": 1.0, "features": 16}, "prompt_kernel": {"sigma": 1.0}}
    original = client.create_experiment(name, ["a"], metric="conditional-vendi", **config, **kernels)
    first, given_up, left, last = (original.ask() for _ in range(4))
    for pick in (first, last):
        pick.tell(samples("a", 5, pick.seed), prompts=np.ones((5, 2)))
    given_up.give_up()
    original.export(tmp_path / "file")
    imported = client.import_experiment(tmp_path / "file", f"{name}-again")
    starts = [imported.ask().info.prompts_start for _ in range(3)]
    assert starts == [given_up.info.prompts_start, left.info.prompts_start, 20]


def test_a_name_that_is_taken_is_a_conflict(client: Optimist, name: str, reference, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b"], reference=reference)
    work(original, 10)
    original.export(tmp_path / "file")
    with pytest.raises(ConflictError, match=name):
        client.import_experiment(tmp_path / "file")
    assert original.report().samples == 10
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-9])
    with pytest.raises(FixError, match="truncated"):
        client.import_experiment(tmp_path / "file", f"{name}-again")


def test_an_import_through_lost_replies_is_made_once(service: Service, client: Optimist, name: str, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b"], metric="is", dimension=2)
    original.export(tmp_path / "file")
    with losing_replies(service.url, every=1) as url, Optimist(url, patience=1.0) as unlucky:
        size = (tmp_path / "file").stat().st_size
        key = {"idempotency-key": "one", "content-type": "application/zip", "content-length": f"{size}"}
        pieces = partial(read_pieces, tmp_path / "file")
        params = {"name": f"{name}-again"}
        with pytest.raises(UnreachableError, match="no answer"):
            run(unlucky._transport.upload("POST", "/v1/import", params, key, pieces))
    made = client.experiment(f"{name}-again")
    answer = run(client._transport.upload("POST", "/v1/import", params, key, pieces))
    assert answer["instance"] == made.info.instance


@pytest.mark.long
def test_an_export_while_workers_tell_is_of_one_moment(
    client: Optimist, other: Optimist, name: str, reference, tmp_path: Path
):
    """Statistics small beside the batches, so that logs are trimmed all the while."""
    config = {"reference": reference, "stop": False, "policy": "uniform", "allow_extra": True}
    original = client.create_experiment(name, ["a", "b", "c"], **config)
    ended = threading.Event()

    def work_on(seed: int) -> None:
        with Optimist(str(client._transport._http.base_url)) as mine:
            for pick in mine.experiment(name).picks():
                if ended.is_set():
                    return
                tell(original, pick, 2_000, 10**6 * seed)

    workers = [threading.Thread(target=work_on, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    try:
        for turn in range(6):
            original.export(tmp_path / f"{turn}")
            time.sleep(0.2)
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    for turn in range(6):
        archive = opened(tmp_path / f"{turn}")
        stored = archive.state("any")
        holding(archive)  # reads every page, checked against the history
        assert all(g.samples == 2_000 * g.batches for g in stored.generators)
    assert stored.told > 0
    imported = other.import_experiment(tmp_path / "5")
    report = scored(imported)
    assert report.rounds == stored.told
    assert [row.samples for row in report.standings] == [g.samples for g in stored.generators]
    assert all(row.score is not None and "not scored" not in " ".join(row.warnings) for row in report.standings)


@pytest.mark.long
def test_a_run_of_two_workers_is_replayed(client: Optimist, name: str, reference, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b", "c"], reference=reference, keep_log=True, seed=5, stop=False)

    def work_on() -> None:
        with Optimist(str(client._transport._http.base_url)) as mine:
            work(mine.experiment(name), 200)

    workers = [threading.Thread(target=work_on) for _ in range(2)]
    for worker in workers:
        worker.start()
    seen = []
    while any(worker.is_alive() for worker in workers):
        seen += original.report().standings
        time.sleep(0.01)
    for worker in workers:
        worker.join()
    # Generators come and go, which the picks that follow must show.
    original.add_generator("d")
    original.set_state("b", "retired")
    original.set_state("c", "paused")
    play(original, 8)
    report = scored(original)
    original.export(tmp_path / "file")
    again = replay(tmp_path / "file")
    assert len(again.picks) == report.rounds == 88
    assert [pick.pick.number for pick in again.picks] == list(range(1, 89))
    assert all(pick.is_reproduced for pick in again.picks)
    assert any(sum(pick.pick.pending_batches) for pick in again.picks), "both workers at once"
    assert any(max(pick.pick.positions) > 0 for pick in again.picks)
    recorded = opened(tmp_path / "file").contents.generators
    assert len(recorded) == 4
    for generator in recorded:
        (unit,) = generator.units.values()
        assert unit.estimate is not None
        close(again.estimates[generator.name][unit.estimate_position], codec.decode(Estimate, unit.estimate))
    counted = {name: {made.samples: made for made in by.values()} for name, by in again.estimates.items()}
    assert len({row.scored_samples for row in seen if row.score is not None}) > 5
    for row in seen:
        if row.score is not None:
            made = counted[row.generator][row.scored_samples]
            assert row.score == pytest.approx(made.score, rel=1e-12)
            assert row.standard_error == pytest.approx(made.stopping_error, rel=1e-12)


def close(one: Estimate, two: Estimate) -> None:
    assert one.pairing is not None
    assert two.pairing is not None
    np.testing.assert_allclose(one.pairing.influence, two.pairing.influence, rtol=1e-6)
    assert [past.samples for past in one.pairing.history] == [past.samples for past in two.pairing.history]
    assert one.pairing.told == two.pairing.told
    one_, two_ = (codec.plain(replace(each, pairing=None)) for each in (one, two))
    assert one_.keys() == two_.keys()
    for field, value in one_.items():
        assert two_[field] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)


def test_the_command_line_exports_and_imports(service: Service, client: Optimist, name: str, tmp_path: Path):
    client.create_experiment(name, ["a", "b"], metric="is", dimension=2)

    def command_line(*arguments: object) -> Result:
        return invoked(*arguments, f"--url={service.url}")

    assert command_line("export", name, tmp_path / "file").exit_code == 0
    assert command_line("import", tmp_path / "file", f"--name={name}-again").exit_code == 0
    assert f"{name}-again" in client.experiments()
    taken = command_line("import", tmp_path / "file")
    assert (taken.exit_code, name in taken.stderr) == (1, True)
    missing = command_line("export", "nobody", tmp_path / "none")
    assert (missing.exit_code, "nobody" in missing.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_snapshot_is_said_and_no_file_is_left(
    service: Service, client: Optimist, name: str, tmp_path: Path, reference
):
    experiment = client.create_experiment(name, ["a"], reference=reference, stop=False, allow_extra=True)
    for _ in range(6):
        play(experiment, 1, 2_000)
        scored(experiment)
    url = running_url(service.directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        # Every second batch outgrows the snapshot before it: the last one leaves nothing to write after it.
        until(lambda: redis.hget(f"optimist:{{{name}}}:units", "0:fid:snapshot_seq") == b"6", 60.0)
        unique = redis.hget(f"optimist:{{{name}}}:units", "0:fid:snapshot").decode()  # type: ignore[union-attr]
        redis.setrange(f"optimist:{{{name}}}:snapshot:0:fid:{unique}:0", 9, b"scratched")
    with pytest.raises(StopError, match="digest"):
        experiment.export(tmp_path / "file")
    assert not (tmp_path / "file").exists()
