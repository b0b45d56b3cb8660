"""Tags and notes: they are kept, changed, searched, exported, and no part of what an experiment asks."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from optimist_client import FixError, Optimist
from optimist_client.metrics import Mean


def test_experiments_are_found_by_tag_and_text(client: Optimist, name: str, tmp_path: Path):
    mark = uuid.uuid4().hex  # other tests make experiments of this service, too
    made = client.create_experiment(
        name, ["sdxl", "b"], metric=Mean(), tags=[mark, "fig 3", mark], note="First\nüber line"
    )
    other = client.create_experiment(f"{name}-other", ["a"], metric=Mean(), tags=[f"{mark}-2"])
    assert (made.tags, made.note, other.note) == ([mark, "fig 3"], "First\nüber line", "")
    assert [one.name for one in client.list_experiments(tag=mark)] == [name]
    assert [one.name for one in client.list_experiments(search=mark.upper())] == [other.name, name]
    assert [one.name for one in client.list_experiments(tag=mark, search="ÜBER")] == [name]
    assert [one.name for one in client.list_experiments(tag=mark, search="sdXL")] == [name]
    assert client.list_experiments(tag=mark, search="nowhere") == []
    assert {name, other.name} <= {one.name for one in client.list_experiments()}

    (found,) = client.list_experiments(tag=mark)
    assert (found.tags, found.note, found.info.generator_names) == (made.tags, made.note, ["sdxl", "b"])
    assert found.open().info == made.info

    # Creating it again is no change of them, whatever the new ones say, or somebody has made of them since.
    assert client.create_experiment(name, ["sdxl", "b"], metric=Mean(), tags=["x"]).tags == [mark, "fig 3"]
    report = made.annotate(tags=[f"{mark}-2"], note="")
    assert (report.tags, report.note, made.tags, made.note) == ([f"{mark}-2"], "", [f"{mark}-2"], "")
    assert made.annotate(note="why").tags == [f"{mark}-2"]
    again = client.create_experiment(name, ["sdxl", "b"], metric=Mean(), tags=[mark], note="First")
    assert (again.tags, again.note) == (client.experiment(name).tags, client.experiment(name).note)
    assert (again.tags, again.note) == ([f"{mark}-2"], "why")
    assert (again.report().tags, again.report().note) == ([f"{mark}-2"], "why")
    assert client.list_experiments(tag=mark) == []
    assert [one.name for one in client.list_experiments(tag=f"{mark}-2")] == [other.name, name]

    again.export(tmp_path / "archive.zip")
    moved = client.import_experiment(tmp_path / "archive.zip", f"{name}-moved")
    assert (moved.tags, moved.note) == ([f"{mark}-2"], "why")


def test_wrong_labels_are_refused(client: Optimist, name: str):
    made = client.create_experiment(name, ["a"], metric=Mean(), tags=["kept"])
    wrong: list[dict[str, Any]] = [{"tags": ["a,b"], "note": "new"}, {"tags": "abc"}, {"note": "a\x00"}]
    for labels in wrong:
        with pytest.raises(FixError, match="expected"):
            made.annotate(**labels)
    assert (made.report().tags, made.report().note) == (["kept"], "")
