"""Lists of experiments and references: small summaries, by pages, whose memory counts; tags, notes and searches."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from optimist_client import FixError, Optimist
from optimist_client.metrics import Mean, WinRate
from tests.support.processes import Service, serving

PROMPTS = [f"{n} {'a long prompt ' * 40}"[:500] for n in range(20_000)]


@pytest.mark.long
def test_experiments_with_long_prompts_have_short_entries(service: Service, client: Optimist, name: str):
    for number in range(2):
        client.create_experiment(
            f"{name}-{number}", [f"{n}" for n in range(40)], metric=WinRate(), prompts=PROMPTS, tags=[name]
        )
    with httpx.Client(base_url=service.url) as http:
        for _ in range(2):  # made of the configs, and of what is remembered of them
            reply = http.get("/v1/experiments", params={"tag": name})
            assert len(reply.content) < 2 * 2048
        assert len(http.get(f"/v1/experiments/{name}-0").content) > 2**23
    found = client.list_experiments(tag=name)
    assert [one.name for one in found] == [f"{name}-{number}" for number in reversed(range(2))]
    summary = found[0].info
    assert (summary.prompts, summary.generators) == (20_000, 40)
    assert summary.generator_names == [f"{n}" for n in range(16)]
    digest = hashlib.sha256(json.dumps(PROMPTS, ensure_ascii=False).encode()).hexdigest()
    assert {one.info.prompts_digest for one in found} == {digest}
    # The whole one is as it was, and picks have its prompts.
    opened = found[0].open()
    assert opened.info.config.prompts == PROMPTS
    assert opened.report().state == "warming up"
    pick = opened.ask()
    assert pick.prompts[0] in PROMPTS
    for one in found:
        client.delete_experiment(one.name)


@pytest.mark.long
def test_clients_read_all_pages(client: Optimist, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("optimist_client.client.PAGE", 10)
    names = [f"{name}-{number:03}" for number in range(25)]
    for one in names:
        client.create_experiment(one, ["a"], metric=Mean(), tags=[name])
    found = client.list_experiments(tag=name)
    assert [one.name for one in found] == names[::-1]
    assert client.experiments()[:25] == names[::-1]
    (one,) = client.list_experiments(search=names[0])
    assert one.open().info == found[-1].open().info
    for one in names:
        client.delete_experiment(one)


def test_references_have_pages(service: Service, client: Optimist, name: str):
    for number in range(5):
        client.create_reference(f"{name}-{number}", mean=np.zeros(2), covariance=np.eye(2))
    names, cursor = list[str](), {}
    while cursor is not None:
        page = httpx.get(f"{service.url}/v1/references", params={"limit": 2, **cursor}).json()
        names += [one["name"] for one in page["references"]]
        cursor = page["next"] and {"cursor": page["next"]}
    assert names[:5] == [f"{name}-{number}" for number in reversed(range(5))]
    assert names == [one.name for one in client.references()]


def test_wrong_pages_are_refused(service: Service):
    for wrong in ("limit=0", "limit=201", "cursor=x", "cursor=1e9:x", "cursor=1:a/b", "cursor=:x"):
        for path in ("experiments", "references"):
            assert httpx.get(f"{service.url}/v1/{path}?{wrong}").status_code == 422


@pytest.mark.long
def test_a_page_counts_as_memory_for_bodies(tmp_path: Path):
    with (
        serving(tmp_path, "--no-scoring", environment={"OPTIMIST_MAX_MEMORY": "262144"}) as service,
        Optimist(service.url) as client,
    ):
        tags = [f"{n:02}" + "€" * 62 for n in range(32)]
        for number in range(70):
            client.create_experiment(f"x-{number}", ["a"], metric=Mean(), tags=tags)
        statuses = [httpx.get(f"{service.url}/v1/experiments?limit={limit}").status_code for limit in (10, 70, 10, 70)]
        assert statuses == [200, 413, 200, 413]


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
