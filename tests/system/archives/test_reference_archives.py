"""Archives hold the references of all metrics, with their rows."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from optimist_client import ConflictError, Optimist
from optimist_client.metrics import FID, KID
from tests.support.processes import Service


def test_references_go_with_the_experiment(client: Optimist, not_scoring: Service, name: str, tmp_path: Path):
    real = np.random.default_rng(0).standard_normal((50, 4), dtype=np.float32)
    metrics = [KID(reference=real), FID(reads="dinov2", reference=(np.zeros(3), np.eye(3)))]
    made = client.create_experiment(name, ["a", "b"], metric=FID(reference=real), watch=metrics)
    file = tmp_path / "exported.zip"
    made.export(file)
    own = [f"{name}-reference", f"{name}-reference-2", f"{name}-reference-3"]
    with ZipFile(file) as members:
        found = [each for each in members.namelist() if "reference" in each and each.endswith(".json")]
    assert found == [f"references/{one}.json" for one in own]
    kept = {info.name: info for info in client.references()}
    with Optimist(not_scoring.url) as other:
        imported = other.import_experiment(file)
        assert imported.info.references == made.info.references
        assert set(imported.info.references) == set(own)
        there = {info.name: info for info in other.references()}
        assert [there[each] for each in own] == [kept[each] for each in own]
        assert there[own[1]].rows == 50
        again = other.import_experiment(file, f"{name}-again")
        assert again.info.references == made.info.references
        assert other.create_reference(own[1], features=real, keep_rows=True) == there[own[1]]


def test_another_reference_of_the_name_is_not_replaced(
    client: Optimist, not_scoring: Service, name: str, tmp_path: Path
):
    real = np.random.default_rng(0).standard_normal((50, 4))
    made = client.create_experiment(name, ["a", "b"], metric=FID(reference=real), watch=[KID(reference=real)])
    made.export(tmp_path / "exported.zip")
    with Optimist(not_scoring.url) as other:
        other.create_reference(f"{name}-reference-2", features=real + 1, keep_rows=True)
        with pytest.raises(ConflictError, match=f"the stored reference '{name}-reference-2' differs"):
            other.import_experiment(tmp_path / "exported.zip")
        assert name not in other.experiments()
        assert f"{name}-reference" not in {info.name for info in other.references()}
