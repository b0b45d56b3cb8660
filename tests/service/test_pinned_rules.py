"""Experiments keep the rules of their creation, new ones have the newest; the service picks and scores as in memory."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from configs import config_of, experiment_of
from processes import Service, until

from optimist import Evaluation
from optimist.api.context import Context
from optimist.api.problems import ApiError
from optimist.api.vitals import Vitals
from optimist.archive.file import Archive, ArchiveWriter
from optimist.policies import Stopping
from optimist.settings import Settings
from optimist.store import Store
from optimist_client import ConflictError, Optimist
from optimist_client.config import RULES

SCALES = {"near": 1.0, "wide": 12.0, "flat": 3.0}


def of_rules(exported: bytes, rules: int) -> bytes:
    """The archive of an experiment without batches, as if it was made under other rules."""
    archive = Archive(BytesIO(exported))
    changed = archive.contents.experiment.model_copy(update={"rules": rules})
    file = BytesIO()
    with ArchiveWriter(file) as writer:
        writer.finish(archive.contents.model_copy(update={"experiment": changed}), archive.history)
    return file.getvalue()


def samples(generator: str, size: int, seed: int) -> np.ndarray:
    return SCALES[generator] * np.random.default_rng(seed).standard_normal((size, 3))


@pytest.mark.parametrize("rules", range(1, RULES + 1))
def test_service_and_evaluation_pick_alike_under_each_rules(client: Optimist, name: str, tmp_path: Path, rules: int):
    config = {"metric": "rke", "kernel": {"sigma": "median", "features": 32}, "policy": "ucb", "rescore_growth": 0.0}
    experiment = client.create_experiment(name, list(SCALES), dimension=3, batch_size=8, budget=400, **config)
    assert experiment.info.rules == RULES
    if rules != RULES:
        experiment.export(tmp_path / "made.zip")
        (tmp_path / "old.zip").write_bytes(of_rules((tmp_path / "made.zip").read_bytes(), rules))
        experiment = client.import_experiment(tmp_path / "old.zip", f"{name}-old")
    evaluation = Evaluation(list(SCALES), batch_size=8, rules=rules, **config)
    for pick in experiment.picks():
        assert pick.generator == evaluation.ask()
        rows = samples(pick.generator, pick.size, pick.seed)
        pick.tell(rows)
        evaluation.tell(pick.generator, rows)
    info = client.experiment(experiment.name).info
    assert info.rules == rules
    assert info.bandwidths["kernel"] == evaluation._primary.question.kernels["kernel"].sigma
    report, told = experiment.report(), evaluation.told
    assert report.decision.reason == evaluation.decision().reason
    assert f"{Stopping(rules=rules).threshold(3, told):.2f} are needed" in report.decision.reason
    assert len({f"{Stopping(rules=version).threshold(3, told):.2f}" for version in (2, 3)}) == 2
    standings = {row.generator: row for row in report.standings}
    for generator, estimate in evaluation.estimates().items():
        assert estimate is not None
        assert standings[generator].score == pytest.approx(estimate.score, rel=1e-9)


@pytest.mark.parametrize("rules", [2, RULES])
def test_vendi_scores_are_made_under_the_rules_of_their_experiment(
    client: Optimist, name: str, tmp_path: Path, rules: int
):
    config = {"metric": "vendi", "kernel": {"sigma": 4.0, "features": 16}, "policy": "uniform", "rescore_growth": 0.0}
    experiment = client.create_experiment(name, list(SCALES), dimension=3, batch_size=8, budget=72, **config)
    if rules != RULES:
        experiment.export(tmp_path / "made.zip")
        (tmp_path / "old.zip").write_bytes(of_rules((tmp_path / "made.zip").read_bytes(), rules))
        experiment = client.import_experiment(tmp_path / "old.zip", f"{name}-old")
    evaluation = Evaluation(list(SCALES), batch_size=8, rules=rules, **config)
    for pick in experiment.picks():
        rows = samples(pick.generator, pick.size, pick.seed)
        pick.tell(rows)
        evaluation.tell(pick.generator, rows)
    until(lambda: experiment.report().scored)
    for row in experiment.report().standings:
        estimate = evaluation.estimates()[row.generator]
        assert estimate is not None
        assert (row.score, row.lower, row.upper) == (
            estimate.score,
            estimate.natural(estimate.lower),
            estimate.natural(estimate.upper),
        )
        if rules < 3:
            assert row.bracket is None
        else:
            assert estimate.bracket is not None
            assert row.bracket == tuple(map(estimate.natural, estimate.bracket))
            assert row.bracket[0] < row.bracket[1]


def test_rules_of_a_later_service_are_not_imported(service: Service, client: Optimist, name: str, tmp_path: Path):
    experiment = client.create_experiment(name, ["a"], metric="is", dimension=3)
    experiment.export(tmp_path / "made.zip")
    later = of_rules((tmp_path / "made.zip").read_bytes(), RULES + 1)
    refused = httpx.post(
        f"{service.url}/v1/import?name={name}-later", content=later, headers={"content-type": "application/zip"}
    )
    assert refused.status_code == 422
    assert f"rules up to {RULES}, found {RULES + 1}" in refused.json()["detail"]


@pytest.mark.parametrize("rules", [RULES, RULES + 1])
async def test_an_experiment_of_newer_rules_is_left_to_newer_processes(store: Store, rules: int):
    config = config_of(name="x", generators=["a", "b"], metric="is", dimension=3)
    record = experiment_of(config, created=0.0, instance="i", rules=rules)
    await store.create_experiment("x", record.model_dump_json(), ["a", "b"], 0.0, instance="i", keep_log=False)
    settings = Settings.model_validate({})
    context = Context(store, settings, Vitals(store, settings))
    if rules == RULES:
        assert await context.experiment("x") == record
        return
    with pytest.raises(ApiError, match="has rules") as refused:
        await context.experiment("x")
    assert (refused.value.problem.status, refused.value.problem.action) == (503, "retry")


def test_an_experiment_of_earlier_rules_has_no_indices(client: Optimist, name: str, tmp_path: Path):
    config = {"metric": {"name": "is", "dimension": 3}, "budget": 20, "stop": False}
    client.create_experiment(name, ["a", "b"], **config).export(tmp_path / "made.zip")
    (tmp_path / "old.zip").write_bytes(of_rules((tmp_path / "made.zip").read_bytes(), 3))
    old = client.import_experiment(tmp_path / "old.zip", f"{name}-old")
    for paired in (True, False):
        assert client.create_experiment(f"{name}-old", ["a", "b"], paired=paired, **config).info.rules == 3
        if not paired:
            with pytest.raises(ConflictError, match="paired"):
                client.create_experiment(name, ["a", "b"], paired=paired, **config)
    picks = [old.ask(), old.ask()]
    assert [None if pick is None else pick.start for pick in picks] == [None, None]
    assert len({pick.seed for pick in picks if pick is not None}) == 2, "distinct by number"
    for pick in picks:
        assert pick is not None
        with pytest.raises(ValueError, match="use `seed`"):
            pick.seeds  # noqa: B018
        pick.give_up()
    with pytest.raises(ValueError, match="without `seeds`"):
        old.run({"a": lambda size, seeds: np.ones((size, 3)) / 3})
