"""Experiments keep the rules of their creation; service, import and scorer refuse those of newer ones."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import httpx
import pytest

from optimist.api.app_state import AppState
from optimist.api.problems import ApiError
from optimist.api.redis_health import RedisHealth
from optimist.archive.file import Archive, ArchiveWriter
from optimist.estimation.stored import question_of
from optimist.settings import Settings
from optimist.store import Store
from optimist_client import Optimist
from optimist_client.config import RULES
from optimist_client.models import Experiment
from tests.support.configs import config_of, experiment_of
from tests.support.processes import Service


def test_newer_rules_are_not_imported(service: Service, client: Optimist, name: str, tmp_path: Path):
    client.create_experiment(name, ["a"], metric="is", dimension=3).export(tmp_path / "made.zip")
    archive = Archive(BytesIO((tmp_path / "made.zip").read_bytes()))
    changed = archive.contents.experiment.model_copy(update={"rules": RULES + 1})
    later = BytesIO()
    with ArchiveWriter(later) as writer:
        writer.finish(archive.contents.model_copy(update={"experiment": changed}), archive.history)
    refused = httpx.post(
        f"{service.url}/v1/import?name={name}-later",
        content=later.getvalue(),
        headers={"content-type": "application/zip"},
    )
    assert refused.status_code == 422
    assert f"has rules {RULES + 1}, and this version knows rules up to {RULES}" in refused.json()["detail"]


def record_of(rules: int) -> Experiment:
    return experiment_of(config_of(name="x", generators=["a", "b"], metric="is", dimension=3), rules=rules)


@pytest.mark.parametrize("rules", [RULES, RULES + 1])
async def test_an_experiment_of_newer_rules_is_left_to_newer_processes(store: Store, rules: int):
    record = record_of(rules)
    await store.create_experiment("x", record.model_dump_json(), ["a", "b"], 0.0, instance="i", labels=["is"])
    settings = Settings.model_validate({})
    context = AppState(store, settings, RedisHealth(store, settings))
    if rules == RULES:
        assert await context.experiment("x") == record
        return
    with pytest.raises(ApiError, match="has rules") as refused:
        await context.experiment("x")
    assert (refused.value.problem.status, refused.value.problem.action) == (503, "retry")


def test_a_scorer_has_no_question_of_newer_rules():
    assert question_of(record_of(RULES), None).metric.name == "is"
    with pytest.raises(ValueError, match=f"has rules {RULES + 1}"):
        question_of(record_of(RULES + 1), None)


def test_rules_must_be_stored():
    stored = record_of(RULES).model_dump(exclude={"rules"})
    with pytest.raises(ValueError, match="rules"):
        Experiment.model_validate(stored)
