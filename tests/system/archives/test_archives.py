"""Experiments as files: exported while they run, imported elsewhere, gone on with, replayed; and files refused."""

from __future__ import annotations

import hashlib
import threading
import time
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import Result
from redis import Redis

from optimist.archive.file import Archive
from optimist.numerics.estimate import Estimate
from optimist.records import codec
from optimist.store import running_url
from optimist_client import ConflictError, Experiment, FixError, NotFoundError, Optimist, StopError, UnreachableError
from optimist_client.models import Report
from optimist_client.operations import run
from tests.support.commands import invoked
from tests.support.keys import new_key
from tests.support.processes import Service, losing_replies, scored
from tests.support.replay import replay

PROMPTS = [f"prompt {n}" for n in range(7)]
KERNEL = {"name": "nystrom", "sigma": "median", "features": 16}


@pytest.fixture
def other(service: Service):
    """A client of another namespace, which knows nothing of the experiments and references of the first."""
    with Optimist(service.url, api_key=new_key(service.directory, "admin", "elsewhere")) as connected:
        yield connected


def samples(generator: str, size: int, seed: int, d: int = 4) -> np.ndarray:
    shift = {"a": 1.0, "b": 0.0, "c": 0.4}[generator]
    return np.random.default_rng(seed).standard_normal((size, d)) + shift


def work(experiment: Experiment, most: int, size: int | None = None, d: int = 4) -> None:
    for pick in experiment.picks(max_samples=most):
        pick.tell(samples(pick.generator, size or pick.size, pick.seed, d))


def lasting(report: Report) -> Report:
    """The report without the time at which something last happened here."""
    return report.model_copy(update={"active": None})


def opened(path: Path) -> Archive:
    return Archive(BytesIO(path.read_bytes()))


def holding(archive: Archive) -> list[Any]:
    """All that scores come from: by generator its estimate, snapshot and log."""
    return [
        (known.units, archive.snapshot(g, archive.labels[0]), [e for page in archive.log(g) for e in page])
        for g, known in enumerate(archive.contents.generators)
    ]


