"""Redis data of every format that was ever released open in this version, and go on to the same numbers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import serving
from redis import Redis
from stored import QUESTIONS, play, standing

from optimist.store import CannotStart, start_embedded
from optimist.store.deployment import wait_for_server
from optimist.store.formats import FORMAT, USUAL
from optimist_client import Experiment, Optimist

FIXTURES = sorted((Path(__file__).parent / "data").glob("v*.json.gz"))


@pytest.fixture(scope="module", params=FIXTURES, ids=lambda file: file.name)
def fixture(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(gzip.decompress(request.param.read_bytes()))


@pytest.fixture(scope="module")
def client(fixture: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Optimist]:
    directory = tmp_path_factory.mktemp("old")
    with start_embedded(directory) as embedded, Redis.from_url(embedded.url) as redis:
        for key, dump in fixture["keys"].items():
            redis.restore(key, 0, base64.b64decode(dump))
    with serving(directory) as service, Optimist(service.url) as connected:
        yield connected


def alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same answers, the same counts, and the same numbers but for other machines' last bits."""
    assert {**found, "generators": None} == {**expected, "generators": None}
    assert found["generators"].keys() == expected["generators"].keys()
    for name, row in expected["generators"].items():
        assert found["generators"][name][0] == row[0], name
        assert found["generators"][name][1:] == pytest.approx(row[1:], rel=1e-9), name


def test_the_present_format_has_its_fixture():
    assert [file.name for file in FIXTURES] == [f"v{number}.json.gz" for number in range(1, FORMAT + 1)]
    assert all(file.stat().st_size < 200 * 1024 for file in FIXTURES)


def test_all_that_was_there_is_there(client: Optimist, fixture: dict[str, Any]):
    assert set(client.experiments()) == set(QUESTIONS)
    assert [reference.name for reference in client.references()] == ["standard"]
    for name in QUESTIONS:
        alike(standing(client.experiment(name)), fixture["before"][name])


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_experiment_goes_on_and_can_be_taken_along(
    name: str, client: Optimist, fixture: dict[str, Any], tmp_path: Path
):
    experiment: Experiment = client.experiment(name)
    picks = play(experiment, 8)
    assert [list(pick) for pick in picks] == fixture["picks"][name]
    alike(standing(experiment), fixture["after"][name])
    experiment.export(tmp_path / "file.zip")
    imported = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    alike(standing(imported), fixture["after"][name])


async def test_data_of_a_newer_service_are_refused(tmp_path: Path):
    with start_embedded(tmp_path) as embedded, Redis.from_url(embedded.url) as redis:
        await wait_for_server(embedded.url)
        assert redis.get("optimist:format") == str(USUAL).encode()
        await wait_for_server(embedded.url)
        redis.set("optimist:format", FORMAT + 1)
        with pytest.raises(CannotStart, match=f"format {FORMAT + 1}, and this service knows {FORMAT}"):
            await wait_for_server(embedded.url)
        redis.set("optimist:format", "x")
        with pytest.raises(CannotStart, match="another program"):
            await wait_for_server(embedded.url)