CONFIGS: dict[str, dict[str, Any]] = {
    "fid": {},
    "fid, log kept": {"keep_log": True},
    "is": {"metric": "is", "dimension": 4},
    "kernel from samples": {"metric": "vendi", "dimension": 4, "kernel": KERNEL},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_an_import_goes_on_bit_for_bit_as_the_original(
    client: Optimist, other: Optimist, name: str, reference, tmp_path: Path, config: dict[str, Any]
):
    """Logs long enough for snapshots; then both get the same batches, and have the same estimates to the last bit."""
    settings: dict[str, Any] = {"reference": reference} if "metric" not in config else {}
    # How fast generators are, which decides how picks grow, is not known of the import.
    settings |= {"policy": "ucb", "stop": False, "max_wait": 30, "grow": False, "seed": 3, "allow_extra": True}
    original = client.create_experiment(name, ["a", "b", "c"], **settings, **config)

    def rows(generator: str, seed: int, size: int) -> np.ndarray:
        made = samples(generator, size, seed)
        return np.exp(made) / np.exp(made).sum(axis=1, keepdims=True) if "is" in config.values() else made

    for pick in original.picks(max_samples=150):
        pick.tell(rows(pick.generator, pick.seed, 600))  # 19 kB each
    scored(original)
    original.export(tmp_path / "first.zip")
    imported = other.import_experiment(tmp_path / "first.zip")
    assert imported.name == name
    assert lasting(imported.report()) == lasting(original.report())
    assert imported.info.instance != original.info.instance
    assert imported.info.config == original.info.config
    imported.export(tmp_path / "again.zip")
    archive, again = opened(tmp_path / "first.zip"), opened(tmp_path / "again.zip")
    (label,) = archive.labels
    assert any(unit.snapshot_position for one in archive.contents.generators for unit in one.units.values())
    assert holding(again) == holding(archive)
    assert (again.history, again.fitted(label)) == (archive.history, archive.fitted(label))
    if "kernel" not in config:
        assert archive.fitted(label) is None
    for experiment in (original, imported):
        for _ in range(9):
            pick = experiment.ask()
            pick.tell(rows(pick.generator, pick.seed, 200))
            scored(experiment)
        experiment.export(tmp_path / f"{experiment.info.instance}.zip")
    one, two = (opened(tmp_path / f"{experiment.info.instance}.zip") for experiment in (original, imported))
    estimates = [
        [(unit.estimate_position, unit.estimate) for g in archive.contents.generators for unit in g.units.values()]
        for archive in (one, two)
    ]
    assert estimates[0] == estimates[1]
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
    kernels = {"kernel": {"sigma": 1.0, "features": 16}, "prompt_kernel": {"sigma": 1.0}}
    original = client.create_experiment(
        name,
        ["a"],
        metric="conditional-vendi",
        dimension=4,
        prompt_dimension=2,
        prompts=PROMPTS,
        policy="uniform",
        **kernels,
    )
    first, given_up, left, last = (original.ask() for _ in range(4))
    for pick in (first, last):
        pick.tell(samples("a", 5, pick.seed), prompts=np.ones((5, 2)))
    given_up.give_up()
    original.export(tmp_path / "file")
    imported = client.import_experiment(tmp_path / "file", f"{name}-again")
    starts = [imported.ask().info.prompts_start for _ in range(3)]
    assert starts == [given_up.info.prompts_start, left.info.prompts_start, 20]


def test_a_name_that_is_taken_is_a_conflict(client: Optimist, other: Optimist, name: str, reference, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b"], reference=reference)
    work(original, 10)
    original.export(tmp_path / "file")
    with pytest.raises(ConflictError, match=name):
        client.import_experiment(tmp_path / "file")
    other.create_reference(f"{name}-reference", mean=np.ones(4), covariance=np.eye(4))
    with pytest.raises(ConflictError, match="other contents"):
        other.import_experiment(tmp_path / "file")
    assert name not in other.experiments()
    assert original.report().samples == 10


def test_an_import_through_lost_replies_is_made_once(service: Service, client: Optimist, name: str, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b"], metric="is", dimension=2)
    original.export(tmp_path / "file")
    with losing_replies(service.url, every=1) as url, Optimist(url, patience=1.0) as unlucky:
        key = {"idempotency-key": "one", "content-type": "application/zip"}
        params = {"name": f"{name}-again"}
        with pytest.raises(UnreachableError, match="no answer"):
            run(unlucky._transport.upload("/v1/import", tmp_path / "file", key, params))
    made = client.experiment(f"{name}-again")
    answer = run(client._transport.upload("/v1/import", tmp_path / "file", key, params))
    assert answer["instance"] == made.info.instance


def test_files_that_are_no_archive_leave_nothing(client: Optimist, service: Service, name: str, tmp_path: Path):
    original = client.create_experiment(name, ["a", "b"], metric="is", dimension=2)
    pick = original.ask()
    pick.tell(np.full((1, 2), 0.5))  # of one sample no estimate is due, which would be refused first
    original.export(tmp_path / "file")
    whole = (tmp_path / "file").read_bytes()
    known = client.experiments()
    rng = np.random.default_rng(0)
    refused = {"": "expected an archive", "{}": "expected an archive"}
    bodies = {text.encode(): reason for text, reason in refused.items()}
    bodies |= {whole[:-1]: "truncated", whole[: len(whole) // 2]: "truncated", whole[:50]: "truncated"}
    bodies |= {whole + b"\0": "digest", edited(whole, "format", b"2"): "expected an archive of format 1, found '2'"}
    bodies |= {edited(whole, "history", whole[:7]): "does not exist", edited(whole, "history", b""): "history"}
    bodies |= {edited(whole, "experiment.json", b"{}"): "experiment: expected a value"}
    with zipfile.ZipFile(BytesIO(whole)) as archive:
        text = archive.read("experiment.json")
    for columns in (b'{"probabilities":3}', b'{"features":2}', b"{}"):
        other = text.replace(b'"columns":{"probabilities":2}', b'"columns":' + columns)
        assert other != text
        bodies[edited(whole, "experiment.json", other)] = "expected columns {'probabilities': 2}, found"
    for at in rng.choice(len(whole), 40, replace=False):
        bodies[whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :]] = ""
    with httpx.Client(base_url=service.url) as http:
        for body, reason in bodies.items():
            answer = http.post("/v1/import", params={"name": f"{name}-again"}, content=body)
            assert answer.status_code == 422, (answer.text, reason)
            assert reason in answer.json()["detail"]
            assert answer.json()["action"] == "fix"
    assert client.experiments() == known
    (tmp_path / "file").write_bytes(whole[:-9])
    with pytest.raises(FixError, match="truncated"):
        client.import_experiment(tmp_path / "file")


def edited(whole: bytes, name: str, body: bytes) -> bytes:
    """The archive with another member, and a digest that is right."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(whole)) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.namelist():
            new.writestr(zipfile.ZipInfo(member), body if member == name else old.read(member))
        new.comment = bytes(64)
    content = made.getvalue()[:-64]
    return content + hashlib.sha256(content).hexdigest().encode()


def test_an_export_while_workers_tell_is_of_one_moment(
    client: Optimist, other: Optimist, name: str, reference, tmp_path: Path
):
    """Statistics small beside the batches, so that logs are trimmed all the while."""
    config = {"reference": reference, "stop": False, "policy": "uniform", "allow_extra": True}
    original = client.create_experiment(name, ["a", "b", "c"], **config)
    ended = threading.Event()

    def tell(seed: int) -> None:
        with Optimist(str(client._transport._http.base_url)) as mine:
            for pick in mine.experiment(name).picks():
                if ended.is_set():
                    return
                pick.tell(samples(pick.generator, 2_000, pick.seed + 10**6 * seed))

    workers = [threading.Thread(target=tell, args=(seed,)) for seed in range(3)]
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

    def tell() -> None:
        with Optimist(str(client._transport._http.base_url)) as mine:
            work(mine.experiment(name), 200)

    workers = [threading.Thread(target=tell) for _ in range(2)]
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
    for _ in range(8):
        pick = original.ask()
        pick.tell(np.random.default_rng(pick.seed).standard_normal((5, 4)))
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


def test_a_log_that_was_not_kept_cannot_be_replayed(client: Optimist, name: str, tmp_path: Path):
    client.create_experiment(name, ["a", "b"], metric="is", dimension=2).export(tmp_path / "file")
    with pytest.raises(ValueError, match="keep_log"):
        replay(tmp_path / "file")


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


def pointer_at(redis: Redis, experiment: str, seq: int) -> str:
    """The name of the snapshot of generator 0 once it is the one at log position `seq`."""
    deadline = time.monotonic() + 60
    while True:
        facts = ["0:fid:snapshot", "0:fid:snapshot_seq"]
        pointer: list[bytes | None] = redis.hmget(f"optimist:{{{experiment}}}:units", facts)  # type: ignore[assignment]
        if pointer[0] is not None and int(pointer[1] or 0) == seq:
            return pointer[0].decode()
        assert time.monotonic() < deadline, pointer
        time.sleep(0.02)


def test_a_damaged_snapshot_is_said_and_no_file_is_left(
    service: Service, client: Optimist, name: str, tmp_path: Path, reference
):
    experiment = client.create_experiment(name, ["a"], reference=reference, stop=False, allow_extra=True)
    for _ in range(6):
        experiment.ask().tell(samples("a", 2_000, 0))
        scored(experiment)
    url = running_url(service.directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        # Every second batch outgrows the snapshot before it: the last one leaves nothing to write after it.
        unique = pointer_at(redis, name, seq=6)
        redis.setrange(f"optimist:{{{name}}}:snapshot:0:fid:{unique}:0", 9, b"scratched")
    with pytest.raises(StopError, match="digest"):
        experiment.export(tmp_path / "file")
    assert not (tmp_path / "file").exists()
